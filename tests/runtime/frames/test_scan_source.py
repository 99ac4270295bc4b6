"""Both forms of the local stage, Catalyst's and the Arrow scan, yield the same."""

import pytest

from runtime.engines.spark_batch.execute import ExecutionOptions, dataframe
from runtime.frames.scan_source import scan_source
from runtime.plan.exchange import ExchangeStep, MergedWindows
from runtime.plan.local import (
    ArrowBuffer,
    Catalyst,
    FileScan,
    LocalStep,
    PartialColumns,
    SqlPartial,
    SqlRows,
)
from runtime.plan.nodes import SqlStep
from runtime.refusal import Refusal, tried
from runtime.spec.aggregates import Merge, MergeOp, Pick, WindowAggregation
from runtime.spec.expressions import Call, ColumnRef, Constant
from runtime.spec.table import Column
from runtime.windows.hop import Hop

HOUR = 3_600_000_000
WINDOW = Hop(6 * HOUR, 24 * HOUR)

TS = ColumnRef("ts", "timestamp")
WALL = ColumnRef("wall", "timestamp_ntz")
WORD = ColumnRef("word", "string")
DOUBLE = ColumnRef("d", "double")
MONEY = ColumnRef("money", "decimal(10,2)")
NUMBER = ColumnRef("i", "int")
SHOP = ColumnRef("shop", "int")
COLUMNS = [TS, WALL, WORD, DOUBLE, MONEY, NUMBER, SHOP]

KEYS = [("word", WORD, "word"), ("d", DOUBLE, "d"), ("shop", SHOP, "shop"), ("ts", TS, "ts")]

# (kind, arguments, partial columns, Catalyst's SQL)
BIG = "i > 50"
PARTIALS = [
    (Merge(("n",), MergeOp.COUNT), (), "count(*)"),
    (Merge(("words",), MergeOp.COUNT), (WORD,), "count(word)"),
    (Merge(("total",), MergeOp.SUM), (Call("cast", (NUMBER,), "bigint"),), "sum(i)"),
    (Merge(("doubles",), MergeOp.SUM), (DOUBLE,), "sum(d)"),
    (Merge(("money$0",), MergeOp.SUM), (MONEY,), "sum(money)"),
    (Merge(("least",), MergeOp.MIN), (DOUBLE,), "min(d)"),
    (Merge(("most",), MergeOp.MAX), (DOUBLE,), "max(d)"),
    (Merge(("latest",), MergeOp.MAX), (TS,), "max(ts)"),
    (Merge(("earliest",), MergeOp.MIN), (WALL,), "min(wall)"),
    (Merge(("top",), MergeOp.MAX), (WORD,), "max(word)"),
    (Pick(("last$o", "last$v"), is_last=True), (TS, WORD), "max(named_struct('o', ts, 'v', word))"),
]  # fmt: skip


@pytest.fixture(scope="module")
def table(spark, tmp_path_factory):
    """Let Spark write rows around both changes of summer time, with INT96 and partitions."""
    path = str(tmp_path_factory.mktemp("scan") / "events")
    spark.sql("""
        SELECT
          if(id % 17 = 0, NULL, timestamp_seconds(1774656000 + (id * 7919) % 172800 +
             if(id % 2 = 0, 0, 18144000))) AS ts,
          timestamp_ntz'1969-12-30 12:00:00' + make_interval(0, 0, 0, 0, 0, 0, id * 997) AS wall,
          element_at(array('a', 'b', NULL, 'é', ''), int(id % 5) + 1) AS word,
          element_at(array(0.0D, -0.0D, double('NaN'), NULL, 1.25D, double('-Infinity')),
             int(id % 6) + 1) AS d,
          if(id % 7 = 0, NULL, cast(id * 1.37 - 900 AS decimal(10, 2))) AS money,
          if(id % 11 = 0, NULL, int(id % 100)) AS i,
          if(id % 4 = 3, NULL, int(id % 4)) AS shop
        FROM range(0, 3000, 1, 3)
    """).write.partitionBy("shop").parquet(path)
    return path


@pytest.fixture(params=["UTC", "Europe/Berlin", "-03:30"])
def zone(spark, request):
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


def aggregation(key_names):
    accumulators = tuple(into for into, _, _ in PARTIALS)
    return WindowAggregation(WINDOW, key_names, "slice", accumulators)


def rows_by_catalyst(spark, path, time, keys):
    partials = tuple(
        SqlPartial(f"p{n}", sql, into.columns)
        if len(into.columns) > 1
        else SqlPartial(into.columns[0], sql)
        for n, (into, _, sql) in enumerate(PARTIALS)
    )
    below = SqlStep(f"SELECT * FROM parquet.`{path}` WHERE {BIG}")
    rows = SqlRows(tuple((f"{name}$", sql) for name, _, sql in keys), (), below)
    local = LocalStep(rows, Catalyst(partials), WINDOW, time.name, time.type, "slice")
    names = tuple(f"{name}$" for name, _, _ in keys)
    step = MergedWindows(ExchangeStep(local, names), aggregation(names))
    return dataframe(spark, step, ExecutionOptions(2, 4))


def rows_by_scan(spark, path, time, keys, zone, buffer_bytes):
    source = scan_source(spark, path, [Column(c.name, c.type) for c in COLUMNS])
    partials = tuple(PartialColumns(into, args) for into, args, _ in PARTIALS)
    scan = FileScan(
        tuple((f"{name}$", expression) for name, expression, _ in keys), partials,
        ColumnRef(time.name, time.type), zone, (Call(">", (NUMBER, Constant(50, "int")), "boolean"),),
        source,
    )  # fmt: skip
    step = LocalStep(scan, ArrowBuffer(), WINDOW, time.name, time.type, "slice")
    names = tuple(f"{name}$" for name, _, _ in keys)
    step = MergedWindows(ExchangeStep(step, names), aggregation(names))
    return dataframe(spark, step, ExecutionOptions(2, 4, buffer_bytes=buffer_bytes))


@pytest.mark.long
@pytest.mark.parametrize("time", [TS, WALL], ids=["timestamp", "timestamp_ntz"])
def test_windows_are_the_same_for_both_local_stages(spark, table, zone, time):
    keys = KEYS[:3]
    expected = rows_by_catalyst(spark, table, time, keys)
    result = rows_by_scan(spark, table, time, keys, zone, 64 << 20)
    assert [f.dataType for f in result.schema] == [f.dataType for f in expected.schema]
    assert result.columns == expected.columns
    rows = sorted(map(repr, result.collect()))
    assert len(rows) > 100
    assert rows == sorted(map(repr, expected.collect()))


@pytest.mark.long
def test_a_tiny_buffer_and_many_keys_give_the_same_windows(spark, table):
    expected = rows_by_catalyst(spark, table, TS, KEYS)
    result = rows_by_scan(spark, table, TS, KEYS, "UTC", 1)
    assert sorted(map(repr, result.collect())) == sorted(map(repr, expected.collect()))


def test_settings_that_change_the_meaning_of_files_need_spark(spark, table):
    spark.conf.set("spark.sql.parquet.binaryAsString", "true")
    try:
        source = tried(scan_source, spark, table, [Column("ts", "timestamp")])
    finally:
        spark.conf.unset("spark.sql.parquet.binaryAsString")
    assert source == Refusal("spark.sql.parquet.binaryAsString is true")


def test_paths_elsewhere_leave_the_scan_to_spark(spark):
    source = tried(scan_source, spark, "viewfs://data/events", [Column("ts", "timestamp")])
    assert source == Refusal("viewfs://data/events is on a file system that Arrow does not support")
