"""Read the rows of a stream in their order of arrival."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, int64_values
from runtime.compute.kernels.keys import encode_keys
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

# Metadata columns with the time at which a row arrived and its partition, by connector
_METADATA = {
    "filesystem": ("file.modification-time", None),
    "kafka": ("timestamp", "partition"),
}
# Their names, and the addition to the name of a table that has them
_ARRIVAL, _PARTITION, _SUFFIX = "$arrival", "$partition", "$arrivals"


def add_arrivals(control: SessionControl, statement: Statement) -> None:
    """Create a copy of a table with the times of arrival and the partitions of its connector.

    Args:
        control: Session in which the statement has run.
        statement: Statement. Only CREATE TABLE of files and Kafka topics has a copy.
    """
    if not isinstance(statement, CreateTable) or statement.as_query or statement.like:
        return
    metadata = _METADATA.get(dict(statement.options).get("connector", ""))
    if metadata is None:
        return
    own = statement.columns or tuple(
        TableColumn(column.name, column.type) for column in control.columns(statement.name)
    )
    arrival, partition = metadata
    more = [TableColumn(_ARRIVAL, "timestamp", metadata=arrival, is_virtual=True)]
    if partition is not None:
        more.append(TableColumn(_PARTITION, "int", metadata=partition, is_virtual=True))
    name = (*statement.name[:-1], f"{statement.name[-1]}{_SUFFIX}")
    control.run(replace(statement, name=name, columns=(*own, *more)))


@dataclass(frozen=True)
class ArrivalColumns:
    """Columns that say how rows arrived.

    Attributes:
        arrival: Column with the time at which a row arrived. None: as the connector knows it.
        partition: Column with the partition of a row, which has a watermark of its own. None: as
            the connector knows it, or no partitions.
    """

    arrival: str | None = None
    partition: str | None = None


def read_arrivals(
    session: Session, table: SimulatedTable, given: ArrivalColumns, every_us: int, zone: str
) -> Arrivals:
    """Return the rows of a table in their order of arrival.

    Args:
        session: Session, with the tables of `add_arrivals`.
        table: Table.
        given: Columns that say how its rows arrived.
        every_us: Time between micro-batches. 0: all rows with one time of arrival are one.
        zone: Time zone of wall-clock times.

    Raises:
        AnalysisError: The table has no such column, or no rows.
        SqlwinError: The rows cannot be read.
    """
    assert table.time is not None, "windows on event time follow a column"
    *database, last = table.name.split(".")
    name, known = (*database, f"{last}{_SUFFIX}"), []
    if SessionControl(session).is_declared(name):
        known = [column.name for column in SessionControl(session).columns(name)]
    arrival = given.arrival or (_ARRIVAL if _ARRIVAL in known else None)
    partition = given.partition or (_PARTITION if _PARTITION in known else None)
    if arrival is None:
        raise AnalysisError(
            f"the connector of {table.name} does not know when a row arrived",
            hint="name the column that does: --arrival COLUMN",
        )
    if not {arrival, partition} & {_ARRIVAL, _PARTITION}:
        name = (*database, last)
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    items = [quote_name(column.name) for column in table.own_columns]
    items.append(f"{quote_name(arrival)} AS {quote_name(_ARRIVAL)}")
    if partition is not None:
        items.append(f"{quote_name(partition)} AS {quote_name(_PARTITION)}")
    relation = ".".join(map(quote_name, name))
    (result,) = session.execute(f"SELECT {', '.join(items)} FROM {relation}")
    rows = result.to_arrow()
    arrived_us = _arrived_us(rows.column(_ARRIVAL), arrival, zone)
    if not len(rows):
        raise AnalysisError(f"{table.name} has no rows")
    order = np.argsort(arrived_us, kind="stable")
    rows, arrived_us = rows.take(pa.array(order)), arrived_us[order]
    moments = arrived_us // every_us if every_us else arrived_us
    starts = np.flatnonzero(np.diff(moments, prepend=moments[0] - 1))
    sizes = np.diff(starts, append=len(rows))
    batch = np.repeat(np.arange(len(starts)), sizes)
    partitions = [] if partition is None else [rows.column(_PARTITION)]
    split, values = encode_keys(partitions, len(rows))
    whole = rows.select([column.name for column in table.own_columns])
    numbers = pa.array(np.arange(len(rows)))
    (plain,) = whole.append_column(LATE_ROW, numbers).combine_chunks().to_batches()
    return Arrivals(
        table.name,
        plain,
        table.time,
        batch,
        arrived_us[starts + sizes - 1],
        zone,
        split,
        values[0] if values else pa.nulls(1),
    )


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
