"""Files of an object store as a stream: each is listed once, in a file of the checkpoint.

Spark's source of files would list the store, and needs a package of its own for it. So the driver
lists it, and writes what is new to small files that Spark's source reads as rows: which of them a
micro-batch has is in Spark's checkpoint, and the same when it is computed again.

    listed-files/<number of the table>/<number>.json    parts of files, one a line
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from runtime.commits import batch_of
from runtime.connectors.filesystem.stream import file_source_options, monitor_interval_us
from runtime.errors import ExecutionError, SqlwinError
from runtime.files import Files, as_uri
from runtime.scan.files import NO_FILES, NotScannable, list_files
from runtime.scan.paths import expand
from runtime.scan.splits import SPLIT_BYTES, FileRange
from runtime.scan.stored_files import StoredFiles
from runtime.spec.scan import ScanFile
from runtime.spec.source import BRINGS_SPLITS
from runtime.spec.table import TableSpec

_PARTS_DDL = "path string"
# Files stay new to Spark however long ago they were written
_NEVER = "36500d"
_SHIFTS = {"": 0, "k": 10, "m": 20, "g": 30}


# What lists now, by directory
_listing: dict[str, ListedFiles] = {}


class ListedFiles:
    """The files of one table of one stream.

    Args:
        table: the table.
        origin: its path, resolved.
        stored: the store that it is in.
        files: the file system of the checkpoint.
        directory: where in it the listings are.
    """

    def __init__(
        self, table: TableSpec, origin: str, stored: StoredFiles, files: Files, directory: str
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
        # of a stream that has failed, which is started again
        if (before := _listing.pop(directory, None)) is not None:
            before.stop()
        files.make_directory(directory)
        for name in files.names_in(directory):
            if name.endswith(".json"):
                lines = files.read_text(f"{directory}/{name}").splitlines()
                parts = (FileRange.of(json.loads(line)["path"]) for line in lines)
                self._seen.update(part.file.path for part in parts)
                self._n_listings = max(self._n_listings, int(name.removesuffix(".json")) + 1)

    def list_new(self) -> None:
        """List the store, and write down what is new.

        Raises:
            ExecutionError: it cannot be listed.
        """
        try:
            roots = expand(self._path, self._stored)
        except OSError as error:
            raise self._unreadable(error.strerror or str(error)) from error
        found = list_files(roots, self._stored.store)
        if isinstance(found, NotScannable):
            if found.reason == NO_FILES:
                return
            raise self._unreadable(found.reason)
        if found.partition_columns:
            raise self._unreadable("names of directories make partition columns")
        new = [
            ScanFile(path, (), (), *found.stamps[path])
            for path, _ in found.files
            if path not in self._seen
        ]
        for chunk in _chunks(new, *_limits(self._table)):
            parts = [part for file in chunk for part in _parts(file)]
            text = "".join(json.dumps({"path": part.text()}) + "\n" for part in parts)
            self._files.write_text(f"{self._directory}/{self._n_listings:08d}.json", text)
            self._n_listings += 1
            self._seen.update(file.path for file in chunk)

    def parts(self, spark: SparkSession) -> DataFrame:
        """The parts of files as they are listed, in the column `path`, spread over the cores."""
        reader: Any = spark.readStream.schema(_PARTS_DDL)
        reader = reader.options(**{BRINGS_SPLITS: "true", "maxFileAge": _NEVER})
        if any(each is not None for each in _limits(self._table)):
            reader = reader.option("maxFilesPerTrigger", "1")
        rows: DataFrame = reader.json(as_uri(self._directory))
        return rows.repartition(spark.sparkContext.defaultParallelism)

    def start(
        self, failed: Callable[[BaseException], None], is_over: Callable[[], bool] = lambda: False
    ) -> None:
        """List the store again and again, if the table says how often.

        Args:
            failed: is given what keeps that from going on.
            is_over: whether the stream is.
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
        """List it no more."""
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


def _parts(file: ScanFile) -> Iterator[FileRange]:
    """A file in parts of about the same number of bytes, none larger than a split."""
    n_parts = max(1, -(-file.n_bytes // SPLIT_BYTES))
    ends = [file.n_bytes * i // n_parts for i in range(n_parts + 1)]
    for start, stop in pairwise(ends):
        yield FileRange(file, start, stop)


def _limits(table: TableSpec) -> tuple[int | None, int | None]:
    """How many files, and how many bytes, a micro-batch takes at most."""
    options = file_source_options(table)
    n_files, text = options.get("maxFilesPerTrigger"), options.get("maxBytesPerTrigger")
    most_files = None if n_files is None else int(n_files)
    if text is None:
        return most_files, None
    n_bytes = re.fullmatch(r"(\d+) *([kmg]?)b? *", text.lower())
    if n_bytes is None:
        raise ExecutionError(
            f"table `{table.name}`: option 'max-bytes-per-trigger' is {text}",
            hint="it must be a number of bytes, such as 500000000 or 500m",
            subjects=(table.name,),
        )
    return most_files, int(n_bytes[1]) << _SHIFTS[n_bytes[2]]


def _chunks(
    files: Sequence[ScanFile], most_files: int | None, most_bytes: int | None
) -> Iterator[list[ScanFile]]:
    """Files in the order in which they were written, so many at a time at most.

    Those that a writer has published together stay together, or rows of the last ones would be
    late.
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
