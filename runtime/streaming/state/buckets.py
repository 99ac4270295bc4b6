"""Sub-buckets: parts of a large key group's state that are processed one at a time.

A key group is a range of key hashes. If processing it takes too much memory, it is split into
sub-buckets, which divide that range. Each has its own metadata and blobs, like a key group without
sub-buckets; the metadata of the key group then holds their number. The number doubles as often as
needed and never decreases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.kernels.keys import bucket_of
from runtime.streaming.state.blobs import METADATA, BlobStore
from runtime.streaming.state.codec import decode_metadata
from runtime.streaming.state.metadata import BucketMetadata, GroupMetadata

# A 32-bit hash is distributed over key groups and sub-buckets
_MAX_IN_ALL = 1 << 30
_MAX_IN_A_GROUP = 1 << 10


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
        room = min(_MAX_IN_A_GROUP, _MAX_IN_ALL // self.n_groups)
        while self.by and most_bytes > limit_bytes and 2 * n_buckets <= room:
            n_buckets, most_bytes = 2 * n_buckets, most_bytes // 2
        return n_buckets


def metadata_name(bucket: int) -> str:
    """Return the name of a sub-bucket's metadata blob. No table has such a name."""
    return f"{METADATA}.{bucket}"


def is_metadata(name: str) -> bool:
    """Return whether a blob holds metadata of a key group or of a sub-bucket."""
    return name == METADATA or name.startswith(f"{METADATA}.")


def metadata_of_buckets(blobs: Mapping[str, bytes], metadata: GroupMetadata) -> list[GroupMetadata]:
    """Return the metadata of a key group's sub-buckets; empty if it has none.

    Args:
        blobs: Blobs of the key group, by name.
        metadata: Metadata of the key group.

    Raises:
        KeyError: The metadata of a sub-bucket is not among the blobs.
        ExecutionError: They are of another version of sqlwin.
    """
    return [
        decode_metadata(blobs[metadata_name(number)]) for number in range(n_buckets_of(metadata))
    ]


def n_buckets_of(metadata: GroupMetadata) -> int:
    """Return the number of a key group's sub-buckets, 0 if it has none."""
    return metadata.contents.n_buckets if isinstance(metadata.contents, BucketMetadata) else 0


class PartStore:
    """Blobs of a key group or of one of its sub-buckets. Reads the metadata once.

    Args:
        store: Blobs of the key group.
        bucket: Number of the sub-bucket. None means a key group without sub-buckets.
    """

    def __init__(self, store: BlobStore, bucket: int | None = None) -> None:
        self._store = store
        self._metadata = METADATA if bucket is None else metadata_name(bucket)
        self._known_metadata: bytes | None = None

    def get(self, name: str) -> bytes | None:
        """See BlobStore."""
        if name != METADATA:
            return self._store.get(name)
        if self._known_metadata is None:
            self._known_metadata = self._store.get(self._metadata)
        return self._known_metadata

    def put(self, name: str, blob: bytes) -> None:
        """See BlobStore."""
        self._store.put(self._metadata if name == METADATA else name, blob)

    def remove(self, name: str) -> None:
        """See BlobStore."""
        self._store.remove(self._metadata if name == METADATA else name)
