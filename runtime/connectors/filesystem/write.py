"""Writing files: Parquet, CSV, JSON, ORC, Avro or text, in a directory."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from runtime.commits import Commit
from runtime.connectors.columns import find_column
from runtime.connectors.connector import AVRO_PACKAGE, NO_AVRO, missing_package
from runtime.connectors.filesystem.publish import Writer as BatchWriter
from runtime.connectors.filesystem.publish import (
    batch_writer,
    check_written,
    clear_batches,
    conclude,
    finish_replacing,
    publish,
    remove,
    take_back,
    writing_to,
    written_files,
)
from runtime.connectors.filesystem.text import allow_encoding
from runtime.connectors.filesystem.write_arrow import arrow_files
from runtime.connectors.options.checks import bad_option, option_values
from runtime.connectors.options.formats import (
    ONLY_READ,
    TIME_FORMAT,
    format_of,
    spark_options,
    written_timestamps,
)
from runtime.connectors.writing import check_partitions, check_shared, count_written
from runtime.errors import CatalogError, ErrorKind, ExecutionError
from runtime.files import Files, as_uri, is_local_path
from runtime.frames.arrow_rows import BatchRows
from runtime.scan.paths import is_glob
from runtime.spark.files import resolve, writable_files_at
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec

# Spark's sign that all files of a directory are there
_SUCCESS = "_SUCCESS"
# The reader's, and of no meaning or another one to the writer
_READER_ONLY = frozenset(
    "mode basePath enforceSchema inferSchema maxNumLen maxStringLen mergeSchema "
    "pathGlobFilter".split()
)


def write_files(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Write the rows of a DataFrame below the table's path. See `write_rows`."""
    return write_rows(BatchRows.of(dataframe), spec, overwrite)


def write_rows(rows: BatchRows, spec: TableSpec, overwrite: bool) -> int:
    """Write the rows below the table's path and return how many there were.

    Args:
        rows: the rows. Where workers have them as Arrow, Parquet files of this machine are written
            there, if they are then what Spark's writer would write.
        spec: the table.
        overwrite: whether they replace those that are there.

    They are written to a hidden directory, whose files are then published as those of a stream's
    micro-batch are: Spark's committer would move them one by one in sight of readers, and would
    also move what a killed job has left there, or what another one is just writing. Overwriting a
    directory puts the new one beside it first, and overwriting partitions deletes what was in them
    when all new files are there: so what is there stays if the job fails, and a query may read the
    very table that it overwrites. What is left of writers that were killed is removed, where it can
    be known that they were.

    Raises:
        CatalogError: the path is a file or a glob, or no column is left beside the partitions.
        ExecutionError: it is a place that cannot be written to.
        SetupError: the package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate_table() has seen to it"
    partitions = partition_columns(rows.schema.names, spec)
    spark = rows.spark
    path = resolve(spark, values["path"])
    files = None if is_remote(spark) else writable_files_at(spark, path)
    if files is not None:
        check_directory(path, spec, files)
        check_shared(spark, path, spec)
    options = file_writer_options(spec, file_format)
    allow_encoding(spark, options)
    if partitions and overwrite:
        # As in Flink: partitions that get no rows stay.
        options.setdefault("partitionOverwriteMode", "dynamic")
    parallelism = values.get("sink.parallelism")
    in_workers = None
    if files is not None and is_local_path(path):
        if file_format == "parquet" and not (partitions or parallelism):
            in_workers = arrow_files(rows, options)
    n_rows = 0
    try:
        if in_workers is None:
            dataframe = rows.dataframe
            if parallelism:
                dataframe = dataframe.repartition(int(parallelism))
            counted, count = count_written(dataframe)
            writer = counted.write.format(file_format).options(**options)
            if partitions:
                writer = writer.partitionBy(*partitions)
            if files is None:
                writer.mode("overwrite" if overwrite else "append").save(path)
                return count()
        assert files is not None
        if is_local_path(path):
            finish_replacing(path)
        clear_batches(files, path)

        def write(hidden: str) -> list[str]:
            nonlocal n_rows
            if in_workers is not None:
                n_rows = in_workers.write(hidden)
            else:
                writer.mode("append").save(as_uri(hidden))
                n_rows = count()
            return all_written(spark, spec, files, path, hidden, file_format, n_rows)

        is_dynamic = options.get("partitionOverwriteMode", "").lower() == "dynamic"
        by_partition = bool(partitions) and is_dynamic
        replaces = overwrite and files.exists(path)
        if replaces and not by_partition and _can_swap(path, files):
            _swap(write, path, files)
        else:
            _publish(write, batch_writer(files, path), replaces=replaces, by_partition=by_partition)
        return n_rows
    except PySparkException as error:
        if error.getCondition() in NO_AVRO:
            raise missing_package(spec, "writes Avro", AVRO_PACKAGE) from error
        raise
    except OSError as error:
        raise unwritable(path, error) from error


def all_written(
    spark: SparkSession,
    spec: TableSpec,
    files: Files,
    path: str,
    hidden: str,
    file_format: str,
    n_rows: int,
) -> list[str]:
    """The files that tasks have written to a hidden directory of a table, with all of the rows.

    Raises:
        SetupError: tasks write where the driver does not see it.
        ExecutionError: rows are missing in the files.
    """
    # executors may have come since
    check_shared(spark, path, spec)
    found = written_files(files, hidden)
    in_tasks = partial(_rows_below, spark, hidden)
    check_written(files, file_format, path, found, n_rows, in_tasks)
    return found


def _rows_below(spark: SparkSession, directory: str) -> int:
    return spark.read.parquet(as_uri(directory)).count()


def file_writer_options(spec: TableSpec, file_format: str) -> dict[str, str]:
    """The options of Spark's writer that say what the options of `spec` say."""
    for name, _ in spec.options:
        if TIME_FORMAT.fullmatch(name) or name.lower().partition(".")[2] in ONLY_READ:
            raise bad_option(
                spec,
                f"option '{name}' says how text is read, and nothing is written by it",
                "insert into a table without it, in a directory of its own",
            )
    options = {k: v for k, v in spark_options(spec, file_format).items() if k not in _READER_ONLY}
    return {**written_timestamps(spec, file_format), **options}


