"""Answers about tables of files while a query is planned, without PySpark and Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.files import is_local_path
from runtime.frames.scan_source import scan_source
from runtime.options.checks import option_values
from runtime.options.formats import STREAM_OPTIONS
from runtime.refusal import refuse
from runtime.scan.metadata import find_stream_source
from runtime.spark.files import resolve
from runtime.spark.session import is_remote
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.table import OPTIONS_OF_STREAMS, Column, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Metadata columns, and Spark's names for them
METADATA = {
    "file.path": "file_path",
    "file.name": "file_name",
    "file.size": "file_size",
    "file.modification-time": "file_modification_time",
}
# Options that do not change how a batch reads files. Spark's file stream source uses its options to
# decide the order and number of files that a stream reads at a time.
PASSIVE_OPTIONS = frozenset(
    (
        "path",
        "format",
        *OPTIONS_OF_STREAMS,
        *STREAM_OPTIONS,
        *map(str.lower, STREAM_OPTIONS.values()),
    )
)
# Further options that only affect which files of a stream are read, and when
_STREAM_OPTIONS = frozenset(("source.monitor-interval", "source.path.regex-pattern"))


def check_scan(spec: TableSpec, columns: Sequence[Column], *, is_stream: bool = False) -> None:
    """Refuse columns of a table of files that the Arrow scan cannot read."""
    if is_stream and spec.late_rows is not None:
        refuse(f"late rows go to {spec.late_rows} with all columns of the table")
    options = {name.lower(): value for name, value in spec.options}
    others = sorted(
        set(options) - (PASSIVE_OPTIONS | _STREAM_OPTIONS if is_stream else PASSIVE_OPTIONS)
    )
    if others:
        refuse(f"the table has the option '{others[0]}'")
    if options.get("format", "").lower() != "parquet" and not options["path"].endswith(".parquet"):
        refuse("the files are not Parquet")
    needed = {column.name.partition(".")[0].lower() for column in columns}
    for column in spec.columns:
        if column.name.lower() in needed and (column.computed or column.metadata):
            refuse(f"{column.name} is not stored in the files")


def scan(
    spark: SparkSession,
    spec: TableSpec,
    columns: Sequence[Column],
    filters: Sequence[Expression] = (),
) -> ScanSource:
    """Return the files of a table for the Arrow scan."""
    check_scan(spec, columns)
    return scan_source(spark, spec.option_map["path"], columns)


def stream_scan(spark: SparkSession, spec: TableSpec, columns: Sequence[Column]) -> SplitTable:
    """Return the files of a stream for the Arrow scan."""
    check_scan(spec, columns, is_stream=True)
    source = scan_source(spark, spec.option_map["path"], columns, find_stream_source)
    return SplitTable(spec, source.path, source.columns)


def may_be_unwritten(spec: TableSpec, path: str) -> bool:
    """Return whether a missing path may be the directory of a table without any writes yet.

    Such a table has no rows. If columns are not declared, or if the path is a pattern or has a
    suffix such as `.csv`, it is more likely misspelt.
    """
    name = path.rstrip("/").rpartition("/")[2]
    is_file = bool(os.path.splitext(name)[1]) or any(sign in name for sign in "*?[{")
    return bool(spec.columns) and not is_file


def unwritten_note(spark: SparkSession, spec: TableSpec) -> str | None:
    """Return the note about a table whose directory on this machine is missing, or None.

    The table has no rows, and its path may be misspelt.
    """
    path = option_values(spec).get("path")
    if path is None or is_remote(spark):
        return None
    origin = resolve(spark, path)
    if not is_local_path(origin) or os.path.exists(origin) or not may_be_unwritten(spec, origin):
        return None
    return f"{origin} does not exist yet, so `{spec.name}` has no rows"
