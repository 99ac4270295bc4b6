"""Compute windows in this process, without Spark jobs or the JVM.

Runs the same kernels as tasks, over materialized slices or over files. The partials of all input
are held in memory, so it must be small.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from runtime.batch.projection import projection_schema, window_projector
from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type, spark_type
from runtime.compute.kernels import ranks as kernels
from runtime.compute.kernels.columns import Int64Array, int64_array
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.session import chain_partials, merge_sessions
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.slice_scan import (
    expand_schema,
    expand_tables,
    partials_schema,
    slice_splits,
    split_tables,
)
from runtime.local.stage import BufferPlan, aggregate, buffer_plan
from runtime.scan.splits import Split, plan_splits
from runtime.scan.stores import Store
from runtime.spec.aggregates import Accumulator, WithResult
from runtime.spec.exchange import InProcessStep, RankedRows, RowOrder, WindowProjection
from runtime.spec.expressions import ColumnRef, RankOrder
from runtime.spec.local import (
    ArrowBuffer,
    FileLocalStep,
    FileScan,
    LocalStep,
    SliceLocalStep,
    SliceRows,
    is_local,
)
from runtime.spec.table import Column
from runtime.spec.windows import SessionWindow

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
        counts: Counts of the rows of files that the last run read.
    """

    step: InProcessStep
    columns: tuple[Column, ...]
    stores: Stores = (None, None)
    counts: RowCounts = field(default_factory=lambda: RowCounts())

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
        for batch in windows_here(self.step, self.stores, self.counts):
            if limit is not None:
                batch = batch.slice(0, limit)
                limit -= batch.num_rows
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            if limit == 0:
                return


class RowCounts:
    """Counts of rows that scans of files in this process read.

    Attributes:
        scans: Scan of each split, with the time column.
    """

    def __init__(self) -> None:
        self.scans: list[tuple[str, ScanRows]] = []

    def rows_read(self) -> int:
        """Return the number of rows read."""
        return sum(rows.n_rows for _, rows in self.scans)

    def null_times(self) -> list[tuple[str, int]]:
        """Return the time column, and the number of rows that were dropped without a time."""
        n_rows: Counter[str] = Counter()
        for column, rows in self.scans:
            n_rows[column] += rows.n_null_times
        return [(column, n) for column, n in n_rows.items() if n]


def windows_here(
    step: InProcessStep, stores: Stores = (None, None), counts: RowCounts | None = None
) -> Iterator[pa.RecordBatch]:
    """Compute a query over files, or over materialized slices and rows not in them yet.

    Args:
        step: Step to compute.
        stores: Stores of its files.
        counts: Receives the counts of rows read from files.

    Raises:
        ExecutionError: A file cannot be read, or a result does not fit its type.
    """
    aggregation = step.aggregation
    local = step.input
    if is_local(local, FileScan, ArrowBuffer):
        tables = tables_of_files(local, stores[0], RowCounts() if counts is None else counts)
    else:
        assert is_local(local, SliceRows, ArrowBuffer)
        tables = tables_here(local, stores)
    partials = pa.concat_tables(tables)
    merge = merge_sessions if isinstance(aggregation.window, SessionWindow) else merge_slices

    def to_windows(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from merge(partials, aggregation)

    rows = window_projector(to_windows, step.projection, aggregation.window_end)([])
    if step.ranked is not None:
        rows = _rank_rows(_whole(rows, step.projection), step.ranked)
    if step.ordered is not None:
        last = step.projection if step.ranked is None else step.ranked.projection
        rows = _sort_rows(_whole(rows, last), step.ordered)
    yield from rows


def _whole(rows: Iterable[pa.RecordBatch], projection: WindowProjection) -> pa.RecordBatch:
    """Return all rows as one batch."""
    table = pa.Table.from_batches(rows, projection_schema(projection)).combine_chunks()
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
        yield pa.RecordBatch.from_arrays(columns, schema=projection_schema(of.projection))


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
    schema = expand_schema(partials_schema(step), sets)
    return [schema.empty_table(), *expand_tables(_partials(step, stores), step.keys, sets)]


def types_of_files(step: FileLocalStep, accumulators: Sequence[Accumulator]) -> dict[str, str]:
    """Return the Spark types of windows merged from the partials of files, by column name.

    Columns whose type has no name are left out.

    Raises:
        AnalysisError: A function does not accept the type of an argument.
    """
    partials = {field.name: spark_type(field.type) for field in _plan_of_files(step).schema}
    outputs = (part.output for part in accumulators if isinstance(part, WithResult))
    types = partials | {output.name: output.type for output in outputs}
    return {name: type_ for name, type_ in types.items() if type_ is not None}


def _plan_of_files(step: FileLocalStep) -> BufferPlan:
    return buffer_plan(step, *scan_projection(step.source))


def tables_of_files(step: FileLocalStep, store: Store | None, counts: RowCounts) -> list[pa.Table]:
    """Return the partials of files, at least one table. Splits are read on all cores.

    Args:
        step: Files to read.
        store: Store of the files.
        counts: Receives the counts of rows read.

    Raises:
        ExecutionError: A file cannot be read or has changed, an expression fails, or a sum
            overflows its type.
    """
    plan = _plan_of_files(step)
    counts.scans = []
    n_cores = len(os.sched_getaffinity(0))
    splits = plan_splits(step.source.files, step.source.filters, n_cores, store=store)

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        if isinstance(plan.window, SessionWindow):
            table = chain_partials(table, plan.keys, plan.accumulators, plan.window.gap_us)
        yield from table.to_batches()

    def read(split: Split) -> pa.Table:
        rows = ScanRows(step, store)
        counts.scans.append((step.time_column, rows))
        batches = aggregate(plan, map(plan.rows, rows.rows_of_split(split)), cut)
        return pa.Table.from_batches(batches, plan.schema)

    if len(splits) < 2:
        return [plan.schema.empty_table(), *map(read, splits)]
    with ThreadPoolExecutor(n_cores) as readers:
        return list(readers.map(read, splits))


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
        batches = aggregate(plan, map(plan.rows, rows.rows_of_split(split)), pa.Table.to_batches)
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
