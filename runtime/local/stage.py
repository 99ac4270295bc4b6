"""The local stage of a task, whatever its rows are of: into a buffer, and partials out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.buffer import Rows, WindowBuffer
from runtime.compute.kernels.columns import Int64Array, int64_values, mask_of, one_chunk
from runtime.compute.kernels.partial_types import partial_types
from runtime.local.projection import Projection
from runtime.spark.workers import fitting_bytes
from runtime.spec.aggregates import Accumulator, Merge, MergeOp
from runtime.spec.local import LocalStep
from runtime.spec.scan import DEFAULT_BUFFER_BYTES
from runtime.spec.stream import TIME
from runtime.spec.windows import FIRST_TIME, LAST_TIME, SessionWindow, Window, local_window

# From a table of partials to what leaves the task
Cut = Callable[[pa.Table], Iterator[pa.RecordBatch]]
# The same of all that is left when the rows are over, knowing the slices that have left before
AtEnd = Callable[[Iterable[pa.Table], Int64Array], Iterator[pa.RecordBatch]]

_SESSION_TIMES = (Merge((FIRST_TIME,), MergeOp.MIN), Merge((LAST_TIME,), MergeOp.MAX))


@dataclass(frozen=True)
class BufferPlan:
    """What a buffer aggregates, and in which columns it comes.

    Attributes:
        window: the window.
        keys: the key columns.
        slice_end: the name of the slice end column.
        accumulators: the accumulators by their partial columns.
        args: for each accumulator the columns with its arguments.
        conditions: for each accumulator the BOOLEAN column with its FILTER, if it has one.
        schema: the partials: keys, slice end, accumulators.
        buffer_bytes: how much the buffer of partials may hold.
    """

    window: Window
    keys: tuple[str, ...]
    slice_end: str
    accumulators: tuple[Accumulator, ...]
    args: tuple[tuple[str, ...], ...]
    conditions: tuple[str | None, ...]
    schema: pa.Schema
    buffer_bytes: int = DEFAULT_BUFFER_BYTES

    def counting(self, name: str) -> BufferPlan:
        """The same with one more partial column, last: how many rows there are."""
        return replace(
            self,
            accumulators=(*self.accumulators, Merge((name,), MergeOp.COUNT)),
            args=(*self.args, ()),
            conditions=(*self.conditions, None),
            schema=self.schema.append(pa.field(name, pa.int64())),
        )

    def rows(self, columns: pa.RecordBatch | Mapping[str, pa.Array]) -> Rows:
        """Rows for the buffer; all of them count.

        Args:
            columns: TIME, the keys, arguments and conditions.
        """
        return Rows(
            int64_values(columns[TIME]),
            [columns[name] for name in self.keys],
            [[columns[name] for name in names] for names in self.args],
            [None if name is None else mask_of(columns[name]) for name in self.conditions],
        )


def buffer_plan(
    step: LocalStep[Any, Any],
    columns: Projection[Any],
    types: Mapping[str, str],
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
) -> BufferPlan:
    """What a step aggregates; the times that sessions are cut by stand last.

    Args:
        step: the step.
        columns: what is evaluated of the rows.
        types: Spark's types of those columns, in DDL spelling.
        buffer_bytes: how much the buffer may hold.

    Raises:
        AnalysisError: an argument is of a type that its function does not take.
    """
    fields = [pa.field(name, arrow_type(types[name])) for name in step.keys]
    fields.append(pa.field(step.slice_end, pa.int64(), nullable=False))
    for into, args in zip(step.accumulators, columns.args, strict=True):
        found = partial_types(into, [types[name] for name in args])
        fields += map(pa.field, into.columns, found)
    times = _SESSION_TIMES if isinstance(step.window, SessionWindow) else ()
    fields += [pa.field(each.columns[0], pa.int64(), nullable=False) for each in times]
    return BufferPlan(
        step.window,
        step.keys,
        step.slice_end,
        (*step.accumulators, *times),
        (*columns.args, *((TIME,) for _ in times)),
        (*columns.conditions, *(None for _ in times)),
        pa.schema(fields),
        buffer_bytes,
    )


def aggregate(
    plan: BufferPlan,
    source: Iterable[Rows | pa.RecordBatch],
    cut: Cut,
    at_end: AtEnd | None = None,
) -> Iterator[pa.RecordBatch]:
    """What leaves a task: partials of its rows, when the buffer overflows and at the end.

    Args:
        plan: what is aggregated.
        source: the rows; batches among them leave as they are.
        cut: what becomes of a table of partials.
        at_end: what becomes of those that are left at the end; None: `cut`.

    Raises:
        ExecutionError: the source fails, or a sum overflows its type.
    """
    buffer = WindowBuffer(
        local_window(plan.window),
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
        del rows  # or they would still be held while the next ones are read
    if at_end is not None:
        yield from at_end(buffer.flush(), sent_ends)
        return
    for table in buffer.flush():
        yield from cut(table)
