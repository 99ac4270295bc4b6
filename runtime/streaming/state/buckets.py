"""Sub-buckets: the state of a large key group in parts, of which one at a time is in memory.

A key group is a range of the keys' hash; where what is put together in it takes too much memory, it
is cut into sub-buckets, which are ranges of that range. Each has facts and blobs of its own, as a
key group without sub-buckets has; the facts of the key group then say how many there are. The
number doubles as often as need be, and stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.keys import bucket_of
from runtime.streaming.state.blobs import FACTS, BlobStore, decode_facts

# Of the facts of a key group: into how many sub-buckets it is cut
BUCKETS = "buckets"
# The most bytes of rows that were put together at a time, where that was too much
MOST = "most"
# A hash of 32 bits is spread over key groups and sub-buckets
_MOST_IN_ALL = 1 << 30
_MOST_IN_A_GROUP = 1 << 10


@dataclass(frozen=True)
class Place:
    """Which keys a key group has.

    Attributes:
        by: the columns by whose values keys are in key groups; none: all rows are in one.
        n_groups: how many key groups there are.
        group: which of them it is.
    """

    by: tuple[str, ...]
    n_groups: int
    group: int

    def bucket_of(self, table: pa.Table, n_buckets: int) -> npt.NDArray[np.int32]:
        """Of each row the sub-bucket."""
        columns = [table.column(name) for name in self.by]
        found = bucket_of(columns, table.num_rows, self.n_groups * n_buckets)
        return found - np.int32(self.group * n_buckets)

    def more_buckets(self, n_buckets: int, most_bytes: int, limit_bytes: int) -> int:
        """How many sub-buckets it takes so that about `limit_bytes` are in memory.

        Args:
            n_buckets: how many there are.
            most_bytes: what was in memory of one of them.
            limit_bytes: what is to be.
        """
        room = min(_MOST_IN_A_GROUP, _MOST_IN_ALL // self.n_groups)
        while self.by and most_bytes > limit_bytes and 2 * n_buckets <= room:
            n_buckets, most_bytes = 2 * n_buckets, most_bytes // 2
        return n_buckets


def facts_name(bucket: int) -> str:
    """The blob with the facts of a sub-bucket; no table has such a name."""
    return f"{FACTS}.{bucket}"


def is_facts(name: str) -> bool:
    """Whether a blob has facts, of a key group or of a sub-bucket."""
    return name == FACTS or name.startswith(f"{FACTS}.")


def facts_of_buckets(blobs: Mapping[str, bytes], facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The facts of the sub-buckets of a key group, none if it is not cut.

    Args:
        blobs: its blobs, by their names.
        facts: its own facts.

    Raises:
        KeyError: the facts of one are not among the blobs.
        ExecutionError: they are of another version of sqlwin.
    """
    return [decode_facts(blobs[facts_name(n)]) for n in range(facts.get(BUCKETS, 0))]


class PartStore:
    """The blobs of a key group, or of a sub-bucket as those of a key group; facts are read once.

    Args:
        store: the blobs of the key group.
        bucket: which sub-bucket; None: the key group, which has none.
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
