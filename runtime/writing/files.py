"""Write Arrow batches to files, in a task or in this process.

File names are unique to each task attempt, so a retried task is harmless. Callers decide when
readers see the files, and remove the files of a failed job.
"""

from __future__ import annotations

import errno
import os
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from runtime.compute.partitions import split_by_partition
from runtime.errors import ExecutionError
from runtime.frames.blobs import large_tables
from runtime.frames.meter import ArrowFunction
from runtime.scan.stores import Store, why_of
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import PartitionValue
from runtime.writing.encodings import Encoding, ParquetEncoding
from runtime.writing.places import create_file, remove_file
from runtime.writing.written import WrittenFile, add_statistics

# Columns of the rows that tasks return: a pickled `WrittenFile`, or another record
FILE_DDL = "file binary"

# Function that returns the directory of a file's partition values, relative to the table's
# directory
DirectoryOf = Callable[[Sequence[PartitionValue]], str]


@dataclass(frozen=True)
class NewFiles:
    """Files to write.

    Attributes:
        directory: Local directory that all tasks can access, or URI in `store`.
        schema: Columns of the rows, including partition columns. Columns that are not nullable must
            not contain NULL.
        partitions: Columns with a single value per file.
        directory_of: Returns the directory of a partition.
        mark: Unique part of the names of a job's files. Without it they are hidden and in the order
            of the tasks; see `show`.
        encoding: Format of the files.
        keeps: Whether partition columns are also stored in the files. Otherwise NULL and the empty
            text are the same partition.
        store: Object store. None for this machine.
        with_statistics: Whether the descriptions include statistics of the columns of Parquet.
    """

    directory: str
    schema: pa.Schema
    partitions: tuple[str, ...] = ()
    directory_of: DirectoryOf = field(default=lambda _: "")
    mark: str | None = None
    encoding: Encoding = field(default_factory=ParquetEncoding)
    keeps: bool = False
    store: Store | None = None
    with_statistics: bool = True

    @property
    def stored(self) -> pa.Schema:
        """Columns stored in the files."""
        without = () if self.keeps else self.partitions
        return pa.schema([f for f in self.schema if f.name not in without])

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenFile]:
        """Write rows and yield a description of each file. Without rows no file is written.

        A partition has one file if its rows are adjacent, and otherwise possibly several.

        Raises:
            NotWritten: A file on this machine cannot be written.
            ExecutionError: A NOT NULL column contains NULL, or the store rejects a file.
        """
        names = self._names()
        opened: OpenFile | None = None
        try:
            for table in large_tables(batches, self.encoding.chunk_bytes):
                for partition, rows in self._parts(table):
                    if opened is not None and opened.partition != partition:
                        written, opened = opened.close(), None
                        yield written
                    if opened is None:
                        opened = OpenFile(self, next(names), partition, rows)
                    opened.write(rows)
            if opened is not None:
                written, opened = opened.close(), None
                yield written
        finally:
            if opened is not None:
                opened.discard()

    def write_empty(self) -> WrittenFile:
        """Write a file without rows, which records the columns."""
        return OpenFile(self, next(self._names()), (), None).close()

    def show(self, files: Sequence[WrittenFile]) -> list[str]:
        """Give hidden files of successful tasks visible names, and return their sorted paths."""
        paths = []
        for file in files:
            above, _, name = f"{self.directory}/{file.path}".rpartition("/")
            paths.append(f"{above}/{name.removeprefix('.')}")
            os.rename(f"{above}/{name}", paths[-1])
        return sorted(paths)

    def _names(self) -> Iterator[str]:
        """Yield the names of the files of a task."""
        context, mark, number = TaskContext.get(), self.mark, 0
        if mark is None:
            task = 0 if context is None else context.partitionId()
        begin = f".part-{task:05}" if mark is None else f"part-{mark}"
        unique = uuid.uuid4().hex[:12]
        while True:
            yield f"{begin}-{unique}.c{number:03}{self.encoding.suffix}"
            number += 1

    def _parts(self, table: pa.Table) -> Iterator[tuple[tuple[PartitionValue, ...], pa.Table]]:
        """Yield rows as stored, by partition."""
        for column, array in zip(self.schema, table.columns, strict=True):
            if not column.nullable and array.null_count:
                raise ExecutionError(
                    f"column {column.name} is NOT NULL in the table, but a row has NULL"
                )
        rows = table.cast(self.schema)
        if self.partitions:
            yield from split_by_partition(rows, self.partitions, keeps=self.keeps)
        else:
            yield (), rows


class NotWritten(OSError):
    """Error of a file on this machine that cannot be written."""


class OpenFile:
    """File that is being written."""

    def __init__(
        self,
        files: NewFiles,
        name: str,
        partition: tuple[PartitionValue, ...],
        first: pa.Table | None,
    ) -> None:
        above = files.directory_of(partition)
        self._file = WrittenFile(f"{above}/{name}" if above else name, partition)
        self._files = files
        self.path = f"{files.directory}/{self._file.path}"
        self.partition = partition
        with self._errors():
            self._sink = create_file(files.store, self.path)
            self._encoder = files.encoding.open(self._sink, files.stored, first)

    def write(self, rows: pa.Table) -> None:
        """Write rows."""
        with self._errors():
            self._encoder.write_table(rows)
        self._file.n_rows += rows.num_rows

    def close(self) -> WrittenFile:
        """Finish the file and return its description."""
        file = self._file
        with self._errors():
            self._encoder.close()
            file.size = self._sink.tell()
            self._sink.close()
        if self._files.with_statistics:
            add_statistics(file, self._encoder.writer.metadata)
        return file

    def discard(self) -> None:
        """Remove the unfinished file."""
        for action in (
            self._encoder.close,
            self._sink.close,
            lambda: remove_file(self._files.store, self.path),
        ):
            with suppress(OSError, pa.ArrowException):
                action()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise errors as errors about the file."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if (store := self._files.store) is not None:
                why = why_of(store, self.path, error)
                raise ExecutionError(
                    f"cannot write {self.path}: {why}", subjects=(self.path,)
                ) from error
            if isinstance(error, OSError):
                number = error.errno or errno.EIO
                raise NotWritten(number, os.strerror(number), self.path) from error
            raise


def file_task(files: NewFiles) -> ArrowFunction:
    """Return the task function that writes rows to files and returns a row for each file."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        try:
            for written in files.write(batches):
                yield _row(written)
        except NotWritten as error:
            # Return the error as data, because a retry of the task would fail in the same way.
            yield _row(error)

    return run


def _row(record: object) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"file": pa.array([pickle.dumps(record)], pa.binary())})


def records_of(rows: DataFrame) -> list[Any]:
    """Run tasks that write files and return their records.

    Raises:
        NotWritten: A task cannot write a file.
    """
    records = [pickle.loads(row["file"]) for row in rows.collect()]
    for record in records:
        if isinstance(record, NotWritten):
            raise record
    return records
