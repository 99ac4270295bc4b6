"""A stream over a hybrid table of files, driven offset by offset, and killed at each of its writes.

The driver here does what Spark's does: it logs an offset, reads its micro-batch, and logs that it is
committed. After a kill it repeats the last offset that is not committed.
"""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.connectors.filesystem import listed
from runtime.connectors.filesystem.splits import FileOffsets, FileReader
from runtime.connectors.hybrid.files import HistoryReader
from runtime.connectors.hybrid.history import (
    HistoryPlan,
    history_parts,
    plan_history,
    times_of_split,
)
from runtime.connectors.hybrid.overlap import Overlap
from runtime.connectors.hybrid.source import FIRST, OF, THEN, HybridOffsets
from runtime.connectors.hybrid.splits import HybridReader
from runtime.files import LocalFiles
from runtime.records import from_text, to_text
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column, TableSpec
from runtime.streaming.watermarks import FIRE_LAG_US, ends_passed_us
from tests.runtime.connectors.tables import table

ID, TS, VALUE = Column("id", "bigint"), Column("ts", "timestamp_ntz"), Column("v", "string")
COLUMNS = (ID, TS, VALUE)
SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us")), ("v", pa.string())])
MONITORED = {"source__monitor_interval": "0 s"}
OVERLAP_US = 3_000
# Writes of a stream, in their order: before which a kill happens
WRITES = ("plan", "list", "offset", "rows", "commit")


class KilledError(BaseException):
    """The process was killed."""


@dataclass
class Kills:
    """Kills before the n-th write of a kind, each once."""

    left: set[tuple[str, int]] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)

    def before(self, write: str) -> None:
        number = self.counts[write]
        self.counts[write] += 1
        if (write, number) in self.left:
            self.left.remove((write, number))
            raise KilledError


def file_of(path: Path, rows: list[tuple[int | None, int | None]], source: str) -> None:
    """Write rows (id, ts), two per row group. `v` tells from which table a row comes."""
    columns = list(zip(*rows, strict=True)) or [(), ()]
    arrays = [pa.array(columns[0], pa.int64()), pa.array(columns[1], pa.timestamp("us"))]
    arrays.append(pa.array([source] * len(rows), pa.string()))
    pq.write_table(pa.table(arrays, schema=SCHEMA), path, row_group_size=2)


@dataclass
class Stream:
    """Stream over `directory/first` and `directory/then`, whose checkpoint is below it too."""

    directory: Path
    kills: Kills
    range_bytes: int
    offsets: list[dict] = field(default_factory=list)
    n_committed: int = 0
    # rows of each micro-batch, and the highest watermark after it
    batches: dict[int, list[dict]] = field(default_factory=dict)
    limits: dict[int, int | None] = field(default_factory=dict)

    def run(self, delay_us: int = 0) -> None:
        """Run from the checkpoint until nothing is new."""
        history, reader = self._plan()
        (self.directory / "listed").mkdir(exist_ok=True)
        spec: TableSpec = table("filesystem", path=str(self.directory / "then"), **MONITORED)
        then = FileOffsets(spec, str(self.directory / "then"), None, str(self.directory / "listed"))
        source = HybridOffsets(history.ranges, pickle.loads(pickle.dumps(then)))
        if self.n_committed < len(self.offsets):
            self._batch(source, reader)
        while True:
            start = self.offsets[-1] if self.offsets else source.initialOffset()
            end = source.latestOffset(start, source.getDefaultReadLimit())
            if end == start:
                return
            self.kills.before("offset")
            self.offsets.append(pickle.loads(pickle.dumps(end)))
            self._batch(source, reader)

    def _plan(self) -> tuple[HistoryPlan, HybridReader]:
        path = self.directory / "history.json"
        if not path.exists():
            files = sorted(map(str, (self.directory / "first").iterdir()))
            source = ScanSource("first", tuple(map(ScanFile, files)), COLUMNS)

            def read_times(splits):
                reader = HistoryReader(None, (TS,), None)
                return {n: times_of_split(reader, TS, split) for n, split in splits.items()}

            parts = history_parts(source, TS, 1, read_times)
            history = plan_history(parts, self.range_bytes, 2, OVERLAP_US)
            self.kills.before("plan")
            path.write_text(to_text(history, 1))
        history = from_text(HistoryPlan, path.read_text(), 1)
        first = HistoryReader(None, COLUMNS, None)
        then = FileReader(ScanSource("t", (), COLUMNS), None)
        overlap = None
        if history.from_us is not None and history.newest_us is not None:
            keys = HistoryReader(None, (TS, ID), None)
            overlap = Overlap(TS, (ID,), history.from_us, history.newest_us, history.overlap, keys)
        return history, HybridReader(first, then, COLUMNS, overlap)

    def _batch(self, source: HybridOffsets, reader: HybridReader) -> None:
        number = len(self.offsets) - 1
        start = self.offsets[-2] if number else source.initialOffset()
        rows, limits = [], []
        for partition in source.partitions(start, self.offsets[-1]):
            for batch in source.read(pickle.loads(pickle.dumps(partition))):
                for split in batch.column(0).to_pylist():
                    limits.append(reader.watermark_limit_us(split))
                    for read in reader.read([split], frozenset()):
                        columns = read.set_column(1, "ts", read.column("ts").cast(pa.int64()))
                        rows += columns.to_pylist()
        self.kills.before("rows")
        self.batches[number] = rows
        self.limits[number] = min((x for x in limits if x is not None), default=None)
        self.kills.before("commit")
        self.n_committed = len(self.offsets)


