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
from sqlwin.testing.tables import GivenTable, create_tables
from tests.unstarted import unstarted_spark

COLUMNS = (("ts", "TIMESTAMP(3)"), ("k", "STRING"), ("v", "BIGINT"), ("d", "DOUBLE"))
SCHEMA = pa.schema(
    [("ts", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("d", pa.float64())]
)
START = dt.datetime(2024, 1, 1)  # noqa: DTZ001  # a wall clock
AGGREGATES = "COUNT(*) AS n, SUM(v) AS s, MIN(v) AS lo, MAX(v) AS hi, AVG(d) AS a"
WINDOWS = {
    "tumble": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS)",
    "tumble_offset": "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS, INTERVAL '2' SECONDS)",
    "hop": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '2' SECONDS, INTERVAL '6' SECONDS)",
    "hop_uneven": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '4' SECONDS, INTERVAL '10' SECONDS)",
    "hop_many": "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' SECONDS, INTERVAL '20' SECONDS)",
    "cumulate": "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '3' SECONDS, INTERVAL '12' SECONDS)",
    "session": "SESSION(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECONDS)",
}


@cache
def session() -> Session:
    """Return a session that must not start Spark."""
    return Session(unstarted_spark(), settings={})


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
) -> Simulated:
    """Return a query over tables whose watermark is `delay` seconds behind their rows."""
    mark = ("ts", f"`ts` - INTERVAL '{delay}' SECOND")
    given = [GivenTable(name, SCHEMA.empty_table(), COLUMNS, mark) for name in tables]
    create_tables(session(), given, Path(mkdtemp()))
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
    return simulated(sql, **options).stream({"t": rows_table(rows)})


def of_window(name: str) -> str:
    """Return a query that aggregates one of WINDOWS by key."""
    return (
        f"SELECT k, window_start, window_end, {AGGREGATES} FROM TABLE({WINDOWS[name]}) "
        "GROUP BY k, window_start, window_end"
    )
