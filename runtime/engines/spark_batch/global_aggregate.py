"""The global stage: merges blobs of partials to windows, one large bucket or several small ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.session import merge_sessions
from runtime.engines.spark_batch.buckets import bucket_tables
from runtime.engines.spark_batch.shared import level_blobs
from runtime.frames.meter import ArrowFunction
from runtime.plan.exchange import SharedSlicesStep
from runtime.spark.workers import fitting_bytes, prepare_worker
from runtime.spec.aggregates import WindowAggregation

# Small buckets are merged together, because each kernel call costs milliseconds even for few rows.
_TARGET_BYTES = 8 << 20


def windows_of(
    aggregation: WindowAggregation, shared: SharedSlicesStep | None, most_bytes: int
) -> ArrowFunction:
    """Return the function that a task of the global stage runs.

    Args:
        aggregation: Keys, window and accumulators.
        shared: Part of shared partials to read; None for the partials of `exchange`.
        most_bytes: Size above which buckets are merged in parts. Lower in workers with little
            memory.

    Returns:
        Function of blobs that yields the keys, window start and end as TIMESTAMP_NTZ, and the
        merged columns of each accumulator.
    """
    level = None if shared is None else shared.level
    columns = None if shared is None else shared.columns
    window = aggregation.window
    merge = merge_slices if window.has_slices else merge_sessions
    # columns whose equal values must be merged together
    keys = aggregation.keys if window.has_slices else window.partition
    if columns is not None:
        keys = tuple(name for name, own in columns if own in keys)

    def to_windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pairs = _blobs(batches) if level is None else level_blobs(batches, level)
        for table in bucket_tables(pairs, keys, _TARGET_BYTES, fitting_bytes(most_bytes)):
            if columns is not None:
                table = pa.table(
                    [table.column(name) for name, _ in columns],
                    [reader_name for _, reader_name in columns],
                )
            yield from merge(table, aggregation)

    return to_windows


def _blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, memoryview]]:
    """Yield (bucket, blob) pairs; the rows are sorted by bucket."""
    for batch in batches:
        buckets, blobs = batch.columns
        for bucket, blob in zip(buckets.to_pylist(), blobs, strict=True):
            yield bucket, blob.as_buffer()
