"""Process a key group as a whole, or sub-bucket by sub-bucket to bound memory.

If an operator combined more bytes at once than the limit, the next micro-batch splits the key group
into sub-buckets. After that, each sub-bucket is processed separately, over its own part of the
state. All sub-buckets get the same watermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from runtime.compute.arrow.blobs import split_by_bucket
from runtime.streaming.operators.base import KeyGroupOperator, MicroBatch, Output, Status
from runtime.streaming.state.blobs import METADATA, BlobStore, lacks_blob
from runtime.streaming.state.buckets import PartStore, Place, metadata_name, n_buckets_of
from runtime.streaming.state.codec import decode_metadata, encode_metadata, has_buckets
from runtime.streaming.state.metadata import BucketMetadata, GroupMetadata
from runtime.streaming.state.split import split_buckets


@dataclass(frozen=True)
class MemoryBound:
    """Memory limit of a key group.

    Attributes:
        place: The keys of the key group.
        n_bytes: Approximate maximum bytes of rows combined at once.
    """

    place: Place
    n_bytes: int


def process(
    store: BlobStore,
    make: Callable[[BlobStore], KeyGroupOperator],
    batch: MicroBatch,
    bound: MemoryBound,
) -> Iterator[Output]:
    """Process a key group's micro-batch: yield windows, late rows and, at the very end, the status.

    State is written only once the iterator is exhausted.

    Args:
        store: State of the key group.
        make: Creates an operator over a part of the state.
        batch: Input of the key group.
        bound: Memory limit.

    Raises:
        ExecutionError: See `KeyGroupOperator.process`; or the state lacks a blob.
    """
    group_store = PartStore(store)
    blob = group_store.get(METADATA)
    if blob is None or not has_buckets(blob):
        operator = make(group_store)
        n_buckets = bound.place.more_buckets(1, operator.most_bytes_before, bound.n_bytes)
        if n_buckets == 1:
            operator.enough_bytes = bound.n_bytes
            yield from operator.process(batch)
            return
        split_buckets(store, 0, bound.place, n_buckets)
    else:
        metadata = decode_metadata(blob)
        before = n_buckets_of(metadata)
        n_buckets = bound.place.more_buckets(before, metadata.most_bytes, bound.n_bytes)
        if n_buckets > before:
            split_buckets(store, before, bound.place, n_buckets)
    yield from _buckets(store, make, batch, bound, n_buckets)


def _buckets(
    store: BlobStore,
    make: Callable[[BlobStore], KeyGroupOperator],
    batch: MicroBatch,
    bound: MemoryBound,
    n_buckets: int,
) -> Iterator[Output]:
    parts = _parts(batch, bound.place, n_buckets)
    statuses: dict[int, Status] = {}
    total = 0
    metadata: GroupMetadata | None = None
    for bucket, part in enumerate(parts):
        own_store = PartStore(store, bucket)
        if own_store.get(METADATA) is None:
            raise lacks_blob(metadata_name(bucket))
        operator = make(own_store)
        for output in operator.process(part):
            if isinstance(output.result, Status):
                before = statuses.get(output.reader)
                statuses[output.reader] = _both(before, output.result)
            else:
                yield output
        total += operator.most_bytes
        metadata = operator.metadata
        # free the rows
        parts[bucket] = MicroBatch((), ())
    assert metadata is not None
    # the average, not the maximum: more sub-buckets do not help if one key is large
    most_bytes = total // n_buckets if total // n_buckets > bound.n_bytes else 0
    group_metadata = replace(metadata, most_bytes=most_bytes, contents=BucketMetadata(n_buckets))
    store.put(METADATA, encode_metadata(group_metadata))
    for reader, status in statuses.items():
        yield Output(status, reader)


def _parts(batch: MicroBatch, place: Place, n_buckets: int) -> list[MicroBatch]:
    """Split a micro-batch into the inputs of the sub-buckets."""
    partials = _spread(batch.partials, place, n_buckets)
    candidates = _spread(batch.candidates, place, n_buckets)
    return [
        replace(
            batch,
            partials=partials[bucket],
            candidates=candidates[bucket],
            # count these rows once
            n_null_times=batch.n_null_times if bucket == 0 else 0,
        )
        for bucket in range(n_buckets)
    ]


def _spread(tables: Sequence[pa.Table], place: Place, n_buckets: int) -> list[list[pa.Table]]:
    """Split rows by sub-bucket. Rows without key columns go to the first."""
    parts: list[list[pa.Table]] = [[] for _ in range(n_buckets)]
    for table in tables:
        if not set(place.by) <= set(table.column_names):
            parts[0].append(table)
            continue
        for bucket, rows in split_by_bucket(table, place.bucket_of(table, n_buckets)):
            parts[bucket].append(pa.Table.from_batches([rows]))
    return parts


def _both(first: Status | None, other: Status) -> Status:
    """Combine the statuses of two parts of a key group."""
    if first is None:
        return other
    ends = [first.next_window_end_us, other.next_window_end_us]
    return replace(
        other,
        n_late=first.n_late + other.n_late,
        n_null_times=first.n_null_times + other.n_null_times,
        n_rows=first.n_rows + other.n_rows,
        n_bytes=first.n_bytes + other.n_bytes,
        next_window_end_us=min((end for end in ends if end is not None), default=None),
    )
