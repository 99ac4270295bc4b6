"""The connector 'memory': rows in this process, to look at and to test with.

A table of it is there as long as the process; it is read as it stands at that moment.
"""

from __future__ import annotations

import threading

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.columns import check_columns, declared_schema, physical_columns
from runtime.connectors.connector import Connector, WriteBatch
from runtime.connectors.options.checks import check_options
from runtime.connectors.writing import with_named_kind
from runtime.spec.table import TableSpec

_lock = threading.Lock()
# Rows by the table's name; and by name and writer the number of a stream's last micro-batch
_rows: dict[str, list[pa.Table]] = {}
_batches: dict[tuple[str, str], int] = {}


def validate(spec: TableSpec) -> None:
    """Check a memory table, which has no options.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    check_options(spec, {})
    check_columns(spec)


def read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The rows written so far."""
    with _lock:
        tables = list(_rows.get(spec.name.lower(), ()))
    tables = [table for table in tables if table.num_rows]
    schema = declared_schema(spec, physical_columns(spec))
    if not tables:
        return spark.createDataFrame([], schema)
    found = spark.createDataFrame(pa.concat_tables(tables))
    return found.to(schema) if spec.columns else found


def write(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Add the rows of a batch; how many they are."""
    table = dataframe.toArrow()
    with _lock:
        there = [] if overwrite else _rows.get(spec.name.lower(), [])
        _rows[spec.name.lower()] = [*there, table]
    return int(table.num_rows)


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: str) -> WriteBatch:
    """What adds the rows of a stream's micro-batches, each once, and returns how many they are."""
    name = spec.name.lower()

    def write_batch(rows: DataFrame, batch: int) -> int:
        table = with_named_kind(rows).toArrow()
        with _lock:
            if _batches.get((name, writer), -1) >= batch:
                return 0
            _batches[name, writer] = batch
            _rows.setdefault(name, []).append(table)
        return int(table.num_rows)

    return write_batch


def forget(name: str) -> None:
    """Drop the rows of a table: it is made anew, or dropped."""
    with _lock:
        _rows.pop(name.lower(), None)
        for key in [key for key in _batches if key[0] == name.lower()]:
            del _batches[key]


CONNECTOR = Connector(
    "memory",
    validate,
    read,
    write=write,
    overwrites=True,
    open_batches=open_batches,
    takes_updates=True,
)
