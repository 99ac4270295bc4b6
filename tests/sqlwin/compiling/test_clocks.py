"""Windows of TIMESTAMP_LTZ follow the clocks of the session's time zone in compiled texts."""

from __future__ import annotations

import datetime as dt
import re
from itertools import accumulate
from pathlib import Path
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from sqlglot import exp

import sqlwin
from planner.lowering.sql.dialects import DIALECTS
from planner.lowering.sql.targets import TARGETS
from sqlwin.session import Session
from tests.engines import engine
from tests.fuzz.compiled_roads import run_on_duckdb, run_on_spark
from tests.fuzz.values import EPOCH, clock_changes
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


def filled(length: str) -> str:
    by = "GROUP BY window_start, window_end FILL (n = 0)"
    window = f"TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL {length})"
    return f"SELECT window_start, COUNT(*) AS n FROM TABLE({window}) {by}"


@pytest.mark.parametrize("name", ["datafusion", "duckdb"])
@pytest.mark.parametrize(
    ("length", "starts"),
    [
        ("'3' MONTH", ["2018-01-01", "2018-04-01", "2018-07-01", "2018-10-01"]),
        # clocks go from 1:59 to 3:00
        ("'1' HOUR", ["2018-03-25 01", "2018-03-25 03", "2018-03-25 04", "2018-03-25 05"]),
    ],
    ids=["months", "hours"],
)
def test_windows_that_clocks_show_are_filled(length: str, starts: list[str], name: str) -> None:
    run_there = run_on_duckdb if name == "duckdb" else engine(name).run
    text = sqlwin.compile(filled(length), name, schema=schema("Europe/Berlin"))
    found = run_there(text, {"t": ROWS})["window_start"].to_pylist()
    size = len(starts[0])
    assert [str(time)[:size] for time in sorted(found)[:4]] == starts


@pytest.mark.parametrize("name", sorted(set(TARGETS) - {"clickhouse"}))
@pytest.mark.parametrize(
    "window",
    [
        "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' MONTH, INTERVAL '2' DAY)",
        "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' MONTH, INTERVAL '3' MONTH)",
        "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' WEEK, INTERVAL '2' MONTH)",
    ],
    ids=["TUMBLE", "HOP", "CUMULATE"],
)
def test_arithmetic_of_months_and_clocks_is_not_nested(window: str, name: str) -> None:
    query = (
        f"SELECT window_start, window_end, COUNT(*) AS n FROM TABLE({window}) "
        "GROUP BY window_start, window_end FILL (n = LINEAR)"
    )
    text = sqlwin.compile(query, name, schema=schema("Europe/Berlin"))
    assert deepest(text) <= 24
    assert len(text) < 30_000


def test_postgres_does_not_copy_the_arithmetic_of_clocks() -> None:
    # copies of copies of the month, the start and its offsets would take minutes and gigabytes
    text = sqlwin.compile(filled("'5' MONTH"), "postgres", schema=schema("Europe/Berlin"))
    for name in ("bounds", "offsets", "instants"):
        assert re.search(rf"{name}_of_all_windows (/\*.*\*/ )?AS MATERIALIZED", text), text


def deepest(text: str) -> int:
    """Return the most parentheses around a part of a text."""
    depths = accumulate({"(": 1, ")": -1}.get(character, 0) for character in text)
    return max(depths)


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


@pytest.mark.parametrize("name", ["datafusion", "duckdb"])
def test_a_window_time_is_compiled_by_an_offset_and_by_a_region(name: str) -> None:
    run = run_on_duckdb if name == "duckdb" else engine(name).run
    text = sqlwin.compile(TIMES_OF_WINDOWS, name, schema=schema("-03:30"))
    assert ends(run(text, {"t": ROWS.slice(0, 1)})) == ENDS[:2]
    text = sqlwin.compile(TIMES_OF_WINDOWS, name, schema=schema("Europe/Berlin"))
    assert ends(run(text, {"t": ROWS})) == ENDS


def test_instants_of_changing_clocks_are_those_of_python() -> None:
    # an hour, half an hour, a whole day
    for zone, year in (
        ("America/New_York", 2024),
        ("Australia/Lord_Howe", 2024),
        ("Pacific/Apia", 2011),
    ):
        moments = clock_changes(zone, year)
        times = [m + n * 1_800_000_000 - n % 2 for m in (*moments, 0) for n in range(-27, 28)]
        at = TARGETS["duckdb"].instant(exp.column("us"), zone)
        assert at is not None
        text = f"SELECT us, EPOCH_US({at.sql(dialect=DIALECTS['duckdb'])}) AS at FROM t"
        rows = run_on_duckdb(text, {"t": pa.table({"us": times})}).to_pylist()
        # the earlier of two instants, and the offset before a gap
        local = [EPOCH + dt.timedelta(microseconds=row["us"]) for row in rows]
        expected = [
            time.replace(tzinfo=ZoneInfo(zone), fold=0).astimezone(dt.UTC) for time in local
        ]
        assert [EPOCH + dt.timedelta(microseconds=row["at"]) for row in rows] == expected, zone


