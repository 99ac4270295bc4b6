"""Windows of DataFrames: the plan and the rows of the SQL, on Spark."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType

import sqlwin
from sqlwin import windows as w
from tests.goldens import ROOT

ROWS = """
    SELECT * FROM VALUES
      ('a', TIMESTAMP_NTZ '1969-12-31 23:58:00', 1), ('a', TIMESTAMP_NTZ '1970-01-01 00:01:00', 2),
      ('b', TIMESTAMP_NTZ '1970-01-01 00:01:00', 3), (NULL, TIMESTAMP_NTZ '1970-01-01 00:07:00', 4),
      ('b', NULL, 5) AS v(`the key`, ts, x)
"""


@pytest.fixture
def rows(fresh_session: sqlwin.Session) -> Any:
    frame = fresh_session.sql(ROWS)
    fresh_session.register("t", frame)
    return frame


@pytest.mark.long
@pytest.mark.parametrize(
    ("windowed", "call"),
    [
        (
            lambda df: w.tumble(df, "ts", "5 minutes"),
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTES)",
        ),
        (
            lambda df: w.tumble(df, time="ts", size=timedelta(minutes=5), offset="-1 minute"),
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '-1' MINUTE)",
        ),
        (
            lambda df: w.hop(df, "ts", "1 minute", "5 minutes"),
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES)",
        ),
        (
            lambda df: w.cumulate(df, "ts", "1 minute", "5 minutes"),
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MINUTE, INTERVAL '5' MINUTES)",
        ),
        (
            lambda df: w.session(df, "ts", "4 minutes"),
            "SESSION(TABLE t PARTITION BY `the key`, DESCRIPTOR(ts), INTERVAL '4' MINUTES)",
        ),
    ],
    ids=["tumble", "tumble with an offset", "hop", "cumulate", "session"],
)
def test_windows_of_a_dataframe_have_the_plan_and_the_rows_of_the_sql(
    fresh_session: sqlwin.Session, rows: Any, windowed: Any, call: str
) -> None:
    grouped = windowed(rows).group_by("the key")
    result = grouped.agg("COUNT(*) AS n", total="SUM(x)")
    sql = (
        "SELECT `the key`, window_start, window_end, COUNT(*) AS n, SUM(x) AS total "
        f"FROM TABLE({call}) GROUP BY `the key`, window_start, window_end"
    )
    expected = fresh_session.sql(sql)
    assert result.columns == ["the key", "window_start", "window_end", "n", "total"]
    assert sorted(result.collect(), key=repr) == sorted(expected.collect(), key=repr)
    plan = grouped.explain("COUNT(*) AS n", total="SUM(x)").replace(grouped.table, "t")
    assert plan == fresh_session.explain(sql)
    assert "WindowAggregate" in plan


COLUMNS: list[tuple[Callable[[Any], list[Any]], str]] = [
    (lambda df: [F.sum("x").alias("s"), F.count("*").alias("n")], "SUM(x) AS s, COUNT(*) AS n"),
    (lambda df: [F.sum(df["x"]).alias("s")], "SUM(x) AS s"),
    (lambda df: [F.count_distinct("x").alias("d")], "COUNT(DISTINCT x) AS d"),
    (lambda df: [F.sum_distinct("x").alias("d")], "SUM(DISTINCT x) AS d"),
    (lambda df: [F.max_by("x", "ts").alias("m")], "MAX_BY(x, ts) AS m"),
    (
        lambda df: [F.approx_count_distinct("x", 0.1).alias("a")],
        "APPROX_COUNT_DISTINCT(x, 0.1D) AS a",
    ),
    (
        lambda df: [F.expr("sum(x) FILTER (WHERE x > 1)").alias("f")],
        "SUM(x) FILTER (WHERE x > 1) AS f",
    ),
    (lambda df: [F.expr("max(x) AS m")], "MAX(x) AS m"),
    (
        lambda df: [F.sum(F.when(df.x > 1, df.x).otherwise(F.lit(None))).alias("w")],
        "SUM(CASE WHEN x > 1 THEN x ELSE NULL END) AS w",
    ),
    (
        lambda df: [(F.sum("x").cast("double") / F.count("x")).alias("r")],
        "CAST(SUM(x) AS DOUBLE) / COUNT(x) AS r",
    ),
    (
        lambda df: [F.max(F.concat(F.lit("it's `\\ "), F.col("the key"))).alias("t")],
        "MAX(CONCAT('it\\'s `\\\\ ', `the key`)) AS t",
    ),
    (
        lambda df: [F.count_if(F.col("x").isin(1, 3) & F.col("the key").isNotNull()).alias("c")],
        "COUNT_IF(x IN (1, 3) AND `the key` IS NOT NULL) AS c",
    ),
    (lambda df: [{"x": "min", "*": "count"}], "MIN(x), COUNT(*)"),
]


def in_fives(sql: str) -> str:
    """Return the query of the aggregates per key and five minutes."""
    return (
        f"SELECT `the key`, window_start, window_end, {sql} FROM TABLE(TUMBLE(TABLE t, "
        "DESCRIPTOR(ts), INTERVAL '5' MINUTES)) GROUP BY `the key`, window_start, window_end"
    )


@pytest.mark.long
def test_columns_have_the_plan_and_the_rows_of_the_sql(
    fresh_session: sqlwin.Session, rows: Any
) -> None:
    grouped = w.tumble(rows, "ts", "5 minutes").group_by(F.col("the key"))

    def normal(text: str) -> str:
        return re.sub(r"[()`]", "", text).lower()

    for aggregates, sql in COLUMNS:
        plan = grouped.explain(*aggregates(rows)).replace(grouped.table, "t")
        assert normal(plan) == normal(fresh_session.explain(in_fives(sql))), sql
    together = [aggregate for aggregates, _ in COLUMNS for aggregate in aggregates(rows)]
    result = grouped.agg(*together)
    expected = fresh_session.sql(in_fives(", ".join(sql for _, sql in COLUMNS)))
    assert result.columns == expected.columns
    assert sorted(map(tuple, result.collect()), key=repr) == sorted(
        map(tuple, expected.collect()), key=repr
    )


def test_groups_are_columns_and_expressions(rows: Any) -> None:
    hours = w.hop(rows, "ts", "30 minutes", "1 hour")
    frame = hours.group_by([F.upper("the key").alias("u")], F.col("x") % 2).agg(n=F.count("*"))
    assert frame.columns == ["u", "(x % 2)", "window_start", "window_end", "n"]
    assert {(row.u, row["(x % 2)"], row.n) for row in frame.collect()} == {
        ("A", 1, 1), ("A", 0, 1), ("B", 1, 1), (None, 0, 1),
    }  # fmt: skip
    renamed = w.session(rows, "ts", "1 hour").groupBy(rows["the key"].alias("k")).agg(n="COUNT(*)")
    assert sorted((row.k, row.n) for row in renamed.collect() if row.k) == [("a", 2), ("b", 1)]


def twice(x: int) -> int:
    return 2 * x


@pytest.mark.parametrize(
    ("aggregate", "message"),
    [
        (
            lambda: F.sum(F.udf(twice, IntegerType())("x")),
            "calls the Python function twice, which SQL cannot express",
        ),
        (lambda: F.sum("x").over(Window.partitionBy("x")), "has OVER, which cannot be part of an"),
        (lambda: F.sum(F.col("x").alias("y")), r"sum\(x AS y\) has an alias inside an expression"),
        (lambda: F.desc("x"), "x DESC NULLS LAST is an order, not a value"),
        (lambda: F.max(F.struct("x").withField("y", F.lit(1))), "has no SQL"),
        (lambda: F.sum("y"), "column `y` does not exist"),
    ],
)
def test_columns_without_sql_are_refused(
    rows: Any, aggregate: Callable[[], Any], message: str
) -> None:
    windowed = w.tumble(rows, "ts", "5 minutes")
    with pytest.raises(sqlwin.SqlwinError, match=message) as caught:
        windowed.agg(aggregate())
    assert "columnnode" not in str(caught.value)


def test_session_windows_belong_to_columns(rows: Any) -> None:
    with pytest.raises(sqlwin.SqlwinError, match="SESSION windows belong to columns, not to upper"):
        w.session(rows, "ts", "1 hour").group_by(F.upper("the key"))


LITERALS = [
    None, True, 5, 2**40, 1.5, float("nan"), float("-inf"), -0.0, Decimal("1.50"), "a'b\\n\n`",
    b"\x00\xff", date(1969, 12, 31), datetime(2024, 3, 31, 0, 59, 59, 999999, UTC),
    timedelta(days=1, microseconds=1), [1, 2],
]  # fmt: skip


def test_literals_keep_their_types_and_values(rows: Any) -> None:
    literals = [F.lit(bytearray(v) if isinstance(v, bytes) else v) for v in LITERALS]
    written = [F.max(value).alias(f"c{i}") for i, value in enumerate(literals)]
    frame = w.tumble(rows.where("x = 1"), "ts", "1 hour").agg(*written)
    expected = rows.where("x = 1").agg(*written)
    assert frame.schema.fields[2:] == expected.schema.fields
    assert repr(tuple(frame.collect()[0])[2:]) == repr(tuple(expected.collect()[0]))


TABLES = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-500, 500)),
        st.one_of(st.none(), st.integers(-100, 100)),
    ),
    max_size=20,
)


@pytest.mark.long
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(table=TABLES, slide=st.sampled_from([1, 5, 7]), n_slides=st.sampled_from([1, 2, 3]))
def test_windows_equal_those_of_sparks_window_function(
    fresh_session: sqlwin.Session, table: list[tuple[Any, ...]], slide: int, n_slides: int
) -> None:
    epoch = datetime(1970, 1, 1)  # noqa: DTZ001
    data = [
        (k, None if minute is None else epoch + timedelta(minutes=minute), x)
        for k, minute, x in table
    ]
    frame = fresh_session.spark.createDataFrame(data, "k STRING, ts TIMESTAMP_NTZ, x INT")
    aggregates = [
        F.sum("x").alias("s"),
        F.count("*").alias("n"),
        F.count_distinct("x").alias("d"),
        F.max(F.when(F.col("x") > 0, F.col("x"))).alias("m"),
    ]
    lengths = (
        [f"{slide} minutes"]
        if n_slides == 1
        else [f"{slide * n_slides} minutes", f"{slide} minutes"]
    )
    expected = frame.groupBy("k", F.window("ts", *lengths).alias("w")).agg(*aggregates)
    expected = expected.select("k", "w.start", "w.end", "s", "n", "d", "m")
    windowed = (
        w.tumble(frame, "ts", lengths[0])
        if n_slides == 1
        else w.hop(frame, "ts", lengths[1], lengths[0])
    )
    result = windowed.group_by("k").agg(*aggregates)
    assert sorted(map(tuple, result.collect()), key=repr) == sorted(
        map(tuple, expected.collect()), key=repr
    )


def test_windows_without_aggregates_have_every_row(rows: Any) -> None:
    frame = w.tumble(rows, "ts", "1 hour").dataframe()
    assert frame.columns == ["the key", "ts", "x", "window_start", "window_end", "window_time"]
    assert sorted(row.x for row in frame.collect()) == [1, 2, 3, 4]


def test_wrong_arguments_are_refused(rows: Any) -> None:
    with pytest.raises(sqlwin.SqlwinError, match="the DataFrame has no column `at`"):
        w.tumble(rows, "at", "5 minutes")
    windowed = w.tumble(rows, "ts", "5 minutes")
    with pytest.raises(sqlwin.SqlwinError, match=r"agg\(\) needs an aggregate"):
        windowed.agg()
    with pytest.raises(sqlwin.SqlwinError, match="column `y` does not exist"):
        windowed.agg("SUM(y)")
    with pytest.raises(
        sqlwin.SqlwinError, match=r"agg\(\) takes Columns, .* not a value of type int"
    ):
        windowed.agg(5)  # type: ignore[arg-type]
    with pytest.raises(sqlwin.SqlwinError, match=r"group_by\(\) takes .* not a value of type int"):
        windowed.group_by(5)  # type: ignore[arg-type]
    with pytest.raises(sqlwin.SqlwinError, match=r"'sum\(x\), max', which is not the name of a"):
        windowed.agg({"x": "sum(x), max"})
    with pytest.raises(sqlwin.SqlwinError, match="5 parsecs"):
        w.tumble(rows, "ts", "5 parsecs").agg("COUNT(*)")
    with pytest.raises(TypeError, match="size"):
        w.tumble(rows, "ts")
    with pytest.raises(TypeError, match="size"):
        w.tumble()
    assert isinstance(w.tumble(size="5 minutes", offset="1 minute"), w.Assigner)


def test_a_streaming_dataframe_needs_a_watermark(fresh_session: sqlwin.Session) -> None:
    stream = fresh_session.spark.readStream.format("rate").load()
    with pytest.raises(sqlwin.SqlwinError, match="needs a watermark for a streaming DataFrame"):
        w.tumble(stream, "timestamp", "5 minutes")
    windowed = w.tumble(stream, "timestamp", "5 minutes", watermark="5 seconds")
    assert windowed.agg("COUNT(*) AS n").isStreaming


@pytest.mark.long
def test_windows_of_a_dataframe_do_not_keep_spark_alive() -> None:
    # a process of its own, whose Spark may stop
    program = """
import sqlwin
from pyspark import SparkContext
from sqlwin import windows as w

with sqlwin.connect() as session:
    rows = session.sql("SELECT TIMESTAMP_NTZ '1970-01-01 00:00:00' AS ts")
    print(w.tumble(rows, "ts", "1 hour").agg(n="COUNT(*)").collect()[0].n)
print(SparkContext._active_spark_context)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.stdout == "1\nNone\n", done.stderr
