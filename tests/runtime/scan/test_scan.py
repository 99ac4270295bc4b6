"""The local stage over Parquet files: the columns and row groups it reads, prunes and refuses."""

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.arrow.evaluate import filter_mask
from runtime.compute.kernels.merge import merge_slices
from runtime.errors import ExecutionError
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.stage import aggregate, buffer_plan
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, PartialColumns
from runtime.refusal import Refused, tried
from runtime.scan.metadata import find_source, find_stream_source
from runtime.scan.read import BATCH_ROWS, read_batches
from runtime.scan.splits import plan_splits
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column
from runtime.windows.tumble import Tumble

SECOND = 1_000_000
MINUTE = 60 * SECOND
TS = Column("ts", "timestamp_ntz")
TRUE_WORDS = ["a", "b", "long " * 20, "é", "", "zz"]


def source_of(path, *columns):
    return find_source(str(path), [str(path)], columns)


def ref(column):
    return ColumnRef(column.name, column.type)


def compare(function, column, value):
    return Call(function, (ref(column), Constant(value, column.type)), "boolean")


def partial(name, function, *args, condition=None):
    return PartialColumns(Merge((name,), MergeOp(function)), args, condition)


COUNT = partial("n", "count")


def step_of(source, partials=(COUNT,), keys=(), filters=(), window=None, time=TS, zone="UTC"):
    scan = FileScan(tuple(keys), tuple(partials), ref(time), zone, tuple(filters), source)
    window = window or Tumble(10 * SECOND)
    return LocalStep(scan, ArrowBuffer(), window, time.name, time.type, "slice")


def partials_of(step, rows, split):
    plan = buffer_plan(step, *scan_projection(step.source))
    yield from aggregate(plan, map(plan.rows, rows.rows_of_split(split)), pa.Table.to_batches)


def run(step, n_splits=3):
    """Return the merged result, a row for each key and slice: keys, slice end, results."""
    tables = []
    for split in plan_splits(step.source.files, step.source.filters, n_splits, least_bytes=1):
        tables += partials_of(step, ScanRows(step), split)
    return merge(tables, step)


def merge(tables, step):
    spec = WindowAggregation(step.window, step.keys, "slice", step.accumulators)
    schema = buffer_plan(step, *scan_projection(step.source)).schema
    table = pa.Table.from_batches(tables, schema)
    rows = [row for batch in merge_slices(table, spec) for row in batch.to_pylist()]
    for row in rows:
        row.pop("window_start")
    return [tuple(row.values()) for row in rows]


def comparable(rows):
    """Return rows in a comparable form: sorted, with NaN equal to NaN."""
    return sorted(map(repr, rows))


def rows_in_duckdb(path, sql):
    return duckdb.sql(sql.format(files=f"'{path}/**/*.parquet'")).fetchall()


def random_table(rng, n_rows, first_second=0):
    def maybe(value):
        return None if rng.random() < 0.1 else value

    return pa.table(
        {
            "ts": pa.array(
                [maybe((first_second + rng.randrange(100)) * SECOND) for _ in range(n_rows)],
                pa.timestamp("us"),
            ),
            "k": pa.array([maybe(rng.choice(TRUE_WORDS)) for _ in range(n_rows)]),
            "i": pa.array([maybe(rng.randrange(-30, 30)) for _ in range(n_rows)], pa.int32()),
            "d": pa.array(
                [maybe(rng.choice([float("nan"), 0.0, -1.5, 2.5])) for _ in range(n_rows)]
            ),
            "m": pa.array(
                [maybe(Decimal(rng.randrange(-9999, 9999)).scaleb(-2)) for _ in range(n_rows)],
                pa.decimal128(9, 2),
            ),
        }
    )


WORD, NUMBER, DOUBLE, MONEY = (
    Column(*c) for c in (("k", "string"), ("i", "int"), ("d", "double"), ("m", "decimal(9,2)"))
)


def write_files(directory: Path, rng, n_files=3, n_rows=300, row_group_size=70):
    for number in range(n_files):
        table = random_table(rng, n_rows, first_second=60 * number)
        path = directory / f"part-{number}.parquet"
        pq.write_table(table, path, row_group_size=row_group_size,
                       store_decimal_as_integer=number == 1)  # fmt: skip
    return directory


