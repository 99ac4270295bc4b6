"""Read the rows of a stream in their order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, int64_values
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.wall_clock import instants_us
from runtime.errors import AnalysisError
from runtime.names import quote_name
from runtime.plan.simulated import SimulatedTable
from runtime.simulator.delays import Arrivals
from runtime.spec.figures import count_text
from runtime.spec.stream import LATE_ROW
from runtime.spec.table import TableSpec
from sqlwin.catalog.entries import Name
from sqlwin.control import SessionControl
from sqlwin.session import Session

# Names of the columns with the time at which a row arrived and with its partition
_ARRIVAL, _PARTITION = "$arrival", "$partition"
# Metadata columns that have them, by connector
_METADATA = {
    "filesystem": {_ARRIVAL: "TIMESTAMP_LTZ(6) METADATA FROM 'file.modification-time'"},
    "kafka": {
        _ARRIVAL: "TIMESTAMP_LTZ(3) METADATA FROM 'timestamp'",
        _PARTITION: "INT METADATA FROM 'partition'",
    },
}


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
        session: Session.
        table: Table.
        given: Columns that say how its rows arrived.
        every_us: Time between micro-batches. 0: all rows with one time of arrival are one.
        zone: Time zone of wall-clock times.

    Raises:
        AnalysisError: The table has no such column, or no rows.
        SqlwinError: The rows cannot be read.
    """
    assert table.time is not None, "windows on event time follow a column"
    name = tuple(table.name.split("."))
    entry = SessionControl(session).entry(name)
    metadata = _METADATA.get(entry.connector, {}) if isinstance(entry, TableSpec) else {}
    chosen = {_ARRIVAL: given.arrival, _PARTITION: given.partition}
    columns = {own: chosen[own] or own for own in chosen if chosen[own] or own in metadata}
    if _ARRIVAL not in columns:
        raise AnalysisError(
            f"the connector of {table.name} does not know when a row arrived",
            hint="name the column that does: --arrival COLUMN",
        )
    added = {own: metadata[own] for own, column in columns.items() if own == column}
    if added:
        name = _with_columns(session, name, added)
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    items = [quote_name(column.name) for column in table.own_columns]
    items += [f"{quote_name(column)} AS {quote_name(own)}" for own, column in columns.items()]
    (result,) = session.execute(f"SELECT {', '.join(items)} FROM {_quoted(name)}")
    rows = result.to_arrow()
    arrived_us = _arrived_us(rows.column(_ARRIVAL), columns[_ARRIVAL], zone)
    if not len(rows):
        raise AnalysisError(f"{table.name} has no rows")
    order = np.argsort(arrived_us, kind="stable")
    rows, arrived_us = rows.take(pa.array(order)), arrived_us[order]
    moments = arrived_us // every_us if every_us else arrived_us
    starts = np.flatnonzero(np.diff(moments, prepend=moments[0] - 1))
    sizes = np.diff(starts, append=len(rows))
    batch = np.repeat(np.arange(len(starts)), sizes)
    partitions = [rows.column(name) for name in (_PARTITION,) if name in columns]
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


def _with_columns(session: Session, name: Name, columns: Mapping[str, str]) -> Name:
    """Create a copy of a table with more columns; return its name.

    Args:
        session: Session.
        name: Name of the table.
        columns: Type and source of each column, by name.
    """
    copy = (*name[:-1], f"{name[-1]}$arrivals")
    items = ", ".join(f"{quote_name(column)} {text}" for column, text in columns.items())
    session.execute(f"CREATE OR REPLACE TABLE {_quoted(copy)} ({items}) LIKE {_quoted(name)}")
    return copy


def _quoted(name: Name) -> str:
    return ".".join(map(quote_name, name))


def _arrived_us(column: pa.ChunkedArray, name: str, zone: str) -> Int64Array:
    """Return times of arrival as instants."""
    if not pa.types.is_timestamp(column.type):
        raise AnalysisError(
            f"column `{name}` is {column.type}, not the time at which a row arrived",
            hint="name a column of type TIMESTAMP or TIMESTAMP_LTZ",
        )
    if column.null_count:
        n_null = count_text(column.null_count, "rows")
        raise AnalysisError(f"column `{name}`, the time of arrival, is NULL in {n_null}")
    us = int64_values(column.cast(pa.timestamp("us", column.type.tz)).combine_chunks())
    return us if column.type.tz else instants_us(us, zone)
