"""Rows of the tables of a simulated stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import int64_values
from runtime.engines.local.execute import CLOCK_TYPE
from runtime.plan.simulated import SimulatedTable
from runtime.simulator.histories import Batch
from runtime.spec.stream import FINAL_US, LATE_ROW

_MS_US = 1_000


@dataclass(frozen=True)
class Moment:
    """Start of a micro-batch.

    Attributes:
        clock_us: Processing time, microseconds since 1970 in UTC.
        watermark_us: Watermark that CURRENT_WATERMARK returns. None before the first.
    """

    clock_us: int
    watermark_us: int | None


class TableRows:
    """All rows of a table, in the order in which they arrive unless a history changes it.

    Args:
        table: Table.
        rows: Rows with its columns.
        first: Number of the first row; rows of all tables are numbered together.
    """

    def __init__(self, table: SimulatedTable, rows: pa.Table, first: int) -> None:
        schema = pa.schema([(c.name, arrow_type(c.type)) for c in table.own_columns])
        plain = rows.select(schema.names).cast(schema).combine_chunks()
        numbers = pa.array(range(first, first + len(plain)), pa.int64())
        whole = plain.append_column(LATE_ROW, numbers).to_batches()
        self.table = table
        self.numbers = range(first, first + len(plain))
        self.rows: pa.RecordBatch = (
            whole[0]
            if whole
            else pa.RecordBatch.from_pylist([], schema.append(pa.field(LATE_ROW, pa.int64())))
        )

    def of(self, rows: Sequence[int]) -> pa.RecordBatch:
        """Return the numbered rows that belong to this table, without columns of micro-batches."""
        places = [row - self.numbers.start for row in rows if row in self.numbers]
        return self.rows.take(pa.array(places, pa.int64()))

    def at(self, rows: Sequence[int], moments: Mapping[int, Moment]) -> pa.RecordBatch:
        """Return the numbered rows that belong to this table, with all columns.

        Args:
            rows: Numbers.
            moments: Moment at which each row is read, if the table has columns of micro-batches.
        """
        own = self.of(rows)
        if self.table.own_columns == self.table.columns:
            return own
        read = [moments[number] for number in int64_values(own.column(LATE_ROW)).tolist()]
        clocks = pa.array([moment.clock_us for moment in read], pa.int64())
        watermarks = pa.array([moment.watermark_us for moment in read], pa.int64())
        columns: dict[str, pa.Array] = {}
        for column in self.table.columns:
            if column.name in self.table.clock_columns:
                columns[column.name] = clocks.cast(arrow_type(column.type))
            elif column.name == self.table.watermark_column:
                columns[column.name] = watermarks.cast(arrow_type(column.type))
            else:
                columns[column.name] = own.column(column.name)
        columns[LATE_ROW] = own.column(LATE_ROW)
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    def watermarks_of(self, batch: pa.RecordBatch) -> list[int | None]:
        """Return the watermark of each row of a batch from `of`, in microseconds."""
        numbers = int64_values(batch.column(LATE_ROW))
        return [self.watermarks[number - self.numbers.start] for number in numbers.tolist()]

    @cached_property
    def watermarks(self) -> list[int | None]:
        """Watermark of each row in microseconds. None for a row without a time."""
        delay_us = self.table.delay_us
        return [None if time is None else max(time - delay_us, -FINAL_US) for time in self.times_us]

    @cached_property
    def times_us(self) -> list[int | None]:
        """Time of each row in microseconds."""
        if self.table.time is None:
            return [None] * len(self.numbers)
        times = self.rows.column(self.table.time)
        values = np.asarray(times.cast(pa.int64()).to_numpy(zero_copy_only=False), object)
        is_valid = times.is_valid().to_pylist()
        return [int(v) if ok else None for v, ok in zip(values, is_valid, strict=True)]


def with_clock(batch: pa.RecordBatch, name: str, clock_us: int) -> pa.RecordBatch:
    """Return rows with the processing time of their micro-batch as one more column."""
    clock = pa.array([clock_us], pa.int64()).cast(CLOCK_TYPE)
    return batch.append_column(name, pa.repeat(clock[0], batch.num_rows))


def moments_of(tables: Mapping[str, TableRows], batches: Sequence[Batch]) -> dict[int, Moment]:
    """Return the moment at which each row is read.

    Args:
        tables: Rows by name of the table.
        batches: All micro-batches from the first one.
    """
    table_of = {number: table for table in tables.values() for number in table.numbers}
    moments: dict[int, Moment] = {}
    highest_us: int | None = None
    for batch in batches:
        moment = Moment(batch.clock_us, highest_us)
        for arrival in batch.rows:
            moments[arrival.row] = moment
            table = table_of[arrival.row]
            mark = table.watermarks[arrival.row - table.numbers.start]
            if mark is not None:
                # Spark keeps milliseconds
                mark = mark // _MS_US * _MS_US
                highest_us = mark if highest_us is None else max(highest_us, mark)
    return moments


def order_of_times(tables: Mapping[str, TableRows]) -> list[int]:
    """Return the rows in the order of each table, with tables interleaved by time."""
    timed: list[tuple[int, int]] = []
    for table in tables.values():
        latest = -FINAL_US
        for number, time in zip(table.numbers, table.times_us, strict=True):
            latest = latest if time is None else max(latest, time)
            timed.append((latest, number))
    return [number for _, number in sorted(timed, key=lambda pair: pair[0])]


def table_rows(
    tables: Sequence[SimulatedTable], rows: Mapping[str, pa.Table]
) -> dict[str, TableRows]:
    """Return the rows of tables, numbered in the order of the tables.

    Args:
        tables: Tables.
        rows: Rows by name of the table.
    """
    result: dict[str, TableRows] = {}
    first = 0
    for table in tables:
        result[table.name] = of_table = TableRows(table, rows[table.name], first)
        first = of_table.numbers.stop
    return result
