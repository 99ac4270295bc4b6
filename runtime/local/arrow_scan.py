"""The local stage by Arrow: files into blobs of partials without a row ever reaching Spark.

A DataFrame of split numbers gives Spark something to schedule; each task reads the row groups of
its splits, aggregates them in a bounded buffer and hands on one blob for each bucket of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession

from runtime.connectors.filesystem.paths import expand
from runtime.frames.meter import ArrowFunction
from runtime.frames.scan_counts import ScanCounter
from runtime.local.scan_rows import ScanRows
from runtime.local.stage import BufferPlan, Cut, aggregate
from runtime.scan.files import NotScannable
from runtime.scan.metadata import find_source
from runtime.scan.splits import Split, plan_splits
from runtime.scan.wall_clock import is_known_zone
from runtime.spark.files import local_path
from runtime.spark.session import is_remote
from runtime.spark.workers import prepare_worker
from runtime.spec.local import ScanLocalStep
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

# The files of a path, below some roots, for some columns
Find = Callable[[str, Sequence[str], Sequence[Column]], ScanSource | NotScannable]

# More splits than cores, so that a slow one does not hold up the rest for long.
_SPLITS_PER_CORE = 3

# Settings that change what Spark makes of a Parquet file, with the values that the scan stands for.
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.caseSensitive": "false",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
}


def scan_source(
    spark: SparkSession, path: str, columns: Sequence[Column], find: Find = find_source
) -> ScanSource | NotScannable:
    """A Parquet table as the Arrow scan reads it, or why it cannot.

    Args:
        spark: the session, whose settings and file system matter.
        path: a file, a directory or a glob.
        columns: the columns needed, with the names and types that Spark found.
        find: looks at the files: `find_source`, or `find_stream_source` if more are to come.
    """
    if is_remote(spark):
        return NotScannable("the files are on the machine of the Spark Connect server")
    for key, value in _SETTINGS.items():
        setting = spark.conf.get(key, value)
        if str(setting).lower() != value.lower():
            return NotScannable(f"{key} is {setting}")
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    if not is_known_zone(zone):
        return NotScannable(f"the time zone {zone} is known to Java only")
    root = local_path(spark, path)
    if root is None:
        return NotScannable(f"{path} is not on a local file system")
    return find(path, expand(root), columns)


def planned_splits(spark: SparkSession, step: ScanLocalStep) -> list[Split]:
    """The splits of a scan, some for each core.

    The footers of the files are read here, on the driver; row groups in which the filters can be
    true for no row make no splits.

    Raises:
        ExecutionError: a file is no longer what it was when the query was planned.
    """
    n_splits = spark.sparkContext.defaultParallelism * _SPLITS_PER_CORE
    return plan_splits(step.source.files, step.source.filters, n_splits)


def split_partials(
    step: ScanLocalStep,
    plan: BufferPlan,
    splits: Sequence[Split],
    counter: ScanCounter | None,
    cut: Cut,
) -> ArrowFunction:
    """What a task makes of the numbers of its splits, one to a row.

    Args:
        step: what to read and evaluate.
        plan: what to aggregate.
        splits: all splits.
        counter: what counts the rows that are read, and those without a time.
        cut: what becomes of a table of partials.
    """

    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = ScanRows(step)
                yield from aggregate(plan, map(plan.rows, rows.of_split(splits[number])), cut)
                if counter is not None:
                    counter.record(number, rows.n_rows, rows.n_null_times)

    return scan