def rows_that_count(first: list, then: list) -> Counter:
    """Return the rows of the table by definition."""
    newest = max((t for _, t in first if t is not None), default=None)
    counted = Counter((id_, t, "first") for id_, t in first)
    if newest is None:
        return counted + Counter((id_, t, "then") for id_, t in then)
    begin = newest - OVERLAP_US
    keys = {id_ for id_, t in first if id_ is not None and t is not None and t >= begin}
    for id_, t in then:
        is_old = t is not None and t < begin
        if not is_old and not (t is not None and t <= newest and id_ in keys):
            counted[id_, t, "then"] += 1
    return counted


def assert_none_is_late(stream: Stream, history_times: int) -> None:
    """Check that no row of the first table, or of the overlap, comes after its window."""
    watermark: int | None = None
    for number in sorted(stream.batches):
        offset = stream.offsets[number]
        times = [row["ts"] for row in stream.batches[number] if row["ts"] is not None]
        closed = ends_passed_us(watermark)
        for time in times:
            # the first window that ends after a time: windows end at full milliseconds
            first_end = time // 1000 * 1000 + 1000
            is_checked = THEN not in offset or (offset[THEN] <= 1 and time <= history_times)
            assert not is_checked or closed is None or closed < first_end, (number, time)
        if times:
            high = max(times)
            limit = stream.limits[number]
            high = high if limit is None else min(high, limit)
            watermark = high if watermark is None else max(watermark, high)


# ids from few values, so that the tables share some; times within 10 ms, not at full milliseconds
ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 40), st.none() | st.integers(0, 10_000)), max_size=9
)


HISTORIES = given(
    first=st.lists(ROWS, max_size=4),
    then=st.lists(ROWS, max_size=4),
    kills=st.sets(st.tuples(st.sampled_from(WRITES), st.integers(0, 6)), max_size=6),
    range_bytes=st.sampled_from([1, 300, 1 << 20]),
)
# the directories of examples have names of their own
SHARED = [HealthCheck.function_scoped_fixture]


@HISTORIES
@settings(max_examples=3, suppress_health_check=SHARED)
def test_each_row_counts_once_whenever_the_stream_is_killed(
    first, then, kills, range_bytes, tmp_path_factory, monkeypatch
) -> None:
    check_killed_stream(first, then, kills, range_bytes, tmp_path_factory, monkeypatch)


@pytest.mark.slow
@HISTORIES
@settings(max_examples=400, suppress_health_check=SHARED)
def test_each_row_counts_once_in_many_histories(
    first, then, kills, range_bytes, tmp_path_factory, monkeypatch
) -> None:
    check_killed_stream(first, then, kills, range_bytes, tmp_path_factory, monkeypatch)


