"""Files of a stream as splits that tasks read.

A split of a stream is a file path or the text of a FileRange: in an object store for which Spark
has no file system, and in a table that is part of another one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
from pyspark.sql import SparkSession

from runtime.connectors.filesystem.listed import ListedFiles
from runtime.connectors.filesystem.stream import path_of, stream_paths
from runtime.connectors.filesystem.text_source import text_source
from runtime.connectors.unread_rows import unread_splits
from runtime.errors import SetupError
from runtime.files import LocalFiles, is_local_path
from runtime.frames.scan_source import store_of_scan
from runtime.options.checks import bad_option, monitor_interval_us, option_values
from runtime.options.formats import STREAM_OPTIONS, format_of
from runtime.scan.ranges import FileRange
from runtime.scan.read import convert_types
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import STORE_READERS, Store
from runtime.scan.stream_files import read_stream_file
from runtime.spark.files import files_at, spark_reads, store_at
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitOffsets, SplitReader, SplitSource, SplitStream
from runtime.spec.table import Column, TableSpec
from runtime.spec.text import FileSource, TextSource
from runtime.text.read import read_split

# Options of streams that only Spark's file source carries out, in both spellings
_SPARKS_OPTIONS = (
    "source.path.regex-pattern",
    *(
        name
        for ours, sparks in STREAM_OPTIONS.items()
        if sparks not in ("maxFilesPerTrigger", "maxBytesPerTrigger")
        for name in (ours, sparks.lower())
    ),
)


@dataclass(frozen=True)
class FileReader(SplitReader):
    """Reader of a stream's files in a task; see `SplitReader`.

    Attributes:
        source: Columns to read; it lists no files.
        store: Store of the files. None for files of this machine.
    """

    source: FileSource
    store: Store | None

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read files or parts of files one after the other.

        Raises:
            ExecutionError: A file cannot be read, or has a column of another type.
        """
        pa.set_io_thread_count(1 if self.store is None else STORE_READERS)
        for split in splits:
            part = FileRange.of(split) if split.startswith("[") else None
            if isinstance(self.source, TextSource):
                assert part is not None, "text files are read in parts"
                columns = (*self.source.columns, *self.source.partition_columns)
                for batch, _ in read_split(self.source, (part,), (), self.store):
                    yield convert_types(batch, columns, dictionaries)
                continue
            path = split if part is None else part.file.path
            yield from read_stream_file(path, self.source, dictionaries, self.store, part)


@dataclass(frozen=True)
class FileOffsets(SplitOffsets):
    """Offsets of a stream of files: numbers of listings; see `SplitOffsets`.

    Attributes:
        spec: Table specification.
        origin: Resolved path of the table.
        store: Store of the files. None for files of this machine.
        directory: Directory of the listings.
    """

    spec: TableSpec
    origin: str
    store: Store | None
    directory: str

    @cached_property
    def _listed(self) -> ListedFiles:
        stored = None if self.store is None else StoredFiles(self.store)
        return ListedFiles(self.spec, self.origin, stored, LocalFiles(), self.directory)

    @cached_property
    def _next_listing(self) -> list[float]:
        """Time of the next listing, in seconds of the monotonic clock."""
        return [0.0]

    def start(self) -> int:
        """Return the number of the first listing."""
        return 0

    def latest(self, last: int) -> int:
        """Return the number of the listing after the micro-batch."""
        if time.monotonic() >= self._next_listing[0]:
            self._listed.list_new()
            every_us = monitor_interval_us(self.spec)
            # without an interval, only the files that exist at the start are read
            self._next_listing[0] = (
                math.inf if every_us is None else time.monotonic() + every_us / 1e6
            )
        return (
            min(last + 1, self._listed.n_listings)
            if self._listed.has_limits
            else (self._listed.n_listings)
        )

    def splits(self, start: int | None, end: int) -> list[str]:
        """Return the files of a micro-batch."""
        return [text for number in range(start or 0, end) for text in self._listed.texts(number)]

    def end_now(self) -> None:
        """End with the files that exist now."""
        self._listed.list_new()
        self._next_listing[0] = math.inf


@dataclass(frozen=True)
class FileSplits(SplitSource):
    """Files of a stream: see `SplitSource`.

    Attributes:
        spark: Spark session.
        spec: Table specification.
    """

    spark: SparkSession
    spec: TableSpec

    def reader(self, columns: Sequence[Column], *, is_stream: bool) -> FileReader:
        """Return the reader of files for tasks.

        Raises:
            Refused: Only Spark reads these text files.
        """
        path = self.spec.option_map["path"]
        source: FileSource = ScanSource(path, (), tuple(columns))
        if format_of(option_values(self.spec)) != "parquet":
            source = text_source(self.spark, self.spec, columns).without_files()
        return FileReader(source, store_of_scan(self.spark, path))

    def offsets(self, directory: str) -> FileOffsets:
        """Return the offsets of a stream whose listings are in a directory of the checkpoint.

        Raises:
            CatalogError: The table has an option of Spark's file source.
            SetupError: The process of Spark's source has no access to the files or the checkpoint.
        """
        names = {name.lower(): name for name, _ in self.spec.options}
        for name in _SPARKS_OPTIONS:
            if name in names:
                raise bad_option(
                    self.spec,
                    f"option '{names[name]}' is not supported for files that continue a hybrid "
                    "table",
                    "remove it from the table",
                )
        origin = path_of(self.spark, self.spec)
        store = store_at(self.spark, origin)
        for path, is_open in ((origin, store is not None), (directory, False)):
            if not is_open and not is_local_path(path):
                raise SetupError(
                    f"table `{self.spec.name}`: a hybrid table continues with files only if they "
                    f"are on a disk or in an object store, and the checkpoint on a disk: {path}",
                    subjects=(self.spec.name,),
                )
        return FileOffsets(self.spec, origin, store, directory)

    def stream(self, directory: str | None) -> SplitStream:
        """Return the files of the table as they arrive.

        Raises:
            ExecutionError: The store cannot be listed.
        """
        origin = path_of(self.spark, self.spec)
        store = None if spark_reads(self.spark, origin) else store_at(self.spark, origin)
        if store is None:
            return SplitStream(stream_paths(self.spark, self.spec))
        if directory is None:
            return unread_splits(self.spark, self.spec.name)
        files = files_at(self.spark, directory)
        listing = ListedFiles(self.spec, origin, StoredFiles(store), files, directory)
        listing.list_new()
        return SplitStream(listing.parts(self.spark), listing)
