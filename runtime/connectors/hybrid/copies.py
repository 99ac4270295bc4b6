"""Copy of a first table that tasks do not read as files: Parquet in the checkpoint, made once.

    listed-files/<number of a table>/first-<unique>/    the files of a copy

The plan of the first table names the files of its copy, and is written after them. A copy without a
plan belongs to a stream that was killed before it read a row: it is made again. Of several hybrid
tables in a stream, the first makes the copies of all, in its directory.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from pyspark.sql import SparkSession

from runtime.connectors.connector import Table
from runtime.errors import ExecutionError
from runtime.files import as_uri
from runtime.frames.scan_source import SETTINGS_OF_SCANS, check_like_spark, scan_source
from runtime.names import quote_name
from runtime.refusal import refuse
from runtime.scan.metadata import is_flat
from runtime.shown_types import shown_type
from runtime.spark.files import files_at
from runtime.spec.scan import ScanSource
from runtime.spec.table import Column

_PREFIX = "first-"
# Size of row groups at most, the default of Spark's writer
_GROUP_BYTES = 128 << 20


@dataclass(frozen=True)
class CopySource:
    """First table that a stream copies before it reads it.

    Attributes:
        connector: Its connector.
        reason: Why tasks do not read the table itself.
    """

    connector: str
    reason: str

    @property
    def path(self) -> str:
        """Description for EXPLAIN."""
        return f"{self.connector}; copied into the checkpoint at the start: {self.reason}"


def check_copy(spark: SparkSession, table: Table, columns: tuple[Column, ...], reason: str) -> None:
    """Check that a stream can copy a table, and that tasks read the columns from the copy.

    Args:
        spark: Spark session.
        table: Table to copy.
        columns: Columns to read.
        reason: Why tasks do not read the table itself.

    Raises:
        Refused: It cannot.
    """
    if not table.has_snapshots:
        refuse(reason)
    check_like_spark(spark, SETTINGS_OF_SCANS)
    for column in columns:
        if "." in column.name or not is_flat(column.type):
            refuse(f"{reason}, and column {column.name} is {shown_type(column.type)}")


def remove_copies(spark: SparkSession, directory: str) -> None:
    """Remove the copies of a stream that was killed before it had a plan."""
    files = files_at(spark, directory)
    for name in files.names_in(directory):
        if name.startswith(_PREFIX):
            files.delete(f"{directory}/{name}")


def write_copy(
    spark: SparkSession,
    table: Table,
    columns: tuple[Column, ...],
    time: Column,
    directory: str,
    group_bytes: int,
) -> ScanSource:
    """Write a copy of a table, and return its files.

    Each file is in order of time, so that a range of few row groups spans little time.

    Args:
        spark: Spark session.
        table: Table to copy.
        columns: All columns.
        time: Time column.
        directory: Directory of the table's records in the checkpoint.
        group_bytes: Size of a row group in memory.

    Raises:
        SqlwinError: The table cannot be read, or has no rows.
        Refused: Tasks do not read what Spark has written.
    """
    # tasks of a killed stream may still write to the directory that it had
    path = f"{directory}/{_PREFIX}{uuid.uuid4().hex}"
    with table.errors(), table.snapshot() as snapshot:
        rows = snapshot.rows(spark).select(*(quote_name(column.name) for column in columns))
        writer = rows.sortWithinPartitions(quote_name(time.name)).write
        writer.option("parquet.block.size", min(group_bytes, _GROUP_BYTES)).parquet(as_uri(path))
    source = scan_source(spark, as_uri(path), [time])
    if source.others:
        refuse(f"only Spark reads {source.others[0].path}")
    if not source.n_rows:
        raise ExecutionError(
            f"table `{table.spec.name}` has no rows to begin with", subjects=(table.spec.name,)
        )
    return source
