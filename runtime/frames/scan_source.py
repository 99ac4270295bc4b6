"""Find the Parquet files that the Arrow scan reads as Spark would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.compute.wall_clock import is_known_zone
from runtime.errors import SetupError
from runtime.files import is_local_path
from runtime.frames.file_jobs import file_checker
from runtime.refusal import refuse
from runtime.scan.metadata import find_source
from runtime.scan.paths import expand
from runtime.scan.stores import Store, filesystem_of
from runtime.spark.files import resolve, spark_reads, store_at
from runtime.spark.session import is_remote
from runtime.spark.settings import settings_of
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Function that finds the files of a path, below some roots, for some columns, in a store or on this
# machine
Find = Callable[[str, Sequence[str], Sequence[Column], Store | None], ScanSource]

# Settings that change how Spark reads Parquet files, with the values that the scan implements.
_SETTINGS_OF_EXPRESSIONS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
}
SETTINGS_OF_SCANS = {
    **_SETTINGS_OF_EXPRESSIONS,
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
}

# Settings that change how Spark reads text files, with the values that `runtime.text` implements
SETTINGS_OF_TEXT = {
    **_SETTINGS_OF_EXPRESSIONS,
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
}


def scan_source(
    spark: SparkSession, path: str, columns: Sequence[Column], find: Find = find_source
) -> ScanSource:
    """Return a Parquet table for the Arrow scan.

    Args:
        spark: Session whose settings and file systems apply.
        path: File, directory or glob, local or in an object store.
        columns: Required columns with the names and types that Spark reports.
        find: Lists the files: `find_source`, or `find_stream_source` if more will arrive.

    Raises:
        Refused: It cannot be scanned.
    """
    if is_remote(spark):
        refuse("the files are on the host of the Spark Connect server")
    check_like_spark(spark, SETTINGS_OF_SCANS)
    roots, store = roots_of(spark, path)
    try:
        return _find_files(spark, find, path, roots, columns, store)
    except OSError as error:
        refuse(f"{path}: {error.strerror or error}")


def roots_of(spark: SparkSession, path: str) -> tuple[Sequence[str], Store | None]:
    """Return the files and directories of a path, and their store; None for this machine.

    Raises:
        Refused: Arrow cannot open the store.
    """
    root = resolve(spark, path)
    if is_local_path(root):
        return expand(root), None
    try:
        store = store_at(spark, root)
    except SetupError as error:
        refuse(error.message)
    if store is None:
        refuse(f"{path} is on a file system that Arrow does not support")
    from runtime.scan.stored_files import StoredFiles

    try:
        filesystem_of(store)
        return expand(root, StoredFiles(store)), store
    except OSError as error:
        refuse(f"{path}: {error.strerror or error}")


def check_like_spark(
    spark: SparkSession, settings: Mapping[str, str] = _SETTINGS_OF_EXPRESSIONS
) -> None:
    """Refuse settings with which Arrow evaluates rows differently from Spark.

    Args:
        spark: Spark session.
        settings: Relevant settings with the values that Arrow implements.
    """
    if is_remote(spark):
        refuse("the rows are on the host of the Spark Connect server")
    check_expression_settings(spark, settings)
    zone = settings_of(spark).get("spark.sql.session.timeZone")
    if not is_known_zone(zone):
        refuse(f"the time zone {zone} exists in Java only")


def check_expression_settings(
    spark: SparkSession, settings: Mapping[str, str] = _SETTINGS_OF_EXPRESSIONS
) -> None:
    """Refuse settings with which Spark evaluates expressions in another way.

    Args:
        spark: Spark session.
        settings: Relevant settings with their usual values.
    """
    session_settings = settings_of(spark)
    for key, value in settings.items():
        setting = session_settings.get(key, value)
        if setting.lower() != value.lower():
            refuse(f"{key} is {setting}")


def _find_files(
    spark: SparkSession,
    find: Find,
    path: str,
    roots: Sequence[str],
    columns: Sequence[Column],
    store: Store | None,
) -> ScanSource:
    if find is find_source:
        check = file_checker(spark)
        can_spark = store is None or spark_reads(spark, roots[0] if roots else path)
        return find_source(path, roots, columns, store, check, leaves_some=can_spark)
    return find(path, roots, columns, store)


def store_of_scan(spark: SparkSession, path: str) -> Store | None:
    """Return the store with which tasks open the files of `scan_source`; None for local disks."""
    return store_at(spark, resolve(spark, path))
