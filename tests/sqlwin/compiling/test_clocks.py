"""Windows of TIMESTAMP_LTZ follow the clocks of the session's time zone in compiled texts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from sqlwin.session import Session
from tests.engines import engine
from tests.fuzz.compiled_roads import run_on_duckdb, run_on_spark
from tests.unstarted import unstarted_spark

QUERY = """
    SELECT window_start, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' HOUR))
    GROUP BY window_start, window_end
"""
# The nights in which Berlin's clocks went forward, and back
TIMES = (
    "2018-03-25 00:30:00Z",
    "2018-03-25 01:30:00Z",
    "2018-10-28 00:30:00Z",
    "2018-10-28 01:30:00Z",
)
HOURS = {"2018-03-25T01:00": 1, "2018-03-25T03:00": 1, "2018-10-28T02:00": 2}
TIMES_OF_WINDOWS = """
    SELECT window_time
    FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '30' MINUTE, INTERVAL '1' HOUR))
"""
# A time that clocks skip moves forward by the length of the gap, one that they show twice is the
# earlier instant
ENDS = [
    "2018-03-25 00:59:59.999000+00:00",
    "2018-03-25 01:29:59.999000+00:00",
    "2018-03-25 01:59:59.999000+00:00",
    "2018-03-25 02:29:59.999000+00:00",
    *(["2018-10-28 00:59:59.999000+00:00"] * 2),
    *(["2018-10-28 02:29:59.999000+00:00"] * 2),
]
ROWS = pa.table({"ts": pa.array(map(dt.datetime.fromisoformat, TIMES), pa.timestamp("us", "UTC"))})


def schema(zone: str) -> str:
    return f"SET 'table.local-time-zone' = '{zone}'; CREATE TABLE t (ts TIMESTAMP_LTZ(6));"


def hours(rows: pa.Table) -> dict[str, int]:
    return {row["window_start"].isoformat(timespec="minutes"): row["n"] for row in rows.to_pylist()}


def ends(rows: pa.Table) -> list[str]:
    return sorted(str(time.astimezone(dt.UTC)) for time in rows["window_time"].to_pylist())


def test_hours_are_those_of_clocks_in_berlin() -> None:
    text = sqlwin.compile(QUERY, "duckdb", schema=schema("Europe/Berlin"))
    assert hours(run_on_duckdb(text, {"t": ROWS})) == HOURS


def test_hours_are_those_of_clocks_in_berlin_on_datafusion() -> None:
    text = sqlwin.compile(QUERY, "datafusion", schema=schema("Europe/Berlin"))
    assert hours(engine("datafusion").run(text, {"t": ROWS})) == HOURS


def test_hours_are_those_of_clocks_in_berlin_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "0.parquet")
    text = sqlwin.compile(QUERY, "spark", schema=schema("Europe/Berlin"))
    assert hours(run_on_spark(spark, tmp_path, text, {"t": ROWS})) == HOURS

    text = sqlwin.compile(TIMES_OF_WINDOWS, "spark", schema=schema("Europe/Berlin"))
    assert ends(run_on_spark(spark, tmp_path, text, {"t": ROWS})) == ENDS


def test_window_time_is_the_instant_at_which_clocks_show_the_end(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "t.parquet")
    with Session(unstarted_spark(), settings={"table.local-time-zone": "Europe/Berlin"}) as session:
        (result,) = session.execute(f"WITH t AS (FROM '{tmp_path}/t.parquet') {TIMES_OF_WINDOWS}")
        assert ends(result.to_arrow()) == ENDS


def test_a_window_time_by_an_offset_is_compiled_and_one_by_a_region_only_for_spark() -> None:
    text = sqlwin.compile(TIMES_OF_WINDOWS, "duckdb", schema=schema("-03:30"))
    assert ends(run_on_duckdb(text, {"t": ROWS.slice(0, 1)})) == ENDS[:2]
    with pytest.raises(sqlwin.SqlwinError, match="on the clocks of Europe/Berlin, which DuckDB"):
        sqlwin.compile(TIMES_OF_WINDOWS, "duckdb", schema=schema("Europe/Berlin"))


def test_an_offset_is_added_on_any_engine() -> None:
    text = sqlwin.compile(QUERY, "clickhouse", schema=schema("+05:30"))
    assert "+ 19800000000" in text
    text = sqlwin.compile(QUERY, "duckdb", schema=schema("-03:30"))
    assert hours(run_on_duckdb(text, {"t": ROWS.slice(0, 1)})) == {"2018-03-24T21:00": 1}


def test_clocks_of_a_region_are_refused_on_clickhouse() -> None:
    with pytest.raises(sqlwin.SqlwinError, match="on the clocks of Europe/Berlin, which Click"):
        sqlwin.compile(QUERY, "clickhouse", schema=schema("Europe/Berlin"))
