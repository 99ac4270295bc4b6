"""Window queries over one table, their rows, and a session that must not start Spark."""

from __future__ import annotations

import datetime as dt
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import pyarrow as pa

from runtime.simulator.check import SimulatedStream
from sqlwin.control import SessionControl
from sqlwin.execution.simulated import Simulated
from sqlwin.session import Session
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.simulated import stream_over
from sqlwin.testing.tables import GivenTable, create_tables
from tests.unstarted import unstarted_spark

COLUMNS = (("ts", "TIMESTAMP(3)"), ("k", "STRING"), ("v", "BIGINT"), ("d", "DOUBLE"))
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("d", pa.float64())]
)
START = dt.datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock
AGGREGATES = "COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, AVG(d) AS a"
# equal ranges, ranges that share a start or an end or overlap, and ranges without rows
_RANGES = """(SELECT * FROM VALUES
  ('p', TIMESTAMP_NTZ '2024-01-01 00:00:00', TIMESTAMP_NTZ '2024-01-01 00:00:12'),
  ('q', TIMESTAMP_NTZ '2024-01-01 00:00:05', TIMESTAMP_NTZ '2024-01-01 00:00:12'),
  ('r', TIMESTAMP_NTZ '2024-01-01 00:00:05', TIMESTAMP_NTZ '2024-01-01 00:00:12'),
  ('s', TIMESTAMP_NTZ '2024-01-01 00:00:00', TIMESTAMP_NTZ '2024-01-01 00:00:05'),
  ('t', TIMESTAMP_NTZ '1969-01-01 00:00:00', TIMESTAMP_NTZ '2024-01-01 00:00:10'),
  ('u', TIMESTAMP_NTZ '2024-01-01 00:00:09', TIMESTAMP_NTZ '2024-01-01 00:00:09'),
  ('v', TIMESTAMP_NTZ '2024-01-01 00:00:00', NULL) AS b(name, starts, ends))"""
RANGES = f"RANGES(TABLE t, DESCRIPTOR(ts), {_RANGES}, DESCRIPTOR(starts, ends))"
WINDOWS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS)",
    "tumble_offset": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS, INTERVAL '2' SECONDS)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECONDS, INTERVAL '6' SECONDS)",
    "hop_uneven": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECONDS, INTERVAL '10' SECONDS)",
    "hop_many": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECONDS, INTERVAL '20' SECONDS)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECONDS, INTERVAL '12' SECONDS)",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECONDS)",
    "ranges": RANGES,
    "session_row_gap": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), v * INTERVAL '2.5' SECONDS)",
}

_NARROW = """SELECT window_time AS wt, k, COUNT(*) AS n, SUM(v) AS s
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
          GROUP BY k, window_start, window_end, window_time"""
_WIDE = f"TABLE(TUMBLE(({_NARROW}), DESCRIPTOR(wt), INTERVAL '20' SECONDS))"
_WINDOWS_OF_K = """SELECT k, window_start, window_end, COUNT(*) AS n, MAX(v) AS hi
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
          GROUP BY k, window_start, window_end"""
