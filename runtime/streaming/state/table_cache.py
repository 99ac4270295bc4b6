"""Cache of tables that workers have read from state or written to it.

Reading a blob from state costs a round trip to the JVM and 12 ms per megabyte, plus decoding.
Workers stay alive between micro-batches, but any worker of an executor may get a key group's next
task. So each worker caches small tables in its own memory, and large ones as files in the
executor's local directory, which all its workers map into memory. Spark deletes the directory with
the executor.

A worker does not know whether the task that wrote a blob was committed, or which worker processed
the key group in between. So the cache is only for blobs that never change and whose names are never
reused; state says each time which of them are alive. Tables that a failed task added to the cache
are never requested, and tables that it removed are read again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from runtime.compute.arrow.blobs import MAX_BLOB_BYTES
from runtime.compute.kernels.conversions import table_bytes
from runtime.streaming.state.blobs import BlobStore, required_blob
from runtime.streaming.state.codec import decode_table, encode_table


def unique_name() -> str:
    """Return a name that no other blob has, in any process or key group."""
    return secrets.token_urlsafe(12)


# Maximum bytes of the partials in a blob, before they are packed into a quarter of them or so. Each
# blob costs several calls to the JVM, so a large table is in few of them.
PIECE_BYTES = 4 * MAX_BLOB_BYTES
# Smaller tables are kept in the worker's memory instead of a file
_WORTH_A_FILE_BYTES = 256 << 10
# Maximum bytes of files that a worker keeps mapped. A new map reads each page by a page fault, and
# these take longer than a search for some keys.
_MAPPED_BYTES = 512 << 20
# Sweep the files whenever 1 / _SWEEPS of the limit has been written
_SWEEPS = 16


class _Tables:
    """The most recently used tables by name.

    Args:
        max_bytes: Maximum bytes of all tables. Larger tables are not kept.

    Attributes:
        n_bytes: Bytes of all tables.
    """

    def __init__(self, max_bytes: int) -> None:
        self.n_bytes = 0
        self._max_bytes = max_bytes
        # each with its size in bytes
        self._tables: OrderedDict[str, tuple[pa.Table, int]] = OrderedDict()

    def get(self, name: str, *, is_last: bool = False) -> pa.Table | None:
        """Return a table, or None. If `is_last`, it will be the first to be evicted."""
        if name not in self._tables:
            return None
        self._tables.move_to_end(name, last=not is_last)
        return self._tables[name][0]

    def put(self, name: str, table: pa.Table, n_bytes: int) -> None:
        """Keep a table, and evict the least recently used ones."""
        self.remove(name)
        if n_bytes > self._max_bytes:
            return
        self._tables[name] = table, n_bytes
        self.n_bytes += n_bytes
        while self.n_bytes > self._max_bytes:
            _, (_, evicted_bytes) = self._tables.popitem(last=False)
            self.n_bytes -= evicted_bytes

    def remove(self, name: str) -> bool:
        """Drop a table. Return whether it was there."""
        entry = self._tables.pop(name, None)
        if entry is not None:
            self.n_bytes -= entry[1]
        return entry is not None

    def clear(self) -> None:
        """Drop all tables."""
        self._tables.clear()
        self.n_bytes = 0


class SharedTables:
    """Tables as files named like their blobs, shared by the processes of a machine.

    Nothing depends on a file: if it cannot be written or is gone, the table is not cached.

    Args:
        directory: Directory of the files. It is created when needed and holds nothing else.
        max_bytes: Approximate limit for all files; the least recently used are deleted.
        max_mapped: Maximum bytes of tables that stay mapped in this process.
    """

    def __init__(self, directory: Path, max_bytes: int, max_mapped: int = _MAPPED_BYTES) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._n_unswept_bytes = 0
        self._mapped = _Tables(max_mapped)

    def get(self, name: str) -> pa.Table | None:
        """Return the table of a blob, mapped from its file, or None if it has no file."""
        path = self._directory / name
        table = self._mapped.get(name)
        try:
            os.utime(path)
            if table is None:
                with pa.memory_map(os.fspath(path)) as file:
                    table = pa.ipc.open_stream(file).read_all()
                self._mapped.put(name, table, table_bytes(table))
        except OSError:  # never written, or swept
            self._mapped.remove(name)
            return None
        return table

    def put(self, name: str, table: pa.Table) -> bool:
        """Write the file of a table. Return whether it could be written."""
        path = self._directory / name
        # other processes must not see an incomplete file
        unfinished = path.with_name(f".{name}")
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            with pa.OSFile(os.fspath(unfinished), "wb") as file:
                with pa.ipc.new_stream(file, table.schema) as writer:
                    writer.write_table(table)
                self._n_unswept_bytes += file.tell()
            unfinished.rename(path)
        except OSError:
            with suppress(OSError):
                unfinished.unlink()
            return False
        if self._n_unswept_bytes >= self._max_bytes // _SWEEPS:
            self._n_unswept_bytes = 0
            self._sweep()
        return True

    def remove(self, name: str) -> None:
        """Delete the file of a table. Processes that have mapped it can still read it."""
        self._mapped.remove(name)
        with suppress(OSError):
            (self._directory / name).unlink()

    def _sweep(self) -> None:
        """Delete the least recently used files until the others are within the limit.

        This also removes files of dead processes and stopped streams.
        """
        files: list[tuple[float, int, str]] = []
        # other processes may delete files, and Spark the directory, at the same time
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat()
                    files.append((status.st_mtime, status.st_size, entry.path))
        n_bytes = 0
        for _, size, path in sorted(files, reverse=True):
            n_bytes += size
            if n_bytes > self._max_bytes:
                with suppress(OSError):
                    os.unlink(path)


class TableCache:
    """The most recently used tables, by the names of their blobs.

    Args:
        max_bytes: Maximum bytes of all tables. Larger tables are not cached.
        shared: Cache for large tables. None means none.
    """

    def __init__(self, max_bytes: int, shared: SharedTables | None = None) -> None:
        self._own = _Tables(max_bytes)
        self._shared = shared

    @property
    def n_bytes(self) -> int:
        """Bytes of all tables except shared ones."""
        return self._own.n_bytes

    def get(self, name: str, *, is_last: bool = False) -> pa.Table | None:
        """Return the table of a blob, or None if it is not cached.

        Args:
            name: Name of the blob.
            is_last: Whether it will not be requested again soon: it is evicted first.
        """
        table = self._own.get(name, is_last=is_last)
        return self._shared.get(name) if table is None and self._shared is not None else table

    def put(self, name: str, table: pa.Table) -> None:
        """Cache the table of a blob, and evict the least recently used ones."""
        self.remove(name)
        n_bytes = table_bytes(table)
        shared = self._shared if n_bytes >= _WORTH_A_FILE_BYTES else None
        if shared is None or not shared.put(name, table):
            self._own.put(name, table, n_bytes)

    def clear(self) -> None:
        """Drop all tables except shared ones."""
        self._own.clear()

    def remove(self, name: str) -> None:
        """Drop a table if it is cached."""
        if not self._own.remove(name) and self._shared is not None:
            self._shared.remove(name)


def tables_of_executor(local_directories: str, max_bytes: int) -> SharedTables | None:
    """Return the cache shared by the workers of an executor, or None outside a worker.

    Args:
        local_directories: Value of SPARK_LOCAL_DIRS. Spark sets it in workers to directories of
            the executor; other processes have the value set by the user.
        max_bytes: Maximum bytes, limited to a quarter of the free disk space.
    """
    directory = Path(local_directories.partition(",")[0])
    if not directory.name.startswith("blockmgr-") or not directory.is_dir():
        return None
    room = shutil.disk_usage(directory).free // 4
    return SharedTables(directory / "sqlwin-state", min(max_bytes, room))


# Tables that this worker has read or written, partly shared with the executor's other workers
CACHE = TableCache(
    64 << 20, tables_of_executor(os.environ.get("SPARK_LOCAL_DIRS", ""), max_bytes=2 << 30)
)


def write_table(store: BlobStore, table: pa.Table) -> tuple[str, int]:
    """Write a table to state. Return (name of its blob, never used before; size)."""
    name, blob = unique_name(), encode_table(table)
    store.put(name, blob)
    return name, len(blob)


def remove_table(store: BlobStore, name: str) -> None:
    """Remove a table from state and from the cache, if present."""
    store.remove(name)
    CACHE.remove(name)


def read_table(store: BlobStore, name: str, *, is_last: bool = False) -> pa.Table:
    """Return the table of a blob, from the cache or from state.

    Args:
        store: State.
        name: Name of the blob, from `unique_name`.
        is_last: Whether it will not be read again soon: then it is not added to the cache.

    Raises:
        ExecutionError: The state lacks the blob, or it is of another version.
    """
    table = CACHE.get(name, is_last=is_last)
    if table is None:
        table = decode_table(required_blob(store, name))
        if not is_last:
            CACHE.put(name, table)
    return table
