"""Partials of windows merged in this process, from files, slices or computed rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.types import spark_type
from runtime.compute.kernels.roll_up import roll_up_levels
from runtime.compute.kernels.session import chain_partials
from runtime.engines.local.scan import RowCounts, StoreOf, map_splits, no_store
from runtime.local.scan_rows import ScanRows, scan_projection
from runtime.local.slice_scan import (
    expand_schema,
    expand_tables,
    partials_schema,
    slice_splits,
    split_tables,
)
from runtime.local.stage import BufferPlan, aggregate, buffer_plan
from runtime.plan.arrow_rows import (
    LocalRows,
    RowLocalStep,
    RowScan,
    grouping_sets,
    local_rows,
)
from runtime.plan.exchange import MergedWindows, SharedSlicesStep
from runtime.plan.in_process import InProcessStep
from runtime.plan.local import (
    ArrowBuffer,
    FileLocalStep,
    FileScan,
    LocalStep,
    SliceLocalStep,
    SliceRows,
    is_local,
)
from runtime.plan.nodes import PlanNode
from runtime.scan.splits import Split, plan_splits
from runtime.scan.stores import Store
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

# Function that returns the rows of a relation
BatchesOf = Callable[[PlanNode], Iterator[pa.RecordBatch]]
# Number of stored files read in parallel
_READERS = 8


class LocalPartials:
    """Partials of local stages that are read by several windows but computed once.

    They are held until their last reader has taken them.

    Args:
        steps: Steps that are run one after the other, each once.
    """

    def __init__(self, steps: Iterable[InProcessStep]) -> None:
        nodes = (node for step in steps for node in step.rows.walk())
        readers = Counter(local_rows(node) for node in nodes if isinstance(node, MergedWindows))
        self._readers = Counter({local: n for local, n in readers.items() if n > 1})
        self._tables: dict[LocalRows, list[pa.Table]] = {}

    def tables(
        self, local: LocalRows, compute: Callable[[], Sequence[pa.Table]]
    ) -> Sequence[pa.Table]:
        """Return the partials of a local stage, computed by the first reader."""
        n_left = self._readers[local] - 1
        if n_left < 0:
            return compute()
        tables = self._tables.pop(local, None) or list(compute())
        if n_left:
            self._readers[local] = n_left
            self._tables[local] = tables
        return tables


def partials_of(
    rows: MergedWindows,
    store_of: StoreOf,
    counts: RowCounts,
    batches_of: BatchesOf,
    shared: LocalPartials,
) -> pa.Table:
    """Return the partials from which windows are merged.

    Args:
        rows: Windows.
        store_of: Returns the store of a scan's files.
        counts: Receives the counts of rows read from files.
        batches_of: Returns the rows of a relation.
        shared: Partials that other windows read, too.

    Raises:
        ExecutionError: A file cannot be read, or a sum overflows its type.
    """
    local = local_rows(rows)

    def compute() -> Sequence[pa.Table]:
        if is_local(local, SliceRows, ArrowBuffer):
            return tables_in_process(local, store_of)
        if is_local(local, FileScan, ArrowBuffer):
            return tables_of_files(local, store_of(local.source.files), counts)
        assert is_local(local, RowScan, ArrowBuffer)
        return _tables_of_rows(local, batches_of(local.source.input))

    tables = shared.tables(local, compute)
    partials = pa.concat_tables(expand_tables(tables, local.keys, grouping_sets(rows)))
    return _of_level(partials, rows.input) if isinstance(rows.input, SharedSlicesStep) else partials


def schema_of_partials(rows: MergedWindows) -> pa.Schema:
    """Return the schema of `partials_of`."""
    local = local_rows(rows)
    if is_local(local, SliceRows, ArrowBuffer):
        schema = expand_schema(partials_schema(local), local.source.sets)
    else:
        schema = expand_schema(plan_of_local(local).schema, grouping_sets(rows))
    if not isinstance(rows.input, SharedSlicesStep):
        return schema
    columns = dict(_columns_of_level(rows.input))
    return pa.schema(
        [schema.field(name).with_name(reader_name) for reader_name, name in columns.items()]
    )


def _of_level(partials: pa.Table, slices: SharedSlicesStep) -> pa.Table:
    """Return the partials of one level of shared partials, with the reader's names."""
    shared = slices.input
    levels = roll_up_levels(
        partials, shared.keys, shared.slice_end, shared.accumulators, shared.levels
    )
    level = dict(levels)[slices.level]
    columns = dict(_columns_of_level(slices))
    return pa.table([level.column(name) for name in columns.values()], list(columns))


