"""Files from a stream: every row once, whatever is killed when, and plain files for any reader.

A micro-batch is written to a hidden directory first. Its files then move below the table's path,
under names that identify the stream and the micro-batch; `runtime.commits` says which of them
count meanwhile. A micro-batch that was cut short is computed again by Spark, from the same input
and the same state; what it had moved already is deleted first. So there is no log that every reader
has to know, as Spark's own sink has it: batch and stream may write to one directory, and so may
several streams.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, DataFrameWriter

from runtime.commits import Commit, batch_of, data_file, read_commit, write_commit
from runtime.connectors.connector import WriteBatch
from runtime.connectors.filesystem.write import (
    check_directory,
    check_shared,
    partition_columns,
    unwritable,
    writer_options,
)
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import format_of
from runtime.connectors.writing import as_declared, count_written, naming_output
from runtime.errors import ExecutionError
from runtime.files import Files, as_uri, for_each_file
from runtime.spark.files import files_at, resolve
from runtime.spec.table import TableSpec


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: str) -> WriteBatch:
    """What writes the micro-batches of a stream, each once, and returns how many rows they have."""
    with naming_output(spec):
        sink = FileSink(dataframe, spec, writer)

    def write(rows: DataFrame, batch: int) -> int:
        with naming_output(spec):
            return sink.write(as_declared(rows, spec), batch)

    return write


class FileSink:
    """Writes the micro-batches of one stream below the path of a table.

    Args:
        dataframe: the stream, for its session and columns.
        spec: the table.
        writer: identifies this stream among others that write there, the same after a restart.

    Raises:
        CatalogError: the path is a file or a glob, or no column is left beside the partitions.
    """

    def __init__(self, dataframe: DataFrame, spec: TableSpec, writer: str) -> None:
        self._spec = spec
        self._writer = writer
        values = option_values(spec)
        self._format = str(format_of(values))
        self._options = writer_options(spec, self._format)
        self._parallelism = values.get("sink.parallelism")
        self._partitions = partition_columns(dataframe, spec)
        self._path = resolve(dataframe.sparkSession, values["path"])
        self._files = files_at(dataframe.sparkSession, self._path)
        check_directory(self._path, spec, self._files)
        check_shared(dataframe.sparkSession, self._path, spec)
        self._is_first = True

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write one micro-batch; how many rows it has."""
        if self._parallelism is not None:
            rows = rows.repartition(int(self._parallelism))
        hidden = f"{self._path}/.sqlwin-{self._writer}"
        try:
            self._files.delete(hidden)
            with count_written(rows) as (counted, count):
                self._save(counted.write, as_uri(hidden))
            # executors may have come since
            check_shared(rows.sparkSession, self._path, self._spec)
            n_rows = count()
            found = written_files(self._files, hidden)
            check_written(self._files, self._format, self._path, found, n_rows)
            if self._is_first:
                # Only the first one after a start can have been cut short before.
                retract(self._files, self._path, self._writer, batch)
                self._is_first = False
            if n_rows:
                publish(self._files, found, hidden, self._path, self._writer, batch)
            self._files.delete(hidden)
            return n_rows
        except OSError as error:
            raise unwritable(self._path, error) from error

    def _save(self, writer: DataFrameWriter, path: str) -> None:
        writer = writer.format(self._format).options(**self._options).mode("overwrite")
        if self._partitions:
            writer = writer.partitionBy(*self._partitions)
        writer.save(path)


def written_files(files: Files, hidden: str) -> list[str]:
    """The files with rows below a directory that Spark has written, in order."""
    found = sorted(files.files_below(hidden))
    return [path for path in found if not path.rpartition("/")[2].startswith((".", "_"))]


def check_written(
    files: Files, file_format: str, path: str, found: Sequence[str], n_rows: int
) -> None:
    """Check that the rows that tasks wrote are in the files that are found.

    Args:
        files: the file system.
        file_format: the format of the files; those of Parquet say how many rows they have.
        path: the table's path, for the error.
        found: the files.
        n_rows: how many rows were written.

    Raises:
        ExecutionError: there are fewer rows, or more.
    """
    n_found = n_rows if found else 0
    if file_format == "parquet" and found:
        n_found = 0
        for file in found:
            with files.open(file) as opened:
                n_found += pq.read_metadata(opened).num_rows
    if n_found != n_rows:
        raise ExecutionError(
            f"{n_rows:,} rows were written to {path}, and {n_found:,} are found in its files",
            hint="all hosts have to see the same files there: take a path of a file system that "
            "they share",
        )


def publish(
    files: Files, found: Sequence[str], hidden: str, path: str, writer: str, batch: int
) -> None:
    """Move the files of a micro-batch to where readers see them, partition directories kept.

    Example: `.../day=1/part-00000-1f0c.c000.snappy.parquet` of micro-batch 7 becomes
    `.../day=1/part-<writer>-00000007-00000.snappy.parquet`.

    Args:
        files: the file system.
        found: the files, see `written_files`.
        hidden: the directory that they are in.
        path: the table's.
        writer: identifies the stream.
        batch: the number of the micro-batch.
    """
    names: dict[str, str] = {}
    for number, file in enumerate(found):
        below, _, name = file.removeprefix(hidden).lstrip("/").rpartition("/")
        # Spark's names hold a number, an identifier and another number before the suffix.
        suffix = name.partition(".c000")[2] or "." + name.partition(".")[2]
        moved = data_file(writer, batch, number, suffix)
        names[file] = f"{below}/{moved}" if below else moved
    moved_files = tuple(names.values())
    # before the first one is there, so that no reader takes it for all
    write_commit(files, path, writer, Commit(batch, is_whole=False, files=moved_files))
    below_path = {f"{path}/{name}".rpartition("/")[0] for name in moved_files}
    for_each_file(files.make_directory, sorted(below_path))
    for_each_file(lambda file: files.rename(file, f"{path}/{names[file]}"), names)
    write_commit(files, path, writer, Commit(batch, is_whole=True, files=moved_files))


def retract(files: Files, path: str, writer: str, batch: int) -> None:
    """Delete what a writer published of a micro-batch, and of later ones, which it writes again.

    Arguments as in `publish`.
    """
    commit = read_commit(files, path, writer)
    if commit is not None and commit.batch < batch:
        return
    known = commit.files if commit is not None and commit.batch == batch else None
    write_commit(files, path, writer, Commit(batch, is_whole=False, files=known))
    if known is not None:
        doomed = [f"{path}/{name}" for name in known]
    else:
        # one of a version that kept no commits, or of a checkpoint that was put back
        doomed = [
            file
            for file in files.files_below(path)
            for written in [batch_of(file)]
            if written is not None and written[0] == writer and written[1] >= batch
        ]
    for_each_file(files.delete, doomed)
