"""The connector 'memory': rows kept in this process, to look at and to test with.

A table of it is there as long as the process; it is read as it stands at that moment.
"""

from __future__ import annotations

import threading

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.columns import (
    check_columns,
    declared_schema,
    physical_columns,
    unsupported_metadata,
)
from runtime.connectors.options import check_options
from runtime.spec.table import TableSpec

_lock = threading.Lock()
# Rows by the table's name; of a stream's micro-batches the last one's number is kept beside them
_rows: dict[str, list[pa.Table]] = {}
_batches: dict[tuple[str, str], int] = {}


def validate(spec: TableSpec) -> None:
    """Check a memory table, which has no options.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    check_options(spec, {})
    check_columns(spec)
    if error := unsupported_metadata(spec):
        raise error


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
    """Keep the rows of a batch; how many they are."""
    table = dataframe.toArrow()
    with _lock:
        kept = [] if overwrite else _rows.get(spec.name.lower(), [])
        _rows[spec.name.lower()] = [*kept, table]
    return int(table.num_rows)


def write_batch(dataframe: DataFrame, spec: TableSpec, writer: str, batch: int) -> int:
    """Keep the rows of a stream's micro-batch, unless they are kept already; how many they are."""
    table = dataframe.toArrow()
    with _lock:
        if _batches.get((spec.name.lower(), writer), -1) >= batch:
            return 0
        _batches[spec.name.lower(), writer] = batch
        _rows.setdefault(spec.name.lower(), []).append(table)
    return int(table.num_rows)


def forget(name: str) -> None:
    """Drop the rows of a table: it is made anew, or dropped."""
    with _lock:
        _rows.pop(name.lower(), None)
        for key in [key for key in _batches if key[0] == name.lower()]:
            del _batches[key]
