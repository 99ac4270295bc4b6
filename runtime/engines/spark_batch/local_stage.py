"""The local stage of a batch query: a DataFrame whose tasks compute partials."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.compute.kernels.session import chain_partials
from runtime.compute.values.percentiles import condense
from runtime.connectors.registry import open_table
from runtime.frames.blobs import Emit, large_tables, map_in_arrow
from runtime.frames.file_jobs import row_group_selector
from runtime.frames.meter import ArrowFunction, Wrap
from runtime.frames.scan_counts import StatementScanCounts
from runtime.frames.scan_source import store_of_scan
from runtime.frames.views import temporary_view
from runtime.local.arrow_scan import (
    SPLITS_PER_CORE,
    ScanSplit,
    item_rows,
    items_of,
    planned_splits,
    split_partials,
    split_rows,
)
from runtime.local.messages import columns_of_ddl, message_partials, run_two_passes
from runtime.local.projection import select_items, spark_types, sql_projection
from runtime.local.scan_rows import scan_projection
from runtime.local.slice_scan import (
    expand_schema,
    expand_tables,
    partials_schema,
    slice_splits,
    split_tables,
)
from runtime.local.split_windows import exclusive_time_column
from runtime.local.stage import BufferPlan, Cut, aggregate, buffer_plan
from runtime.names import quote_name
from runtime.plan.exchange import ExchangeStep, SharedExchangeStep
from runtime.plan.local import (
    ArrowBuffer,
    FileLocalStep,
    FileScan,
    GroupingSets,
    LocalStep,
    SliceLocalStep,
    SliceRows,
    SplitScan,
    SqlRows,
    is_local,
)
from runtime.plan.nodes import PlanNode
from runtime.scan.splits import Split, exclusive_times
from runtime.scan.stores import Store
from runtime.spark.workers import prepare_worker
from runtime.spec.aggregates import Accumulator
from runtime.spec.source import SplitReader, SplitSource
from runtime.spec.table import Column
from runtime.spec.text import TextSource
from runtime.text.read import text_splits


@dataclass(frozen=True)
class LocalStage:
    """Tables of partials in the tasks of a DataFrame.

    Attributes:
        input: Input of the tasks.
        run: Function that returns a task's function, given a `Cut` of its tables.
        schema: Schema of the tables.
        label: Operator name for EXPLAIN ANALYZE.
        appendix: Second stage whose tables are appended.
        run_emitting: Like `run`, but passes partials of windows whose rows are all in one split to
            `Emit`; None if no such windows are known.
    """

    input: DataFrame
    run: Callable[[Cut], ArrowFunction]
    schema: StructType
    label: str
    appendix: LocalStage | None = None
    run_emitting: Callable[[Cut, Emit], ArrowFunction] | None = None

    def cut(
        self, cut: Cut, ddl: str, wrap: Callable[[str], Wrap], emit: Emit | None = None
    ) -> DataFrame:
        """Apply `cut` to the tables; returns rows of `ddl`, measured by `wrap`.

        Includes the result of `emit` for windows known to be complete.
        """
        if emit is None or self.run_emitting is None:
            run = self.run(cut)
        else:
            run = self.run_emitting(cut, emit)
        frame = map_in_arrow(self.input, wrap(self.label)(run), ddl)
        return frame if self.appendix is None else frame.union(self.appendix.cut(cut, ddl, wrap))


@dataclass(frozen=True)
class _MessageStage(LocalStage):
    """Local stage over messages, some of which Spark decodes between two passes."""

    second: Callable[[list[str]], Callable[[Cut], ArrowFunction]] = field(kw_only=True)
    source: SplitSource = field(kw_only=True)
    reader: SplitReader = field(kw_only=True)
    columns: tuple[Column, ...] = field(kw_only=True)

    def cut(
        self, cut: Cut, ddl: str, wrap: Callable[[str], Wrap], emit: Emit | None = None
    ) -> DataFrame:
        first = wrap(self.label)(self.run(cut))
        second = self.second(columns_of_ddl(ddl).names)(cut)
        return run_two_passes(
            self.input, ddl, first, second, self.source, self.reader, self.columns
        )


def local_stage(
    spark: SparkSession,
    exchange: ExchangeStep | SharedExchangeStep,
    child: Callable[[PlanNode], DataFrame],
    buffer_bytes: int,
    scan_counts: StatementScanCounts | None,
    accumulators: Sequence[Accumulator] = (),
) -> LocalStage:
    """Return the local stage of an exchange.

    Args:
        spark: Spark session.
        exchange: Exchange.
        child: Function that builds the DataFrames of other steps.
        buffer_bytes: Maximum bytes of partials that a task buffers before it sends them.
        scan_counts: Row counters of scans.
        accumulators: Readers of the partials. Lists of values from Spark SQL are reduced for the
            accuracy of their percentiles.

    Raises:
        AnalysisError: A function does not accept the type of an argument.
        ExecutionError: A file has changed since planning.
    """
    step = exchange.input
    if is_local(step, FileScan, ArrowBuffer):
        return _files_stage(spark, step, buffer_bytes, scan_counts)
    if is_local(step, SplitScan, ArrowBuffer):
        return _messages_stage(spark, step, buffer_bytes, scan_counts)
    if is_local(step, SliceRows, ArrowBuffer):
        return _slices_stage(spark, step, buffer_bytes, scan_counts)
    if is_local(step, SqlRows, ArrowBuffer):
        columns = sql_projection(step)
        with temporary_view(spark, child(step.source.input)) as source:
            rows = spark.sql(
                f"SELECT {select_items(columns)} FROM {source} "
                f"WHERE {quote_name(step.time_column)} IS NOT NULL"
            )
        plan = buffer_plan(step, columns, spark_types(rows), buffer_bytes)
        run = _chain_sessions(plan, partial(_aggregate_rows, plan))
        return LocalStage(rows, run, _spark_schema(plan.schema), step.label)
    rows = child(step)
    of_partials = partial(_collect_partials, buffer_bytes, accumulators)
    return LocalStage(rows, of_partials, rows.schema, exchange.label)


def _chain_sessions(
    plan: BufferPlan, run: Callable[[Cut], ArrowFunction]
) -> Callable[[Cut], ArrowFunction]:
    """Wrap a stage over sessions to merge partials known to belong to one session."""
    window = plan.window
    if window.has_slices:
        return run
    gap_us = window.gap_us

    def run_chained(cut: Cut) -> ArrowFunction:
        def cut_chained(table: pa.Table) -> Iterator[pa.RecordBatch]:
            return cut(chain_partials(table, plan.keys, plan.accumulators, gap_us))

        return run(cut_chained)

    return run_chained


def _files_stage(
    spark: SparkSession,
    step: FileLocalStep,
    buffer_bytes: int,
    scan_counts: StatementScanCounts | None,
) -> LocalStage:
    """Return the stage over files that tasks read themselves."""
    plan = buffer_plan(step, *scan_projection(step.source), buffer_bytes)
    counter = None if scan_counts is None else scan_counts.counter(step.time_column)
    store = store_of_scan(spark, step.source.files.path)
    splits = _splits_of_files(spark, step, store)
    numbers, shipped = split_rows(spark, splits, step.source.files)
    scan = partial(split_partials, step, plan, shipped, store, counter)
    return LocalStage(
        numbers,
        _chain_sessions(plan, scan),
        _spark_schema(plan.schema),
        step.label,
        run_emitting=scan if any(times for _, times in splits) else None,
    )


def _splits_of_files(
    spark: SparkSession, step: FileLocalStep, store: Store | None
) -> list[ScanSplit]:
    """Return the splits of files, with the times for which only one split has rows."""
    files = step.source.files
    if isinstance(files, TextSource):
        n_splits = spark.sparkContext.defaultParallelism * SPLITS_PER_CORE
        return [(split, None) for split in text_splits(files, step.source.filters, n_splits)]
    splits = planned_splits(spark, step, store, exclusive_time_column(step))
    return list(zip(splits, exclusive_times(splits), strict=True))


def _messages_stage(
    spark: SparkSession,
    step: LocalStep[SplitScan, ArrowBuffer],
    buffer_bytes: int,
    scan_counts: StatementScanCounts | None,
) -> LocalStage:
    """Return the stage over the messages available when the batch begins."""
    plan = buffer_plan(step, *scan_projection(step.source), buffer_bytes)
    counter = None if scan_counts is None else scan_counts.counter(step.time_column)
    columns = step.source.columns
    source = open_table(step.source.source.table).splits(spark)
    reader = source.reader(columns, is_stream=False)
    n_tasks = spark.sparkContext.defaultParallelism * SPLITS_PER_CORE
    portions = source.batch_splits(n_tasks, step.source.source.filters)
    numbers, shipped = item_rows(spark, portions)
    first, second = message_partials(step, plan, reader, shipped, counter)
    if reader.undecoded_ddl is None:
        run, schema = _chain_sessions(plan, first), _spark_schema(plan.schema)
        return LocalStage(numbers, run, schema, step.label)
    return _MessageStage(
        numbers,
        _chain_sessions(plan, first),
        _spark_schema(plan.schema),
        step.label,
        second=lambda names: _chain_sessions(plan, partial(second, names)),
        source=source,
        reader=reader,
        columns=columns,
    )


def _slices_stage(
    spark: SparkSession,
    step: SliceLocalStep,
    buffer_bytes: int,
    scan_counts: StatementScanCounts | None,
) -> LocalStage:
    """Return the stage over materialized slices, and over rows that are not in them yet."""
    source, tail = step.source, None
    sets, keys = source.sets, step.keys
    if source.tail is not None:
        of = (step.window, step.time_column, step.time_type, step.slice_end, step.label)
        tail_step = LocalStep(source.tail, step.mode, *of)
        below = _files_stage(spark, tail_step, buffer_bytes, scan_counts)
        schema = expand_schema(partials_schema(step), sets)
        run = below.run
        tail = replace(below, run=lambda cut: run(_expand_sets(cut, keys, sets)))
        tail = replace(tail, schema=_spark_schema(schema), run_emitting=None)
    store = store_of_scan(spark, source.files.path)
    n_splits = spark.sparkContext.defaultParallelism * SPLITS_PER_CORE
    splits = slice_splits(source, n_splits, store, row_group_selector(spark))
    numbers, shipped = item_rows(spark, splits)
    step = replace(step, source=replace(source, files=replace(source.files, files=()), tail=None))
    schema = expand_schema(partials_schema(step), sets)
    scan = partial(_read_slices, step, shipped, store)
    return LocalStage(numbers, scan, _spark_schema(schema), step.label, tail)


def _read_slices(
    step: SliceLocalStep, splits: Sequence[Split], store: Store | None, cut: Cut
) -> ArrowFunction:
    """Return the task function that reads the slices of splits, one split per input row."""
    expanding = _expand_sets(cut, step.keys, step.source.sets)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for split in items_of(batches, splits):
            for table in split_tables(step, split, store):
                yield from expanding(table)

    return run


def _expand_sets(cut: Cut, keys: Sequence[str], sets: GroupingSets | None) -> Cut:
    """Return `cut`, preceded by the expansion of grouping sets."""

    def run(table: pa.Table) -> Iterator[pa.RecordBatch]:
        for expanded_table in expand_tables([table], keys, sets):
            yield from cut(expanded_table)

    return run


def _aggregate_rows(plan: BufferPlan, cut: Cut) -> ArrowFunction:
    """Return the task function that aggregates Spark rows in a buffer."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        yield from aggregate(plan, map(plan.rows, batches), cut)

    return run


def _collect_partials(
    enough_bytes: int, accumulators: Sequence[Accumulator], cut: Cut
) -> ArrowFunction:
    """Return the task function that collects Spark SQL's partials into tables of `enough_bytes`."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for table in large_tables(batches, enough_bytes):
            yield from cut(_thin_out(table, accumulators))

    return run


def _thin_out(table: pa.Table, accumulators: Sequence[Accumulator]) -> pa.Table:
    """Reduce the lists of values for percentiles as far as the accuracy permits."""
    accuracies: dict[str, int] = {}
    for reader in accumulators:
        if reader.condenses_to is not None:
            (name,) = reader.columns
            accuracies[name] = max(reader.condenses_to, accuracies.get(name, 0))
    for name, accuracy in accuracies.items():
        position = table.schema.get_field_index(name)
        table = table.set_column(position, name, condense(table.column(name), accuracy))
    return table


def _spark_schema(schema: pa.Schema) -> StructType:
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)