def check_killed_stream(first, then, kills, range_bytes, tmp_path_factory, monkeypatch) -> None:
    """Run a stream that is killed before some writes, and check its rows and watermarks."""
    directory = tmp_path_factory.mktemp("hybrid")
    for part, files in (("first", first), ("then", then)):
        (directory / part).mkdir()
        for number, rows in enumerate(files if part == "first" else ()):
            file_of(directory / part / f"{number}.parquet", rows, part)
    stream = Stream(directory, Kills(set(kills)), range_bytes)
    write_text = LocalFiles.write_text

    def write_list(self, path: str, text: str) -> None:
        stream.kills.before("list")
        write_text(self, path, text)

    monkeypatch.setattr(LocalFiles, "write_text", write_list)
    files = list(enumerate(then))
    while True:
        try:
            stream.run()
        except KilledError:
            continue
        if not files:
            break
        number, rows = files.pop(0)
        file_of(directory / "then" / f"{number}.parquet", rows, "then")
    rows = [(row["id"], row["ts"], row["v"]) for batch in stream.batches.values() for row in batch]
    flat_first = [row for rows_of in first for row in rows_of]
    flat_then = [row for rows_of in then for row in rows_of]
    assert Counter(rows) == rows_that_count(flat_first, flat_then)
    newest = max((t for _, t in flat_first if t is not None), default=-1)
    assert_none_is_late(stream, newest)
    # the handover is the first offset with `then`; no range is read after it
    handovers = [THEN in offset for offset in stream.offsets]
    assert handovers == sorted(handovers)
    assert [offset[FIRST] for offset in stream.offsets] == sorted(
        offset[FIRST] for offset in stream.offsets
    )


def test_the_first_table_is_not_listed_again(tmp_path: Path) -> None:
    for part in ("first", "then"):
        (tmp_path / part).mkdir()
    file_of(tmp_path / "first" / "a.parquet", [(1, 1000), (2, 2000), (3, 9000)], "first")
    stream = Stream(tmp_path, Kills({("commit", 0)}), 1)
    with pytest.raises(KilledError):
        stream.run()
    # a file that comes later belongs to no range
    file_of(tmp_path / "first" / "b.parquet", [(4, 500)], "first")
    stream.run()
    # one range per row group, and the handover
    assert stream.offsets == [
        {FIRST: 1, OF: 2},
        {FIRST: 2, OF: 2},
        {FIRST: 2, OF: 2, THEN: 0},
    ]
    assert [row["id"] for n in sorted(stream.batches) for row in stream.batches[n]] == [1, 2, 3]
    # rows of the second range, and then of the overlap, are still to come
    assert stream.limits == {0: 9000 - OVERLAP_US - 1, 1: 9000 - OVERLAP_US - 1, 2: None}


def test_limits_are_checked_by_the_oracle(tmp_path: Path) -> None:
    stream = Stream(tmp_path, Kills(), 1)
    stream.offsets = [{FIRST: 1}, {FIRST: 2}]
    stream.batches = {0: [{"ts": 5_500}], 1: [{"ts": 4_700}]}
    stream.limits = {0: 4_700 + FIRE_LAG_US, 1: None}
    with pytest.raises(AssertionError):
        assert_none_is_late(stream, 10_000)
    stream.limits[0] = 4_000 - 1
    assert_none_is_late(stream, 10_000)


def test_listings_keep_their_files(tmp_path: Path) -> None:
    (tmp_path / "then").mkdir()
    spec = table("filesystem", path=str(tmp_path / "then"), max_files_per_trigger="1", **MONITORED)
    offsets = FileOffsets(spec, str(tmp_path / "then"), None, str(tmp_path / "listed"))
    assert offsets.latest(offsets.start()) == 0
    for number in range(3):
        file_of(tmp_path / "then" / f"{number}.parquet", [(number, number)], "then")
    assert [offsets.latest(n) for n in range(4)] == [1, 2, 3, 3]
    again = pickle.loads(pickle.dumps(FileOffsets(spec, offsets.origin, None, offsets.directory)))
    assert again.splits(None, 3) == offsets.splits(0, 3)
    assert [listed.FileRange.of(text).file.path for text in again.splits(1, 2)] == [
        str(tmp_path / "then" / "1.parquet")
    ]
