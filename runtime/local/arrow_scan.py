"""The local stage by Arrow: files into blobs of partials without a row ever reaching Spark.

A DataFrame of split numbers gives Spark something to schedule; each task reads the row groups of
its splits, aggregates them in a bounded buffer and hands on one blob for each bucket of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from runtime.connectors.filesystem.paths import expand, local_path
from runtime.frames.blobs import BLOB_DDL, bucket_blobs, place_blobs
from runtime.frames.meter import Wrap, as_it_is
from runtime.frames.scan_counts import ScanCounter
from runtime.local.scan_task import ScanTask, scan_schema
from runtime.scan.files import NotScannable
from runtime.scan.metadata import find_source
from runtime.scan.splits import Split, plan_splits
from runtime.scan.wall_clock import is_known_zone
from runtime.spark.session import is_remote
from runtime.spark.workers import prepare_worker
from runtime.spec.local import ScanLocalStep
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

# The files of a path, below some roots, for some columns
Find = Callable[[str, Sequence[str], Sequence[Column]], ScanSource | NotScannable]
# From a table of partials to rows of blobs
Cut = Callable[[pa.Table], Iterator[pa.RecordBatch]]

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


def scan_partials(
    spark: SparkSession,
    step: ScanLocalStep,
    keys: tuple[str, ...],
    buckets: int,
    partitions: int,
    wrap: Wrap = as_it_is,
    counter: ScanCounter | None = None,
) -> DataFrame:
    """Blobs of partials, in the partition of their bucket, sorted by bucket.

    The footers of the files are read here, on the driver; row groups in which the filters can be
    true for no row make no splits.

    Args:
        spark: the session.
        step: what to read and aggregate.
        keys: the columns that decide on the bucket.
        buckets: how many buckets of keys there are.
        partitions: how many tasks they are spread over.
        wrap: what the stage is wrapped in, to measure it.
        counter: what counts the rows that are read, and those without a time.

    Returns:
        As `runtime.frames.blobs.place_blobs`.

    Raises:
        ExecutionError: a file is no longer what it was when the query was planned.
    """

    def cut(table: pa.Table) -> Iterator[pa.RecordBatch]:
        yield bucket_blobs(table, keys, buckets)

    return place_blobs(scan(spark, step, cut, BLOB_DDL, wrap, counter), partitions)


def scan(
    spark: SparkSession,
    step: ScanLocalStep,
    cut: Cut,
    schema: str,
    wrap: Wrap = as_it_is,
    counter: ScanCounter | None = None,
) -> DataFrame:
    """What `cut` makes of the partials of each split, as it is; else as `scan_partials`.

    Args:
        spark: the session.
        step: what to read and aggregate.
        cut: from a table of partials to rows of blobs.
        schema: the columns of those rows.
        wrap: what the stage is wrapped in, to measure it.
        counter: what counts the rows that are read, and those without a time.
    """
    n_cores = spark.sparkContext.defaultParallelism
    splits = plan_splits(step.source.files, step.source.filters, n_cores * _SPLITS_PER_CORE)
    numbers = spark.range(0, len(splits), 1, max(1, len(splits)))
    return numbers.mapInArrow(wrap(_scan(step, splits, cut, counter)), schema)


def scan_partials_schema(step: ScanLocalStep) -> StructType:
    """The rows inside the blobs, as Spark has them."""
    return from_arrow_schema(scan_schema(step), prefer_timestamp_ntz=True)


def _scan(
    step: ScanLocalStep, splits: list[Split], cut: Cut, counter: ScanCounter | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def scan(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(1)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                stage = ScanTask(step)
                for table in stage.run(splits[number]):
                    yield from cut(table)
                if counter is not None:
                    counter.record(number, stage.n_rows, stage.n_null_times)

    return scan
