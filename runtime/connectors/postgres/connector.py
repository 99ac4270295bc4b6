"""Connectors 'postgres' and 'jdbc', which accepts Flink's options for jdbc:postgresql:// URLs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from runtime.connectors.connector import Table
from runtime.connectors.declarations import check_columns
from runtime.connectors.postgres.database import check_url, connect, table_name
from runtime.connectors.postgres.read import (
    PostgresSplits,
    columns_in,
    export_snapshot,
    read_in_process,
    readable_type,
    task_rows,
)
from runtime.connectors.postgres.retries import AwayLimit
from runtime.connectors.postgres.write import BatchWriter, insert_rows
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.job_properties import retries_of_stream
from runtime.frames.scan_source import check_like_spark
from runtime.options.checks import bad_option, check_options, option_values
from runtime.options.known import POSTGRES
from runtime.results.transport import result_batches
from runtime.spec.expressions import Expression
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.source import SplitTable
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import Column, TableColumn, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


def _check_options(spec: TableSpec) -> None:
    check_options(spec, POSTGRES)
    check_url(spec)
    values = option_values(spec)
    if ("table-name" in values) == ("query" in values):
        raise bad_option(spec, "exactly one of 'table-name' and 'query' is required")
    if "table-name" in values:
        table_name(spec)
    if "scan.partition.num" in values and "scan.partition.column" not in values:
        raise bad_option(spec, "'scan.partition.num' requires 'scan.partition.column'")


class PostgresSink(StreamSink):
    """Sink that writes each micro-batch in one transaction, once."""

    def __init__(self, rows: DataFrame, spec: TableSpec, writer: StreamWriter) -> None:
        limit = AwayLimit.of(spec, "sink.max-retries", retries_of_stream(rows.sparkSession))
        columns = tuple(_columns(rows.schema))
        self._writer = BatchWriter(spec, columns, writer.name, writer.is_ordered, limit)
        self._writer.open()

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write a micro-batch and return its number of rows, 0 if it was written before."""
        with closing(result_batches(BatchRows.of(rows))) as batches:
            return self._writer.write(batches, batch)

    def commit(self) -> None:
        """Close the connection. Each micro-batch is committed already."""
        self._writer.close()


def _columns(schema: StructType) -> Sequence[Column]:
    """Return the columns of rows, without the row kind."""
    return [Column(f.name, f.dataType.simpleString()) for f in schema if f.name != ROW_KIND]


@dataclass(frozen=True)
class PostgresTable(Table):
    """Table or query of a database.

    Attributes:
        snapshot_name: Exported snapshot in which tasks read it. Empty: each reads the newest rows.
    """

    options = POSTGRES
    can_overwrite = True
    sink_mode = SinkMode.UPSERT
    is_read_in_process = True
    has_snapshots = True
    snapshot_name: str = ""

    def validate(self) -> None:
        """Check a table's definition without connecting to the database.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        spec = self.spec
        _check_options(spec)
        check_columns(spec)
        if not spec.physical_columns:
            raise bad_option(spec, "columns are required", "declare them in CREATE TABLE")

    def stored_columns(self) -> tuple[TableColumn, ...]:
        """Return the columns in the database, with the types that hold their values.

        Raises:
            SqlwinError: An option is wrong, the database is unavailable, or it has no such table.
        """
        spec = self.without_shared_options().spec
        _check_options(spec)
        if option_values(spec).get("create-table", "").lower() == "true":
            raise bad_option(
                spec, "columns are required with 'create-table'", "declare them in CREATE TABLE"
            )
        with closing(connect(spec)) as connection:
            return tuple(
                TableColumn(column.name, readable_type(column.type).upper())
                for column in columns_in(connection, spec)
            )

    def scan(
        self, spark: SparkSession, columns: Sequence[Column], filters: Sequence[Expression]
    ) -> SplitTable:
        """Return the scan for tasks or this process to read the table."""
        check_like_spark(spark)
        where = option_values(self.spec).get("table-name", "a query")
        return SplitTable(
            self.spec, where, tuple(columns), filters=tuple(filters), is_read_in_process=True
        )

    def splits(self, spark: SparkSession) -> PostgresSplits:
        """Return the partitions that tasks read."""
        return PostgresSplits(
            self.spec, retries=retries_of_stream(spark), snapshot=self.snapshot_name
        )

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Return the table as of now: its snapshot lasts as long as the transaction here."""
        with closing(connect(self.spec)) as connection:
            yield replace(self, snapshot_name=export_snapshot(connection, self.spec))

    def read_in_process(
        self, columns: Sequence[Column], filters: Sequence[Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns of all partitions in one snapshot."""
        return read_in_process(self.spec, columns, filters)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows, which tasks read in partitions.

        Raises:
            SqlwinError: The database is unavailable, or the table or a column does not fit.
        """
        from runtime.connectors.declared_columns import declared_schema
        from runtime.spark.versions.frames import place_rows

        schema = declared_schema(self.spec, self.spec.physical_columns)
        source = self.splits(spark)
        reader = source.reader(_columns(schema), is_stream=False)
        parts = source.batch_splits(spark.sparkContext.defaultParallelism)
        numbered = [(number, split) for number, (split,) in enumerate(parts)]
        splits = spark.createDataFrame(numbered, "number INT, split STRING")
        placed = place_rows(splits, len(parts), "number")
        return placed.mapInArrow(task_rows(reader), schema)

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Write the rows of a batch in one transaction and return their number."""
        insert = partial(
            insert_rows,
            self.spec,
            _columns(rows.schema),
            overwrite=overwrite,
            is_ordered=rows.are_ordered,
        )
        if rows.in_process is not None:
            return insert(rows.in_process.batches())
        with closing(result_batches(rows)) as batches:
            return insert(batches)

    def why_spark_writes(self, spark: SparkSession) -> None:
        """Return None: this process writes its own rows."""

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> PostgresSink:
        """Connect to the database for the micro-batches of a stream."""
        return PostgresSink(rows, self.spec, writer)
