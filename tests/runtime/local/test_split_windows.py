"""Tasks emit windows whose rows are all in one split; the other windows are exchanged."""

from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices
from runtime.errors import ExecutionError
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.split_windows import SplitWindows, exclusive_time_column
from runtime.local.stage import aggregate, buffer_plan
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, PartialColumns
from runtime.scan.metadata import find_source
from runtime.scan.splits import ExclusiveTimes, FilePart, exclusive_times, plan_splits
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.expressions import Call, ColumnRef
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import CalendarTumble, Tumble
from tests.reference import windows_of

SECOND = 1_000_000
TS, K, V = Column("ts", "timestamp_ntz"), Column("k", "bigint"), Column("v", "bigint")
WINDOW = Tumble(10 * SECOND, 3 * SECOND)

Rows = list[tuple[int | None, int, int]]


def step_over(
    source: ScanSource, window: Window = WINDOW, time: Column = TS
) -> LocalStep[FileScan, ArrowBuffer]:
    refs = [ColumnRef(column.name, column.type) for column in (time, K, V)]
    partials = (
        PartialColumns(Merge(("n",), MergeOp.COUNT), ()),
        PartialColumns(Merge(("s",), MergeOp.SUM), (refs[2],)),
    )
    scan = FileScan((("k", refs[1]),), partials, refs[0], "UTC", (), source)
    return LocalStep(scan, ArrowBuffer(), window, time.name, time.type, "slice")


def write_source(path: Path, rows: Rows, row_group: int) -> ScanSource:
    times, keys, values = zip(*rows, strict=True)
    table = pa.table(
        {
            "ts": pa.array([None if t is None else t * SECOND for t in times], pa.timestamp("us")),
            "k": pa.array(keys, pa.int64()),
            "v": pa.array(values, pa.int64()),
        }
    )
    pq.write_table(table, path / "a.parquet", row_group_size=row_group)
    result = find_source(str(path), [str(path)], [TS, K, V])
    assert isinstance(result, ScanSource)
    return result


def by_definition(rows: Rows) -> dict[tuple[int, int], tuple[int, int]]:
    """Return {(key, window end): (COUNT(*), SUM(v))}."""
    members = defaultdict(list)
    for time, key, value in rows:
        if time is not None:
            for _, end in windows_of(WINDOW, time * SECOND):
                members[key, end].append(value)
    return {where: (len(values), sum(values)) for where, values in members.items()}


@given(
    st.integers(0, 1 << 30),
    st.integers(0, 30),
    st.integers(1, 5),
    st.integers(1, 30),
    st.sampled_from([1, 500, 1 << 20]),
)
def test_each_window_is_emitted_once_and_complete(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    disorder: int,
    n_splits: int,
    row_group: int,
    buffer_bytes: int,
) -> None:
    """Holds for any order of rows, and whether or not the buffer overflows."""
    path = tmp_path_factory.mktemp("rows")
    random = np.random.default_rng(seed)
    n_rows = int(random.integers(1, 150))
    times = np.sort(random.integers(0, 120, n_rows)) + random.integers(0, disorder + 1, n_rows)
    keys = random.integers(0, 3, n_rows)
    rows: Rows = list(zip(times.tolist(), keys.tolist(), range(n_rows), strict=True))
    source = write_source(path, rows, row_group)
    step = step_over(source)
    assert exclusive_time_column(step) == "ts"
    splits = plan_splits(source, (), n_splits, least_bytes=1, time="ts")
    spec = WindowAggregation(WINDOW, step.keys, "slice", step.accumulators)
    plan = buffer_plan(step, *scan_projection(step.source), buffer_bytes)
    result: list[tuple[tuple[int, int], tuple[int, int]]] = []
    batches: list[pa.RecordBatch] = []

    def add(batch: pa.RecordBatch) -> None:
        columns = batch.to_pydict()
        ends = batch.column("window_end").cast(pa.int64()).to_pylist()
        where = zip(columns["k"], ends, strict=True)
        result.extend(zip(where, zip(columns["n"], columns["s"], strict=True), strict=True))

    def emit(table: pa.Table) -> list[pa.RecordBatch]:
        for batch in merge_slices(table, spec):
            add(batch)
        return []

    for split, exclusive_time in zip(splits, exclusive_times(splits), strict=True):
        at_end = None
        if exclusive_time is not None:
            at_end = SplitWindows(step, exclusive_time, pa.Table.to_batches, emit).remaining_batches
        columns = ScanRows(step).rows_of_split(split)
        # three rows per batch, so that the buffer gets several batches of a split
        rows_of = (
            plan.rows({name: array.slice(at, 3) for name, array in batch.items()})
            for batch in columns
            for at in range(0, len(batch["k"]), 3)
        )
        batches += aggregate(plan, rows_of, pa.Table.to_batches, at_end)
    for batch in merge_slices(pa.Table.from_batches(batches, plan.schema), spec):
        add(batch)
    assert len(result) == len(dict(result))
    assert dict(result) == by_definition(rows)


