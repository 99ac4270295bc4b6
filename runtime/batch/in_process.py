"""Windows of slices that are kept, computed in this process: no job, no way through the JVM.

The kernels are those that tasks run. What is read is held in memory, so it has to be little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from runtime.batch.global_aggregate import projected
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
from runtime.scan.stores import Store
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.exchange import WindowProjection
from runtime.spec.local import LocalStep, SliceLocalStep


def windows_here(
    step: SliceLocalStep,
    aggregation: WindowAggregation,
    projection: WindowProjection,
    store: Store | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of a query over kept slices, and over rows that are not in them yet.

    Args:
        step: the slices.
        aggregation: what is merged of them.
        projection: what is made of the windows.
        store: where the files of slices are; None: on this machine.

    Raises:
        ExecutionError: a file cannot be read, or a result does not fit its type.
    """
    partials = pa.concat_tables(tables_here(step, store))

    def to_windows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from merge_slices(partials, aggregation)

    yield from projected(to_windows, projection, aggregation.window_end)([])


def tables_here(step: SliceLocalStep, store: Store | None = None) -> list[pa.Table]:
    """The partials that a step yields, at least one table.

    Raises:
        ExecutionError: a file cannot be read, or a sum overflows its type.
    """
    sets = step.source.sets
    schema = expanded_schema(partials_schema(step), sets)
    return [schema.empty_table(), *expanded(_partials(step, store), step.keys, sets)]


def _partials(step: SliceLocalStep, store: Store | None) -> Iterator[pa.Table]:
    for split in slice_splits(step.source, 1, store):
        yield from split_tables(step, split, store)
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
