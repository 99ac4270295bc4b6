"""The local stage by Arrow: files into blobs of partials without a row ever reaching Spark.

A DataFrame with a row for each split gives Spark something to schedule; each task reads the row
groups of its splits, aggregates them in a bounded buffer and hands on one blob for each bucket of
keys.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from runtime.frames.blobs import Emit
from runtime.frames.file_jobs import groups_by_job
from runtime.frames.meter import ArrowFunction
from runtime.frames.scan_counts import ScanCounter
from runtime.local.scan_rows import ScanRows
from runtime.local.split_windows import SplitWindows
from runtime.local.stage import BufferPlan, Cut, aggregate
from runtime.scan.paths import path_for_spark
from runtime.scan.splits import OwnTimes, Split, plan_splits
from runtime.scan.stores import STORE_READERS, Store
from runtime.spark.workers import prepare_worker
from runtime.spec.local import FileLocalStep
from runtime.spec.scan import PartitionValue, ScanSource

T = TypeVar("T")

# A split, and when it alone has rows
ScanSplit = tuple[Split, OwnTimes | None]

# More splits than cores, so that one is read while partials of another are on their way to the JVM,
# and a slow one does not hold up the rest for long. Each costs 10 ms of its own, through TCP 40.
SPLITS_PER_CORE = 2
# The column with the number of a split
SPLIT = "$split"
# So much goes to each task with its code
CODE_BYTES = 64 << 10


def planned_splits(
    spark: SparkSession, step: FileLocalStep, store: Store | None, time: str | None = None
) -> list[Split]:
    """The splits of a scan: some for each core, and more of a large table.

    The footers of the files are read on the driver, or by a job if there are many; row groups in
    which the filters can be true for no row make no splits. Their `times_us` are those of `time`.

    Raises:
        ExecutionError: a file is no longer what it was when the query was planned.
    """
    n_splits = spark.sparkContext.defaultParallelism * SPLITS_PER_CORE
    found = step.source.files
    return plan_splits(
        found, step.source.filters, n_splits, store=store, groups_of=groups_by_job(spark), time=time
    )


def split_rows(
    spark: SparkSession, splits: Sequence[ScanSplit], source: ScanSource
) -> tuple[DataFrame, Sequence[ScanSplit]]:
    """What tells tasks their splits: rows of a DataFrame, a partition a split.

    Of many files the splits themselves are in the rows; else the rows number those that go to
    tasks with their code, which needs no shuffle. What the scan cannot read stands behind them, as
    rows that Spark has read.

    Args:
        spark: the session.
        splits: the splits.
        source: the files that they are of.

    Returns:
        The rows, and the splits that go with the code.
    """
    rows, sent = item_rows(spark, splits)
    return _with_others(spark, rows, source), sent


def item_rows(spark: SparkSession, items: Sequence[T]) -> tuple[DataFrame, Sequence[T]]:
    """Rows that number what tasks read, a partition each, and what goes with the code of it.

    Where that would be much, the items are in the rows, pickled in `$files`, and none is returned.
    """
    n_items = max(1, len(items))
    blobs = [pickle.dumps(item) for item in items]
    if sum(map(len, blobs)) <= CODE_BYTES:
        numbers = spark.range(0, len(items), 1, n_items).withColumnRenamed("id", SPLIT)
        return numbers, items
    table = pa.table({SPLIT: pa.array(range(n_items), pa.int32()), "$files": blobs})
    return spark.createDataFrame(table).repartitionById(n_items, SPLIT), ()


def items_of(batches: Iterable[pa.RecordBatch], items: Sequence[T]) -> Iterator[T]:
    """What a task reads, of the rows of `item_rows` that it is given.

    Args:
        batches: the rows.
        items: all items; none if they are in the rows.
    """
    for row in chain.from_iterable(batch.to_pylist() for batch in batches):
        yield items[row[SPLIT]] if items else pickle.loads(row["$files"])


def _with_others(spark: SparkSession, splits: DataFrame, source: ScanSource) -> DataFrame:
    if not source.others:
        return splits  # each type that Java parses is a call
    fields = [StructField(c.name, DataType.fromDDL(c.type)) for c in source.columns]
    reader = spark.read.schema(StructType(fields))
    by_values: dict[tuple[PartitionValue, ...], list[str]] = {}
    for file in source.others:
        by_values.setdefault(file.partition_values, []).append(path_for_spark(file.path))
    for values, paths in by_values.items():
        constants = [
            F.lit(value).cast(column.type).alias(column.name)
            for column, value in zip(source.partition_columns, values, strict=True)
        ]
        rows = reader.parquet(*paths).select("*", *constants)
        splits = splits.unionByName(rows, allowMissingColumns=True)
    return splits


def split_partials(
    step: FileLocalStep,
    plan: BufferPlan,
    splits: Sequence[ScanSplit],
    store: Store | None,
    counter: ScanCounter | None,
    cut: Cut,
    emit: Emit | None = None,
) -> ArrowFunction:
    """What a task makes of its splits, one to a row.

    Args:
        step: what to read and evaluate.
        plan: what to aggregate.
        splits: all splits; none if they are in the rows.
        store: where the files are; None: on this machine.
        counter: what counts the rows that are read, and those without a time.
        cut: what becomes of a table of partials.
        emit: what becomes of those of windows whose rows are all in one split; None: `cut`.
    """
    # which files there are is said by the splits
    files = replace(step.source.files, files=(), others=())
    source = replace(step.source, files=files)
    step = replace(step, source=source)

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(1 if store is None else STORE_READERS)
        for is_splits, group in groupby(batches, lambda batch: batch.column(0).null_count == 0):
            if not is_splits:
                rows = ScanRows(step, store)
                yield from aggregate(plan, map(plan.rows, map(rows.of_spark, group)), cut)
                if counter is not None and (task := TaskContext.get()) is not None:
                    counter.record(-1 - task.partitionId(), rows.n_rows, rows.n_null_times)
                continue
            for row in chain.from_iterable(batch.to_pylist() for batch in group):
                number = row[SPLIT]
                split, own = splits[number] if splits else pickle.loads(row["$files"])
                rows = ScanRows(step, store)
                at_end = None
                if emit is not None and own is not None:
                    at_end = SplitWindows(step, own, cut, emit).at_end
                yield from aggregate(plan, map(plan.rows, rows.of_split(split)), cut, at_end)
                if counter is not None:
                    counter.record(number, rows.n_rows, rows.n_null_times)

    return scan
