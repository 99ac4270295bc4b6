"""Tables that a worker has read from state or written to it, so as not to read them again.

Reading a blob back costs a round trip to the JVM and 12 ms a megabyte. Workers live on between
micro-batches, so what one wrote it mostly needs again itself.

A worker does not know whether the task that wrote a blob was committed, or which worker had the
blob's key group in between. So the cache is only for blobs that never change, under names that are
never used twice: which of them are alive is read from state each time. What a failed task left in
the cache is never asked for, and what it removed from it is read again.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict

import pyarrow as pa

from runtime.compute.kernels.columns import table_bytes
from runtime.streaming.state.blobs import BlobStore, decode_table, known_blob


def unique_name() -> str:
    """A name that no other blob has, in whatever process and key group."""
    return secrets.token_urlsafe(12)


class TableCache:
    """The tables used last, by the names of their blobs.

    Args:
        max_bytes: how much they hold together at most; a larger table is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._n_bytes = 0
        # each with its size
        self._tables: OrderedDict[str, tuple[pa.Table, int]] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """How much its tables hold."""
        return self._n_bytes

    def get(self, name: str, *, is_last: bool = False) -> pa.Table | None:
        """The table of a blob, if it is still here.

        Args:
            name: the blob's.
            is_last: whether it is not asked for again, or not soon: it makes room for others first.
        """
        found = self._tables.get(name)
        if found is None:
            return None
        self._tables.move_to_end(name, last=not is_last)
        return found[0]

    def put(self, name: str, table: pa.Table) -> None:
        """Keep the table of a blob, in place of those that were not used for longest."""
        self.remove(name)
        n_bytes = table_bytes(table)
        if n_bytes > self._max_bytes:
            return
        self._tables[name] = table, n_bytes
        self._n_bytes += n_bytes
        while self._n_bytes > self._max_bytes:
            _, (_, n_bytes) = self._tables.popitem(last=False)
            self._n_bytes -= n_bytes

    def clear(self) -> None:
        """Forget all tables."""
        self._tables.clear()
        self._n_bytes = 0

    def remove(self, name: str) -> None:
        """Forget a table; it need not be here."""
        found = self._tables.pop(name, None)
        if found is not None:
            self._n_bytes -= found[1]


# What a worker keeps of the blobs that it read or wrote
CACHE = TableCache(64 << 20)


def read_table(store: BlobStore, name: str, *, is_last: bool = False) -> pa.Table:
    """The table of a blob, from the cache or from state.

    Args:
        store: the state.
        name: the blob's name, by `unique_name`.
        is_last: whether it is not read again, or not soon: then it takes no room in the cache.

    Raises:
        ExecutionError: the state lacks it, or it is of another version.
    """
    table = CACHE.get(name, is_last=is_last)
    if table is None:
        table = decode_table(known_blob(store, name))
        if not is_last:
            CACHE.put(name, table)
    return table
