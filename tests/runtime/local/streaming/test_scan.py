"""The local stage of a stream that reads files itself, as if Spark had sent their rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.connectors.filesystem.splits import FileReader
from runtime.errors import ExecutionError
from runtime.local.scan_rows import scan_projection
from runtime.local.streaming.messages import (
    EndOfInput,
    Message,
    NoRows,
    Partials,
    RowsRead,
    SourceProgress,
)
from runtime.local.streaming.plan import local_plan
from runtime.local.streaming.scan import PATH, ScanTask
from runtime.local.streaming.stage import NOT_KEPT, LocalTask
from runtime.plan.local import LocalStep, PartialColumns, SplitScan, Streaming
from runtime.spec.aggregates import Merge, MergeOp
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.stream import ALL_SOURCES, KEEP, SOURCE, TIME, WATERMARK, StreamSource
from runtime.spec.table import Column, TableSpec
from runtime.windows import AllTime, Window
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from tests.runtime.streaming.model import decode_messages

TS, KEY, VALUE = Column("ts", "timestamp_ntz"), Column("k", "string"), Column("v", "bigint")
COLUMNS = (TS, KEY, VALUE)
SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64())])
DELAY_US = 7
GROUPS = (3, 5, 8)
# merge operations of partial columns other than sums
MERGES = {FIRST_TIME: min, LAST_TIME: max}
HOP, GAP = Hop(5, 20), SessionWindow(6, ("k",))


def ref(column: Column) -> ColumnRef:
    return ColumnRef(column.name, column.type)


def step_of(window: Window, columns=COLUMNS, time=TS, zone="UTC"):
    """Return COUNT(*), SUM(v) FILTER (WHERE v > 0) by k, over rows WHERE v <> 5."""
    positive = Call(">", (ref(VALUE), Constant(0, "bigint")), "boolean")
    not_five = Call("<>", (ref(VALUE), Constant(5, "bigint")), "boolean")
    partials = (
        PartialColumns(Merge(("n",), MergeOp.COUNT), ()),
        PartialColumns(Merge(("total",), MergeOp.SUM), (ref(VALUE),), positive),
    )
    table = SplitTable(TableSpec("t", "filesystem"), "t", tuple(columns))
    scan = SplitScan((("k", ref(KEY)),), partials, ref(time), zone, (not_five,), table)
    streaming = Streaming((StreamSource("t", time.type),), zone, delay_us=DELAY_US)
    return LocalStep(scan, streaming, window, "ts", time.type, "$slice_end")


def reader_of(step) -> FileReader:
    return FileReader(ScanSource("t", (), step.source.columns), None)


def plan_of(step):
    return local_plan(step, *scan_projection(step.source), GROUPS)


def split_rows(*rows) -> pa.RecordBatch:
    """Return rows (path, source, watermark) that stand for a file or message, as Spark sends them."""
    columns = list(zip(*rows, strict=True))
    numbers = [NOT_KEPT - source for source in columns[1]]
    arrays = [pa.array(columns[0], pa.string()), pa.array(numbers, pa.int32())]
    arrays.append(pa.array(columns[2], pa.int64()))
    return pa.RecordBatch.from_arrays(arrays, names=[PATH, SOURCE, TIME])


def received_from(messages):
    """Return (merged partials and control messages, each by key group; number of rows read)."""
    partials: dict[int, dict[tuple[str, int], dict[str, int | None]]] = {}
    control: dict[int, list[Message]] = {}
    n_read = 0
    for group, message in decode_messages(messages):
        if isinstance(message, Partials):
            for item in message.rows.to_pylist():
                place = item.pop("k"), item.pop("$slice_end")
                merged = partials.setdefault(group, {}).setdefault(place, {})
                for name, value in item.items():
                    values = [v for v in (merged.get(name), value) if v is not None]
                    merged[name] = MERGES.get(name, sum)(values) if values else None
        elif isinstance(message, RowsRead):
            n_read += message.n_rows
        else:
            control.setdefault(group, []).append(message)
    return partials, control, n_read


def evaluate_rows(table: pa.Table, plan) -> pa.RecordBatch:
    """Return the rows of a file as `decode_sent` would, evaluated one by one."""
    rows = table.to_pylist()
    times = table["ts"].cast(pa.int64()).to_pylist()
    keep = [row["v"] is not None and row["v"] != 5 for row in rows]
    columns = {
        KEEP: pa.array(keep),
        SOURCE: pa.array([0] * len(rows), pa.int32()),
        WATERMARK: pa.array([None if t is None else t - DELAY_US for t in times], pa.int64()),
        TIME: pa.array([t if k else None for t, k in zip(times, keep, strict=True)], pa.int64()),
        "k": pa.array([row["k"] for row in rows], pa.string()),
        plan.buffer.args[1][0]: pa.array([row["v"] for row in rows], pa.int64()),
        plan.buffer.conditions[1]: pa.array([(row["v"] or 0) > 0 for row in rows], pa.bool_()),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-100, 100),
        st.sampled_from([None, "a", "b", "é"]),
        st.none() | st.integers(-3, 8),
    ),
    max_size=30,
)


@given(files=st.lists(ROWS, min_size=1, max_size=3), window=st.sampled_from([HOP, GAP]))
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_are_weighted_by_their_rows(files, window: Window, tmp_path: Path) -> None:
    step = step_of(window)
    plan = plan_of(step)
    tables, paths = [], []
    for number, rows in enumerate(files):
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
        tables.append(pa.table(arrays, schema=SCHEMA))
        paths.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(tables[-1], paths[-1], row_group_size=11)
    result = received_from(
        ScanTask(plan, step, reader_of(step)).run(
            [split_rows(*((path, 0, None) for path in paths))]
        )
    )
    n_rows = sum(table.num_rows for table in tables)
    batch = evaluate_rows(pa.concat_tables(tables), plan)
    expected = received_from(LocalTask(plan).run([batch]))
    assert result == (*expected[:2], n_rows)


def test_rows_without_a_file_report_their_progress(tmp_path: Path) -> None:
    path = str(tmp_path / "one.parquet")
    pq.write_table(pa.table([[50, 61], ["a", "b"], [1, 5]], schema=SCHEMA), path)
    step = step_of(HOP)
    batches = [
        split_rows((None, ALL_SOURCES, 1), (path, 0, None)),
        split_rows((None, ALL_SOURCES, 1)),
    ]
    partials, control, n_read = received_from(
        ScanTask(plan_of(step), step, reader_of(step)).run(batches)
    )
    assert list(partials.values()) == [{("a", 55): {"n": 1, "total": 1, "$rows": 1}}]
    # the filtered row carries its watermark
    own = SourceProgress(0, 61 - DELAY_US, 50 - DELAY_US, 2)
    assert control == {group: [own, EndOfInput()] for group in GROUPS}
    assert n_read == 2


def test_rows_of_groups_without_a_window_have_no_watermark(tmp_path: Path) -> None:
    path = str(tmp_path / "one.parquet")
    pq.write_table(pa.table([[0, 0], ["a", "a"], [1, 4]], schema=SCHEMA), path)
    step = step_of(AllTime())
    partials, control, n_read = received_from(
        ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((path, 0, None))])
    )
    ((group, rows),) = partials.items()
    assert list(rows.values()) == [{"n": 2, "total": 5, "$rows": 2}]
    assert control[group] == [SourceProgress(0, None, None, 2)]
    assert n_read == 2


def test_windows_of_instants_are_on_the_wall_clock_and_their_watermarks_are_not(
    tmp_path: Path,
) -> None:
    time = Column("ts", "timestamp")
    hour = 3_600_000_000
    path = str(tmp_path / "one.parquet")
    schema = SCHEMA.set(0, pa.field("ts", pa.timestamp("us", "UTC")))
    pq.write_table(pa.table([[10 * hour], ["a"], [1]], schema=schema), path)
    step = step_of(Hop(hour, 2 * hour), (time, KEY, VALUE), time, "Asia/Tokyo")
    partials, control, _ = received_from(
        ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((path, 0, None))])
    )
    assert [place for rows in partials.values() for place in rows] == [("a", 20 * hour)]
    mark = 10 * hour - DELAY_US
    assert control[3] == [SourceProgress(0, mark, mark, 1)]


@pytest.mark.parametrize("missing", ["v", "k", "ts"])
def test_a_column_that_a_file_lacks_is_null_in_it(missing: str, tmp_path: Path) -> None:
    rows = pa.table([[1, 2, 33], ["a", None, "a"], [1, 6, 2]], schema=SCHEMA)
    lacking, full = str(tmp_path / "lacking.parquet"), str(tmp_path / "full.parquet")
    pq.write_table(rows.drop_columns([missing]), lacking)
    position = SCHEMA.get_field_index(missing)
    nulls = pa.nulls(3, SCHEMA.field(missing).type)
    pq.write_table(rows.set_column(position, SCHEMA.field(missing), nulls), full)
    step = step_of(HOP)
    result, expected = (
        received_from(
            ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((path, 0, None))])
        )
        for path in (lacking, full)
    )
    assert result == expected
    assert result[2] == 3


def test_a_file_with_no_column_of_the_table_has_rows_without_a_time(tmp_path: Path) -> None:
    path = str(tmp_path / "other.parquet")
    pq.write_table(pa.table({"x": [1, 2]}), path)
    step = step_of(HOP)
    partials, control, n_read = received_from(
        ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((path, 0, None))])
    )
    assert (partials, n_read) == ({}, 2)
    assert [kind for rows in control.values() for kind in rows] == [NoRows()] * len(GROUPS)


@pytest.mark.parametrize(
    ("table", "text"),
    [
        (
            pa.table({"ts": pa.array([1], pa.timestamp("us")), "v": ["x"]}),
            "column v is STRING, but",
        ),
        (pa.table({"ts": pa.array([1], pa.timestamp("ns"))}), "column ts is stored as INT64"),
        (
            pa.table({"ts": pa.array([1], pa.timestamp("us", "UTC"))}),
            "column ts is TIMESTAMP_LTZ(6), but",
        ),
    ],
    ids=["text", "nanoseconds", "instants"],
)
def test_a_file_with_other_types_is_refused_with_the_way_out(
    table: pa.Table, text: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "other.parquet")
    pq.write_table(table, path)
    step = step_of(HOP)
    with pytest.raises(ExecutionError) as caught:
        list(ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((path, 0, None))]))
    assert text in caught.value.message
    assert caught.value.message.endswith(f" in {path}")
    assert "'push_local_aggregate_into_scan' to read the files with Spark" in str(caught.value.hint)


def test_a_file_of_another_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "text.parquet"
    path.write_text("no Parquet")
    step = step_of(HOP)
    with pytest.raises(ExecutionError) as caught:
        list(ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((str(path), 0, None))]))
    expected = f"cannot read {path}: it is not a Parquet file, or it is truncated"
    assert caught.value.message == expected


def test_many_rows_are_read_in_batches_and_reported_once(tmp_path: Path) -> None:
    n_rows = 1 << 21
    path = str(tmp_path / "many.parquet")
    times = pa.array(np.arange(n_rows) // 1000, pa.timestamp("us"))
    keys = pa.array(np.array(["a", "b"])[np.arange(n_rows) % 2])
    pq.write_table(pa.table([times, keys, pa.array(np.ones(n_rows, "int64"))], schema=SCHEMA), path)
    step = step_of(HOP)
    partials, control, n_read = received_from(
        ScanTask(plan_of(step), step, reader_of(step)).run([split_rows((path, 0, None))])
    )
    assert n_read == n_rows
    highest = (n_rows - 1) // 1000 - DELAY_US
    assert control[5] == [SourceProgress(0, highest, -DELAY_US, n_rows)]
    slices = n_rows // 1000 // 5 + 1
    assert sum(map(len, partials.values())) == 2 * slices
