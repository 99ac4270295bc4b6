"""Tables of files as tasks read them: input of the Arrow scan, and files of a stream as splits.

A split of a stream is a file path or, in an object store for which Spark has no file system, the
text of a FileRange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.filesystem.listed import ListedFiles
from runtime.connectors.filesystem.stream import path_of, stream_paths
from runtime.frames.scan_source import scan_source, store_of_scan
from runtime.options.formats import STREAM_OPTIONS
from runtime.scan.metadata import find_stream_source
from runtime.scan.splits import FileRange
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import STORE_READERS, Store
from runtime.scan.stream_files import read_stream_file
from runtime.spark.files import files_at, spark_reads, store_at
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitTable
from runtime.spec.table import LATE_ROWS, Column, TableSpec

# Options that do not affect how a batch reads files. Spark's file stream source uses its options to
# decide in which order, and how many at a time, a stream reads them.
_OPTIONS = frozenset(
    ("path", "format", LATE_ROWS, *STREAM_OPTIONS, *map(str.lower, STREAM_OPTIONS.values()))
)
# Further options that only affect which files of a stream are read, and when
_STREAM_OPTIONS = frozenset(("source.monitor-interval", "source.path.regex-pattern"))


def not_scannable(
    spec: TableSpec, columns: Sequence[Column], *, is_stream: bool = False
) -> str | None:
    """Return why the Arrow scan cannot read columns of a table of files, or None if it may.

    The files are not examined.
    """
    if is_stream and spec.late_rows is not None:
        return f"late rows go to {spec.late_rows} with all columns of the table"
    options = {name.lower(): value for name, value in spec.options}
    others = sorted(set(options) - (_OPTIONS | _STREAM_OPTIONS if is_stream else _OPTIONS))
    if others:
        return f"the table has the option '{others[0]}'"
    if options.get("format", "").lower() != "parquet" and not options["path"].endswith(".parquet"):
        return "the files are not Parquet"
    needed = {column.name.partition(".")[0].lower() for column in columns}
    for column in spec.columns:
        if column.name.lower() in needed and (column.computed or column.metadata):
            return f"{column.name} is not stored in the files"
    return None


def scan(
    spark: SparkSession,
    spec: TableSpec,
    columns: Sequence[Column],
    filters: Sequence[Expression] = (),
) -> ScanSource | str:
    """Return the files of a table for the Arrow scan, or the reason why it cannot read them."""
    reason = not_scannable(spec, columns)
    if reason is not None:
        return reason
    source = scan_source(spark, spec.option_map["path"], columns)
    return source if isinstance(source, ScanSource) else source.reason


def stream_scan(
    spark: SparkSession, spec: TableSpec, columns: Sequence[Column]
) -> SplitTable | str:
    """Return the files of a stream for the Arrow scan, or the reason why it cannot read them."""
    reason = not_scannable(spec, columns, is_stream=True)
    if reason is not None:
        return reason
    source = scan_source(spark, spec.option_map["path"], columns, find_stream_source)
    if not isinstance(source, ScanSource):
        return source.reason
    return SplitTable(spec, source.path, source.columns)


@dataclass(frozen=True)
class FileReader:
    """Reads files of a stream in a task: see `SplitReader`.

    Attributes:
        source: Columns to read; it lists no files.
        store: Store of the files. None for files of this machine.
    """

    source: ScanSource
    store: Store | None
    undecoded_ddl: None = None

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

    def watermark_split(self, split: str) -> None:
        """Return None: files have no watermarks of their own."""


@dataclass(frozen=True)
class FileStream:
    """Arriving files of a stream: see `SplitStream`.

    Attributes:
        splits: Streaming DataFrame with the text of a split in each row.
        listing: Listing of new files. None if Spark lists them.
    """

    splits: DataFrame
    listing: ListedFiles | None = None

    def start(self, failed: Callable[[BaseException], None], is_over: Callable[[], bool]) -> None:
        """List the store periodically if the table has a monitor interval."""
        if self.listing is not None:
            self.listing.start(failed, is_over)

    def stop(self) -> None:
        """Stop listing the store."""
        if self.listing is not None:
            self.listing.stop()


@dataclass(frozen=True)
class FileSplits:
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

    def stream(self, directory: str | None) -> FileStream:
        """Return the files of the table as they arrive.

        Raises:
            ExecutionError: The store cannot be listed.
        """
        origin = path_of(self.spark, self.spec)
        store = None if spark_reads(self.spark, origin) else store_at(self.spark, origin)
        if store is None:
            return FileStream(stream_paths(self.spark, self.spec))
        assert directory is not None, "streams have a checkpoint"
        files = files_at(self.spark, directory)
        listing = ListedFiles(self.spec, origin, StoredFiles(store), files, directory)
        listing.list_new()
        return FileStream(listing.parts(self.spark), listing)