# -- the results -------------------------------------------------------------------------------


@pytest.mark.parametrize("n_splits", [1, 2, 50])
def test_the_local_stage_aggregates_as_duckdb_does(tmp_path, n_splits):
    write_files(tmp_path, random.Random(n_splits))
    is_large = Call(">", (ref(NUMBER), Constant(0, "int")), "boolean")
    step = step_of(
        source_of(tmp_path, TS, WORD, NUMBER, DOUBLE, MONEY),
        [
            COUNT,
            partial("total", "sum", Call("cast", (ref(NUMBER),), "bigint"), condition=is_large),
            partial("highest", "max", ref(DOUBLE)),
            partial("money", "sum", ref(MONEY)),
            partial("word", "min", ref(WORD)),
        ],
        keys=[("k", ref(WORD)), ("odd", Call("%", (ref(NUMBER), Constant(2, "int")), "int"))],
        filters=[compare("<", MONEY, Decimal("50.00"))],
    )
    expected = rows_in_duckdb(
        tmp_path,
        """
        SELECT k, i % 2 AS odd, time_bucket(INTERVAL 10 SECOND, ts) + INTERVAL 10 SECOND AS we,
               count(*), sum(i) FILTER (i > 0), max(d), sum(m), min(k)
        FROM {files} WHERE m < 50 AND ts IS NOT NULL GROUP BY ALL
        """,
    )
    assert comparable(run(step, n_splits)) == comparable(expected)


def test_partition_columns_come_from_the_names_of_directories(tmp_path):
    rng = random.Random(1)
    for day, shop in ((1, "a%3Ab"), (2, "x"), ("__HIVE_DEFAULT_PARTITION__", "x")):
        directory = tmp_path / f"day={day}" / f"shop={shop}"
        directory.mkdir(parents=True)
        pq.write_table(random_table(rng, 50), directory / "0.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "day=1" / "shop=a%3Ab" / ".0.parquet.crc").touch()
    day, shop = Column("day", "int"), Column("shop", "string")
    source = source_of(tmp_path, TS, day, shop)
    assert [file.partition_values for file in source.files] == [(1, "a:b"), (2, "x"), (None, "x")]
    step = step_of(
        source, keys=[("day", ref(day)), ("shop", ref(shop))], window=Tumble(1000 * SECOND)
    )
    counts = {row[:2]: row[-1] for row in run(step)}
    assert counts.keys() == {(1, "a:b"), (2, "x"), (None, "x")}
    only_second = step_of(source, filters=[compare("=", day, 2)], window=Tumble(1000 * SECOND))
    assert [
        part.file for split in plan_splits(source, only_second.source.filters, 9) for part in split
    ] == [source.files[1]]
    assert run(only_second)[0][-1] == counts[2, "x"]


def test_rows_without_a_time_are_dropped_and_counted(tmp_path):
    times = pa.array([1, None, 2, None, None], pa.timestamp("us"))
    pq.write_table(
        pa.table({"ts": times, "i": pa.array([1, 2, 3, 4, None], pa.int32())}), tmp_path / "f"
    )
    step = step_of(source_of(tmp_path, TS, NUMBER), filters=[compare(">", NUMBER, 1)])
    (split,) = plan_splits(step.source.files, step.source.filters, 1)
    rows = ScanRows(step)
    (table,) = partials_of(step, rows, split)
    assert table["n"].to_pylist() == [1]
    assert rows.n_null_times == 2


def test_an_argument_fails_only_in_rows_that_its_filter_lets_through(tmp_path):
    pq.write_table(
        pa.table({"ts": pa.array([1, 2], pa.timestamp("us")), "i": pa.array([0, 5], pa.int32())}),
        tmp_path / "f",
    )
    wide = Call("cast", (ref(NUMBER),), "bigint")
    divided = Call("div", (Constant(10, "bigint"), wide), "bigint")
    guarded = partial("q", "sum", divided, condition=compare("<>", NUMBER, 0))
    assert run(step_of(source_of(tmp_path, TS, NUMBER), [guarded]))[0][-1] == 2
    with pytest.raises(ExecutionError, match=r"(?i)zero"):
        run(step_of(source_of(tmp_path, TS, NUMBER), [partial("q", "sum", divided)]))


# -- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_", "spark_type", "options"),
    [
        (pa.timestamp("ms"), "timestamp_ntz", {}),
        (pa.timestamp("us"), "timestamp_ntz", {"version": "1.0", "store_schema": False}),
        (pa.timestamp("us"), "timestamp_ntz", {}),
        (pa.timestamp("ms", tz="America/New_York"), "timestamp", {}),
        (pa.timestamp("us", tz="UTC"), "timestamp", {}),
        (pa.timestamp("ns"), "timestamp", {"use_deprecated_int96_timestamps": True}),
    ],
    ids=str,
)
def test_timestamps_of_all_kinds_are_microseconds(tmp_path, type_, spark_type, options):
    times = [-SECOND, 0, 1_767_225_600_123_000, None]
    stored = pa.array(times, pa.timestamp("us", tz=type_.tz)).cast(type_)
    pq.write_table(pa.table({"ts": stored}), tmp_path / "f", **options)
    source = source_of(tmp_path, Column("ts", spark_type))
    (split,) = plan_splits(source, [], 1)
    (batch,) = read_batches(split, source, frozenset())
    assert batch["ts"].cast(pa.int64()).to_pylist() == times


