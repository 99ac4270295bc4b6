"""Write rows to Parquet files of a table in Spark tasks; a log later records the committed files.

File names are unique to each task attempt, so a retried task is harmless. Files of a failed job are
removed.
"""

from __future__ import annotations

import os
import pickle
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from runtime.errors import ExecutionError
from runtime.frames.blobs import map_in_arrow
from runtime.frames.meter import ArrowFunction
from runtime.frames.parquet_columns import repeating_columns
from runtime.lake.places import UnreadableError
from runtime.lake.store_files import create_file, files_below, remove_file, unwritten
from runtime.names import quote_name
from runtime.scan.metadata import spark_type
from runtime.scan.pruning import column_range
from runtime.scan.stores import Store
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import PartitionValue

# Approximate size of a row group before compression
_ROW_GROUP_BYTES = 64 << 20
# Types with statistics. Floats are missing because statistics ignore NaN and readers differ
_RANGED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
# Maximum length of texts in statistics; longer ones are not worth their space in a log
_MAX_BYTES = 32

_NAME = re.compile(r"part-[0-9a-f]{32}-[0-9a-f]{12}\.parquet")

# Function that returns the directory of a file's partition values, relative to the table's
# directory
DirectoryOf = Callable[[Sequence[PartitionValue]], str]


@dataclass
class WrittenFile:
    """File that a task has written.

    Attributes:
        path: Path relative to the directory of the table.
        partition: Values of the partition columns.
        size: File size in bytes.
        n_rows: Number of rows.
        ranges: Minimum and maximum of columns, as `Constant` holds them; only for some types.
        nulls: Number of NULLs in flat columns.
    """

    path: str
    partition: tuple[PartitionValue, ...] = ()
    size: int = 0
    n_rows: int = 0
    ranges: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)


def write_parquet(
    rows: DataFrame,
    directory: str,
    schema: pa.Schema,
    partitions: Sequence[str],
    directory_of: DirectoryOf,
    *,
    keeps: bool = False,
) -> tuple[str, list[WrittenFile]]:
    """Write rows to new files below a directory. Return the mark in their names, and the files.

    Args:
        rows: Rows with the columns of `schema`, by name.
        directory: Directory that all tasks can access; created if it does not exist.
        schema: Columns of the files, including partition columns. Columns that are not nullable
            must not contain NULL.
        partitions: Columns with a single value per file.
        directory_of: Returns the directory of a partition.
        keeps: Whether partition columns are also stored in the files.

    Raises:
        ExecutionError: A NOT NULL column contains NULL, or the query or the writing failed.
    """
    mark = uuid.uuid4().hex
    if partitions:
        rows = rows.sortWithinPartitions(*map(quote_name, partitions))
    rows = rows.select(*map(quote_name, schema.names))
    task = file_task(NewFiles(directory, mark, schema, tuple(partitions), directory_of, keeps))
    try:
        results = map_in_arrow(rows, task, "file binary").collect()
    except BaseException:
        remove_files(directory, mark)
        raise
    return mark, [pickle.loads(row["file"]) for row in results]


def remove_files(directory: str, mark: str, store: Store | None = None) -> None:
    """Remove uncommitted files of a job. Files that cannot be removed do no harm.

    Args:
        directory: Local directory, or URI in a store.
        mark: Unique part of the file names.
        store: Object store. None for this machine.
    """
    if store is not None:
        with suppress(OSError):
            for uri, _ in files_below(store, directory):
                if mark in uri.rpartition("/")[2]:
                    remove_file(store, uri)
        return
    for above, _, names in os.walk(directory):
        for name in names:
            if mark in name:
                with suppress(OSError):
                    os.remove(os.path.join(above, name))
        with suppress(OSError):
            # fails if the directory is not empty
            if above != directory and "=" in os.path.basename(above):
                os.rmdir(above)


def is_unfinished(directory: str, log: str) -> bool:
    """Return whether all files below a directory come from jobs killed before their commit.

    Args:
        directory: Directory that the jobs wrote to.
        log: Subdirectory to ignore.
    """
    return all(
        _NAME.fullmatch(name)
        for above, _, names in os.walk(directory)
        if above != log
        for name in names
    )


@dataclass(frozen=True)
class NewFiles:
    """Place and columns of files to write; see `write_parquet`.

    With a `store`, the directory is a URI in it.
    """

    directory: str
    mark: str
    schema: pa.Schema
    partitions: tuple[str, ...]
    directory_of: DirectoryOf
    keeps: bool = False
    store: Store | None = None

    @property
    def stored(self) -> pa.Schema:
        """Columns stored in the files."""
        without = () if self.keeps else self.partitions
        return pa.schema([f for f in self.schema if f.name not in without])