def test_fill_adds_no_hour_that_clocks_skip() -> None:
    query = f"{QUERY} FILL (n = 0)"
    text = sqlwin.compile(query, "duckdb", schema=schema("Europe/Berlin"))
    rows = {"t": ROWS.slice(0, 2)}
    assert hours(run_on_duckdb(text, rows)) == {"2018-03-25T01:00": 1, "2018-03-25T03:00": 1}
    text = sqlwin.compile(query, "duckdb", schema=schema("+01:00"))
    assert hours(run_on_duckdb(text, rows)) == {"2018-03-25T01:00": 1, "2018-03-25T02:00": 1}


@pytest.mark.parametrize("query", [QUERY, TIMES_OF_WINDOWS], ids=["clocks", "instant"])
def test_datafusion_fails_for_times_of_unknown_clocks(query: str) -> None:
    def rows(zone: str, *times: str) -> tuple[list[str], list[str]]:
        instants = pa.array(map(dt.datetime.fromisoformat, times), pa.timestamp("us", "UTC"))
        tables = {"t": pa.table({"ts": instants})}
        return tuple(
            sorted(map(str, run(sqlwin.compile(query, name, schema=schema(zone)), tables)[0]))
            for name, run in (("duckdb", run_on_duckdb), ("datafusion", engine("datafusion").run))
        )

    expected, found = rows("Europe/Berlin", "2099-07-01 12:00:00Z", "2099-12-31 21:30:00Z")
    assert found == expected
    with pytest.raises(Exception, match="no summer time in Europe/Berlin from 2100 on: 2100-07-01"):
        rows("Europe/Berlin", "2100-07-01 12:00:00Z")
    # its clocks never change
    expected, found = rows("Asia/Kolkata", "2100-07-01 12:00:00Z")
    assert found == expected


def test_an_offset_is_added_on_any_engine() -> None:
    text = sqlwin.compile(QUERY, "clickhouse", schema=schema("+05:30"))
    assert "+ 19800000000" in text
    text = sqlwin.compile(QUERY, "duckdb", schema=schema("-03:30"))
    assert hours(run_on_duckdb(text, {"t": ROWS.slice(0, 1)})) == {"2018-03-24T21:00": 1}


def test_units_of_instants_begin_on_clocks_that_never_change(tmp_path: Path) -> None:
    pq.write_table(ROWS, tmp_path / "t.parquet")
    query = """
        SELECT DATE_TRUNC('DAY', ts) AS d, DATE_TRUNC('HOUR', ts) AS h, DATE_TRUNC('WEEK', ts) AS w,
            TIMESTAMPDIFF(HOUR, DATE_TRUNC('YEAR', ts), ts) AS n, DATE_FORMAT(ts, 'dd HH:mm') AS f
        FROM t
    """
    with Session(unstarted_spark(), settings={"table.local-time-zone": "-03:30"}) as session:
        (result,) = session.execute(f"WITH t AS (FROM '{tmp_path}/t.parquet') {query}")
        here = result.to_arrow()
    assert here["d"][0].as_py() == dt.datetime.fromisoformat("2018-03-24T03:30:00Z")
    assert here["h"][0].as_py() == dt.datetime.fromisoformat("2018-03-25T00:30:00Z")
    assert here["n"][0].as_py() == 83 * 24 - 3
    assert here["f"][0].as_py() == "24 21:00"
    for name, run in (("duckdb", run_on_duckdb), ("datafusion", engine("datafusion").run)):
        there = run(sqlwin.compile(query, name, schema=schema("-03:30")), {"t": ROWS})
        assert there.to_pylist() == here.to_pylist(), name
    with pytest.raises(sqlwin.SqlwinError, match="DAY of times on clocks that change"):
        sqlwin.compile(query, "duckdb", schema=schema("Europe/Berlin"))


@pytest.mark.parametrize(
    ("name", "zone", "known"),
    [("clickhouse", "Europe/Berlin", "UTC"), ("postgres", "CET", "Europe/Rome")],
)
def test_clocks_that_an_engine_may_not_know_are_refused(name: str, zone: str, known: str) -> None:
    with pytest.raises(sqlwin.SqlwinError, match=f"on the clocks of {zone}, which "):
        sqlwin.compile(QUERY, name, schema=schema(zone))
    assert sqlwin.compile(QUERY, name, schema=schema(known))