def test_nanoseconds_of_int96_are_rounded_down(tmp_path):
    stored = pa.array([-1_500, 1_500, -1], pa.timestamp("ns"))
    pq.write_table(pa.table({"ts": stored}), tmp_path / "f", use_deprecated_int96_timestamps=True)
    source = source_of(tmp_path, Column("ts", "timestamp"))
    (batch,) = read_batches(plan_splits(source, [], 1)[0], source, frozenset())
    assert batch["ts"].cast(pa.int64()).to_pylist() == [-2, 1, -1]


def test_instants_are_sliced_by_the_wall_clock_and_stay_instants_as_values(tmp_path):
    # In Berlin 2026-03-29 lasts 23 hours and 2026-10-25 lasts 25.
    hours = [dt.datetime(2026, month, day, h, tzinfo=dt.UTC)
             for month, day in ((3, 28), (3, 29), (10, 24), (10, 25)) for h in range(24)]  # fmt: skip
    time = Column("ts", "timestamp")
    pq.write_table(pa.table({"ts": pa.array(hours, pa.timestamp("us", tz="UTC"))}), tmp_path / "f")
    latest = partial("latest", "max", ref(time))
    step = step_of(
        source_of(tmp_path, time), [COUNT, latest], time=time, zone="Europe/Berlin",
        window=Tumble(24 * 60 * MINUTE),
    )  # fmt: skip
    expected = {}
    for hour in hours:
        local = hour.astimezone(ZoneInfo("Europe/Berlin")).replace(tzinfo=None)
        day_end = dt.datetime.combine(local.date(), dt.time()) + dt.timedelta(days=1)
        expected.setdefault(day_end, []).append(hour)
    result = {end: (n, latest.timestamp()) for end, n, latest in run(step)}
    assert result == {end: (len(rows), max(rows).timestamp()) for end, rows in expected.items()}


# -- pruning and splits -------------------------------------------------------------------------

CONSTANTS = {
    NUMBER: [-31, -30, 0, 29, 30, None],
    DOUBLE: [0.0, -0.0, -1.5, 2.5, 3.0, float("nan")],
    WORD: [*TRUE_WORDS, "long", "zzz"],
    MONEY: [Decimal("0.00"), Decimal("99.98"), Decimal("-100.00")],
    TS: [0, 50 * SECOND, 159 * SECOND, 160 * SECOND, -1],
}


@st.composite
def filters(draw):
    column = draw(st.sampled_from(list(CONSTANTS)))
    constant = Constant(draw(st.sampled_from(CONSTANTS[column])), column.type)
    kind = draw(st.sampled_from(["compare", "in", "is_null", "not", "and", "or"]))
    match kind:
        case "compare":
            sides = (ref(column), constant)
            sides = sides if draw(st.booleans()) else sides[::-1]
            function = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
            return Call(function, sides, "boolean")
        case "in":
            return Call(
                "in",
                (ref(column), constant, Constant(CONSTANTS[column][1], column.type)),
                "boolean",
            )
        case "is_null":
            return Call("is_null", (ref(column),), "boolean")
        case "not":
            return Call("not", (draw(filters()),), "boolean")
        case _:
            return Call(kind, (draw(filters()), draw(filters())), "boolean")


