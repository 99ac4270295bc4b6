"""The global stage: blobs of partials into windows, one bucket in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType, TimestampNTZType

from runtime.kernels.blobs import from_blobs
from runtime.kernels.merge import merge_slices
from runtime.spec import WindowAggregation


def global_aggregate(
    blobs: DataFrame, partials: StructType, aggregation: WindowAggregation
) -> DataFrame:
    """Windows of all keys.

    Args:
        blobs: what `exchange` yields.
        partials: the schema of the rows inside the blobs.
        aggregation: keys, window and accumulators.

    Returns:
        The keys, window start and end as TIMESTAMP_NTZ, the merged columns of each accumulator.
    """
    return blobs.mapInArrow(_to_windows(aggregation), output_schema(partials, aggregation))


def output_schema(partials: StructType, aggregation: WindowAggregation) -> StructType:
    """Spark's schema of the merged windows."""
    merged = [name for acc in aggregation.accumulators for name in acc.output_columns]
    window = [
        StructField(name, TimestampNTZType(), False)
        for name in (aggregation.window_start, aggregation.window_end)
    ]
    return StructType(
        [partials[key] for key in aggregation.keys]
        + window
        + [StructField(name, partials[name].dataType, True) for name in merged]
    )


def _to_windows(
    aggregation: WindowAggregation,
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def to_windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, blobs in groupby(_blobs(batches), key=lambda pair: pair[0]):
            yield from merge_slices(from_blobs(blob for _, blob in blobs), aggregation)

    return to_windows


def _blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, memoryview]]:
    """(bucket, blob) one by one; the rows come sorted by bucket."""
    for batch in batches:
        buckets, blobs = batch.columns
        for bucket, blob in zip(buckets.to_pylist(), blobs, strict=True):
            yield bucket, blob.as_buffer()
