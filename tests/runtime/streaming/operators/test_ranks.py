"""The operator of first rows over all time, micro-batch by micro-batch: rows and state."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pytest

from runtime.local.streaming.messages import EndOfInput, SourceProgress
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.expressions import FirstRows, RankOrder
from runtime.spec.stream import ROW_KIND
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.ranks import RankOperator, RankSpec
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.contents import BlobKind, blobs_of
from runtime.streaming.state.metadata import RankMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.windows import AlignedWindow, AllTime
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import Memory, outputs

SECOND = 1_000_000
KEYS = ("key", "time", "value")
COPIES = (Merge(("copies",), MergeOp.COUNT),)
ORDER = tuple(RankOrder(name, is_descending=False, nulls_first=True) for name in ("time", "value"))
THRESHOLDS = [Thresholds(), Thresholds(sessions_n_marks=2, sessions_max_runs=2)]


def spec_of(
    window: AlignedWindow, last: int = 1, function: str = "ROW_NUMBER", ttl_s: int | None = None
) -> RankSpec:
    return RankSpec(
        FirstRows(("key",), ORDER, function, last),
        1,
        WindowAggregation(window, KEYS, "$slice_end", COPIES),
        StateColumns(KEYS, "$slice_end", COPIES),
        KeyGroupSpec(1),
        None if ttl_s is None else ttl_s * SECOND,
    )


@dataclass
class Stream:
    """An operator that is recreated for every micro-batch over one state."""

    spec: RankSpec
    thresholds: Thresholds = field(default_factory=Thresholds)
    store: Memory = field(default_factory=Memory)
    status: Status | None = None
    bound: None = None

    def read(self, rows: list[tuple], watermark_s: float) -> list[tuple]:
        """Run a micro-batch with rows (key, seconds, value). Return the emitted rows."""
        us = int(watermark_s * SECOND)
        batch = MicroBatch([self._partials(rows)], [SourceProgress(0, us, us, 1)])
        return self._run(batch)

    def end(self) -> list[tuple]:
        """End the input."""
        return self._run(MicroBatch([], [EndOfInput()]))

    def _partials(self, rows: list[tuple]) -> pa.Table:
        changes = [row[3] if len(row) > 3 else 1 for row in rows]
        rows = [row[:3] for row in rows]
        keys, seconds, values = zip(*rows, strict=True) if rows else ((), (), ())
        times = np.array(seconds, np.int64) * SECOND
        ends = times + SECOND if self.spec.aggregation.window.closes else np.ones(len(rows))
        ones = np.ones(len(rows), np.int64)
        gone = self.spec.first.is_deleted
        return pa.table(
            {
                "key": pa.array(keys, pa.string()),
                "time": pa.array(times).cast(pa.timestamp("us")),
                "value": pa.array(values, pa.int64()),
                **({"gone": pa.array([v < 0 for v in values], pa.bool_())} if gone else {}),
                "$slice_end": pa.array(ends.astype(np.int64)),
                "copies": pa.array(changes, pa.int64()),
                ROW_COUNT: pa.array(ones),
            }
        )

    def _run(self, batch: MicroBatch) -> list[tuple]:
        common = replace(self.spec.common, thresholds=self.thresholds)
        spec = replace(self.spec, common=common)
        *results, self.status = (o.result for o in outputs(RankOperator, spec, self, batch))
        return [
            (*([row[ROW_KIND]] if ROW_KIND in row else []), row["key"], row["value"])
            for table in results
            for row in table.to_pylist()
        ]


@pytest.mark.parametrize("thresholds", THRESHOLDS)
@pytest.mark.parametrize("ttl_s", [None, 1, 7])
def test_first_rows_are_emitted_once_in_a_long_stream(thresholds, ttl_s):
    rng = random.Random(7)
    stream, rows, emitted = Stream(spec_of(Tumble(SECOND), ttl_s=ttl_s), thresholds), [], []
    for second in range(3, 60):
        new = [
            (rng.choice([None, *"abcdefghijkl"]), second - rng.randrange(3), rng.randrange(100))
            for _ in range(rng.randrange(4))
        ]
        rows += new
        emitted += stream.read(new, second - 1.5)
    if ttl_s == 1:
        assert stream.status.n_rows < 12
    emitted += stream.end()
    assert sorted(emitted, key=str) == sorted(first_rows(rows, ttl_s), key=str)
    assert list(stream.store.blobs) == [METADATA]


def first_rows(rows: list[tuple], ttl_s: int | None) -> list[tuple]:
    """Return key and value of the rows that no earlier row of their key hides."""
    until, result = {}, []
    for key, at, value in sorted(rows, key=lambda row: row[1:]):
        if at >= until.get(key, 0):
            until[key] = 1000 if ttl_s is None else at + ttl_s
            result.append((key, value))
    return result


def test_state_has_one_row_per_key_without_its_columns_once_it_is_emitted():
    #  0         1         2         3         4
    #  [---------)[--------)
    #  a 5       a 6 (later, not first)        watermark: 2.5
    stream = Stream(spec_of(Tumble(SECOND)))
    assert stream.read([("a", 0, 5), ("a", 1, 6)], 0.5) == []
    assert stream.status.n_rows == 1
    assert stream.status.next_window_end_us == SECOND
    assert stream.read([("a", 2, 1)], 2.5) == [("a", 5)]
    assert stream.read([("a", 3, 0)], 4) == []
    assert stream.status.n_rows == 1
    assert stream.status.next_window_end_us is None
    (blob,) = blobs_of(replace_contents(stream)).values()
    assert blob.kind is BlobKind.RANKS


def replace_contents(stream: Stream):
    from runtime.streaming.state.codec import decode_metadata

    metadata = decode_metadata(stream.store.blobs[METADATA])
    assert isinstance(metadata.contents, RankMetadata)
    return metadata


def test_keys_whose_rows_were_emitted_stay_where_they_are():
    stream = Stream(spec_of(Tumble(SECOND)), THRESHOLDS[1])
    assert len(stream.read([(str(n), 0, n) for n in range(50)], 1.5)) == 50
    (seen,) = replace_contents(stream).contents.chunks
    for second in range(2, 5):
        new = [("0", second, 7), (f"of {second}", second, 0)]
        assert stream.read(new, second + 1.5) == [(f"of {second}", 0)]
        assert seen in replace_contents(stream).contents.chunks


def test_a_late_row_is_counted_and_does_not_hide_later_rows():
    stream = Stream(spec_of(Tumble(SECOND)))
    stream.read([], 5)
    assert stream.read([("a", 3, 1)], 5) == []
    assert stream.status.n_late == 1
    assert stream.read([("a", 6, 2)], 8) == [("a", 2)]


def test_a_row_that_becomes_first_replaces_the_emitted_one():
    stream = Stream(spec_of(AllTime()))
    assert stream.read([("a", 5, 1), ("b", 5, 9)], 0) == [("+I", "a", 1), ("+I", "b", 9)]
    assert stream.read([("a", 7, 0)], 0) == []
    assert stream.read([("a", 5, 0)], 0) == [("-U", "a", 1), ("+U", "a", 0)]
    assert stream.status.n_rows == 2


@pytest.mark.parametrize("thresholds", THRESHOLDS)
@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK", "DENSE_RANK"])
def test_corrections_of_a_top_add_up_to_it(thresholds, function):
    rng = random.Random(3)
    stream, rows, sink = Stream(spec_of(AllTime(), 2, function), thresholds), [], []
    for _ in range(25):
        new = [(rng.choice("abc"), rng.randrange(9), rng.randrange(2)) for _ in range(2)]
        rows += new
        for kind, key, value in stream.read(new, 0):
            sink.append((key, value)) if kind in ("+I", "+U") else sink.remove((key, value))
        assert sorted(sink) == sorted(top(rows, function))


def top(rows: list[tuple], function: str, last: int = 2) -> list[tuple]:
    """Return key and value of the rows with a rank up to `last` of each key."""
    result = []
    for key, at, value in rows:
        before = [(t, v) for k, t, v in rows if k == key and (t, v) < (at, value)]
        rank = len(before) if function != "DENSE_RANK" else len(set(before))
        result += [(key, at, value)] if rank < last else []
    if function == "ROW_NUMBER":
        of_keys = {key: sorted(row for row in result if row[0] == key)[:last] for key, *_ in rows}
        result = [row for first in of_keys.values() for row in first]
    return [(key, value) for key, _, value in result]


def of_changes(last: int, function: str = "ROW_NUMBER") -> RankSpec:
    """Return the spec of ranks over rows (key, seconds, value, change of their number)."""
    of = spec_of(AllTime(), last, function)
    aggregation = replace(of.aggregation, remaining="copies")
    return replace(of, aggregation=aggregation, columns=replace(of.columns, drops_zeros=True))


@pytest.mark.variants(4)
@pytest.mark.parametrize("last", [1, 2])
@pytest.mark.parametrize("thresholds", THRESHOLDS)
@pytest.mark.parametrize("function", ["ROW_NUMBER", "RANK", "DENSE_RANK"])
def test_corrections_follow_rows_that_are_deleted(thresholds, function, last):
    rng = random.Random(last)
    stream, counts, sink = Stream(of_changes(last, function), thresholds), Counter(), []
    for _ in range(40):
        new = [
            (rng.choice("abc"), rng.randrange(4), rng.randrange(2), rng.choice([1, 1, -1]))
            for _ in range(3)
        ]
        for *row, change in new:
            counts[tuple(row)] += change
        for kind, key, value in stream.read(new, 0):
            sink.append((key, value)) if kind in ("+I", "+U") else sink.remove((key, value))
        assert sorted(sink) == sorted(top([*counts.elements()], function, last))
        assert stream.status.n_rows <= 2 * sum(map(bool, counts.values()))
    everything = [(*row, -count) for row, count in counts.items()]
    for kind, key, value in stream.read(everything, 0):
        assert kind == "-D"
        sink.remove((key, value))
    assert not sink
    assert stream.status.n_rows == 0


def test_a_deletion_that_arrives_before_its_insertion_waits_for_it():
    stream = Stream(of_changes(1))
    assert stream.read([("a", 5, 1, -1)], 0) == []
    assert stream.read([("a", 7, 2, 1)], 0) == [("+I", "a", 2)]
    assert stream.read([("a", 5, 1, 1)], 0) == []
    assert stream.read([("a", 5, 1, 1)], 0) == [("-U", "a", 2), ("+U", "a", 1)]
    assert stream.read([("a", 5, 1, -1)], 0) == [("-U", "a", 1), ("+U", "a", 2)]


def test_a_key_leaves_the_state_with_the_row_that_deletes_it():
    latest = replace(ORDER[0], is_descending=True)
    first = FirstRows(("key",), (latest,), "ROW_NUMBER", 1, is_deleted="gone")
    keys = (*KEYS, "gone")
    of = spec_of(AllTime())
    columns, windows = replace(of.columns, keys=keys), replace(of.aggregation, keys=keys)
    stream = Stream(replace(of, first=first, columns=columns, aggregation=windows))
    assert stream.read([("a", 1, 5), ("b", 1, 6)], 0) == [("+I", "a", 5), ("+I", "b", 6)]
    assert stream.read([("a", 2, -1), ("c", 2, -1)], 0) == [("-D", "a", 5)]
    assert stream.status.n_rows == 1
    assert stream.read([("a", 3, 7)], 0) == [("+I", "a", 7)]
