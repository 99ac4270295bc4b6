"""The global stage: blobs of partials into windows, one bucket, or a few small ones, at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from runtime.batch.shared import level_blobs
from runtime.compute.arrow.blobs import from_blobs
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.session import merge_sessions
from runtime.frames.aggregations import windows_schema
from runtime.frames.meter import Wrap, as_it_is
from runtime.spark.workers import prepare_worker
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.exchange import SharedSlicesStep
from runtime.spec.windows import SessionWindow

# Small buckets are merged together: a call of the kernels costs milliseconds, however few the rows.
_ENOUGH_BYTES = 4 << 20


def global_aggregate(
    blobs: DataFrame,
    partials: StructType,
    aggregation: WindowAggregation,
    wrap: Wrap = as_it_is,
    shared: SharedSlicesStep | None = None,
) -> DataFrame:
    """Windows of all keys.

    Args:
        blobs: what `exchange` yields, or `SharedPartials.read`.
        partials: the schema of the rows inside the blobs.
        aggregation: keys, window and accumulators.
        wrap: what the stage is wrapped in, to measure it.
        shared: what to read of shared partials.

    Returns:
        The keys, window start and end as TIMESTAMP_NTZ, the merged columns of each accumulator.
    """
    to_windows = wrap(_to_windows(aggregation, shared))
    return blobs.mapInArrow(to_windows, windows_schema(partials, aggregation))


def _to_windows(
    aggregation: WindowAggregation, shared: SharedSlicesStep | None
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    merge = merge_sessions if isinstance(aggregation.window, SessionWindow) else merge_slices
    level = None if shared is None else shared.level
    columns = None if shared is None else shared.columns

    def to_windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pairs = _blobs(batches) if level is None else level_blobs(batches, level)
        for blobs in whole_buckets(pairs, _ENOUGH_BYTES):
            table = from_blobs(blobs)
            if columns is not None:
                table = pa.table(
                    [table.column(name) for name, _ in columns], [own for _, own in columns]
                )
            yield from merge(table, aggregation)

    return to_windows


def whole_buckets(
    pairs: Iterable[tuple[int, memoryview]], enough_bytes: int
) -> Iterator[list[memoryview]]:
    """The blobs of one bucket after another, of so many at a time as make `enough_bytes`.

    Args:
        pairs: (bucket, blob), those of a bucket one after another.
        enough_bytes: no further bucket is added to so many bytes.
    """
    blobs: list[memoryview] = []
    size, last = 0, None
    for bucket, blob in pairs:
        if bucket != last and size >= enough_bytes:
            yield blobs
            blobs, size = [], 0
        blobs.append(blob)
        size += len(blob)
        last = bucket
    if blobs:
        yield blobs


def _blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, memoryview]]:
    """(bucket, blob) one by one; the rows come sorted by bucket."""
    for batch in batches:
        buckets, blobs = batch.columns
        for bucket, blob in zip(buckets.to_pylist(), blobs, strict=True):
            yield bucket, blob.as_buffer()
