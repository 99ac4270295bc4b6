"""Windows of weeks, months, quarters and years on random rows, compared with DuckDB's date_trunc."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.marks import among
from tests.oracle import same_rows


@dataclass(frozen=True)
class CalendarOracle:
    """sqlwin's function, and DuckDB's start and ends of the windows of the row at `ts`."""

    name: str
    function: str
    starts: str
    ends: str

    def __str__(self) -> str:
        return self.name


def tumble(name: str, size: str, start: str, offset: str = "") -> CalendarOracle:
    arguments = f"INTERVAL {size}" + (f", INTERVAL {offset}" if offset else "")
    return CalendarOracle(name, f"TUMBLE(TABLE data, DESCRIPTOR(ts), {arguments})", f"[{start}]",
                          f"[s + INTERVAL {size}]")  # fmt: skip


def cumulate(name: str, step: str, size: str, start: str, ends: str) -> CalendarOracle:
    function = f"CUMULATE(TABLE data, DESCRIPTOR(ts), INTERVAL {step}, INTERVAL {size})"
    return CalendarOracle(name, function, f"[{start}]", ends)


WINDOWS = [
    tumble("week", "'1' WEEK", "date_trunc('week', ts)"),
    tumble("month", "'1' MONTH", "date_trunc('month', ts)"),
    tumble("quarter", "'1' QUARTER", "date_trunc('quarter', ts)"),
    tumble("year", "'1' YEAR", "date_trunc('year', ts)"),
    tumble("month from the 15th", "'1' MONTH",
           "date_trunc('month', ts - INTERVAL 14 DAYS) + INTERVAL 14 DAYS", "'14' DAYS"),
    tumble("fiscal year from April", "'1' YEAR",
           "date_trunc('year', date_trunc('month', ts) - INTERVAL 3 MONTHS) + INTERVAL 3 MONTHS",
           "'3' MONTHS"),
    CalendarOracle(
        "three months every month",
        "HOP(TABLE data, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '3' MONTHS)",
        "list_transform([0, 1, 2], lambda k: date_trunc('month', ts) - to_months(k))",
        "[s + INTERVAL 3 MONTHS]",
    ),
    cumulate("month to date by day", "'1' DAY", "'1' MONTH", "date_trunc('month', ts)",
             "generate_series(date_trunc('day', ts) + INTERVAL 1 DAY, s + INTERVAL 1 MONTH, "
             "INTERVAL 1 DAY)"),
    cumulate("year to date by quarter", "'1' QUARTER", "'1' YEAR", "date_trunc('year', ts)",
             "generate_series(date_trunc('quarter', ts) + INTERVAL 3 MONTHS, "
             "s + INTERVAL 1 YEAR, INTERVAL 3 MONTHS)"),
    cumulate("quarter to date by week", "'1' WEEK", "'1' QUARTER", "date_trunc('quarter', ts)",
             "list_filter(list_transform(range(1, 15), lambda i: "
             "least(s + to_days(CAST(7 * i AS INT)), s + INTERVAL 3 MONTHS)), "
             "lambda e: e > ts AND e > s)"),
]  # fmt: skip


def random_rows(zone: str | None = None) -> pa.Table:
    rng = np.random.default_rng(5)
    n_rows = 300
    seconds = rng.integers(-500 * 86_400, 900 * 86_400, n_rows)
    midnights = seconds // 86_400 * 86_400
    times = np.where(rng.random(n_rows) < 0.2, midnights, seconds).tolist()
    return pa.table(
        {
            "ts": pa.array([None if t % 29 == 0 else t * 1_000_000 for t in times],
                           pa.timestamp("us", zone)),
            "k": pa.array(rng.choice(["a", "b", None], n_rows).tolist()),
            "i": pa.array(rng.integers(0, 50, n_rows).tolist(), pa.int64()),
        }
    )  # fmt: skip


def expected(data: pa.Table, window: CalendarOracle) -> list[tuple[Any, ...]]:
    con = duckdb.connect()
    con.register("data", data)
    query = f"""
        SELECT k, s, e, COUNT(*), SUM(i), COUNT(DISTINCT i)
        FROM (SELECT *, unnest(list_distinct({window.ends})) AS e
              FROM (SELECT *, unnest({window.starts}) AS s FROM data WHERE ts IS NOT NULL))
        GROUP BY k, s, e
    """
    return con.execute(query).fetchall()


def query_of(window: CalendarOracle) -> str:
    return f"""
        SELECT k, window_start, window_end, COUNT(*), SUM(i), COUNT(DISTINCT i)
        FROM TABLE({window.function}) GROUP BY k, window_start, window_end
    """


def rows_of(session: Any, query: str) -> list[Any]:
    return [tuple(row) for row in session.sql(query).collect()]


def one_phase(session: Any, query: str) -> list[Any]:
    session.execute("SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'")
    try:
        assert "GlobalWindowAggregate" not in session.explain(query)
        return rows_of(session, query)
    finally:
        session.execute("RESET 'table.optimizer.agg-phase-strategy'")


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", among(WINDOWS, slow=WINDOWS[::2]), ids=str)
def test_calendar_windows_equal_brute_force_in_the_scan_and_in_one_phase(
    session: Any, window: CalendarOracle, tmp_path: Path
) -> None:
    data = random_rows()
    pq.write_table(data, tmp_path / "data.parquet", row_group_size=70)
    session.execute(f"""
        CREATE OR REPLACE TABLE data WITH (
          'connector' = 'filesystem', 'format' = 'parquet', 'path' = '{tmp_path}/data.parquet')
    """)
    expected_rows = expected(data, window)
    assert "ArrowScanLocalWindowAggregate" in session.explain(query_of(window))
    same_rows(rows_of(session, query_of(window)), expected_rows)
    same_rows(one_phase(session, query_of(window)), expected_rows)


@pytest.mark.variants(1)
@pytest.mark.parametrize("window", [WINDOWS[4], WINDOWS[6], WINDOWS[9]], ids=str)
def test_calendar_windows_over_any_dataframe_equal_brute_force(
    session: Any, window: CalendarOracle, tmp_path: Path
) -> None:
    data = random_rows()
    pq.write_table(data, tmp_path / "data.parquet")
    session.execute("DROP TABLE IF EXISTS data")
    session.register("data", session.spark.read.parquet(str(tmp_path / "data.parquet")))
    assert "ArrowScan" not in session.explain(query_of(window))
    same_rows(rows_of(session, query_of(window)), expected(data, window))


@pytest.mark.long
def test_months_of_instants_begin_at_local_midnight(session: Any, tmp_path: Path) -> None:
    data = random_rows("UTC")
    pq.write_table(data, tmp_path / "data.parquet")
    session.execute("DROP TABLE IF EXISTS data")
    session.register("data", session.spark.read.parquet(str(tmp_path / "data.parquet")))
    zone = ZoneInfo("America/St_Johns")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    local = [
        None if t is None else (t.astimezone(zone).replace(tzinfo=UTC) - epoch) // timedelta(
            microseconds=1)
        for t in data.column("ts").to_pylist()
    ]  # fmt: skip
    on_the_wall = data.set_column(0, "ts", pa.array(local, pa.timestamp("us")))
    session.execute("SET 'table.local-time-zone' = 'America/St_Johns'")
    try:
        for window in (WINDOWS[1], WINDOWS[7]):
            expected_rows = expected(on_the_wall, window)
            same_rows(rows_of(session, query_of(window)), expected_rows)
            same_rows(one_phase(session, query_of(window)), expected_rows)
    finally:
        session.execute("SET 'table.local-time-zone' = 'UTC'")
