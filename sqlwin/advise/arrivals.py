"""Read the rows of a stream in their order of arrival."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, int64_values
from runtime.compute.wall_clock import instants_us
from runtime.errors import AnalysisError
from runtime.names import quote_name
from runtime.plan.simulated import SimulatedTable
from runtime.simulator.delays import Arrivals
from runtime.spec.stream import LATE_ROW
from runtime.spec.table import TableColumn
from sqlwin.control import SessionControl
from sqlwin.session import Session
from sqlwin.statements.nodes import CreateTable, Statement

# Metadata column with the time at which a row arrived, by connector
_ARRIVAL = {"filesystem": "file.modification-time", "kafka": "timestamp"}
# Its name, and the addition to the name of a table that has it
_NAME, _SUFFIX = "$arrival", "$arrivals"


def add_arrivals(control: SessionControl, statement: Statement) -> None:
    """Create a copy of a table with the times of arrival that its connector knows.

    Args:
        control: Session in which the statement has run.
        statement: Statement. Only CREATE TABLE of files and Kafka topics has a copy.
    """
    if not isinstance(statement, CreateTable) or statement.as_query or statement.like:
        return
    metadata = _ARRIVAL.get(dict(statement.options).get("connector", ""))
    if metadata is None or any(column.metadata == metadata for column in statement.columns):
        return
    own = statement.columns or tuple(
        TableColumn(column.name, column.type) for column in control.columns(statement.name)
    )
    arrival = TableColumn(_NAME, "timestamp", metadata=metadata, is_virtual=True)
    name = (*statement.name[:-1], f"{statement.name[-1]}{_SUFFIX}")
    control.run(replace(statement, name=name, columns=(*own, arrival)))


def read_arrivals(
    session: Session, table: SimulatedTable, column: str | None, every_us: int, zone: str
) -> Arrivals:
    """Return the rows of a table in their order of arrival.

    Args:
        session: Session.
        table: Table.
        column: Column with the time at which a row arrived. None: the time that the connector
            knows, from `add_arrivals` or a metadata column of the table.
        every_us: Time between micro-batches. 0: all rows with one time of arrival are one.
        zone: Time zone of wall-clock times.

    Raises:
        AnalysisError: The table has no such column, or no rows.
        SqlwinError: The rows cannot be read.
    """
    assert table.time is not None, "windows on event time follow a column"
    control = SessionControl(session)
    parts = tuple(table.name.split("."))
    name, arrival = parts, column
    if arrival is None:
        declared = control.columns_of(table.name) or ()
        arrival = next((c.name for c in declared if c.metadata in _ARRIVAL.values()), None)
    if arrival is None:
        name, arrival = (*parts[:-1], f"{parts[-1]}{_SUFFIX}"), _NAME
        if not control.is_declared(name):
            raise AnalysisError(
                f"the connector of {table.name} does not know when a row arrived",
                hint="name the column that does: --arrival COLUMN",
            )
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    columns = [quote_name(item.name) for item in table.own_columns]
    relation = ".".join(map(quote_name, name))
    (result,) = session.execute(
        f"SELECT {', '.join(columns)}, {quote_name(arrival)} AS {quote_name(_NAME)} FROM {relation}"
    )
    rows = result.to_arrow()
    arrived_us = _arrived_us(rows.column(_NAME), arrival, zone)
    if not len(rows):
        raise AnalysisError(f"{table.name} has no rows")
    order = np.argsort(arrived_us, kind="stable")
    arrived_us = arrived_us[order]
    moments = arrived_us // every_us if every_us else arrived_us
    starts = np.flatnonzero(np.diff(moments, prepend=moments[0] - 1))
    sizes = np.diff(starts, append=len(rows))
    batch = np.repeat(np.arange(len(starts)), sizes)
    whole = rows.drop_columns([_NAME]).take(pa.array(order))
    numbers = pa.array(np.arange(len(rows)))
    (plain,) = whole.append_column(LATE_ROW, numbers).combine_chunks().to_batches()
    return Arrivals(table.name, plain, table.time, batch, arrived_us[starts + sizes - 1], zone)


def _arrived_us(column: pa.ChunkedArray, name: str, zone: str) -> Int64Array:
    """Return times of arrival as instants."""
    if not pa.types.is_timestamp(column.type):
        raise AnalysisError(
            f"column `{name}` is {column.type}, not the time at which a row arrived",
            hint="name a column of type TIMESTAMP or TIMESTAMP_LTZ",
        )
    if column.null_count:
        raise AnalysisError(f"column `{name}` is NULL in {column.null_count} rows")
    us = int64_values(column.cast(pa.timestamp("us", column.type.tz)).combine_chunks())
    return us if column.type.tz else instants_us(us, zone)
