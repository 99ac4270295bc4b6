"""Write files to a directory: Parquet, CSV, JSON, ORC, Avro or text."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

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
    roll_back,
    writing_to,
    written_files,
)
from runtime.connectors.filesystem.text import allow_encoding
from runtime.connectors.filesystem.write_arrow import (
    ArrowFiles,
    ProcessFiles,
    ProcessTextFiles,
    arrow_codec,
    arrow_files,
    text_files,
    text_form,
)
from runtime.connectors.writing import check_partitions, check_shared, count_written, declared_types
from runtime.errors import CatalogError, ErrorKind, ExecutionError
from runtime.files import Files, as_uri, is_local_path
from runtime.frames.arrow_rows import BatchRows
from runtime.options.checks import bad_option, option_values
from runtime.options.formats import (
    ONLY_READ,
    TIME_FORMAT,
    format_of,
    spark_options,
    timestamp_output_options,
)
from runtime.scan.paths import is_glob
from runtime.shown_types import shown_type
from runtime.spark.files import resolve, writable_files_at
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec

# Spark's marker that all files of a directory are complete
_SUCCESS = "_SUCCESS"
_TEXT_FORMATS = ("csv", "json")
# Types of partition columns whose values have a unique form in directory names
_PARTITION_TYPES = frozenset("STRING TINYINT SMALLINT INT INTEGER BIGINT BOOLEAN DATE".split())
# Reader options that mean nothing or something else to the writer
_READER_ONLY = frozenset(
    "mode basePath enforceSchema inferSchema maxNumLen maxStringLen mergeSchema "
    "pathGlobFilter".split()
)


def write_rows(rows: BatchRows, spec: TableSpec, overwrite: bool) -> int:
    """Write rows below the table's path and return their number.

    Args:
        rows: Rows to write. If workers have them as Arrow and their files would equal the files of
            Spark's writer, workers write local Parquet files themselves.
        spec: Table specification.
        overwrite: Whether to replace existing rows.

    Files are written to a hidden directory and published like a micro-batch. Spark's committer
    would move them one by one in sight of readers, along with files that a killed job left or that
    another job is writing. Overwriting a directory swaps in a new directory, and overwriting
    partitions deletes the old files after all new ones are in place: so existing rows survive a
    failure, and a query may read the table that it overwrites. Leftovers of writers that are known
    to have been killed are removed.

    Raises:
        CatalogError: The path is a file or a glob, or there are only partition columns.
        ExecutionError: The path cannot be written to.
        SetupError: The package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "the table has been checked"
    partitions = partition_columns(rows.schema.names, spec)
    spark = rows.spark
    path = resolve(spark, values["path"])
    files = None if is_remote(spark) else writable_files_at(spark, path)
    if files is not None:
        check_directory(path, spec, files)
    options = file_writer_options(spec, file_format)
    allow_encoding(spark, options)
    if partitions and overwrite:
        # as in Flink, partitions without new rows stay
        options.setdefault("partitionOverwriteMode", "dynamic")
    parallelism = values.get("sink.parallelism")
    in_workers: ArrowFiles | ProcessFiles | ProcessTextFiles | None = None
    if files is not None and is_local_path(path):
        if file_format == "parquet" and not parallelism:
            in_workers = arrow_files(rows, options, partitions)
        elif rows.in_process is not None and why_spark_writes(spark, spec) is None:
            in_workers = text_files(rows, file_format, options, partitions)
    is_in_process = isinstance(in_workers, ProcessFiles | ProcessTextFiles)
    if files is not None and not is_in_process:
        check_shared(spark, path, spec)
    n_rows = 0
    try:
        if in_workers is None:
            dataframe = rows.dataframe
            if parallelism:
                dataframe = dataframe.repartition(int(parallelism))
            observed, count = count_written(dataframe)
            writer = observed.write.format(file_format).options(**options)
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
            if is_in_process:
                paths = written_files(files, hidden)
                check_written(files, file_format, path, paths, n_rows, lambda: n_rows)
                return paths
            return complete_files(spark, spec, files, path, hidden, file_format, n_rows)

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


def why_spark_writes(spark: SparkSession, spec: TableSpec) -> str | None:
    """Return why Spark has to write rows computed in this process, or None."""
    values = option_values(spec)
    file_format = format_of(values)
    if file_format not in ("parquet", *_TEXT_FORMATS):
        return f"Spark writes {file_format or 'other files than Parquet'}"
    if values.get("sink.parallelism"):
        return "Spark writes tables with 'sink.parallelism'"
    if spec.partitioned_by and not spec.columns:
        return "Spark writes PARTITIONED BY tables without declared columns"
    for column in spec.physical_columns:
        is_partition = column.name.lower() in {name.lower() for name in spec.partitioned_by}
        if is_partition and (column.type or "").upper() not in _PARTITION_TYPES:
            return f"Spark writes partitions by {column.name} {shown_type(column.type or '')}"
    if not is_local_path(resolve(spark, values["path"])):
        return "Spark writes to other file systems"
    options = file_writer_options(spec, file_format)
    if file_format in _TEXT_FORMATS:
        return _why_spark_writes_text(spark, spec, file_format, options)
    if arrow_codec(spark, options) is None:
        return "Spark writes Parquet with these options"
    return None