def _columns_of_level(slices: SharedSlicesStep) -> Iterator[tuple[str, str]]:
    """Yield the reader's name and the shared name of each column."""
    yield from ((name, name) for name in (*slices.input.keys, slices.input.slice_end))
    yield from ((reader_name, name) for name, reader_name in slices.columns)


def tables_in_process(step: SliceLocalStep, store_of: StoreOf = no_store) -> list[pa.Table]:
    """Return the partials of slices, at least one table.

    Args:
        step: Slices to read.
        store_of: Returns the store of a scan's files.

    Raises:
        ExecutionError: A file cannot be read, or a sum overflows its type.
    """
    sets = step.source.sets
    schema = expand_schema(partials_schema(step), sets)
    return [schema.empty_table(), *expand_tables(_partials(step, store_of), step.keys, sets)]


def types_of_local(step: LocalRows, results: Sequence[Column]) -> dict[str, str]:
    """Return the Spark types of windows merged from partials of rows, by column name.

    Columns without a Spark type are left out.

    Args:
        step: Local stage.
        results: Columns that are not partials, see `WindowAggregation.results`.

    Raises:
        AnalysisError: A function does not accept the type of an argument.
    """
    partials = {field.name: spark_type(field.type) for field in plan_of_local(step).schema}
    types = partials | {output.name: output.type for output in results}
    return {name: type_ for name, type_ in types.items() if type_ is not None}


def plan_of_local(step: LocalRows) -> BufferPlan:
    """Return the aggregates of a local stage over files or rows.

    Raises:
        AnalysisError: A function does not accept the type of an argument.
    """
    source = step.source
    assert not isinstance(source, SliceRows), "slices are partials already"
    return buffer_plan(step, *scan_projection(source))


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
    plan = plan_of_local(step)

    def read(split: Any) -> pa.Table:
        rows = ScanRows(step, store)
        counts.add(step.time_column, rows)
        batches = aggregate(plan, map(plan.rows, rows.rows_of_split(split)), _cut(plan))
        return pa.Table.from_batches(batches, plan.schema)

    files, filters = step.source.files, step.source.filters
    return [plan.schema.empty_table(), *map_splits(files, filters, store, read, per_core=1)]


def _tables_of_rows(step: RowLocalStep, batches: Iterator[pa.RecordBatch]) -> list[pa.Table]:
    """Return the partials of rows computed in this process."""
    plan, rows = plan_of_local(step), ScanRows(step)
    columns = (rows.columns(rows.filter_rows(batch)) for batch in batches if batch.num_rows)
    partials = aggregate(plan, map(plan.rows, columns), _cut(plan))
    return [pa.Table.from_batches(partials, plan.schema)]


def _cut(plan: BufferPlan) -> Callable[[pa.Table], Iterator[pa.RecordBatch]]:
    """Return the function that cuts a table of partials into batches."""

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        if not plan.window.has_slices:
            table = chain_partials(table, plan.keys, plan.accumulators, plan.window.gap_us)
        yield from table.to_batches()

    return cut


def _partials(step: SliceLocalStep, store_of: StoreOf) -> Iterator[pa.Table]:
    kept_in = store_of(step.source.files)
    yield from _in_parts(
        slice_splits(step.source, 1, kept_in),
        lambda split: split_tables(step, split, kept_in),
        kept_in,
    )
    tail = step.source.tail
    if tail is None:
        return
    base_in = store_of(tail.files)
    of = (step.window, step.time_column, step.time_type, step.slice_end)
    scan = LocalStep(tail, step.mode, *of)
    assert isinstance(tail.files, ScanSource), "slices are of Parquet files"
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
