"""Rows of a stream that tasks read split by split, as rows of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame

from runtime.local.messages import is_undecoded, run_two_passes, separate_messages
from runtime.names import quote_name
from runtime.scan.read import convert_types
from runtime.spark.workers import prepare_worker
from runtime.spec.source import WATERMARK_SPLIT, SplitReader, SplitSource
from runtime.spec.stream import SPLIT_NUMBER, WATERMARK_LIMIT
from runtime.spec.table import Column


def rows_of_splits(
    splits: DataFrame, source: SplitSource, reader: SplitReader, columns: Sequence[Column]
) -> DataFrame:
    """Return the columns of the rows of splits, with WATERMARK_LIMIT and SPLIT_NUMBER.

    Args:
        splits: Texts of splits in the first column.
        source: Decodes the rows that its readers leave to Spark.
        reader: Reads the columns in tasks.
        columns: Columns with Spark types.
    """
    control = f"{quote_name(WATERMARK_LIMIT)} BIGINT, {quote_name(SPLIT_NUMBER)} INT"
    ddl = ", ".join([*(f"{quote_name(c.name)} {c.type}" for c in columns), control])
    names = [*(c.name for c in columns), WATERMARK_LIMIT, SPLIT_NUMBER]

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for split in batch.column(0).drop_null().to_pylist():
                limit_us, number = reader.watermark_limit_us(split), reader.watermark_split(split)
                for rows in reader.read([split], frozenset()):
                    if is_undecoded(rows):
                        yield rows
                    else:
                        numbers = pa.repeat(pa.scalar(number, pa.int32()), rows.num_rows)
                        yield _with_control(rows, columns, limit_us, numbers)

    def second(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch, is_message in separate_messages(batches, names):
            if is_message:
                yield _with_control(batch, columns, None, batch.column(WATERMARK_SPLIT))
            else:
                yield batch

    if reader.undecoded_ddl is None:
        return splits.mapInArrow(read, ddl)
    return run_two_passes(splits, ddl, read, second, source, reader, columns)


def _with_control(
    rows: pa.RecordBatch, columns: Sequence[Column], limit_us: int | None, numbers: pa.Array
) -> pa.RecordBatch:
    """Return the columns of rows and the control columns."""
    batch = convert_types(rows, columns, frozenset())
    limits = pa.repeat(pa.scalar(limit_us, pa.int64()), rows.num_rows)
    names = [*batch.schema.names, WATERMARK_LIMIT, SPLIT_NUMBER]
    return pa.RecordBatch.from_arrays([*batch.columns, limits, numbers], names=names)
