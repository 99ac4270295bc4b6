"""Read buckets of keys for the global stage: whole buckets, within a memory limit.

A bucket whose partials exceed the limit is spilled to Spark's local directories in parts, by
another hash of its keys, and read part by part; a part that is still too large is split again. This
is the hybrid hash join (DeWitt et al., Implementation Techniques for Main Memory Database Systems,
SIGMOD 1984), with partials instead of rows.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from runtime.compute.arrow.blobs import from_blobs, split_by_bucket
from runtime.compute.kernels.keys import bucket_of
from runtime.errors import ExecutionError

# Number of parts that a bucket is split into at once; each has a file and a buffer.
_PARTS = 16
# A part with this share of its bucket has almost only one key, so splitting it again is useless.
_SPLIT_PAYS_BELOW = 0.9
_COMPRESSION = "lz4"


def bucket_tables(
    blobs: Iterable[tuple[int, memoryview]],
    keys: Sequence[str],
    enough_bytes: int,
    most_bytes: int,
) -> Iterator[pa.Table]:
    """Yield the partials of whole buckets, combining small buckets up to `enough_bytes`.

    Args:
        blobs: (bucket, Arrow IPC stream) pairs, grouped by bucket.
        keys: Key columns by which a bucket may be split; empty if it must not be split.
        enough_bytes: Size at which no further bucket is added.
        most_bytes: Maximum size in memory; larger buckets are spilled.

    Yields:
        Tables with all partials of their keys.

    Raises:
        ExecutionError: The local directory is not writable.
    """
    tables: list[pa.Table] = []
    size, last = 0, None
    spill: _Spill | None = None
    try:
        for bucket, blob in blobs:
            if bucket != last and spill is not None:
                yield from spill.tables()
                spill = None
            elif bucket != last and size >= enough_bytes:
                yield pa.concat_tables(tables)
                tables, size = [], 0
            last = bucket
            tables.append(from_blobs([blob]))
            size += tables[-1].nbytes
            if spill is None and keys and size > most_bytes:
                spill = _Spill(keys, most_bytes)
            if spill is not None:
                for table in tables:
                    spill.add(table)
                tables, size = [], 0
        if spill is not None:
            yield from spill.tables()
        elif tables:
            yield pa.concat_tables(tables)
    finally:
        if spill is not None:
            spill.remove()


class _Spill:
    """Partials in files, one file for each part of the hash of their keys."""

    def __init__(self, keys: Sequence[str], most_bytes: int, depth: int = 1) -> None:
        self._keys = keys
        self._most_bytes = most_bytes
        self._depth = depth
        self._writers: dict[int, tuple[pa.OSFile, pa.RecordBatchStreamWriter]] = {}
        self._n_bytes = dict.fromkeys(range(_PARTS), 0)
        with _on_disk():
            # The directory of Spark's own spills; Spark removes it if this process is killed.
            directories = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")
            self._directory = Path(tempfile.mkdtemp(prefix="sqlwin-", dir=directories[0]))

    def add(self, table: pa.Table) -> None:
        """Append partials to the files of their parts."""
        columns = [table.column(key) for key in self._keys]
        part_of_row = bucket_of(columns, table.num_rows, _PARTS, seed=self._depth)
        for part, batch in split_by_bucket(table, part_of_row):
            with _on_disk():
                if part not in self._writers:
                    file = pa.OSFile(self._file(part), "wb")
                    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION)
                    writer = pa.ipc.new_stream(file, batch.schema, options=options)
                    self._writers[part] = file, writer
                self._writers[part][1].write_batch(batch)
            self._n_bytes[part] += batch.nbytes

    def tables(self) -> Iterator[pa.Table]:
        """Yield the parts, one in memory at a time; deletes the files."""
        with _on_disk():
            for file, writer in self._writers.values():
                writer.close()
                file.close()
        try:
            for part in self._writers:
                yield from self._part(part)
        finally:
            self.remove()

    def _part(self, part: int) -> Iterator[pa.Table]:
        n_bytes, file = self._n_bytes[part], self._file(part)
        is_cut = self._most_bytes < n_bytes < _SPLIT_PAYS_BELOW * sum(self._n_bytes.values())
        with _on_disk(), pa.OSFile(file) as source, pa.ipc.open_stream(source) as batches:
            if not is_cut:
                table = batches.read_all()
            else:
                finer = _Spill(self._keys, self._most_bytes, self._depth + 1)
                try:
                    for batch in batches:
                        finer.add(pa.Table.from_batches([batch]))
                except BaseException:
                    finer.remove()
                    raise
        Path(file).unlink()
        if is_cut:
            yield from finer.tables()
        else:
            yield table

    def remove(self) -> None:
        """Remove all files."""
        shutil.rmtree(self._directory, ignore_errors=True)

    def _file(self, part: int) -> str:
        return str(self._directory / f"{part}.arrow")


@contextmanager
def _on_disk() -> Iterator[None]:
    """Convert failures of the local directory to errors that name the setting to change."""
    try:
        yield
    except OSError as error:
        raise ExecutionError(
            "partial results exceed memory and cannot be spilled to disk: "
            f"{error.strerror or error}; check spark.local.dir, or raise "
            "sqlwin.exchange.buckets"
        ) from error
