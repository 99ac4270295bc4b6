"""The local stage over files, in Arrow: rows become blobs of partials without Spark.

A DataFrame with a row per split gives Spark something to schedule. Each task reads the row groups
of its splits, aggregates them in a bounded buffer and yields one blob per bucket of keys.
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
from pyspark.sql.types import StructField, StructType

from runtime.frames.arrow_tables import create_frame
from runtime.frames.blobs import Emit
from runtime.frames.file_jobs import row_group_selector
from runtime.frames.meter import ArrowFunction
from runtime.frames.scan_counts import ScanCounter
from runtime.local.scan_rows import ScanRows
from runtime.local.split_windows import SplitWindows
from runtime.local.stage import BufferPlan, Cut, aggregate
from runtime.plan.local import FileLocalStep
from runtime.scan.paths import path_for_spark
from runtime.scan.splits import ExclusiveTimes, Split, plan_splits
from runtime.scan.stores import STORE_READERS, Store
from runtime.spark.versions.casts import type_from_ddl
from runtime.spark.versions.frames import place_rows
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import PartitionValue, ScanSource
from runtime.spec.text import FileSource
from runtime.text.read import TextSplit

T = TypeVar("T")

# A split, and the times for which only this split has rows
ScanSplit = tuple[Split | TextSplit, ExclusiveTimes | None]

# More splits than cores, so that one is read while another's partials are sent to the JVM, and a
# slow one delays the rest less. Each costs 10 ms itself, 40 through TCP.
SPLITS_PER_CORE = 2
# Column with the number of a split
SPLIT = "$split"
# Maximum bytes of splits that are sent to each task with its code
_CODE_BYTES = 64 << 10


def planned_splits(
    spark: SparkSession, step: FileLocalStep, store: Store | None, time: str | None = None
) -> list[Split]:
    """Plan the splits of a scan: some per core, and more for a large table.

    File footers are read on the driver, or by a job if there are many. Row groups that no filter
    condition can match are left out. The splits' `times_us` are times of the column `time`.

    Raises:
        ExecutionError: A file has changed since the query was planned.
    """
    n_splits = spark.sparkContext.defaultParallelism * SPLITS_PER_CORE
    files = step.source.files
    assert isinstance(files, ScanSource), "text is cut by bytes"
    return plan_splits(
        files,
        step.source.filters,
        n_splits,
        store=store,
        groups_of=row_group_selector(spark),
        time=time,
    )


def split_rows(
    spark: SparkSession, splits: Sequence[ScanSplit], source: FileSource
) -> tuple[DataFrame, Sequence[ScanSplit]]:
    """Return a DataFrame that assigns splits to tasks, with one partition per split.

    If there are many files, the rows contain the splits; otherwise the rows are numbers, and the
    splits go to the tasks with their code, which needs no shuffle. Files that the scan cannot read
    are appended as rows that Spark has read.

    Args:
        spark: Session.
        splits: Splits.
        source: Files of the splits.

    Returns:
        The rows, and the splits to send with the code.
    """
    rows, shipped = item_rows(spark, splits)
    return _append_others(spark, rows, source), shipped


def item_rows(spark: SparkSession, items: Sequence[T]) -> tuple[DataFrame, Sequence[T]]:
    """Return rows that number items, one per partition, and the items to send with the code.

    If the items are large, the rows contain them, pickled in `$files`, and no items are returned.
    """
    n_items = max(1, len(items))
    blobs = [pickle.dumps(item) for item in items]
    if sum(map(len, blobs)) <= _CODE_BYTES:
        numbers = spark.range(0, len(items), 1, n_items).withColumnRenamed("id", SPLIT)
        return numbers, items
    table = pa.table({SPLIT: pa.array(range(n_items), pa.int32()), "$files": blobs})
    return place_rows(create_frame(spark, table), n_items, SPLIT), ()


def items_of(batches: Iterable[pa.RecordBatch], items: Sequence[T]) -> Iterator[T]:
    """Yield the items of a task from its rows of `item_rows`.

    Args:
        batches: Rows of the task.
        items: All items. Empty if the rows contain them.
    """
    for row in chain.from_iterable(batch.to_pylist() for batch in batches):
        yield items[row[SPLIT]] if items else pickle.loads(row["$files"])


def _append_others(spark: SparkSession, splits: DataFrame, source: FileSource) -> DataFrame:
    if not source.others:
        return splits  # avoids a call to the JVM for each type that it would parse
    fields = [StructField(c.name, type_from_ddl(c.type)) for c in source.columns]
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
    """Return the function of a task that reads its splits, one per row.

    Args:
        step: What to read and evaluate.
        plan: What to aggregate.
        splits: All splits. Empty if the rows contain them.
        store: Object store with the files. None means this machine.
        counter: Counts the rows that are read, and those without a time.
        cut: Converts a table of partials to output batches.
        emit: Does so for windows whose rows are all in one split. None means `cut`.
    """
    # the splits name their files
    source = replace(step.source, files=step.source.files.without_files())
    step = replace(step, source=source)

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(1 if store is None else STORE_READERS)
        for is_splits, group in groupby(batches, lambda batch: batch.column(0).null_count == 0):
            if not is_splits:
                rows = ScanRows(step, store)
                yield from aggregate(plan, map(plan.rows, map(rows.rows_of_spark, group)), cut)
                if counter is not None and (task := TaskContext.get()) is not None:
                    counter.record(-1 - task.partitionId(), rows.n_rows, rows.n_null_times)
                continue
            for row in chain.from_iterable(batch.to_pylist() for batch in group):
                number = row[SPLIT]
                split, time_range = splits[number] if splits else pickle.loads(row["$files"])
                rows = ScanRows(step, store)
                at_end = None
                if emit is not None and time_range is not None:
                    at_end = SplitWindows(step, time_range, cut, emit).remaining_batches
                yield from aggregate(plan, map(plan.rows, rows.rows_of_split(split)), cut, at_end)
                if counter is not None:
                    counter.record(number, rows.n_rows, rows.n_null_times)

    return scan
