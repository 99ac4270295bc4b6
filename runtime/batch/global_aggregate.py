"""The global stage: blobs of partials into windows, one bucket, or a few small ones, at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from runtime.batch.shared import level_blobs
from runtime.compute.arrow.blobs import from_blobs
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
_ENOUGH_BYTES = 4 << 20
_MILLISECOND_US = 1_000


def windows_of(aggregation: WindowAggregation, shared: SharedSlicesStep | None) -> ArrowFunction:
    """What a task of the global stage does.

    Args:
        aggregation: keys, window and accumulators.
        shared: what to read of shared partials; None: they are those of `exchange`.

    Returns:
        A function of blobs that yields the keys, window start and end as TIMESTAMP_NTZ, the merged
        columns of each accumulator.
    """
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
