"""A key group as an operator processes it: as a whole, or one sub-bucket after the other.

What an operator puts together at a time is bounded: where it was more, the key group is cut into
sub-buckets when the next micro-batch comes, and from then on each of these is processed by itself,
over its own part of the state. All of them get the same watermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.blobs import split_by_bucket
from runtime.streaming.operators.base import KeyGroupOperator, MicroBatch, Output, Status
from runtime.streaming.state.blobs import (
    FACTS,
    BlobStore,
    decode_facts,
    encode_facts,
    lacks_blob,
    tells_of_buckets,
)
from runtime.streaming.state.buckets import BUCKETS, MOST, PartStore, Place, facts_name
from runtime.streaming.state.split import BY, split_buckets

# What the facts of a key group have in common with those of its sub-buckets
_COMMON = ("watermark", "closed", "checkpoint", "operator", BY)


@dataclass(frozen=True)
class MemoryBound:
    """What is to be in memory of a key group.

    Attributes:
        place: which keys it has.
        n_bytes: so many bytes of rows are put together at a time, more or less.
    """

    place: Place
    n_bytes: int


def process(
    store: BlobStore,
    make: Callable[[BlobStore], KeyGroupOperator],
    batch: MicroBatch,
    bound: MemoryBound,
) -> Iterator[Output]:
    """A micro-batch of a key group: windows and late rows, and at the very end the status.

    The state is written when the iterator is exhausted, and not before.

    Args:
        store: the state of the key group.
        make: makes an operator over a part of it.
        batch: what the key group gets.
        bound: what is to be in memory.

    Raises:
        ExecutionError: as `KeyGroupOperator.process`; or the state lacks something.
    """
    whole = PartStore(store)
    blob = whole.get(FACTS)
    if blob is None or not tells_of_buckets(blob):
        operator = make(whole)
        n_buckets = bound.place.more_buckets(1, operator.most_bytes_before, bound.n_bytes)
        if n_buckets == 1:
            operator.enough_bytes = bound.n_bytes
            yield from operator.process(batch)
            return
        split_buckets(store, {}, bound.place, n_buckets)
    else:
        facts = decode_facts(blob)
        n_buckets = bound.place.more_buckets(facts[BUCKETS], facts.get(MOST, 0), bound.n_bytes)
        if n_buckets > facts[BUCKETS]:
            split_buckets(store, facts, bound.place, n_buckets)
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
    total, facts = 0, dict[str, Any]()
    for bucket, part in enumerate(parts):
        own_store = PartStore(store, bucket)
        if own_store.get(FACTS) is None:
            raise lacks_blob(facts_name(bucket))
        operator = make(own_store)
        for output in operator.process(part):
            if isinstance(output.result, Status):
                before = statuses.get(output.reader)
                statuses[output.reader] = _both(before, output.result)
            else:
                yield output
        total += operator.most_bytes
        facts = operator.facts
        # its rows are done with
        parts[bucket] = MicroBatch((), ())
    own = {name: facts[name] for name in _COMMON if name in facts} | {BUCKETS: n_buckets}
    # not the most of one: what is of few keys is not made smaller by more sub-buckets
    if total // n_buckets > bound.n_bytes:
        own[MOST] = total // n_buckets
    store.put(FACTS, encode_facts(own, are_in_buckets=True))
    for reader, status in statuses.items():
        yield Output(status, reader)


def _parts(batch: MicroBatch, place: Place, n_buckets: int) -> list[MicroBatch]:
    """What each sub-bucket gets of a micro-batch."""
    partials = _spread(batch.partials, place, n_buckets)
    candidates = _spread(batch.candidates, place, n_buckets)
    return [
        replace(
            batch,
            partials=partials[bucket],
            candidates=candidates[bucket],
            # one counts for all
            n_null_times=batch.n_null_times if bucket == 0 else 0,
        )
        for bucket in range(n_buckets)
    ]


def _spread(tables: Sequence[pa.Table], place: Place, n_buckets: int) -> list[list[pa.Table]]:
    """The rows of each sub-bucket. Rows that come without keys may be in any."""
    found: list[list[pa.Table]] = [[] for _ in range(n_buckets)]
    for table in tables:
        if not set(place.by) <= set(table.column_names):
            found[0].append(table)
            continue
        for bucket, rows in split_by_bucket(table, place.bucket_of(table, n_buckets)):
            found[bucket].append(pa.Table.from_batches([rows]))
    return found


def _both(one: Status | None, other: Status) -> Status:
    """How two parts of a key group stand."""
    if one is None:
        return other
    ends = [one.next_window_end_us, other.next_window_end_us]
    return replace(
        other,
        n_late=one.n_late + other.n_late,
        n_null_times=one.n_null_times + other.n_null_times,
        n_rows=one.n_rows + other.n_rows,
        n_bytes=one.n_bytes + other.n_bytes,
        next_window_end_us=min((end for end in ends if end is not None), default=None),
    )
