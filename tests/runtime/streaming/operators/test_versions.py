"""The operator of temporal joins micro-batch by micro-batch: joined rows and state."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from runtime.local.streaming.messages import EndOfInput, SourceProgress
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.filling import VersionJoining
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.base import KeyGroupSpec, MicroBatch, Status
from runtime.streaming.operators.versions import VersionOperator, VersionSpec
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.state.contents import BlobKind, Decoder, blobs_of
from runtime.streaming.state.metadata import VersionMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.windows.tumble import Tumble
from tests.runtime.streaming.model import Memory, outputs

SECOND = 1_000_000
KEYS = ("time", "is_version", "key", "row", "version")
COPIES = (Merge(("copies",), MergeOp.COUNT),)
SCHEMA = pa.schema(
    [
        ("time", pa.timestamp("us")),
        ("is_version", pa.bool_()),
        ("key", pa.int64()),
        ("row", pa.int64()),
        ("version", pa.int64()),
        ("$slice_end", pa.int64()),
        ("copies", pa.int64()),
        (ROW_COUNT, pa.int64()),
    ]
)
SPEC = VersionSpec(
    VersionJoining(("key",), "time", "is_version", ("version",)),
    WindowAggregation(Tumble(SECOND), KEYS, "$slice_end", COPIES),
    StateColumns(KEYS, "$slice_end", COPIES),
    KeyGroupSpec(1),
)


def rows_and_versions(second: int, rows=(), versions=()) -> pa.Table:
    """Return rows (key, number) and versions (key, value) of a second as partials."""
    both = [(False, key, row, None) for key, row in rows]
    both += [(True, key, None, value) for key, value in versions]
    n = len(both)
    is_version, keys, numbers, values = zip(*both, strict=True) if both else ((),) * 4
    columns = [
        pa.array(np.full(n, second * SECOND), pa.timestamp("us")),
        *map(pa.array, (is_version, keys, numbers, values), [f.type for f in [*SCHEMA][1:5]]),
        pa.array(np.full(n, (second + 1) * SECOND)),
        pa.array(np.ones(n, np.int64)),
        pa.array(np.ones(n, np.int64)),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@dataclass
class Stream:
    """An operator that is recreated for every micro-batch over one state."""

    thresholds: Thresholds = field(default_factory=Thresholds)
    store: Memory = field(default_factory=Memory)
    status: Status | None = None
    bound: None = None

    def second(self, number: int, rows=(), versions=()) -> dict:
        """Run the micro-batch of a second. Return the version of each row, by its number."""
        us = (number + 1) * SECOND
        batch = MicroBatch(
            [rows_and_versions(number, rows, versions)], [SourceProgress(0, us, us, 1)]
        )
        return self._run(batch)

    def end(self) -> dict:
        """End the input."""
        return self._run(MicroBatch([], [EndOfInput()]))

    def _run(self, batch: MicroBatch) -> dict:
        spec = VersionSpec(
            SPEC.versions,
            SPEC.aggregation,
            SPEC.columns,
            KeyGroupSpec(1, thresholds=self.thresholds),
        )
        *joined, self.status = (o.result for o in outputs(VersionOperator, spec, self, batch))
        rows = [row for table in joined for row in table.to_pylist()]
        return {row["row"]: row["version"] for row in rows}


@pytest.mark.parametrize(
    "thresholds",
    [
        Thresholds(),
        Thresholds(sessions_n_marks=4),
        Thresholds(sessions_n_marks=1, sessions_max_runs=2),
    ],
)
def test_each_row_has_the_version_of_its_time_in_a_long_stream(thresholds):
    rng = random.Random(5)
    stream, latest = Stream(thresholds), {}
    for second in range(60):
        versions = [(key, rng.randrange(1000)) for key in rng.sample(range(30), rng.randrange(4))]
        rows = [(rng.randrange(35), number) for number in range(rng.randrange(5))]
        latest.update(versions)
        expected = {number: latest.get(key) for key, number in rows}
        assert stream.second(second, rows, versions) == expected
        assert stream.status.n_rows == len(latest)
    stream.end()
    assert list(stream.store.blobs) == [METADATA]


def chunks_of(stream: Stream) -> dict:
    """Return the blobs of the state except metadata."""
    return {name: blob for name, blob in stream.store.blobs.items() if name != METADATA}


def test_a_micro_batch_writes_the_versions_that_it_changes():
    stream = Stream()
    stream.second(0, versions=[(key, key) for key in range(5_000)])
    before = chunks_of(stream)
    assert stream.second(1, rows=[(7, 0), (9_999, 1)]) == {0: 7, 1: None}
    assert chunks_of(stream) == before, "rows do not change the state"
    assert stream.second(2, rows=[(7, 0), (8, 1)], versions=[(7, -7)]) == {0: -7, 1: 8}
    assert stream.status.n_rows == 5_000
    # the old versions stay as they are, next to a bitmap of the ones that are gone
    after = chunks_of(stream)
    assert before.items() <= after.items()
    chunks = decode_metadata(stream.store.blobs[METADATA]).contents.chunks
    assert sorted(chunk.n_rows for chunk in chunks) == [1, 4_999]


def test_the_state_shows_the_versions_of_keys():
    stream = Stream()
    stream.second(0, versions=[(1, 10), (2, 20)])
    (blob,) = blobs_of(stream.store.metadata).values()
    rows = Decoder(None, None).decode(blob, stream.store.get(blob.name)).to_pylist()
    assert blob.kind is BlobKind.VERSIONS
    assert [(row["key"], row["version"]) for row in rows] == [(1, 10), (2, 20)]
    assert not {"window_start", "window_end"} & rows[0].keys()


def test_versions_that_were_stored_as_sessions_are_joined():
    stream = Stream()
    stream.second(0, versions=[(1, 10)])
    written = stream.store.blobs[METADATA]
    stream.store.put(METADATA, written.replace(b"VersionMetadata", b"SessionMetadata"))
    assert stream.second(1, rows=[(1, 0), (2, 1)]) == {0: 10, 1: None}
    assert isinstance(stream.store.contents, VersionMetadata)
