"""The connector 'blackhole': takes rows and forgets them; the query runs as a whole."""

from __future__ import annotations

from pyspark.sql import DataFrame

from runtime.connectors.columns import check_columns
from runtime.connectors.connector import Connector, StreamWriter, WriteBatch
from runtime.connectors.options.checks import check_options
from runtime.connectors.writing import count_written
from runtime.spec.table import TableSpec


def validate(spec: TableSpec) -> None:
    """Check a blackhole table, which has no options.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    check_options(spec, {})
    check_columns(spec)


def write(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Compute the rows; how many they are."""
    with count_written(dataframe) as (counted, count):
        _discard(counted)
    return count()


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: StreamWriter) -> WriteBatch:
    """What computes the micro-batches of a stream, and does not count their rows."""
    return lambda rows, _: _discard(rows)


def _discard(rows: DataFrame) -> None:
    rows.write.format("noop").mode("overwrite").save()


CONNECTOR = Connector(
    "blackhole",
    validate,
    write=write,
    open_batches=open_batches,
    write_stream=lambda rows, spec: rows.writeStream.format("noop"),
    takes_updates=True,
)