@pytest.fixture(scope="module")
def varied(tmp_path_factory):
    """Write small row groups: only NULL, only NaN, or a single value."""
    directory = tmp_path_factory.mktemp("varied")
    write_files(directory, random.Random(7), n_rows=60, row_group_size=4)
    return source_of(directory, TS, WORD, NUMBER, DOUBLE, MONEY)


def rows_of(source, conditions, splits):
    rows = []
    for split in splits:
        for batch in read_batches(split, source, frozenset()):
            rows += batch.filter(filter_mask(conditions, batch)).to_pylist()
    return sorted(map(repr, rows))


@given(condition=filters())
def test_pruning_never_loses_a_row(varied, condition):
    everything = plan_splits(varied, [], 1)
    pruned = plan_splits(varied, [condition], 1)
    assert rows_of(varied, [condition], pruned) == rows_of(varied, [condition], everything)


def row_groups(splits):
    return [(part.file.path, n) for split in splits for part in split for n in part.row_groups]


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        (compare(">=", TS, 200 * SECOND), [2, 3]),
        (Call("and", (compare(">", TS, 150 * SECOND), compare("<", TS, 250 * SECOND)), "boolean"), [2]),
        (Call("or", (compare("=", NUMBER, 0), compare("=", NUMBER, 3)), "boolean"), [0, 3]),
        (Call("in", (ref(NUMBER), Constant(1, "int"), Constant(None, "int")), "boolean"), [1]),
        (Call("=", (Constant("w2", "string"), ref(WORD)), "boolean"), [2]),
        (compare("<", DOUBLE, 1.0), [0]),
        # The row groups have no NaN, but their statistics cannot tell.
        (compare(">", DOUBLE, 2.0), [0, 1, 2, 3]),
        (Call("is_null", (ref(NUMBER),), "boolean"), []),
    ],
)  # fmt: skip
def test_row_groups_in_which_a_filter_cannot_hold_are_not_read(tmp_path, condition, left):
    numbers = np.repeat(np.arange(4), 10)
    table = pa.table(
        {
            "ts": pa.array(numbers * 100 * SECOND, pa.timestamp("us")),
            "i": pa.array(numbers, pa.int32()),
            "k": [f"w{n}" for n in numbers],
            "d": numbers.astype(float),
        }
    )
    pq.write_table(table, tmp_path / "f", row_group_size=10)
    source = source_of(tmp_path, TS, NUMBER, WORD, DOUBLE)
    assert [n for _, n in row_groups(plan_splits(source, [condition], 9))] == left


def test_splits_hold_every_row_group_once_and_are_balanced_by_bytes(tmp_path):
    rng = np.random.default_rng(1)
    for number, n_rows in enumerate((3_000, 500, 8_000, 1)):
        table = pa.table({"ts": pa.array(rng.integers(0, 10**9, n_rows), pa.timestamp("us"))})
        pq.write_table(table, tmp_path / f"{number}", row_group_size=500)
    source = source_of(tmp_path, TS)
    splits = plan_splits(source, [], 4, least_bytes=1)
    assert row_groups(splits) == row_groups(plan_splits(source, [], 1))
    n_rows = [sum(part.n_rows for part in split) for split in splits]
    assert len(splits) == 4
    assert max(n_rows) - min(n_rows) <= 2 * 500


def test_little_data_makes_one_split(tmp_path):
    write_files(tmp_path, random.Random(1))
    assert len(plan_splits(source_of(tmp_path, TS), [], 100)) == 1


def test_small_row_groups_are_read_as_large_batches(tmp_path):
    table = pa.table({"ts": pa.array(range(20_000), pa.timestamp("us")), "k": ["a", "b"] * 10_000})
    for number in range(3):
        pq.write_table(table, tmp_path / f"{number}", row_group_size=100)
    source = source_of(tmp_path, TS, WORD)
    (split,) = plan_splits(source, [], 1)
    (batch,) = read_batches(split, source, frozenset({"k"}))
    assert batch.num_rows == 60_000 < BATCH_ROWS
    assert pa.types.is_dictionary(batch["k"].type)


