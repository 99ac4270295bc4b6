"""The local stage of a task for any kind of rows: add them to a buffer, and yield partials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.conversions import (
    Int64Array,
    from_buffer,
    int64_values,
    mask_of,
    one_chunk,
)
from runtime.compute.kernels.session import ends_of_rows
from runtime.local.projection import Projection
from runtime.plan.local import LocalStep
from runtime.spark.workers import fitting_bytes
from runtime.spec.aggregates import Accumulator, Merge, MergeOp
from runtime.spec.scan import DEFAULT_BUFFER_BYTES
from runtime.spec.stream import TIME
from runtime.windows import Window
from runtime.windows.times import FIRST_TIME, LAST_TIME

# Function that converts a table of partials to output batches of the task
Cut = Callable[[pa.Table], Iterator[pa.RecordBatch]]
# The same for all remaining tables at the end, given the slice ends that were sent before
AtEnd = Callable[[Iterable[pa.Table], Int64Array], Iterator[pa.RecordBatch]]

# Argument of LAST_TIME if rows have a length: TIME plus that
_END = "$end"
_SESSION_TIMES = (Merge((FIRST_TIME,), MergeOp.MIN), Merge((LAST_TIME,), MergeOp.MAX))


@dataclass(frozen=True)
class BufferPlan:
    """The aggregates of a buffer and their input columns.

    Attributes:
        window: Window.
        keys: Key columns.
        slice_end: Slice end column.
        accumulators: Accumulators with their partial columns.
        args: Columns with the arguments of each accumulator.
        conditions: BOOLEAN column with the FILTER of each accumulator, or None.
        schema: Schema of partials: keys, slice end, accumulators.
        buffer_bytes: Maximum bytes of the buffer.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    args: tuple[tuple[str, ...], ...]
    conditions: tuple[str | None, ...]
    schema: pa.Schema
    buffer_bytes: int = DEFAULT_BUFFER_BYTES

    def add_row_count(self, name: str) -> BufferPlan:
        """Return a plan with one more partial column at the end: the number of rows."""
        return replace(
            self,
            accumulators=(*self.accumulators, Merge((name,), MergeOp.COUNT)),
            args=(*self.args, ()),
            conditions=(*self.conditions, None),
            schema=self.schema.append(pa.field(name, pa.int64())),
        )

    def rows(self, columns: pa.RecordBatch | Mapping[str, pa.Array]) -> BufferRows:
        """Return rows for the buffer. All of them count.

        Args:
            columns: TIME, keys, arguments and conditions.
        """
        times_us = int64_values(columns[TIME])
        ends: dict[str, pa.Array] = {}
        if self.window.row_length is not None:
            ends_us = ends_of_rows(times_us, int64_values(columns[self.window.row_length]))
            ends[_END] = from_buffer(ends_us, None, pa.int64(), len(ends_us))
        return BufferRows(
            times_us,
            [columns[name] for name in self.keys],
            [
                [ends[name] if name in ends else columns[name] for name in names]
                for names in self.args
            ],
            [None if name is None else mask_of(columns[name]) for name in self.conditions],
        )


def buffer_plan(
    step: LocalStep[Any, Any],
    columns: Projection[Any],
    types: Mapping[str, str],
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
) -> BufferPlan:
    """Return the aggregates of a step. For SESSION the first and last times come last.

    Args:
        step: Step.
        columns: Expressions evaluated for the rows.
        types: Spark's types of these columns, in DDL spelling.
        buffer_bytes: Maximum bytes of the buffer.

    Raises:
        AnalysisError: An argument has a type that its function does not accept.
    """
    fields = [pa.field(name, arrow_type(types[name])) for name in step.keys]
    fields.append(pa.field(step.slice_end, pa.int64(), nullable=False))
    for into, args in zip(step.accumulators, columns.args, strict=True):
        partial_types = into.partial_types([types[name] for name in args]).values()
        fields += map(pa.field, into.columns, map(arrow_type, partial_types))
    times = () if step.window.has_slices else _SESSION_TIMES
    inputs = (TIME, TIME if step.window.row_length is None else _END)
    fields += [pa.field(merge.columns[0], pa.int64(), nullable=False) for merge in times]
    return BufferPlan(
        step.window,
        step.keys,
        step.slice_end,
        (*step.accumulators, *times),
        (*columns.args, *((name,) for name in inputs[: len(times)])),
        (*columns.conditions, *(None for _ in times)),
        pa.schema(fields),
        buffer_bytes,
    )


def aggregate(
    plan: BufferPlan,
    source: Iterable[BufferRows | pa.RecordBatch],
    cut: Cut,
    at_end: AtEnd | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield a task's partials, whenever the buffer overflows and at the end.

    Args:
        plan: Aggregates.
        source: Rows. Record batches among them are yielded unchanged.
        cut: Converts a table of partials to output batches.
        at_end: Converts the tables that remain at the end. None means `cut`.

    Raises:
        ExecutionError: The source fails, or a sum overflows its type.
    """
    buffer = WindowBuffer(
        plan.window.cells,
        plan.keys,
        plan.slice_end,
        plan.accumulators,
        plan.schema,
        fitting_bytes(plan.buffer_bytes),
    )
    sent_ends = np.zeros(0, np.int64)
    for rows in source:
        if isinstance(rows, pa.RecordBatch):
            yield rows
        else:
            for table in buffer.add(rows):
                if at_end is not None:
                    ends = int64_values(one_chunk(table.column(plan.slice_end)))
                    sent_ends = np.union1d(sent_ends, ends)
                yield from cut(table)
        del rows  # release them before the next ones are read
    if at_end is not None:
        yield from at_end(buffer.flush(), sent_ends)
        return
    for table in buffer.flush():
        yield from cut(table)
