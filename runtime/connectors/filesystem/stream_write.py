"""Files from a stream: every row once, whatever is killed when, and plain files for any reader.

A micro-batch is written to a hidden directory first. Its files then move below the table's path,
under names that identify the stream and the micro-batch. A micro-batch that was cut short is
computed again by Spark, from the same input and the same state; what it had moved already is
deleted first. So no log of valid files is needed, as Spark's own sink has it: every file that a
reader sees counts, batch and stream may write to one directory, and so may several streams.
"""

from __future__ import annotations

import os
from functools import partial

from pyspark.sql import DataFrame, DataFrameWriter

from runtime.connectors.connector import WriteBatch
from runtime.connectors.filesystem.paths import local_path
from runtime.connectors.filesystem.write import check_directory, partition_columns, writer_options
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import format_of
from runtime.connectors.writing import as_declared, count_written
from runtime.errors import ExecutionError
from runtime.files import Files
from runtime.spark.files import files_at
from runtime.spec.table import TableSpec


def open_batches(dataframe: DataFrame, spec: TableSpec, writer: str) -> WriteBatch:
    """What writes the micro-batches of a stream, each once, and returns how many rows they have."""
    sink = FileSink(dataframe, spec, writer)
    return lambda rows, batch: sink.write(as_declared(rows, spec), batch)


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
        local = local_path(dataframe.sparkSession, values["path"])
        if local is not None:
            check_directory(local, spec)
        self._path = local or values["path"].rstrip("/")
        self._files = files_at(dataframe.sparkSession, self._path)
        self._is_first = True

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write one micro-batch; how many rows it has."""
        if self._parallelism is not None:
            rows = rows.repartition(int(self._parallelism))
        hidden = f"{self._path}/.sqlwin-{self._writer}"
        try:
            self._files.delete(hidden)
            with count_written(rows) as (counted, count):
                self._save(counted.write, hidden)
            if self._is_first:
                # Only the first one after a start can have been cut short before.
                remove_batch(self._files, self._path, self._writer, batch)
                self._is_first = False
            if n_rows := count():
                publish(self._files, hidden, self._path, self._writer, batch)
            self._files.delete(hidden)
            return n_rows
        except OSError as error:
            message = error.strerror or str(error)
            raise ExecutionError(f"cannot write to {self._path}: {message}") from error

    def _save(self, writer: DataFrameWriter, path: str) -> None:
        writer = writer.format(self._format).options(**self._options).mode("overwrite")
        if self._partitions:
            writer = writer.partitionBy(*self._partitions)
        writer.save(path)


def publish(files: Files, hidden: str, path: str, writer: str, batch: int) -> None:
    """Move the files of a micro-batch to where readers see them, partition directories kept.

    Example: `.../day=1/part-00000-1f0c.c000.snappy.parquet` of micro-batch 7 becomes
    `.../day=1/part-<writer>-00000007-00000.snappy.parquet`.
    """
    number = 0
    for found in sorted(files.files_below(hidden)):
        below, name = os.path.split(found.removeprefix(hidden).lstrip("/"))
        if name.startswith((".", "_")):
            continue
        # Spark's names hold a number, an identifier and another number before the suffix.
        suffix = name.partition(".c000")[2] or "." + name.partition(".")[2]
        directory = f"{path}/{below}" if below else path
        files.rename(found, f"{directory}/{_stem(writer, batch)}-{number:05d}{suffix}")
        number += 1


def remove_batch(files: Files, path: str, writer: str, batch: int) -> None:
    """Delete what a writer published of a micro-batch."""
    is_of_batch = partial(_is_of, _stem(writer, batch))
    for found in list(filter(is_of_batch, files.files_below(path))):
        files.delete(found)


def _is_of(stem: str, path: str) -> bool:
    return os.path.basename(path).startswith(stem + "-")


def _stem(writer: str, batch: int) -> str:
    return f"part-{writer}-{batch:08d}"