def split_of(first: int, last: int) -> tuple[FilePart, ...]:
    return (FilePart(ScanFile("a"), (0,), ("ts",), 1, 1, 1, (first, last)),)


FIRST, LAST = -(1 << 63), (1 << 63) - 1


@pytest.mark.parametrize(
    ("times", "own"),
    [
        ([(5, 9)], [(FIRST, LAST)]),
        ([(0, 9), (10, 19), (20, 29)], [(FIRST, 10), (9, 20), (19, LAST)]),
        ([(20, 29), (0, 9)], [(9, LAST), (FIRST, 20)]),
        ([(0, 12), (10, 19)], [(FIRST, 10), (12, LAST)]),
        ([(0, 99), (10, 19), (20, 29)], [(FIRST, 10), None, (99, LAST)]),
        ([(0, 9), (0, 9)], [(FIRST, 0), (9, LAST)]),
    ],
)
def test_the_times_that_are_a_splits_own(
    times: list[tuple[int, int]], own: list[tuple[int, int] | None]
) -> None:
    splits = [split_of(*item) for item in times]
    assert exclusive_times(splits) == [
        None if item is None else ExclusiveTimes(*of, *item)
        for of, item in zip(times, own, strict=True)
    ]


def test_a_split_with_any_time_prevents_split_windows() -> None:
    unknown = (FilePart(ScanFile("b"), (0,), ("ts",), 1, 1, 1),)
    assert exclusive_times([split_of(0, 9), unknown]) == [None, None]


def test_rows_without_a_time_do_not_affect_other_rows(tmp_path: Path) -> None:
    some = write_source(tmp_path, [(1, 1, 1), (None, 1, 1), (4, 1, 1)], 3)
    (split,) = plan_splits(some, (), 1, time="ts")
    assert [part.times_us for part in split] == [(SECOND, 4 * SECOND)]
    none = write_source(tmp_path, [(1, 1, 1), (None, 1, 1)], 1)
    (split,) = plan_splits(none, (), 1, time="ts")
    assert [part.times_us for part in split] == [None]


@pytest.mark.parametrize(
    ("window", "time", "others", "is_known"),
    [
        (Tumble(7), TS, False, True),
        (CalendarTumble(1), TS, False, True),
        (Hop(10, 4), TS, False, True),
        (Hop(1, 6), TS, False, False),
        (Cumulate(3, 12), TS, False, False),
        (SessionWindow(5), TS, False, False),
        # on a wall clock that files do not have; over rows that only Spark reads
        (Tumble(7), Column("ts", "timestamp"), False, False),
        (Tumble(7), TS, True, False),
    ],
)
def test_windows_that_may_be_whole_in_a_split(
    window: Window, time: Column, others: bool, is_known: bool
) -> None:
    files = (ScanFile("b"),) if others else ()
    source = ScanSource("t", (), (time, K, V), others=files)
    assert (exclusive_time_column(step_over(source, window, time)) == "ts") == is_known


def test_a_computed_time_has_no_statistics() -> None:
    step = step_over(ScanSource("t", (), (TS, K, V)))
    time = Call("cast", (ColumnRef("k", "bigint"),), "timestamp_ntz")
    computed = FileScan(step.source.keys, (), time, "UTC", (), step.source.files)
    step = LocalStep(computed, ArrowBuffer(), WINDOW, "ts", "timestamp_ntz", "slice")
    assert exclusive_time_column(step) is None


@pytest.mark.parametrize("slice_end", [13 * SECOND, 53 * SECOND])
def test_statistics_that_are_wrong_are_an_error(slice_end: int) -> None:
    step = step_over(ScanSource("/data/t", (), (TS, K, V)))
    times = ExclusiveTimes(15 * SECOND, 40 * SECOND, FIRST, LAST)
    table = pa.table({"k": [1], "slice": [slice_end], "n": [1], "s": [1]})
    windows = SplitWindows(step, times, pa.Table.to_batches, pa.Table.to_batches)
    with pytest.raises(ExecutionError, match=r"/data/t contain times outside their statistics"):
        list(windows.remaining_batches([table], np.zeros(0, np.int64)))