class _OpenFile:
    """File that is being written, one row group at a time."""

    def __init__(self, files: NewFiles, partition: tuple[PartitionValue, ...]) -> None:
        above = files.directory_of(partition)
        name = f"part-{files.mark}-{uuid.uuid4().hex[:12]}.parquet"
        self._file = WrittenFile(f"{above}/{name}" if above else name, partition)
        self.partition = partition
        self._path = f"{files.directory}/{self._file.path}"
        self._store = files.store
        self._sink: pa.NativeFile | None = None
        if self._store is None:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
        else:
            self._sink = create_file(self._store, self._path)
        self._stored = files.stored
        self._pending: list[pa.RecordBatch] = []
        self._n_bytes = 0
        self._footers: list[pq.FileMetaData] = []
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._n_bytes += batch.nbytes
        if self._n_bytes >= _ROW_GROUP_BYTES:
            with self._store_errors():
                self._flush()

    def close(self) -> WrittenFile:
        """Finish the file and return its description."""
        file = self._file
        with self._store_errors():
            self._flush()
            self._open_writer(None).close()
            if self._sink is None:
                file.size = os.path.getsize(self._path)
            else:
                file.size = self._sink.tell()
                self._sink.close()
        footer = self._footers[0]
        file.n_rows = footer.num_rows
        _add_statistics(file, footer)
        return file

    def discard(self) -> None:
        """Remove the unfinished file."""
        with suppress(OSError, pa.ArrowException):
            if self._writer is not None:
                self._writer.close()
        if self._store is not None and self._sink is not None:
            with suppress(OSError, pa.ArrowException):
                self._sink.close()
            with suppress(OSError):
                remove_file(self._store, self._path)
            return
        with suppress(OSError):
            os.remove(self._path)

    @contextmanager
    def _store_errors(self) -> Iterator[None]:
        """Raise errors of a store as errors about the file."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if self._store is None:
                raise
            raise unwritten(self._store, self._path, error) from error

    def _flush(self) -> None:
        if self._pending:
            table = pa.Table.from_batches(self._pending, self._stored)
            writer = self._open_writer(table)
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            self._pending, self._n_bytes = [], 0

    def _open_writer(self, first: pa.Table | None) -> pq.ParquetWriter:
        """Return the writer; the first rows determine how the file is written."""
        if self._writer is None:
            self._writer = pq.ParquetWriter(
                self._path if self._sink is None else self._sink,
                self._stored,
                compression="snappy",
                metadata_collector=self._footers,
                coerce_timestamps="us",
                use_dictionary=first is None or repeating_columns(first),
            )
        return self._writer


def file_task(files: NewFiles) -> ArrowFunction:
    """Return the task function that writes rows to files and returns a row for each file."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        opened: _OpenFile | None = None
        try:
            for batch in batches:
                batch = _cast_batch(batch, files.schema)
                for part, partition in _parts(batch, files):
                    if opened is not None and opened.partition != partition:
                        written, opened = opened.close(), None
                        yield _row(written)
                    if opened is None:
                        opened = _OpenFile(files, partition)
                    opened.write(part)
            if opened is not None:
                written, opened = opened.close(), None
                yield _row(written)
        finally:
            if opened is not None:
                opened.discard()

    return run


def _row(file: WrittenFile) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"file": pa.array([pickle.dumps(file)], pa.binary())})


def _cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns with the types of the files.

    Raises:
        ExecutionError: A NOT NULL column contains NULL.
    """
    for column in schema:
        array = batch.column(column.name)
        if not column.nullable and array.null_count:
            raise ExecutionError(
                f"column {column.name} is NOT NULL in the table, but a row has NULL"
            )
    return batch.select(schema.names).cast(schema)


def plain_values(array: pa.Array) -> list[PartitionValue]:
    """Convert an Arrow array to `Constant` values: dates as days, times as microseconds.

    Raises:
        UnreadableError: The type cannot be a partition type.
    """
    type_ = array.type
    if pa.types.is_timestamp(type_):
        array = array.cast(pa.timestamp("us", tz=type_.tz)).cast(pa.int64())
    elif pa.types.is_date32(type_):
        array = array.cast(pa.int32())
    elif pa.types.is_nested(type_) or pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        raise UnreadableError(f"a partition column has the unsupported type {type_}")
    return list(array.to_pylist())


def _parts(
    batch: pa.RecordBatch, files: NewFiles
) -> Iterator[tuple[pa.RecordBatch, tuple[PartitionValue, ...]]]:
    """Yield runs of rows with equal partition values, as stored.

    The rows must be sorted by them.
    """
    partitions = files.partitions
    if batch.num_rows == 0:
        return
    if not partitions:
        yield batch, ()
        return
    changes = np.zeros(batch.num_rows - 1, dtype=bool)
    for name in partitions:
        codes = batch.column(name).dictionary_encode().indices.fill_null(-1).to_numpy()
        changes |= codes[1:] != codes[:-1]
    starts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    stored = batch.select(files.stored.names)
    firsts = batch.select(list(partitions)).take(pa.array(starts[:-1]))
    values = zip(*(plain_values(firsts.column(name)) for name in partitions), strict=True)
    for start, end, value in zip(starts, starts[1:], values, strict=False):
        yield stored.slice(start, end - start), value


def _add_statistics(file: WrittenFile, footer: pq.FileMetaData) -> None:
    """Add the ranges and NULL counts of flat columns in a footer to the description of a file."""
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        if column.max_repetition_level or "." in column.path:
            continue
        type_ = spark_type(column) or ""
        groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
        ranges = [
            column_range(group.column(index).statistics, column, type_, group.num_rows)
            for group in groups
        ]
        with_counts = [
            range_ for range_ in ranges if range_ is not None and range_.n_nulls is not None
        ]
        if len(with_counts) < len(groups):
            continue
        file.nulls[column.path] = sum(range_.n_nulls or 0 for range_ in with_counts)
        valued = [range_ for range_ in with_counts if range_.n_nulls != range_.n_rows]
        if type_ not in _RANGED or not valued or any(range_.low is None for range_ in valued):
            continue
        low, high = min(range_.low for range_ in valued), max(range_.high for range_ in valued)
        if not isinstance(low, bytes):
            file.ranges[column.path] = low, high
        elif max(len(low), len(high)) <= _MAX_BYTES:
            file.ranges[column.path] = low.decode(), high.decode()
