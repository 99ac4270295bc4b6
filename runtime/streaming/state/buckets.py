"""Sub-buckets: parts of a large key group's state that are processed one at a time.

A key group is a range of key hashes. If processing it takes too much memory, it is split into
sub-buckets, which divide that range. Each has its own facts and blobs, like a key group without
sub-buckets; the facts of the key group then hold their number. The number doubles as often as
needed and never decreases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.keys import bucket_of
from runtime.streaming.state.blobs import FACTS, BlobStore
from runtime.streaming.state.codec import decode_facts
from runtime.streaming.state.facts import BucketFacts, GroupFacts

# A 32-bit hash is distributed over key groups and sub-buckets
_MOST_IN_ALL = 1 << 30
_MOST_IN_A_GROUP = 1 << 10


@dataclass(frozen=True)
class Place:
    """The keys of a key group.

    Attributes:
        by: Columns that are hashed into key groups. Empty if all rows are in one.
        n_groups: Number of key groups.
        group: Number of this key group.
    """

    by: tuple[str, ...]
    n_groups: int
    group: int

    def bucket_of(self, table: pa.Table, n_buckets: int) -> npt.NDArray[np.int32]:
        """Return the sub-bucket of each row."""
        columns = [table.column(name) for name in self.by]
        buckets = bucket_of(columns, table.num_rows, self.n_groups * n_buckets)
        return buckets - np.int32(self.group * n_buckets)

    def more_buckets(self, n_buckets: int, most_bytes: int, limit_bytes: int) -> int:
        """Return how many sub-buckets keep memory at about `limit_bytes`.

        Args:
            n_buckets: Current number of sub-buckets.
            most_bytes: Bytes that one of them had in memory.
            limit_bytes: Limit.
        """
        room = min(_MOST_IN_A_GROUP, _MOST_IN_ALL // self.n_groups)
        while self.by and most_bytes > limit_bytes and 2 * n_buckets <= room:
            n_buckets, most_bytes = 2 * n_buckets, most_bytes // 2
        return n_buckets


def facts_name(bucket: int) -> str:
    """Return the name of a sub-bucket's facts blob. No table has such a name."""
    return f"{FACTS}.{bucket}"


def is_facts(name: str) -> bool:
    """Return whether a blob holds facts of a key group or of a sub-bucket."""
    return name == FACTS or name.startswith(f"{FACTS}.")


def facts_of_buckets(blobs: Mapping[str, bytes], facts: GroupFacts) -> list[GroupFacts]:
    """Return the facts of a key group's sub-buckets; empty if it has none.

    Args:
        blobs: Blobs of the key group, by name.
        facts: Facts of the key group.

    Raises:
        KeyError: the facts of a sub-bucket are not among the blobs.
        ExecutionError: they are of another version of sqlwin.
    """
    return [decode_facts(blobs[facts_name(number)]) for number in range(n_buckets_of(facts))]


def n_buckets_of(facts: GroupFacts) -> int:
    """Return the number of a key group's sub-buckets, 0 if it has none."""
    return facts.contents.n_buckets if isinstance(facts.contents, BucketFacts) else 0


class PartStore:
    """The blobs of a key group or of one of its sub-buckets. Facts are read once.

    Args:
        store: Blobs of the key group.
        bucket: Number of the sub-bucket. None means a key group without sub-buckets.
    """

    def __init__(self, store: BlobStore, bucket: int | None = None) -> None:
        self._store = store
        self._facts = FACTS if bucket is None else facts_name(bucket)
        self._known_facts: bytes | None = None

    def get(self, name: str) -> bytes | None:
        """See BlobStore."""
        if name != FACTS:
            return self._store.get(name)
        if self._known_facts is None:
            self._known_facts = self._store.get(self._facts)
        return self._known_facts

    def put(self, name: str, blob: bytes) -> None:
        """See BlobStore."""
        self._store.put(self._facts if name == FACTS else name, blob)

    def remove(self, name: str) -> None:
        """See BlobStore."""
        self._store.remove(self._facts if name == FACTS else name)
