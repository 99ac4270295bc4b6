"""Windows over a DATE: the column stays a DATE, and only the window sees the midnights."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import sqlwin

WEEK = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(d), INTERVAL '7' DAY))"
EPOCH = date(1970, 1, 1)


@pytest.fixture(scope="module")
def days() -> list[date]:
    draw = random.Random(3)
    return [date(2026, 3, 29) + timedelta(days=draw.randrange(-40, 40)) for _ in range(60)]


@pytest.fixture
def dated(fresh_session: sqlwin.Session, tmp_path: Path, days: list[date]) -> sqlwin.Session:
    """Days in a table of Parquet, in a zone where a day has 23 hours."""
    values = ", ".join(f"('k{i % 3}', DATE '{day}', {i})" for i, day in enumerate(days))
    fresh_session.execute(f"""
        SET 'table.local-time-zone' = 'Europe/Berlin';
        CREATE TABLE t (k STRING, d DATE, v INT) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path / "t"}', 'format' = 'parquet');
        INSERT INTO t VALUES {values}, ('none', NULL, -1)""")
    return fresh_session


def rows(session: sqlwin.Session, sql: str) -> list[tuple[Any, ...]]:
    (result,) = session.execute(sql)
    return sorted(map(tuple, result.rows), key=str)


def window_end(day: date) -> datetime:
    end = day + timedelta(days=7 - (day - EPOCH).days % 7)
    return datetime(end.year, end.month, end.day)  # noqa: DTZ001  # a wall clock


def sorted_rows(found: Any) -> list[tuple[Any, ...]]:
    return sorted(found, key=str)


def test_rows_of_windows_have_the_date(dated: sqlwin.Session, days: list[date]) -> None:
    found = rows(dated, f"SELECT d, d + 1, CONCAT(k, d), typeof(d), window_end FROM {WEEK}")
    assert found == sorted_rows(
        (day, day + timedelta(days=1), f"k{i % 3}{day}", "date", window_end(day))
        for i, day in enumerate(days)
    )
    (result,) = dated.execute(f"SELECT * FROM {WEEK}")
    assert result.types == ["string", "date", "int", *["timestamp_ntz"] * 3]
    assert result.columns == ["k", "d", "v", "window_start", "window_end", "window_time"]


def test_aggregates_and_keys_read_the_date(dated: sqlwin.Session, days: list[date]) -> None:
    by_end: dict[datetime, list[date]] = {}
    for day in days:
        by_end.setdefault(window_end(day), []).append(day)
    found = rows(
        dated,
        f"SELECT window_end, MIN(d), MAX(d) + 1, COUNT(DISTINCT t.d), typeof(MAX(d)) FROM {WEEK} "
        "GROUP BY window_start, window_end HAVING MIN(d) > DATE '2026-03-01'",
    )
    assert found == sorted_rows(
        (end, min(ds), max(ds) + timedelta(days=1), len(set(ds)), "date")
        for end, ds in by_end.items()
        if min(ds) > date(2026, 3, 1)
    )


@pytest.mark.parametrize("alias", ["", " AS w(k, d, v, ws, window_end, wt)"])
def test_the_date_is_a_key_of_its_type(dated: sqlwin.Session, days: list[date], alias: str) -> None:
    (result,) = dated.execute(
        f"SELECT d, COUNT(*) AS n, CONCAT(d, '!') FROM {WEEK}{alias} "
        "WHERE d >= DATE '2026-03-10' GROUP BY d, window_end ORDER BY d DESC"
    )
    counts = Counter(day for day in days if day >= date(2026, 3, 10))
    assert list(map(tuple, result.rows)) == [
        (day, counts[day], f"{day}!") for day in sorted(counts, reverse=True)
    ]
    assert result.columns[0] == "d"


def test_sessions_and_top_n_have_the_date(dated: sqlwin.Session, days: list[date]) -> None:
    top = rows(
        dated,
        "SELECT d, d + 1 FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
        f"ORDER BY d DESC, v) AS n FROM {WEEK}) WHERE n = 1",
    )
    last = {window_end(day): day for day in sorted(days)}
    assert top == sorted_rows((day, day + timedelta(days=1)) for day in last.values())
    sessions = rows(
        dated,
        "SELECT MAX(d), typeof(MAX(d)), SUM(n) FROM (SELECT k, MAX(d) AS d, COUNT(*) AS n FROM "
        "TABLE(SESSION(TABLE t PARTITION BY k, DESCRIPTOR(d), INTERVAL '2' DAYS)) "
        "GROUP BY k, window_start, window_end)",
    )
    assert sessions == [(max(days), "date", len(days))]


def test_groupings_and_subqueries_have_the_date(dated: sqlwin.Session, days: list[date]) -> None:
    found = rows(
        dated,
        f"SELECT d, COUNT(*) FROM {WEEK} "
        "GROUP BY GROUPING SETS ((d, window_start, window_end), (window_start, window_end))",
    )
    per_week = Counter(map(window_end, days))
    assert found == sorted_rows([*Counter(days).items(), *((None, n) for n in per_week.values())])
    (count,) = rows(
        dated, f"SELECT COUNT(*) FROM t WHERE d IN (SELECT MIN(d) FROM {WEEK} GROUP BY window_end)"
    )
    firsts: dict[datetime, date] = {}
    for day in days:
        firsts[window_end(day)] = min(day, firsts.get(window_end(day), day))
    assert count == (sum(day in firsts.values() for day in days),)
