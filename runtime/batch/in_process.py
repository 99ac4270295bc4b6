"""Windows of slices that are kept, computed in this process: no job, no way through the JVM.

The kernels are those that tasks run. What is read is held in memory, so it has to be little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from runtime.batch.global_aggregate import projected
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.merge import merge_slices
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.slice_scan import (
    expanded,
    expanded_schema,
    partials_schema,
    slice_splits,
    split_tables,
)
from runtime.local.stage import aggregate, buffer_plan
from runtime.scan.splits import plan_splits
from runtime.spec.exchange import InProcessStep
from runtime.spec.expressions import ColumnRef
from runtime.spec.local import LocalStep, SliceLocalStep
from runtime.spec.table import Column


@dataclass(frozen=True)
class RowsHere:
    """The rows of a query that this process computes when they are asked for.

    Attributes:
        step: what computes them.
        columns: their names and Spark's types.
    """

    step: InProcessStep
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow has them."""
        windows = (self.step.aggregation.window_start, self.step.aggregation.window_end)
        of = self.step.projection.columns
        bounds = {name for name, each in of if isinstance(each, ColumnRef) and each.name in windows}
        return pa.schema(
            [pa.field(c.name, arrow_type(c.type), c.name not in bounds) for c in self.columns]
        )

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, at most `limit`.

        Raises:
            ExecutionError: a file cannot be read, or a result does not fit its type.
        """
        schema = self.schema
        for batch in windows_here(self.step):
            if limit is not None:
                batch = batch.slice(0, limit)
                limit -= batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            if limit == 0:
                return


def windows_here(step: InProcessStep) -> Iterator[pa.RecordBatch]:
    """The rows of a query over kept slices, and over rows that are not in them yet.

    Raises:
        ExecutionError: a file cannot be read, or a result does not fit its type.
    """
    aggregation = step.aggregation
    partials = pa.concat_tables(tables_here(step.input))

    def to_windows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from merge_slices(partials, aggregation)

    yield from projected(to_windows, step.projection, aggregation.window_end)([])


def tables_here(step: SliceLocalStep) -> list[pa.Table]:
    """The partials that a step yields, at least one table.

    Raises:
        ExecutionError: a file cannot be read, or a sum overflows its type.
    """
    sets = step.source.sets
    schema = expanded_schema(partials_schema(step), sets)
    return [schema.empty_table(), *expanded(_partials(step), step.keys, sets)]


def _partials(step: SliceLocalStep) -> Iterator[pa.Table]:
    for split in slice_splits(step.source, 1):
        yield from split_tables(step, split)
    tail = step.source.tail
    if tail is None:
        return
    of = (step.window, step.time_column, step.time_type, step.slice_end)
    scan = LocalStep(tail, step.mode, *of)
    plan = buffer_plan(scan, *scan_projection(tail))
    for split in plan_splits(tail.files, tail.filters, 1):
        rows = ScanRows(scan)
        batches = aggregate(plan, map(plan.rows, rows.of_split(split)), pa.Table.to_batches)
        yield pa.Table.from_batches(batches, plan.schema)
