"""Tables that workers have read from state or written to it, so as not to read them again.

Reading a blob back costs a round trip to the JVM and 12 ms a megabyte, and unpacking it some more.
Workers live on between micro-batches, but any worker of an executor may get a key group's next
task. So each keeps small tables in its own memory, and large ones are files in the executor's local
directory, which all of its workers map into memory. Spark deletes the directory with the executor.

A worker does not know whether the task that wrote a blob was committed, or which worker had the
blob's key group in between. So the cache is only for blobs that never change, under names that are
never used twice: which of them are alive is read from state each time. What a failed task left in
the cache is never asked for, and what it removed from it is read again.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from runtime.compute.kernels.columns import table_bytes
from runtime.streaming.state.blobs import BlobStore, decode_table, encode_state, known_blob


def unique_name() -> str:
    """A name that no other blob has, in whatever process and key group."""
    return secrets.token_urlsafe(12)


# A smaller table is read from its worker's memory or from state sooner than a file is made of it
_WORTH_A_FILE_BYTES = 256 << 10
# How often it is seen to that files are not too many: when so much of the limit was written
_SWEEPS = 16


class SharedTables:
    """Tables as files, by the names of their blobs, for all processes of a machine that know where.

    Nothing depends on a file: one that cannot be written, or is gone, is a table that is not kept.

    Args:
        directory: where they are; it is made when it is needed, and nothing else is there.
        max_bytes: how much they hold together, or little more; those used last stay.
    """

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._n_unswept_bytes = 0

    def get(self, name: str) -> pa.Table | None:
        """The table of a blob, in memory that is the file's; None if there is no file."""
        path = self._directory / name
        try:
            os.utime(path)
            with pa.memory_map(os.fspath(path)) as file:
                return pa.ipc.open_stream(file).read_all()
        except OSError:
            return None  # never written, or deleted for want of room or of use

    def put(self, name: str, table: pa.Table) -> bool:
        """Write the file of a table; whether it could be written."""
        path = self._directory / name
        # another process sees all of it or nothing
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
        """Delete the file of a table; who has it mapped may go on with it."""
        with suppress(OSError):
            (self._directory / name).unlink()

    def _sweep(self) -> None:
        """Delete the files used least recently, until the others are within the limit.

        Those of a process that died, or of a stream that stopped, are among them in time.
        """
        found: list[tuple[float, int, str]] = []
        # others delete files meanwhile, and Spark the directory
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                with suppress(OSError):
                    status = entry.stat()
                    found.append((status.st_mtime, status.st_size, entry.path))
        n_bytes = 0
        for _, size, path in sorted(found, reverse=True):
            n_bytes += size
            if n_bytes > self._max_bytes:
                with suppress(OSError):
                    os.unlink(path)


class TableCache:
    """The tables used last, by the names of their blobs.

    Args:
        max_bytes: how much they hold together at most; a larger table is not kept.
        shared: where large tables are kept instead; None: nowhere.
    """

    def __init__(self, max_bytes: int, shared: SharedTables | None = None) -> None:
        self._max_bytes = max_bytes
        self._shared = shared
        self._n_bytes = 0
        # each with its size
        self._tables: OrderedDict[str, tuple[pa.Table, int]] = OrderedDict()

    @property
    def n_bytes(self) -> int:
        """How much its tables hold, but for shared ones."""
        return self._n_bytes

    def get(self, name: str, *, is_last: bool = False) -> pa.Table | None:
        """The table of a blob, if it is still here.

        Args:
            name: the blob's.
            is_last: whether it is not asked for again, or not soon: it makes room for others first.
        """
        found = self._tables.get(name)
        if found is None:
            return None if self._shared is None else self._shared.get(name)
        self._tables.move_to_end(name, last=not is_last)
        return found[0]

    def put(self, name: str, table: pa.Table) -> None:
        """Keep the table of a blob, in place of those that were not used for longest."""
        self.remove(name)
        n_bytes = table_bytes(table)
        if self._shared is not None and n_bytes >= _WORTH_A_FILE_BYTES:
            if self._shared.put(name, table):
                return
        if n_bytes > self._max_bytes:
            return
        self._tables[name] = table, n_bytes
        self._n_bytes += n_bytes
        while self._n_bytes > self._max_bytes:
            _, (_, n_bytes) = self._tables.popitem(last=False)
            self._n_bytes -= n_bytes

    def clear(self) -> None:
        """Forget all tables but shared ones."""
        self._tables.clear()
        self._n_bytes = 0

    def remove(self, name: str) -> None:
        """Forget a table; it need not be here."""
        found = self._tables.pop(name, None)
        if found is not None:
            self._n_bytes -= found[1]
        elif self._shared is not None:
            self._shared.remove(name)


def tables_of_executor(local_directories: str, max_bytes: int) -> SharedTables | None:
    """The tables that the workers of an executor share; None if this process is no worker.

    Args:
        local_directories: what Spark gives to workers as SPARK_LOCAL_DIRS: directories of its own,
            apart for each executor. For other processes the variable has what a user has set.
        max_bytes: how much they hold together, where that leaves most of the disk's free room.
    """
    directory = Path(local_directories.partition(",")[0])
    if not directory.name.startswith("blockmgr-") or not directory.is_dir():
        return None
    room = shutil.disk_usage(directory).free // 4
    return SharedTables(directory / "sqlwin-state", min(max_bytes, room))


# What a worker keeps of the blobs that it read or wrote, itself and with the others of its executor
CACHE = TableCache(
    64 << 20, tables_of_executor(os.environ.get("SPARK_LOCAL_DIRS", ""), max_bytes=2 << 30)
)


def write_table(store: BlobStore, table: pa.Table) -> tuple[str, int]:
    """Write a table to state: (the name of its blob, which no other has ever had; its size)."""
    name, blob = unique_name(), encode_state(table)
    store.put(name, blob)
    return name, len(blob)


def remove_table(store: BlobStore, name: str) -> None:
    """Forget a table, in state and in the cache; it need not be there."""
    store.remove(name)
    CACHE.remove(name)


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
