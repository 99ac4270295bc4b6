"""Windows from partials in this process. Buckets of keys are merged on all cores."""

from __future__ import annotations

import os
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import pyarrow as pa

from runtime.compute.arrow.blobs import split_by_bucket
from runtime.compute.kernels.keys import bucket_of
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.session import merge_sessions
from runtime.spec.aggregates import WindowAggregation

# Approximate number of partials in a bucket. Their arrays fit the CPU cache, and smaller sorts
# would add more calls than they save.
BUCKET_ROWS = 1 << 19
# Maximum batches of a bucket that are computed ahead of the reader. Overlapping windows may have
# thousands of rows for each partial.
_BATCHES_AHEAD = 16


def windows_of_partials(
    partials: pa.Table, aggregation: WindowAggregation, bucket_rows: int = BUCKET_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the windows of partials, bucket by bucket if there are many.

    Args:
        partials: Partials in any order, several of a key and slice allowed.
        aggregation: Keys, window and accumulators.
        bucket_rows: Approximate number of partials that are merged at a time.

    Raises:
        ExecutionError: A result does not fit its type.
    """
    window = aggregation.window
    merge = merge_slices if window.has_slices else merge_sessions
    keys = aggregation.keys if window.has_slices else window.partition
    n_buckets = -(-partials.num_rows // bucket_rows) if keys else 1
    if n_buckets < 2:
        yield from merge(partials, aggregation)
        return
    n_cores = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(n_cores) as threads:
        buckets = _split(partials, keys, n_buckets, bucket_rows, threads)
        del partials  # the buckets are copies
        parts = (merge(buckets.pop(), aggregation) for _ in range(len(buckets)))
        yield from _compute_ahead(parts, n_cores, threads)


def _split(
    partials: pa.Table,
    keys: Sequence[str],
    n_buckets: int,
    most_rows: int,
    threads: ThreadPoolExecutor,
) -> list[pa.Table]:
    """Return the partials of each bucket that is not empty."""

    def split(start: int) -> list[tuple[int, pa.RecordBatch]]:
        part = partials.slice(start, most_rows)
        columns = [part.column(key) for key in keys]
        return list(split_by_bucket(part, bucket_of(columns, part.num_rows, n_buckets)))

    of_bucket: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for pairs in threads.map(split, range(0, partials.num_rows, most_rows)):
        for bucket, batch in pairs:
            of_bucket[bucket].append(batch)
    return [pa.Table.from_batches(of_bucket.pop(bucket)) for bucket in sorted(of_bucket)]


def _compute_ahead(
    parts: Iterator[Iterator[pa.RecordBatch]], n_cores: int, threads: ThreadPoolExecutor
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of all parts in order. The next parts are computed in other threads."""

    def compute(part: Iterator[pa.RecordBatch]) -> list[pa.RecordBatch]:
        return list(islice(part, _BATCHES_AHEAD))

    pending: deque[tuple[Iterator[pa.RecordBatch], Future[list[pa.RecordBatch]]]] = deque()
    try:
        while True:
            for part in islice(parts, n_cores + 1 - len(pending)):
                pending.append((part, threads.submit(compute, part)))
            if not pending:
                return
            part, future = pending.popleft()
            batches = future.result()
            if len(batches) == _BATCHES_AHEAD:
                pending.appendleft((part, threads.submit(compute, part)))
            yield from batches
    finally:
        for _, future in pending:
            future.cancel()