def _why_spark_writes_text(
    spark: SparkSession, spec: TableSpec, file_format: str, options: dict[str, str]
) -> str | None:
    """Return why Spark writes rows of this process as text, or None."""
    from runtime.text.write import why_not_text

    if not spec.columns:
        return f"Spark writes {file_format} tables without declared columns"
    own_formats = timestamp_output_options(spec, file_format)
    for name, pattern in own_formats.items():
        if options[name] != pattern:
            return f"Spark writes {file_format} with the option '{name}'"
    form = text_form(spark, file_format, options)
    if isinstance(form, str):
        return form
    types = zip(spec.physical_columns, declared_types(spec), strict=True)
    reason = why_not_text([(c.name, type_.simpleString()) for c, type_ in types])
    n_stored = len(spec.physical_columns) - len(spec.partitioned_by)
    if reason is None and file_format == "csv" and n_stored < 2:
        # Spark leaves out rows whose only column is NULL
        return "Spark writes csv with one column"
    return reason


def complete_files(
    spark: SparkSession,
    spec: TableSpec,
    files: Files,
    path: str,
    hidden: str,
    file_format: str,
    n_rows: int,
) -> list[str]:
    """Return the files that tasks have written to a hidden directory, checking the row count.

    Raises:
        SetupError: The driver does not see the files that tasks write.
        ExecutionError: Rows are missing in the files.
    """
    # executors may have joined in the meantime
    check_shared(spark, path, spec)
    paths = written_files(files, hidden)
    in_tasks = partial(_rows_below, spark, hidden)
    check_written(files, file_format, path, paths, n_rows, in_tasks)
    return paths


def _rows_below(spark: SparkSession, directory: str) -> int:
    return spark.read.parquet(as_uri(directory)).count()


def file_writer_options(spec: TableSpec, file_format: str) -> dict[str, str]:
    """Return the options of Spark's writer that correspond to the options of `spec`."""
    for name, _ in spec.options:
        if TIME_FORMAT.fullmatch(name) or name.lower().partition(".")[2] in ONLY_READ:
            raise bad_option(
                spec,
                f"option '{name}' applies to reading only",
                "insert into a table without it, with a directory of its own",
            )
    options = {k: v for k, v in spark_options(spec, file_format).items() if k not in _READER_ONLY}
    return {**timestamp_output_options(spec, file_format), **options}


def partition_columns(columns: Sequence[str], spec: TableSpec) -> list[str]:
    """Return the partition columns as spelled in `columns`.

    Raises:
        CatalogError: All columns are partition columns.
    """
    names = [name for p in spec.partitioned_by for name in find_column(columns, p)]
    check_partitions(spec, names, columns)
    return names


def unwritable(path: str, error: OSError) -> ExecutionError:
    """Return the error for a resolved path that cannot be written to."""
    message = f"cannot write to {path}: {error.strerror or error}"
    return ExecutionError(message, kind=ErrorKind.OUTPUT)


def check_directory(path: str, spec: TableSpec, files: Files) -> None:
    """Check that a resolved path can be a directory to write into.

    Raises:
        CatalogError: The path is a file or a glob.
        ExecutionError: Its file system cannot be reached.
    """
    try:
        many, is_file = is_glob(path, files), files.is_file(path)
    except OSError as error:
        raise unwritable(path, error) from error
    if many:
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} matches many files",
            subjects=(spec.name,),
            hint="set 'path' to a directory",
        )
    if is_file:
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} is a file",
            subjects=(spec.name,),
            hint="set 'path' to a directory",
        )


def _can_swap(path: str, files: Files) -> bool:
    """Return whether a path is a directory that another one can replace."""
    above = path.rpartition("/")[0]
    is_root = not above or above.endswith("/")
    return not is_root and files.is_directory(path)


def _publish(
    write: Callable[[str], list[str]], batch: BatchWriter, *, replaces: bool, by_partition: bool
) -> None:
    """Write files in addition to existing ones or replacing them; readers see all at once.

    Args:
        write: Writes files to a directory and returns them.
        batch: Writer of the files.
        replaces: Whether existing files are replaced.
        by_partition: Whether to replace only files of partitions that get new ones.
    """
    files, path = batch.files, batch.path
    is_new = not files.exists(path)
    try:
        with writing_to(files, batch.hidden):
            paths = write(batch.hidden)
            replaced = [""] if replaces else []
            if replaces and by_partition:
                below = (file.removeprefix(f"{batch.hidden}/").rpartition("/")[0] for file in paths)
                replaced = sorted(set(filter(None, below)))
            published = publish(batch, paths, batch.hidden, Commit(0, is_whole=True), replaced)
    except BaseException:
        with suppress(OSError):
            roll_back(batch)
            if is_new and not files.names_in(path):
                files.delete(path)
        raise
    # the rows are published: leftovers do no harm
    with suppress(OSError):
        if files.exists(f"{batch.hidden}/{_SUCCESS}") and not files.exists(f"{path}/{_SUCCESS}"):
            files.rename(f"{batch.hidden}/{_SUCCESS}", f"{path}/{_SUCCESS}")
    try:
        conclude(batch)
    except OSError as error:
        if published.replaced:
            raise ExecutionError(
                f"the new rows are in {path}, but the replaced files cannot be deleted: "
                f"{error.strerror or error}",
                hint="queries of sqlwin ignore these files, other readers do not; the next "
                "INSERT into the table deletes them",
            ) from error


def _swap(write: Callable[[str], list[str]], path: str, files: Files) -> None:
    """Write a new directory that replaces the old one when it is complete.

    If `path` is a symbolic link, its target is replaced, not the link. For `write` see `_publish`.
    """
    if is_local_path(path):
        path = os.path.realpath(path)
        if not os.access(path, os.W_OK | os.X_OK):
            # the parent directory might allow it nevertheless
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    unique = uuid.uuid4().hex[:12]
    above, _, name = path.rpartition("/")
    # readers of the parent directory ignore names with a leading dot
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
    # The rows are published, so leftovers of the old directory are harmless.
    with suppress(OSError):
        files.delete(old)
