"""Queries as streams over given rows, for the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.refusal import Refusal, tried
from runtime.simulator.arrivals import Shape, overtaken_rows
from runtime.simulator.check import SimulatedStream
from runtime.simulator.tables import TableRows, order_of_times, table_rows
from runtime.streaming.watermarks import idle_advance
from sqlwin.execution.simulated import Simulated

if TYPE_CHECKING:
    import pyarrow as pa

    from runtime.simulator.changed_query import ChangedStream

_DAY_US = 86_400_000_000


def stream_over(
    simulated: Simulated,
    rows: Mapping[str, pa.Table],
    waits: Mapping[tuple[str, int], int] | None = None,
) -> SimulatedStream:
    """Return a query as a stream over given rows.

    Args:
        simulated: The query.
        rows: Rows of each table, by name in lower case.
        waits: Processing time in microseconds that passes before a row arrives, by table in
            lower case and number of the row, from 0.

    Returns:
        The stream. Rows arrive in the order of each table, and by time between tables.
    """
    tables = table_rows(
        simulated.query.tables, {t.name: rows[t.name.lower()] for t in simulated.query.tables}
    )
    arrival = order_of_times(tables)
    first = {name.lower(): table.numbers.start for name, table in tables.items()}
    # whether a watermark advances while all sources of its operator are silent
    stages = (operator.step.input for operator in simulated.query.operators)
    advances_with_clock = any(idle_advance(stage.mode.sources) for stage in stages)
    is_shared = simulated.options.watermark_policy == "max"
    lateness_us = simulated.options.allowed_lateness_us
    late: Sequence[int] = ()
    if not simulated.query.is_on_processing_time:
        late = overtaken_rows(tables, arrival, lateness_us, is_shared=is_shared)
    shape = Shape(
        lateness_us,
        frozenset(late),
        clock_us=_after_all_rows_us(tables) if advances_with_clock else 0,
        idle_us=simulated.options.idle_timeout_us,
        advances_with_clock=advances_with_clock,
        is_shared=is_shared,
        waits={first[name] + row: us for (name, row), us in (waits or {}).items() if name in first},
        reads_clock=any(table.clock_columns for table in simulated.query.tables),
    )
    return SimulatedStream(
        simulated.query, tables, simulated.options, tuple(arrival), shape, simulated.definition
    )


def resume(
    before: Simulated, after: Simulated, stream: SimulatedStream, rows: Mapping[str, pa.Table]
) -> ChangedStream | Refusal:
    """Return a stream that resumes with another query, or the reason why it cannot.

    Args:
        before: First query.
        after: Query with which it resumes.
        stream: Stream of the first query.
        rows: Rows of each table, by name in lower case.
    """
    # these import PySpark
    from runtime.simulator.changed_query import ChangedStream
    from runtime.simulator.run import ChangedQuery
    from runtime.streaming.identity import difference

    outcome = tried(difference, before.identity(), after.identity())
    if isinstance(outcome, Refusal):
        return outcome
    numbers = {name.lower(): table.numbers for name, table in stream.tables.items()}
    tables = {
        table.name: TableRows(table, rows[name], numbers[name].start)
        for table in after.query.tables
        for name in [table.name.lower()]
    }
    names = tuple(operator.names for operator in outcome)
    change = ChangedQuery(after.query, tables, replace(after.options, names=names))
    has_other_windows = any(operator.window is not None for operator in outcome)
    changed = replace(
        stream,
        query=after.query,
        tables=tables,
        options=after.options,
        definition=after.definition,
    )
    return ChangedStream(stream, changed, change, has_other_windows)


def _after_all_rows_us(tables: Mapping[str, TableRows]) -> int:
    """Return a processing time at which no row's time is in the future, in any time zone."""
    times = (time for table in tables.values() for time in table.times_us)
    return max((time for time in times if time is not None), default=0) + _DAY_US