_ON = "a.window_start = b.window_start AND a.window_end = b.window_end"
# Steps on whole windows: groups, ranks and joins, alone and on top of each other
ON_WHOLE_WINDOWS = {
    "group of a window over windows": f"""
        SELECT window_end, SUM(x) AS s, COUNT(*) AS c FROM (
          SELECT window_start, window_end, n + 0 AS x FROM {_WIDE})
        GROUP BY window_start, window_end""",
    "top of a window over windows": f"""
        SELECT window_end, n FROM (SELECT *, RANK() OVER (
          PARTITION BY window_start, window_end ORDER BY n DESC) AS r FROM {_WIDE})
        WHERE r = 1""",
    "top by an expression": f"""
        SELECT window_end, k, r FROM (SELECT *, DENSE_RANK() OVER (
          PARTITION BY window_start, window_end ORDER BY n % 2, hi DESC NULLS LAST) AS r
        FROM ({_WINDOWS_OF_K})) WHERE r BETWEEN 2 AND 3""",
    "group of a top": f"""
        SELECT window_end, COUNT(*) AS c FROM (
          SELECT * FROM (SELECT *, RANK() OVER (
            PARTITION BY window_start, window_end ORDER BY n DESC) AS r
          FROM ({_WINDOWS_OF_K})) WHERE r <= 2)
        GROUP BY window_start, window_end""",
    "first rows": f"""
        SELECT k, window_end, v FROM (SELECT *, ROW_NUMBER() OVER (
          PARTITION BY window_start, window_end, k ORDER BY v, d, ts) AS rn
        FROM TABLE({WINDOWS["hop"]})) WHERE rn = 1""",
    "inner join": f"""
        SELECT a.k, a.window_end, a.n, b.n AS m FROM ({_WINDOWS_OF_K}) AS a
        JOIN ({_WINDOWS_OF_K}) AS b ON {_ON} AND a.hi = b.n AND a.n + b.n > 1""",
    "full join": f"""
        SELECT a.k, a.window_end, b.k AS l, b.window_end AS e FROM ({_WINDOWS_OF_K}) AS a
        FULL JOIN ({_WINDOWS_OF_K}) AS b ON {_ON} AND a.k = b.k AND a.n < b.hi""",
    "left join with conditions": f"""
        SELECT a.k, a.window_end, b.hi FROM ({_WINDOWS_OF_K}) AS a
        LEFT JOIN ({_WINDOWS_OF_K}) AS b ON {_ON} AND a.k = b.k AND b.hi > 0""",
    "semi join": f"""
        SELECT k, window_end FROM ({_WINDOWS_OF_K}) AS a WHERE EXISTS (
          SELECT * FROM ({_WINDOWS_OF_K}) AS b WHERE {_ON} AND a.n = b.hi)""",
    "anti join": f"""
        SELECT k, window_end FROM ({_WINDOWS_OF_K}) AS a WHERE NOT EXISTS (
          SELECT * FROM ({_WINDOWS_OF_K}) AS b WHERE {_ON} AND a.n = b.hi)""",
    "join of windows of another width": f"""
        SELECT a.window_end, a.n, b.n AS m FROM (
          SELECT window_start, window_end, SUM(n) AS n FROM {_WIDE}
          GROUP BY window_start, window_end) AS a
        JOIN (SELECT window_start, window_end, COUNT(*) AS n
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '20' SECONDS))
          GROUP BY window_start, window_end) AS b ON {_ON}""",
    "window over a join": f"""
        SELECT window_end, SUM(m) AS m FROM TABLE(TUMBLE((
          SELECT a.window_time AS wt, a.n * b.n AS m FROM (
            SELECT window_start, window_end, window_time, k, COUNT(*) AS n
            FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
            GROUP BY window_start, window_end, window_time, k) AS a
          JOIN ({_WINDOWS_OF_K}) AS b ON {_ON} AND a.k = b.k
        ), DESCRIPTOR(wt), INTERVAL '10' SECONDS)) GROUP BY window_start, window_end""",
    "window over a top": """
        SELECT window_end, COUNT(*) AS c FROM TABLE(TUMBLE((
          SELECT wt, k FROM (SELECT wt, k, RANK() OVER (
            PARTITION BY window_start, window_end ORDER BY n DESC) AS r
          FROM (SELECT window_start, window_end, window_time AS wt, k, COUNT(*) AS n
            FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
            GROUP BY window_start, window_end, window_time, k)) WHERE r = 1
        ), DESCRIPTOR(wt), INTERVAL '10' SECONDS)) GROUP BY window_start, window_end""",
}


@cache
def session() -> Session:
    """Return a session that must not start Spark."""
    return Session(unstarted_spark(), settings={})


@cache
def _directory() -> Path:
    """Return the directory of the tables, which is part of a stream's identity."""
    return Path(mkdtemp())


def rows_table(rows: list[tuple]) -> pa.Table:
    """Return rows (time in ms or None, k, v, d) as a table."""
    times = [None if ms is None else START + dt.timedelta(milliseconds=ms) for ms, *_ in rows]
    others = list(zip(*(rest for _, *rest in rows), strict=True)) or [(), (), ()]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip((times, *others), SCHEMA, strict=True)], schema=SCHEMA
    )


@cache
def simulated(
    sql: str,
    delay: str = "2",
    settings: tuple[tuple[str, str], ...] = (),
    tables: tuple[str, ...] = ("t",),
    keys: tuple[tuple[str, tuple[str, ...]], ...] = (),
) -> Simulated:
    """Return a query over tables whose watermark is `delay` seconds behind their rows.

    `keys` are tables with a PRIMARY KEY, and its columns.
    """
    mark = ("ts", f"`ts` - INTERVAL '{delay}' SECOND")
    given = [
        GivenTable(name, SCHEMA.empty_table(), COLUMNS, mark, dict(keys).get(name, ()))
        for name in tables
    ]
    create_tables(session(), given, _directory())
    for key, value in settings:
        session().execute(f"SET '{key}' = '{value}'")
    try:
        result = SessionControl(session()).simulated(parse_statement(sql))
    finally:
        for key, _ in settings:
            session().execute(f"RESET '{key}'")
    assert isinstance(result, Simulated), result
    return result


def stream(sql: str, rows: list[tuple], **options) -> SimulatedStream:
    """Return the stream of a query over rows in their order of arrival."""
    return stream_over(simulated(sql, **options), {"t": rows_table(rows)})


def of_window(name: str) -> str:
    """Return a query that aggregates one of WINDOWS by key."""
    return (
        f"SELECT k, window_start, window_end, {AGGREGATES} FROM TABLE({WINDOWS[name]}) "
        "GROUP BY k, window_start, window_end"
    )
