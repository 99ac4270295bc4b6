"""Stream of files in an object store, with listings in the checkpoint.

Spark's file source needs a package to list the store. So the driver lists it and writes new files
to small listing files, which Spark's source reads as rows. Spark's checkpoint then records which
listing files belong to a micro-batch, also when it is recomputed.

    listed-files/<number of the table>/<number>.json    parts of files, one a line
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runtime.commits import batch_of
from runtime.connectors.filesystem.stream import file_source_options
from runtime.errors import ExecutionError, SqlwinError
from runtime.files import Files, LocalFiles, as_uri
from runtime.options.checks import monitor_interval_us
from runtime.refusal import Refused
from runtime.scan.files import NO_FILES, list_files
from runtime.scan.paths import expand
from runtime.scan.ranges import SPLIT_BYTES, FileRange
from runtime.scan.stored_files import StoredFiles
from runtime.spec.scan import ScanFile
from runtime.spec.source import BRINGS_SPLITS
from runtime.spec.table import TableSpec

_PARTS_DDL = "path string"
# Spark must not skip files for their age
_NEVER = "36500d"
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}


# Active listings by directory
_listing: dict[str, ListedFiles] = {}


class ListedFiles:
    """Files of one table of a stream.

    Args:
        table: Table specification.
        origin: Resolved path of the table.
        stored: Object store of the table. None for this machine.
        files: File system of the checkpoint.
        directory: Directory of the listings in the checkpoint.
    """

    def __init__(
        self,
        table: TableSpec,
        origin: str,
        stored: StoredFiles | None,
        files: Files,
        directory: str,
    ) -> None:
        self._table = table
        self._path = origin
        self._stored = stored
        self._files = files
        self._directory = directory
        self._seen: set[str] = set()
        self._n_listings = 0
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        # left by a failed stream that is restarted
        if (before := _listing.pop(directory, None)) is not None:
            before.stop()
        files.make_directory(directory)
        for name in files.names_in(directory):
            if name.endswith(".json"):
                number = int(name.removesuffix(".json"))
                self._seen.update(FileRange.of(text).file.path for text in self.texts(number))
                self._n_listings = max(self._n_listings, number + 1)

    def list_new(self) -> None:
        """List the store and record new files.

        Raises:
            ExecutionError: The store cannot be listed.
        """
        try:
            roots = expand(self._path, self._stored or LocalFiles())
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        try:
            listing = list_files(roots, None if self._stored is None else self._stored.store)
        except Refused as refused:
            if refused.refusal.reason == NO_FILES:
                return
            raise self._unreadable(refused.refusal.reason) from refused
        if listing.partition_columns:
            raise self._unreadable("directory names contain partition columns")
        new = [
            ScanFile(path, (), (), *(listing.stamps.get(path) or _stamp(path)))
            for path, _ in listing.files
            if path not in self._seen
        ]
        for chunk in _chunks(new, *_limits(self._table)):
            parts = [part for file in chunk for part in _parts(file)]
            text = "".join(json.dumps({"path": part.text()}) + "\n" for part in parts)
            self._files.write_text(f"{self._directory}/{self._n_listings:08d}.json", text)
            self._n_listings += 1
            self._seen.update(file.path for file in chunk)

    @property
    def n_listings(self) -> int:
        """Number of listings so far."""
        return self._n_listings

    def texts(self, number: int) -> list[str]:
        """Return the file parts in a listing."""
        lines = self._files.read_text(f"{self._directory}/{number:08d}.json").splitlines()
        return [json.loads(line)["path"] for line in lines]

    @property
    def has_limits(self) -> bool:
        """Whether a micro-batch reads one listing only."""
        return any(limit is not None for limit in _limits(self._table))

    def parts(self, spark: SparkSession) -> DataFrame:
        """Return the listed file parts in the column `path`, spread over the cores."""
        reader: Any = spark.readStream.schema(_PARTS_DDL)
        reader = reader.options(**{BRINGS_SPLITS: "true", "maxFileAge": _NEVER})
        if self.has_limits:
            reader = reader.option("maxFilesPerTrigger", "1")
        rows: DataFrame = reader.json(as_uri(self._directory))
        return rows.repartition(spark.sparkContext.defaultParallelism)

    def start(
        self, failed: Callable[[BaseException], None], is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """List the store periodically if the table has a monitor interval.

        Args:
            failed: Called with an error that ends the listing.
            is_over: Whether the stream has ended.
        """
        every_us = monitor_interval_us(self._table)
        if every_us is None:
            return

        def run() -> None:
            while not self._stopped.wait(every_us / 1e6) and not is_over():
                try:
                    self.list_new()
                except (SqlwinError, OSError) as error:
                    if not self._stopped.is_set():
                        failed(error)
                    return

        name = f"list-{self._table.name}"
        self._thread = threading.Thread(target=run, name=name, daemon=True)
        _listing[self._directory] = self
        self._thread.start()

    def stop(self) -> None:
        """Stop listing."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        if _listing.get(self._directory) is self:
            del _listing[self._directory]

    def _unreadable(self, why: str) -> ExecutionError:
        return ExecutionError(
            f"table `{self._table.name}`: cannot read {self._path}: {why}",
            subjects=(self._table.name,),
        )


def _stamp(path: str) -> tuple[int, int]:
    """Return the size and the modification time of a file of this machine."""
    status = os.stat(path)
    return status.st_size, status.st_mtime_ns


def _parts(file: ScanFile) -> Iterator[FileRange]:
    """Yield parts of a file with about equal numbers of bytes, at most the split size."""
    n_parts = max(1, -(-file.n_bytes // SPLIT_BYTES))
    ends = [file.n_bytes * i // n_parts for i in range(n_parts + 1)]
    for start, stop in pairwise(ends):
        yield FileRange(file, start, stop)


def _limits(table: TableSpec) -> tuple[int | None, int | None]:
    """Return the maximum number of files and bytes of a micro-batch."""
    options = file_source_options(table)
    n_files, text = options.get("maxFilesPerTrigger"), options.get("maxBytesPerTrigger")
    most_files = None if n_files is None else int(n_files)
    if text is None:
        return most_files, None
    n_bytes = re.fullmatch(r"(\d+) *([kmg]?)b? *", text.lower())
    if n_bytes is None:
        raise ExecutionError(
            f"table `{table.name}`: invalid value '{text}' for option 'max-bytes-per-trigger'",
            hint="it must be a number of bytes, such as 500000000 or 500m",
            subjects=(table.name,),
        )
    return most_files, int(n_bytes[1]) << _SHIFTS[n_bytes[2]]


def _chunks(
    files: Sequence[ScanFile], most_files: int | None, most_bytes: int | None
) -> Iterator[list[ScanFile]]:
    """Yield files in the order of their modification times, in groups within the limits.

    Files that a writer published together stay together, because otherwise rows of the last ones
    would be late.
    """
    groups: dict[object, list[ScanFile]] = {}
    for file in sorted(files, key=lambda file: (file.modified_ns, file.path)):
        groups.setdefault(batch_of(file.path) or file.path, []).append(file)
    chunk: list[ScanFile] = []
    n_bytes = 0
    for together in groups.values():
        size = sum(file.n_bytes for file in together)
        is_full = most_files is not None and len(chunk) + len(together) > most_files
        is_full |= most_bytes is not None and n_bytes + size > most_bytes
        if chunk and is_full:
            yield chunk
            chunk, n_bytes = [], 0
        chunk += together
        n_bytes += size
    if chunk:
        yield chunk
