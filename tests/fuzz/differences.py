"""Runs random queries in this process and as simulated streams, and compares their rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import final_rows_of
from runtime.simulator.compare import Row, difference
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.parse import parse_statement
from sqlwin.testing.tables import GivenTable, create_tables
from tests.fuzz.outcome import HangError, limited
from tests.fuzz.queries import COLUMNS, SECOND_US, Draw, RandomQuery
from tests.unstarted import NeedsSparkError, unstarted_spark

# Random histories of each stream, besides the one that is cut at every row
N_HISTORIES = 1


class Roads:
    """Runs random queries on all roads without Spark.

    Attributes:
        counts: Queries compared, by road.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.session = Session(unstarted_spark(), settings={})
        self.counts = {"batch": 0, "stream": 0, "spark": 0}

    def check(self, seed: int) -> str | None:
        """Return the fault of the query with a seed, or None."""
        drawn = Draw(seed).query()
        try:
            with limited():
                fault = self._check(drawn, seed)
        except NeedsSparkError:
            self.counts["spark"] += 1
            return None
        except (Exception, HangError) as error:
            fault = f"{type(error).__name__}: {error}"
        if fault is None:
            return None
        return f"seed {seed}, zone {drawn.zone}: {fault}\n{drawn.sql}\n{_shown(drawn.rows)}"

    def _check(self, drawn: RandomQuery, seed: int) -> str | None:
        times = [row["ts"] for row in drawn.rows if row["ts"] is not None]
        delay = (max(times, default=0) - min(times, default=0)) // SECOND_US + 1
        column = "tz" if "DESCRIPTOR(tz)" in drawn.sql else "ts"
        mark = (column, f"`{column}` - INTERVAL '{delay}' SECOND")
        given = GivenTable("t", drawn.table, COLUMNS, mark)
        self.session.execute(f"SET 'table.local-time-zone' = '{drawn.zone}'")
        create_tables(self.session, [given], self.directory)
        (result,) = self.session.execute(drawn.sql)
        fault = _differs(drawn.expected, _rows([result.to_arrow()]))
        if fault is not None:
            return f"in process: {fault}"
        self.counts["batch"] += 1
        if not drawn.is_stream:
            return None
        simulated = SessionControl(self.session).simulated(parse_statement(drawn.sql))
        if isinstance(simulated, str):
            return None
        stream = simulated.stream({"t": drawn.table})
        histories = [cut_at_every_row(stream.order, stream.shape)]
        histories += [stream.history(seed * 10 + n) for n in range(N_HISTORIES)]
        for number, history in enumerate(histories):
            rows = [_plain(row) for row in final_rows_of(stream.run(history))]
            fault = _differs(drawn.expected, rows)
            if fault is not None:
                return f"stream, history {number}: {fault}"
        self.counts["stream"] += 1
        return None


def _differs(expected: list[Row], rows: list[Row]) -> str | None:
    found = difference([_plain(row) for row in expected], rows)
    if found is None:
        return None
    return f"missing {_shown(found.missing)}\nunexpected {_shown(found.unexpected)}"


def _rows(tables: Iterable[pa.Table]) -> list[Row]:
    """Return rows with times in microseconds, which need not fit Python's datetime."""
    result: list[Row] = []
    for table in tables:
        columns = [
            column.cast(pa.timestamp("us")).cast(pa.int64())
            if pa.types.is_timestamp(column.type)
            else column
            for column in table.columns
        ]
        result += pa.table(columns, table.column_names).to_pylist()
    return [_plain(row) for row in result]


def _plain(row: Row) -> Row:
    """Return a row in the order of its names, without -0.0, and with datetimes in microseconds."""
    return {name: _value(row[name]) for name in sorted(row)}


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isnan(value) else value + 0.0
    if hasattr(value, "tzinfo"):
        return (
            pa.scalar(value, pa.timestamp("us", "UTC" if value.tzinfo else None))
            .cast(pa.int64())
            .as_py()
        )
    return value


def _shown(rows: Iterable[Row]) -> str:
    listed = list(rows)
    return "\n  ".join([f"{len(listed)} rows", *map(str, listed[:6])])
