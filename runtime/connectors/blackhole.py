"""Connector 'blackhole': discards rows, but runs the complete query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.connectors.connector import Table
from runtime.connectors.writing import compute
from runtime.frames.arrow_rows import BatchRows
from runtime.spec.sink import FunctionSink, SinkMode, StreamWriter


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    n_rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"n_rows": pa.array([n_rows], pa.int64())})


def _discard(rows: DataFrame, batch: int) -> None:
    rows.write.format("noop").mode("overwrite").save()


class BlackholeTable(Table):
    """Table whose rows are discarded."""

    sink_mode = SinkMode.CHANGELOG

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Count the rows. Arrow rows are counted where they are computed, without the JVM."""
        if rows.in_process is not None:
            return sum(batch.num_rows for batch in rows.in_process.batches())
        if rows.arrow is not None:
            return sum(part.n_rows for part in rows.arrow.then(_count, "n_rows BIGINT").collect())
        return compute(rows.dataframe)

    def why_spark_writes(self, spark: SparkSession) -> None:
        """Return None: this process discards its own rows."""

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Return the sink for a stream that Spark does not write alone."""
        return FunctionSink(_discard)

    def spark_writer(self, rows: DataFrame) -> DataStreamWriter:
        """Return Spark's own sink that discards rows."""
        return rows.writeStream.format("noop")
