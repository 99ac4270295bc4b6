"""TIMESTAMPs without a zone around clock changes, on every path, compared with Python's arithmetic.

A value without a zone is the same in every session: no path may convert it through the session's
time zone, where an hour in spring does not exist and an hour in autumn occurs twice.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import sqlwin

# Hours that clocks skip, and hours that occur twice
CHANGES = {
    "Europe/Berlin": ("2026-03-29 02:00:00", "2026-10-25 02:00:00"),
    "America/Sao_Paulo": ("2018-11-04 00:00:00", "2018-02-17 23:00:00"),
    "Australia/Lord_Howe": ("2026-10-04 02:00:00", "2026-04-05 01:30:00"),
}
SOURCES = [
    (connector, mode)
    for connector in ("memory", "csv", "json", "parquet", "orc")
    for mode in ("batch", "streaming")
    if (connector, mode) != ("memory", "streaming")
]
ZONES = [*CHANGES]
# Each source in one zone, and the others
CASES = [
    pytest.param(
        *source,
        ZONES[(number + turn) % len(ZONES)],
        marks=pytest.mark.slow if turn else pytest.mark.long if number else (),
    )
    for turn in range(len(ZONES))
    for number, source in enumerate(SOURCES)
]


def times(zone: str) -> list[datetime]:
    """Return times within and around the hours of the clock changes."""
    draw = random.Random(zone)
    return [
        datetime.fromisoformat(change) + timedelta(minutes=draw.randrange(-120, 240))
        for change in CHANGES[zone]
        for _ in range(40)
    ]


def declare(session: sqlwin.Session, connector: str, rows: list[datetime], path: Path) -> None:
    """Let sqlwin write the table `t` with the times as TIMESTAMP and as text."""
    options = (
        "'connector' = 'memory'"
        if connector == "memory"
        else f"'connector' = 'filesystem', 'path' = '{path / 't'}', 'format' = '{connector}'"
    )
    values = ", ".join(f"(TIMESTAMP '{at}', '{at}', {i})" for i, at in enumerate(rows))
    computed = "" if connector == "memory" else "made AS TO_TIMESTAMP(s), "
    session.execute(f"""
        CREATE TABLE t (ts TIMESTAMP(3), s STRING, v INT, {computed}WATERMARK FOR ts AS
          ts - INTERVAL '400' DAYS) WITH ({options});
        INSERT INTO t VALUES {values};
    """)


def answer(session: sqlwin.Session, sql: str) -> list[tuple[Any, ...]]:
    (result,) = session.execute(sql)
    table = result.to_arrow()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(("connector", "mode", "zone"), CASES)
def test_wall_clocks_are_the_same_in_every_zone(
    fresh_session: sqlwin.Session, tmp_path: Path, connector: str, mode: str, zone: str
) -> None:
    session, rows = fresh_session, times(zone)
    session.execute(f"SET 'table.local-time-zone' = '{zone}'")
    declare(session, connector, rows, tmp_path)
    session.execute(f"SET 'execution.runtime-mode' = '{mode}'")
    first = datetime.fromisoformat(CHANGES[zone][0]) + timedelta(minutes=15)
    made = "TO_TIMESTAMP(s)" if connector == "memory" else "made"
    day = first.replace(hour=0, minute=0)
    actual = answer(
        session,
        f"""SELECT ts, {made}, TO_TIMESTAMP(s, 'yyyy-MM-dd HH:mm:ss'), CAST(ts AS STRING),
          CAST(s AS TIMESTAMP(3)), DATE_FORMAT(ts, 'dd.MM.yyyy HH:mm'), DATE_TRUNC('HOUR', ts),
          FLOOR(ts TO HOUR), TIMESTAMPDIFF(MINUTE, TIMESTAMP '{day}', ts), CAST(ts AS DATE),
          HOUR(ts), ts + INTERVAL '1' HOUR, TIMESTAMPADD(HOUR, 1, ts),
          CASE WHEN v >= 0 THEN ts ELSE TIMESTAMP '{first}' END
        FROM t WHERE ts >= TIMESTAMP '{first}'""",
    )
    hour = timedelta(hours=1)
    expected = [
        (
            *(at, at, at, f"{at}", at, f"{at:%d.%m.%Y %H:%M}"),
            *(at.replace(minute=0), at.replace(minute=0)),
            *((at - day) // timedelta(minutes=1) if at >= day else -((day - at) // (hour / 60)),),
            *(at.date(), at.hour, at + hour, at + hour, at),
        )
        for at in rows
        if at >= first
    ]
    assert sorted(actual) == sorted(expected)

    for column in ("ts", "made"):
        table, time = "TABLE t", column
        if column == "made":
            table, time = f"(SELECT {made} AS made, v FROM t)", "made"
            if mode == "streaming":
                continue  # a stream has one watermark column
        windows = answer(
            session,
            f"""SELECT window_start, COUNT(*) FROM TABLE(TUMBLE({table}, DESCRIPTOR({time}),
              INTERVAL '30' MINUTES)) WHERE window_start >= TIMESTAMP '{first}'
              GROUP BY window_start, window_end""",
        )
        starts = Counter(at.replace(minute=at.minute // 30 * 30) for at in rows)
        assert sorted(windows) == sorted((s, n) for s, n in starts.items() if s >= first)

    if mode == "batch":
        joined = answer(
            session,
            "SELECT a.ts, b.ts FROM t AS a JOIN t AS b ON a.ts = b.ts - INTERVAL '1' HOUR",
        )
        pairs = [(a, b) for a in rows for b in rows if a == b - hour]
        assert sorted(joined) == sorted(pairs)
