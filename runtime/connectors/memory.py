"""Connector 'memory': rows in this process, for inspection and tests.

A table belongs to the session that created it. A query reads the rows present when it starts.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from uuid import uuid4
from weakref import WeakValueDictionary

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.connector import Table
from runtime.connectors.declared_columns import declared_schema
from runtime.errors import ExecutionError
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.arrow_tables import (
    cast_columns,
    collect_arrow,
    create_frame,
    rename_kind_column,
)
from runtime.spec.sink import FunctionSink, SinkMode, StreamWriter
from runtime.spec.table import TableSpec


class MemoryRows:
    """Rows of one table; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tables: tuple[pa.Table, ...] = ()
        # number of the last micro-batch by stream
        self._batches: dict[str, int] = {}

    def tables(self) -> tuple[pa.Table, ...]:
        """Return the rows written so far."""
        return self._tables

    def add(self, table: pa.Table, *, overwrite: bool = False) -> None:
        """Add rows, or replace the existing ones."""
        with self._lock:
            self._tables = (table,) if overwrite else (*self._tables, table)

    def add_batch(self, table: pa.Table, writer: str, batch: int) -> bool:
        """Add the rows of a micro-batch. Return False if they were added before."""
        with self._lock:
            if self._batches.get(writer, -1) >= batch:
                return False
            self._batches[writer] = batch
            self._tables = (*self._tables, table)
            return True


# Rows by the storage id of their table. The session of the table and running streams own them.
_STORED: WeakValueDictionary[str, MemoryRows] = WeakValueDictionary()


def _rows_of(spec: TableSpec) -> MemoryRows:
    """Return the rows of a table.

    Raises:
        ExecutionError: The table was dropped, or belongs to a session in another process.
    """
    rows = _STORED.get(spec.storage)
    if rows is None:
        raise ExecutionError(
            f"table `{spec.name}` (connector 'memory') has no rows in this process: it was "
            "dropped, or a session in another process created it",
            subjects=(spec.name,),
            hint="use connector 'filesystem', which stores rows in files",
        )
    return rows


class MemoryTable(Table):
    """Table whose rows are in this process."""

    can_overwrite = True
    sink_mode = SinkMode.CHANGELOG

    def with_storage(self) -> tuple[TableSpec, MemoryRows]:
        """Create the rows of a new table, which live as long as the returned object."""
        storage = uuid4().hex
        rows = _STORED[storage] = MemoryRows()
        return replace(self.spec, storage=storage), rows

    @property
    def is_read_by_workers(self) -> bool:
        """Spark gets the rows of this process."""
        return False

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows written so far."""
        tables = [table for table in _rows_of(self.spec).tables() if table.num_rows]
        schema = declared_schema(self.spec, self.spec.physical_columns)
        if not tables:
            return spark.createDataFrame([], schema)
        # a column without NULLs in one INSERT may have some in another
        rows = pa.concat_tables(tables, promote_options="default")
        frame = create_frame(spark, rows)
        if not self.spec.columns:
            return frame
        if frame.columns == schema.names:
            return cast_columns(frame, [column.dataType for column in schema])
        return frame.to(schema)

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Add the rows of a batch and return their number."""
        table = collect_arrow(rows.dataframe)
        _rows_of(self.spec).add(table, overwrite=overwrite)
        return int(table.num_rows)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Return the sink that adds each micro-batch once."""
        stored = _rows_of(self.spec)

        def add(rows_of_batch: DataFrame, batch: int) -> int:
            table = collect_arrow(rename_kind_column(rows_of_batch))
            return int(table.num_rows) if stored.add_batch(table, writer.name, batch) else 0

        return FunctionSink(add)
