"""Files of a stream as splits that tasks read.

A split of a stream is a file path or, in an object store for which Spark has no file system, the
text of a FileRange.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession

from runtime.connectors.filesystem.listed import ListedFiles
from runtime.connectors.filesystem.stream import path_of, stream_paths
from runtime.frames.scan_source import store_of_scan
from runtime.scan.ranges import FileRange
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import STORE_READERS, Store
from runtime.scan.stream_files import read_stream_file
from runtime.spark.files import files_at, spark_reads, store_at
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitReader, SplitSource, SplitStream
from runtime.spec.table import Column, TableSpec


@dataclass(frozen=True)
class FileReader(SplitReader):
    """Reader of a stream's files in a task; see `SplitReader`.

    Attributes:
        source: Columns to read; it lists no files.
        store: Store of the files. None for files of this machine.
    """

    source: ScanSource
    store: Store | None

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read files or parts of files one after the other.

        Raises:
            ExecutionError: A file cannot be read, or has a column of another type.
        """
        pa.set_io_thread_count(1 if self.store is None else STORE_READERS)
        for split in splits:
            part = FileRange.of(split) if split.startswith("[") else None
            path = split if part is None else part.file.path
            yield from read_stream_file(path, self.source, dictionaries, self.store, part)


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
        """Return the reader of files for tasks."""
        path = self.spec.option_map["path"]
        return FileReader(ScanSource(path, (), tuple(columns)), store_of_scan(self.spark, path))

    def stream(self, directory: str | None) -> SplitStream:
        """Return the files of the table as they arrive.

        Raises:
            ExecutionError: The store cannot be listed.
        """
        origin = path_of(self.spark, self.spec)
        store = None if spark_reads(self.spark, origin) else store_at(self.spark, origin)
        if store is None:
            return SplitStream(stream_paths(self.spark, self.spec))
        assert directory is not None, "streams have a checkpoint"
        files = files_at(self.spark, directory)
        listing = ListedFiles(self.spec, origin, StoredFiles(store), files, directory)
        listing.list_new()
        return SplitStream(listing.parts(self.spark), listing)
