"""Connector 'blackhole': discards rows, but runs the complete query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.connectors.connector import Connector
from runtime.connectors.declarations import check_plain_table
from runtime.connectors.writing import compute
from runtime.frames.arrow_rows import BatchRows
from runtime.spec.sink import SinkMode, StreamSink
from runtime.spec.table import TableSpec


def write_arrow(rows: BatchRows, spec: TableSpec, overwrite: bool) -> int:
    """Count the rows where they are computed as Arrow, without passing them to the JVM."""
    if rows.in_process is not None:
        return sum(batch.num_rows for batch in rows.in_process.batches())
    assert rows.arrow is not None
    return sum(part.n_rows for part in rows.arrow.then(_count, "n_rows BIGINT").collect())


def _count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    n_rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"n_rows": pa.array([n_rows], pa.int64())})


class BlackholeSink(StreamSink):
    """Sink that computes micro-batches and does not count their rows."""

    def write(self, rows: DataFrame, batch: int) -> None:
        """Compute the rows."""
        rows.write.format("noop").mode("overwrite").save()


CONNECTOR = Connector(
    "blackhole",
    partial(check_plain_table, {}),
    write=lambda dataframe, spec, overwrite: compute(dataframe),
    write_arrow=write_arrow,
    needs_spark=lambda spark, spec: None,
    open_sink=lambda rows, spec, writer: BlackholeSink(),
    write_stream=lambda rows, spec: rows.writeStream.format("noop"),
    mode=SinkMode.CHANGELOG,
)
