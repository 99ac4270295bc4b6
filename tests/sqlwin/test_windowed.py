"""Windows of DataFrames: the plan and the rows of the SQL, on Spark."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest

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
    with pytest.raises(sqlwin.SqlwinError, match=r"agg\(\) takes SQL such as .* not a Column"):
        windowed.agg(rows["x"])
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