def test_memory_does_not_grow_with_the_row_groups_that_were_read(tmp_path):
    path = tmp_path / "t.parquet"
    n_groups, n_rows = 12, 200_000
    rng = np.random.default_rng(1)
    with pq.ParquetWriter(path, pa.schema([("ts", pa.timestamp("us")), ("v", pa.int64())])) as out:
        for _ in range(n_groups):
            values = rng.integers(0, 1 << 60, (2, n_rows))
            columns = [pa.array(values[0], pa.timestamp("us")), pa.array(values[1])]
            out.write_table(pa.Table.from_arrays(columns, schema=out.schema))
    source = source_of(path, TS, Column("v", "bigint"))
    (split,) = plan_splits(source, (), 1)
    before, held = pa.total_allocated_bytes(), []
    for _ in read_batches(split, source, frozenset()):
        held.append(pa.total_allocated_bytes() - before)
    batch_bytes = BATCH_ROWS * 16
    assert max(held) < 4 * batch_bytes
    assert max(held[1:]) <= 1.2 * held[0]


def test_a_file_that_changed_since_the_plan_is_an_error(tmp_path):
    write_files(tmp_path, random.Random(1))
    step = step_of(source_of(tmp_path, TS))
    (split,) = plan_splits(step.source.files, [], 1)
    pq.write_table(random_table(random.Random(2), 10), tmp_path / "part-1.parquet")
    with pytest.raises(ExecutionError, match=r"part-1\.parquet changed"):
        list(partials_of(step, ScanRows(step), split))


def test_a_stream_of_files_is_scanned_if_existing_files_fit(tmp_path):
    number = Column("i", "int")
    directory = tmp_path / "in"
    directory.mkdir()

    def stream_source_of(*columns):
        return tried(find_stream_source, str(directory), [str(directory)], columns)

    # without files, only the type itself can be unsupported
    assert stream_source_of(TS, number) == ScanSource(str(directory), (), (TS, number))
    assert (
        stream_source_of(Column("m", "map<string, int>")).reason == "column m is MAP<STRING, INT>"
    )
    for i in range(200):
        pq.write_table(pa.table({"i": pa.array([i], pa.int32())}), directory / f"{i}.parquet")
    # a column missing in files is NULL there; tasks do not know the list of files
    assert stream_source_of(TS, number) == ScanSource(str(directory), (), (TS, number))
    assert "is INT, but BIGINT in the table" in stream_source_of(Column("i", "bigint")).reason
    (directory / "k=1").mkdir()
    assert "has both files and directories" in stream_source_of(number).reason


def test_partition_directories_of_a_stream_are_left_to_spark(tmp_path):
    (tmp_path / "k=1").mkdir()
    pq.write_table(pa.table({"i": pa.array([1], pa.int32())}), tmp_path / "k=1" / "a.parquet")
    with pytest.raises(Refused, match="directory names contain partition columns"):
        find_stream_source(str(tmp_path), [str(tmp_path)], [Column("i", "int")])


def test_files_may_call_columns_otherwise_or_lack_them(tmp_path):
    number, day = Column("k", "bigint"), Column("day", "date")
    pq.write_table(pa.table({"a": [1, 2], "x": ["p", "q"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"y": ["r"]}), tmp_path / "2.parquet")
    files = (
        ScanFile(f"{tmp_path}/1.parquet", (19_723,), ("a", "x")),
        ScanFile(f"{tmp_path}/2.parquet", (None,), (None, "y")),
    )
    source = ScanSource("t", files, (number, Column("s", "string")), (day,))

    def rows(*filters):
        splits = plan_splits(source, filters, 2, least_bytes=1)
        return [
            tuple(row.values())
            for split in splits
            for batch in read_batches(split, source, frozenset(["s"]))
            for row in batch.to_pylist()
        ]

    first = dt.date(2024, 1, 1)
    assert rows() == [(1, "p", first), (2, "q", first), (None, "r", None)]
    assert rows(compare("=", number, 1)) == [(1, "p", first), (2, "q", first)]
    assert rows(compare("=", day, 19_724)) == []
    is_null = Call("is_null", (ref(number),), "boolean")
    assert rows(is_null) == [(None, "r", None)]
