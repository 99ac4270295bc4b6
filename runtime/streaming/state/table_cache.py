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
        self._tables: OrderedDict[str, pa.Table] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """How much its tables hold."""
        return self._n_bytes

    def get(self, name: str) -> pa.Table | None:
        """The table of a blob, if it is still here."""
        table = self._tables.get(name)
        if table is not None:
            self._tables.move_to_end(name)
        return table

    def put(self, name: str, table: pa.Table) -> None:
        """Keep the table of a blob, in place of those that were not used for longest."""
        self.remove(name)
        if table.nbytes > self._max_bytes:
            return
        self._tables[name] = table
        self._n_bytes += table.nbytes
        while self._n_bytes > self._max_bytes:
            _, oldest = self._tables.popitem(last=False)
            self._n_bytes -= oldest.nbytes

    def clear(self) -> None:
        """Forget all tables."""
        self._tables.clear()
        self._n_bytes = 0

    def remove(self, name: str) -> None:
        """Forget a table; it need not be here."""
        table = self._tables.pop(name, None)
        if table is not None:
            self._n_bytes -= table.nbytes
