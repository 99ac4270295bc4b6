"""Connectors 'postgres' and 'jdbc', which accepts Flink's options for jdbc:postgresql:// URLs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from runtime.connectors.connector import Connector
from runtime.connectors.declarations import check_columns
from runtime.connectors.postgres.database import check_url, table_name
from runtime.connectors.postgres.write import BatchWriter, insert_rows
from runtime.frames.arrow_rows import BatchRows
from runtime.options.checks import bad_option, check_options, idle_options, option_values
from runtime.options.known import POSTGRES
from runtime.results.rows import result_batches
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import Column, TableSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


def validate(spec: TableSpec) -> None:
    """Check a table's definition without connecting to the database.

    Raises:
        CatalogError: An option or a column is wrong.
    """
    check_options(spec, POSTGRES)
    check_url(spec)
    table_name(spec)
    check_columns(spec)
    if not spec.physical_columns:
        raise bad_option(spec, "columns are required", "declare them in CREATE TABLE")


def write(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Write the rows of a batch in one transaction and return their number."""
    return write_arrow(BatchRows.of(dataframe), spec, overwrite)


def write_arrow(rows: BatchRows, spec: TableSpec, overwrite: bool) -> int:
    """Write rows that workers or this process hold as Arrow. See `write`."""
    columns = _columns(rows.schema)
    if rows.here is not None:
        return insert_rows(spec, columns, rows.here.batches(), overwrite=overwrite)
    with closing(result_batches(rows)) as batches:
        return insert_rows(spec, columns, batches, overwrite=overwrite)


class PostgresSink(StreamSink):
    """Sink that writes each micro-batch in one transaction, once."""

    def __init__(self, rows: DataFrame, spec: TableSpec, writer: StreamWriter) -> None:
        retries = int(option_values(spec).get("sink.max-retries", "3"))
        columns = tuple(_columns(rows.schema))
        self._writer = BatchWriter(spec, columns, writer.name, writer.is_ordered, retries)
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


POSTGRES_CONNECTOR = Connector(
    "postgres",
    validate,
    write=write,
    write_arrow=write_arrow,
    needs_spark=lambda spark, spec: None,
    overwrites=True,
    open_sink=PostgresSink,
    mode=SinkMode.UPSERT,
    idle_options=idle_options(POSTGRES),
)
JDBC_CONNECTOR = replace(POSTGRES_CONNECTOR, name="jdbc")
