"""The global stage: blobs of partials into windows, one bucket, or a few small ones, at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runtime.batch.buckets import bucket_tables
from runtime.batch.shared import level_blobs
from runtime.compute.arrow.evaluate import evaluate, filter_mask
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.session import merge_sessions
from runtime.frames.meter import ArrowFunction
from runtime.spark.workers import prepare_worker
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.exchange import SharedSlicesStep, WindowProjection
from runtime.spec.windows import SessionWindow

# Small buckets are merged together: a call of the kernels costs milliseconds, however few the rows.
_ENOUGH_BYTES = 8 << 20
_MILLISECOND_US = 1_000


def windows_of(
    aggregation: WindowAggregation, shared: SharedSlicesStep | None, most_bytes: int
) -> ArrowFunction:
    """What a task of the global stage does.

    Args:
        aggregation: keys, window and accumulators.
        shared: what to read of shared partials; None: they are those of `exchange`.
        most_bytes: a bucket of more partials is merged in parts.

    Returns:
        A function of blobs that yields the keys, window start and end as TIMESTAMP_NTZ, the merged
        columns of each accumulator.
    """
    merge = merge_sessions if isinstance(aggregation.window, SessionWindow) else merge_slices
    level = None if shared is None else shared.level
    columns = None if shared is None else shared.columns
    window = aggregation.window
    # All that a merge has to see together
    keys = window.partition if isinstance(window, SessionWindow) else aggregation.keys
    if columns is not None:
        keys = tuple(name for name, own in columns if own in keys)

    def to_windows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pairs = _blobs(batches) if level is None else level_blobs(batches, level)
        for table in bucket_tables(pairs, keys, _ENOUGH_BYTES, most_bytes):
            if columns is not None:
                table = pa.table(
                    [table.column(name) for name, _ in columns], [own for _, own in columns]
                )
            yield from merge(table, aggregation)

    return to_windows


def projected(to_windows: ArrowFunction, projection: WindowProjection, end: str) -> ArrowFunction:
    """The global stage with what is made of its windows.

    Args:
        to_windows: the stage.
        projection: what is made of them.
        end: the column with the end of a window.
    """
    schema = projected_schema(projection)

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for windows in to_windows(batches):
            if projection.window_time is not None:
                last_us = pc.subtract(windows.column(end).cast(pa.int64()), _MILLISECOND_US)
                time = last_us.cast(windows.column(end).type)
                windows = windows.append_column(projection.window_time, time)
            if projection.filters:
                windows = windows.filter(filter_mask(projection.filters, windows))
            columns = [evaluate(expression, windows) for _, expression in projection.columns]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    return rows


def projected_schema(projection: WindowProjection) -> pa.Schema:
    """The columns of what is made of windows."""
    return pa.schema([(name, arrow_type(each.type)) for name, each in projection.columns])


def _blobs(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, memoryview]]:
    """(bucket, blob) one by one; the rows come sorted by bucket."""
    for batch in batches:
        buckets, blobs = batch.columns
        for bucket, blob in zip(buckets.to_pylist(), blobs, strict=True):
            yield bucket, blob.as_buffer()