def partition_columns(columns: Sequence[str], spec: TableSpec) -> list[str]:
    """The columns that directories are made for, as `columns` spells them.

    Raises:
        CatalogError: there is no other column.
    """
    names = [found for p in spec.partitioned_by for found in find_column(columns, p)]
    check_partitions(spec, names, columns)
    return names


def unwritable(path: str, error: OSError) -> ExecutionError:
    """The error for a resolved path that cannot be written to."""
    message = f"cannot write to {path}: {error.strerror or error}"
    return ExecutionError(message, kind=ErrorKind.OUTPUT)


def check_directory(path: str, spec: TableSpec, files: Files) -> None:
    """Check that a resolved path can be a directory to write into.

    Raises:
        CatalogError: it is a file or a glob.
        ExecutionError: its file system is out of reach.
    """
    try:
        many, is_file = is_glob(path, files), files.is_file(path)
    except OSError as error:
        raise unwritable(path, error) from error
    if many:
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} stands for many files",
            subjects=(spec.name,),
            hint="INSERT writes into one directory",
        )
    if is_file:
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} is a file",
            subjects=(spec.name,),
            hint="INSERT writes into a directory",
        )


def _can_swap(path: str, files: Files) -> bool:
    """Whether there is a directory to put another one in the place of."""
    above = path.rpartition("/")[0]
    is_root = not above or above.endswith("/")
    return not is_root and files.is_directory(path)


def _publish(
    write: Callable[[str], list[str]], batch: BatchWriter, *, replaces: bool, by_partition: bool
) -> None:
    """Write files beside those that are there, or in their place; readers see all at once.

    Args:
        write: writes files to a directory, and returns them.
        batch: whose they are.
        replaces: whether the files that are there do not count from then on.
        by_partition: of these only those of the partitions that get files.
    """
    files, path = batch.files, batch.path
    is_new = not files.exists(path)
    try:
        with writing_to(files, batch.hidden):
            found = write(batch.hidden)
            replaced = [""] if replaces else []
            if replaces and by_partition:
                below = (file.removeprefix(f"{batch.hidden}/").rpartition("/")[0] for file in found)
                replaced = sorted(set(filter(None, below)))
            published = publish(batch, found, batch.hidden, Commit(0, is_whole=True), replaced)
    except BaseException:
        with suppress(OSError):
            take_back(batch)
            if is_new and not files.names_in(path):
                files.delete(path)
        raise
    # the rows are there: what is left besides is in nobody's way
    with suppress(OSError):
        if files.exists(f"{batch.hidden}/{_SUCCESS}") and not files.exists(f"{path}/{_SUCCESS}"):
            files.rename(f"{batch.hidden}/{_SUCCESS}", f"{path}/{_SUCCESS}")
    try:
        conclude(batch)
    except OSError as error:
        if published.replaced:
            raise ExecutionError(
                f"the new rows are in {path}, but files that they replace cannot be deleted: "
                f"{error.strerror or error}",
                hint="queries of sqlwin no longer see them, other readers do; the next INSERT into "
                "the table deletes them",
            ) from error


def _swap(write: Callable[[str], list[str]], path: str, files: Files) -> None:
    """Write a directory anew and put it in the place of the old one when it is complete.

    If `path` is a symbolic link, the directory that it points to is replaced, not the link.
    For `write` see `_publish`.
    """
    if is_local_path(path):
        path = os.path.realpath(path)
        if not os.access(path, os.W_OK | os.X_OK):
            # the directory above may allow it all the same
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    unique = uuid.uuid4().hex[:12]
    above, _, name = path.rpartition("/")
    # Names with a dot in front are invisible to readers of the directory above.
    new = f"{above}/.{name}.{unique}"
    old = f"{new}.old"
    try:
        with writing_to(files, new):
            write(new)
            files.rename(path, old)
            try:
                files.rename(new, path)
            except OSError:
                files.rename(old, path)
                raise
    except BaseException:
        with suppress(OSError):
            remove(files, new)
        raise
    # the rows are written: what is left of the old ones is in nobody's way
    with suppress(OSError):
        files.delete(old)
