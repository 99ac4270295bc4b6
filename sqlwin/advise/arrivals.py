"""Read the rows of a stream in their order of arrival."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array, int64_values
from runtime.compute.wall_clock import instants_us
from runtime.errors import AnalysisError
from runtime.plan.simulated import SimulatedTable
from runtime.simulator.delays.aligned import Arrivals, arrivals_of
from runtime.spec.figures import count_text
from sqlwin.execution.simulated import ARRIVAL, PARTITION, StoredRows


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

    @property
    def by_name(self) -> dict[str, str | None]:
        """The columns by the names under which they are read."""
        return {ARRIVAL: self.arrival, PARTITION: self.partition}


def read_arrivals(
    stored: StoredRows, table: SimulatedTable, given: ArrivalColumns, every_us: int, zone: str
) -> Arrivals:
    """Return the rows of a table in their order of arrival.

    Args:
        stored: Reads the table.
        table: Table.
        given: Columns that say how its rows arrived.
        every_us: Time between micro-batches. 0: all rows with one time of arrival are one.
        zone: Time zone of wall-clock times.

    Raises:
        AnalysisError: The table has no such column, or no rows.
        SqlwinError: The rows cannot be read.
    """
    assert table.time is not None, "windows on event time follow a column"
    chosen = {own: column for own, column in given.by_name.items() if column is not None}
    known = stored.metadata(table)
    wanted = {ARRIVAL, PARTITION} - chosen.keys()
    metadata = {own: text for own, text in known.items() if own in wanted}
    if ARRIVAL not in {*chosen, *metadata}:
        raise AnalysisError(
            f"the connector of {table.name} does not know when a row arrived",
            hint="name the column that does: --arrival COLUMN, or "
            "ADVISE WITH ('arrival' = 'column') SELECT ...",
        )
    rows = stored.read(table, chosen, metadata)
    arrived_us = _arrived_us(rows.column(ARRIVAL), chosen.get(ARRIVAL, ARRIVAL), zone)
    if not len(rows):
        raise AnalysisError(f"{table.name} has no rows")
    splits = rows.column(PARTITION) if PARTITION in rows.column_names else None
    return arrivals_of(table, rows, arrived_us, splits, every_us, zone)


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
