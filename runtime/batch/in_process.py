"""Compute windows from materialized slices in this process, without Spark jobs or the JVM.

Runs the same kernels as tasks. All input is held in memory, so it must be small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.batch.projection import projected, projected_schema
from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels import ranks as kernels
from runtime.compute.kernels.columns import Int64Array, int64_array
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
from runtime.scan.splits import Split, plan_splits
from runtime.scan.stores import Store
from runtime.spec.exchange import InProcessStep, RankedRows, RowOrder, WindowProjection
from runtime.spec.expressions import ColumnRef, RankOrder
from runtime.spec.local import LocalStep, SliceLocalStep
from runtime.spec.table import Column

# Stores of the slices and of the tail's files; None for this machine
Stores = tuple[Store | None, Store | None]
# Number of stored files read in parallel
_READERS = 8


@dataclass(frozen=True)
class RowsHere:
    """Rows of a query that this process computes on demand.

    Attributes:
        step: Step to compute.
        columns: Names and Spark types.
        stores: Stores of its files.
    """

    step: InProcessStep
    columns: tuple[Column, ...]
    stores: Stores = (None, None)

    @property
    def schema(self) -> pa.Schema:
        """Columns as Arrow types, nullable if they are nullable in Spark's rows of the query."""
        projection, ranked, windows = self.step.projection, self.step.ranked, self.step.aggregation
        never_null = {windows.window_start, windows.window_end, projection.window_time}
        made = dict(projection.columns)
        if ranked is not None:
            below = made
            made = {
                name: below.get(expression.name, expression)
                if isinstance(expression, ColumnRef)
                else expression
                for name, expression in ranked.projection.columns
            }
            never_null.add(ranked.column)

        def may_be_null(column: Column) -> bool:
            # Spark's tasks declare aggregates as nullable even if they never are.
            source = made.get(column.name)
            if isinstance(source, ColumnRef):
                return source.name not in never_null
            return column.nullable

        return pa.schema(
            [
                pa.field(column.name, arrow_type(column.type), may_be_null(column))
                for column in self.columns
            ]
        )

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`.

        Raises:
            ExecutionError: A file cannot be read, or a result does not fit its type.
        """
        schema = self.schema
        for batch in windows_here(self.step, self.stores):
            if limit is not None:
                batch = batch.slice(0, limit)
                limit -= batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            if limit == 0:
                return


def windows_here(step: InProcessStep, stores: Stores = (None, None)) -> Iterator[pa.RecordBatch]:
    """Compute a query over materialized slices and over rows not in them yet.

    Args:
        step: Step to compute.
        stores: Stores of its files.

    Raises:
        ExecutionError: A file cannot be read, or a result does not fit its type.
    """
    aggregation = step.aggregation
    partials = pa.concat_tables(tables_here(step.input, stores))

    def to_windows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from merge_slices(partials, aggregation)

    rows = projected(to_windows, step.projection, aggregation.window_end)([])
    if step.ranked is not None:
        rows = _rank_rows(_whole(rows, step.projection), step.ranked)
    if step.ordered is not None:
        last = step.projection if step.ranked is None else step.ranked.projection
        rows = _sort_rows(_whole(rows, last), step.ordered)
    yield from rows


def _whole(rows: Iterable[pa.RecordBatch], projection: WindowProjection) -> pa.RecordBatch:
    """Return all rows as one batch."""
    table = pa.Table.from_batches(rows, projected_schema(projection)).combine_chunks()
    batches = table.to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _rank_rows(rows: pa.RecordBatch, of: RankedRows) -> Iterator[pa.RecordBatch]:
    """Filter the rows by rank and project them."""
    if rows.num_rows:
        by = [rows.column(name) for name in of.by]
        positions, ranks = kernels.ranked_rows(
            by, _codes(rows, of.order), rows.num_rows, of.function, of.ranks
        )
        rows = rows.take(_numbers(positions)).append_column(of.column, _numbers(ranks, pa.int32()))
        if of.projection.filters:
            rows = rows.filter(filter_mask(of.projection.filters, rows))
        columns = [evaluate(expression, rows) for _, expression in of.projection.columns]
        yield pa.RecordBatch.from_arrays(columns, schema=projected_schema(of.projection))


def _sort_rows(rows: pa.RecordBatch, of: RowOrder) -> Iterator[pa.RecordBatch]:
    """Sort the rows and apply LIMIT and OFFSET."""
    if of.order and rows.num_rows:
        codes = _codes(rows, of.order)
        rows = rows.take(_numbers(np.lexsort(codes[::-1])))
    rows = rows.slice(of.offset, of.limit)
    yield rows.select(rows.schema.names[: rows.num_columns - of.hidden])


def _codes(rows: pa.RecordBatch, order: Sequence[RankOrder]) -> list[Int64Array]:
    columns = ((rows.column(part.column), part) for part in order)
    return [kernels.order_codes(c, part.is_descending, part.nulls_first) for c, part in columns]


def tables_here(step: SliceLocalStep, stores: Stores = (None, None)) -> list[pa.Table]:
    """Return the partials of a step, at least one table.

    Args:
        step: Slices to read.
        stores: Stores of the files.

    Raises:
        ExecutionError: A file cannot be read, or a sum overflows its type.
    """
    sets = step.source.sets
    schema = expanded_schema(partials_schema(step), sets)
    return [schema.empty_table(), *expanded(_partials(step, stores), step.keys, sets)]


def _partials(step: SliceLocalStep, stores: Stores) -> Iterator[pa.Table]:
    kept_in, base_in = stores
    yield from _in_parts(
        slice_splits(step.source, 1, kept_in),
        lambda split: split_tables(step, split, kept_in),
        kept_in,
    )
    tail = step.source.tail
    if tail is None:
        return
    of = (step.window, step.time_column, step.time_type, step.slice_end)
    scan = LocalStep(tail, step.mode, *of)
    plan = buffer_plan(scan, *scan_projection(tail))

    def of_rows(split: Split) -> Iterator[pa.Table]:
        rows = ScanRows(scan, base_in)
        batches = aggregate(plan, map(plan.rows, rows.of_split(split)), pa.Table.to_batches)
        yield pa.Table.from_batches(batches, plan.schema)

    yield from _in_parts(plan_splits(tail.files, tail.filters, 1, store=base_in), of_rows, base_in)


def _in_parts(
    splits: Sequence[Split], read: Callable[[Split], Iterator[pa.Table]], store: Store | None
) -> Iterator[pa.Table]:
    """Read splits; in parallel from a store, to hide its latency."""
    if store is None:
        for split in splits:
            yield from read(split)
        return
    with ThreadPoolExecutor(_READERS) as readers:
        parts = [(part,) for split in splits for part in split]
        for tables in readers.map(lambda split: list(read(split)), parts):
            yield from tables


def _numbers(values: Int64Array, type_: pa.DataType | None = None) -> pa.Array:
    # pa.array() would import pandas on its first call
    return int64_array(values, None, type_ or pa.int64())
