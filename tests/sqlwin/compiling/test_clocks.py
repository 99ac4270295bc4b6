"""Windows of TIMESTAMP_LTZ follow the clocks of the session's time zone in compiled texts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sqlwin
from tests.engines import engine
from tests.fuzz.compiled_roads import run_on_duckdb, run_on_spark

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
ROWS = pa.table(
    {"ts": pa.array(map(dt.datetime.fromisoformat, TIMES), pa.timestamp("us", "UTC"))}
)


def schema(zone: str) -> str:
    return f"SET 'table.local-time-zone' = '{zone}'; CREATE TABLE t (ts TIMESTAMP_LTZ(6));"


def hours(rows: pa.Table) -> dict[str, int]:
    return {
        row["window_start"].isoformat(timespec="minutes"): row["n"] for row in rows.to_pylist()
    }


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


def test_an_offset_is_added_on_any_engine() -> None:
    text = sqlwin.compile(QUERY, "clickhouse", schema=schema("+05:30"))
    assert "+ 19800000000" in text
    text = sqlwin.compile(QUERY, "duckdb", schema=schema("-03:30"))
    assert hours(run_on_duckdb(text, {"t": ROWS.slice(0, 1)})) == {"2018-03-24T21:00": 1}


def test_clocks_of_a_region_are_refused_on_clickhouse() -> None:
    with pytest.raises(sqlwin.SqlwinError, match="on the clocks of Europe/Berlin, which Click"):
        sqlwin.compile(QUERY, "clickhouse", schema=schema("Europe/Berlin"))
