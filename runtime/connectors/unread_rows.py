"""Spark's view of a stream that only tasks can read: its columns, and why Spark cannot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from runtime.connectors.connector import register_source
from runtime.errors import ExecutionError
from runtime.spark.versions.newer_classes import DataSource, DataSourceStreamReader, InputPartition
from runtime.spec.source import SplitStream

_FORMAT = "sqlwin_unread_rows"


class _Unread(DataSourceStreamReader):
    def __init__(self, message: str) -> None:
        self._message = message

    def initialOffset(self) -> dict[str, int]:
        raise ExecutionError(self._message)

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        # for a stream that was started when Spark had the package
        raise ExecutionError(self._message)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise ExecutionError(self._message)


class UnreadRows(DataSource):
    """Stream source with columns but no rows, which fails with its reason when read."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the Spark data source."""
        return _FORMAT

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that fails with the reason."""
        return _Unread(self.options["message"])


def unread_splits(spark: SparkSession, table: str) -> SplitStream:
    """Return the splits of a stream that has no checkpoint of sqlwin.

    They are planned for a DataFrame that nobody starts, or that a user starts through Spark.

    Args:
        spark: Spark session.
        table: Name of the table.
    """
    schema = StructType([StructField("split", StringType())])
    return SplitStream(rows_by_tasks(spark, table, schema))


def rows_by_tasks(spark: SparkSession, table: str, schema: StructType) -> DataFrame:
    """Return the columns of a stream whose offsets are in a checkpoint of sqlwin.

    Args:
        spark: Spark session.
        table: Name of the table.
        schema: Its columns.
    """
    message = (
        f"table `{table}`: Spark cannot start this stream, because sqlwin's checkpoint has its "
        "offsets: iterate over the result, or INSERT its rows"
    )
    return unread_rows(spark, schema, message)


def unread_rows(spark: SparkSession, schema: StructType, message: str) -> DataFrame:
    """Return a stream with columns, which fails with a message if Spark reads its rows."""
    register_source(spark, UnreadRows)
    rows: DataFrame = (
        spark.readStream.format(_FORMAT).schema(schema).option("message", message).load()
    )
    return rows
