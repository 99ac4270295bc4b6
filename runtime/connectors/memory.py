"""The connector 'memory': rows in this process, to look at and to test with.

A table of it belongs to the session that made it. It is read as it stands at that moment.
"""

from __future__ import annotations

import threading
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from runtime.connectors.columns import check_plain_table, declared_schema, physical_columns
from runtime.connectors.connector import Connector, StreamWriter, WriteBatch
from runtime.connectors.writing import with_named_kind
from runtime.errors import ExecutionError
from runtime.spec.table import TableSpec


class MemoryRows:
    """The rows of one table; threads may read and write them at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: tuple[pa.Table, ...] = ()
        # by the writer of a stream the number of its last micro-batch
        self._batches: dict[str, int] = {}

    def tables(self) -> tuple[pa.Table, ...]:
        """What was written so far."""
        return self._tables

    def add(self, table: pa.Table, *, overwrite: bool = False) -> None:
        """Add rows, or have them in place of those that are there."""
        with self._lock:
            self._tables = (table,) if overwrite else (*self._tables, table)

    def add_batch(self, table: pa.Table, writer: str, batch: int) -> bool:
        """Add the rows of a micro-batch of a stream; False if they are there already."""
        with self._lock:
            if self._batches.get(writer, -1) >= batch:
                return False
            self._batches[writer] = batch
            self._tables = (*self._tables, table)
            return True

    def __reduce__(self) -> str:
        """Refuse to be taken to another process, where nobody would see what is written.

        Raises:
            ExecutionError: always.
        """
        raise ExecutionError(
            "a table of connector 'memory' is in the process of its session, and this would be "
            "done in another one",
            hint="take connector 'filesystem'",
        )


def read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The rows written so far."""
    tables = [table for table in _rows_of(spec).tables() if table.num_rows]
    schema = declared_schema(spec, physical_columns(spec))
    if not tables:
        return spark.createDataFrame([], schema)
    # a column without NULLs in one INSERT may have some in another
    rows = pa.concat_tables(tables, promote_options="default")
    # without a schema Spark would take times without a zone for instants
    frame = spark.createDataFrame(rows, from_arrow_schema(rows.schema, prefer_timestamp_ntz=True))
    return frame.to(schema) if spec.columns else frame


def write(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Add the rows of a batch; how many they are."""
    table = dataframe.toArrow()
    _rows_of(spec).add(table, overwrite=overwrite)
    return int(table.num_rows)


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: StreamWriter) -> WriteBatch:
    """What adds the rows of a stream's micro-batches, each once, and returns how many they are."""
    kept = _rows_of(spec)

    def write_batch(rows: DataFrame, batch: int) -> int:
        table = with_named_kind(rows).toArrow()
        return int(table.num_rows) if kept.add_batch(table, writer.name, batch) else 0

    return write_batch


def _rows_of(spec: TableSpec) -> MemoryRows:
    assert isinstance(spec.kept, MemoryRows), "keeping_rows() makes a table to read and write"
    return spec.kept


CONNECTOR = Connector(
    "memory",
    partial(check_plain_table, {}),
    read,
    write=write,
    overwrites=True,
    open_batches=open_batches,
    takes_updates=True,
    keep=MemoryRows,
)
