"""Write files to a directory: Parquet, CSV, JSON, ORC, Avro or text."""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from runtime.commits import Commit
from runtime.compute.partitions import spark_directory
from runtime.connectors.connector import AVRO_PACKAGE, NO_AVRO, missing_package
from runtime.connectors.declared_columns import find_column
from runtime.connectors.filesystem.encoding import encoding_of
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
from runtime.connectors.writing import check_partitions, check_shared, count_written, declared_types
from runtime.errors import CatalogError, ExecutionError
from runtime.files import Files, as_uri, is_local_path
from runtime.frames.arrow_rows import ArrowRows, BatchRows, ProcessRows
from runtime.options.checks import bad_option, option_values
from runtime.options.formats import (
    ONLY_READ,
    TIME_FORMAT,
    format_of,
    spark_options,
    timestamp_output_options,
)
from runtime.refusal import Refusal, Refused, tried
from runtime.scan.paths import is_glob
from runtime.shown_types import shown_type
from runtime.spark.files import resolve, writable_files_at
from runtime.spark.session import is_remote
from runtime.spark.versions.errors import condition_of
from runtime.spec.table import TableSpec
from runtime.writing.encodings import Encoding
from runtime.writing.files import FILE_DDL, NewFiles, file_task, records_of
from runtime.writing.places import unwritable

# Spark's marker that all files of a directory are complete
_SUCCESS = "_SUCCESS"
_MODE = "partitionOverwriteMode"
# Types of partition columns whose values have a unique form in directory names
_PARTITION_TYPES = frozenset("STRING TINYINT SMALLINT INT INTEGER BIGINT BOOLEAN DATE".split())
# Reader options that mean nothing or something else to the writer
_READER_ONLY = frozenset(
    "mode basePath enforceSchema inferSchema maxNumLen maxStringLen mergeSchema "
    "pathGlobFilter".split()
)
# Function that writes files to a directory and returns them, with their number of rows
Write = Callable[[str], tuple[list[str], int]]


@dataclass(frozen=True)
class FileTarget:
    """Directory of a table that is open for writing.

    Attributes:
        spark: Spark session.
        spec: Table specification.
        path: Resolved path.
        files: File system of the path. None if only Spark's server sees it.
        file_format: Format of the files.
        options: Options of Spark's writer.
        partitions: Partition columns, as spelled in the rows.
        parallelism: Number of tasks that write. None to keep the partitions of the rows.
    """

    spark: SparkSession
    spec: TableSpec
    path: str
    files: Files | None
    file_format: str
    options: Mapping[str, str]
    partitions: tuple[str, ...]
    parallelism: int | None

    def save(self, rows: DataFrame, place: str, mode: str = "append") -> int:
        """Let Spark write rows to a place, and return their number."""
        if self.parallelism is not None:
            rows = rows.repartition(self.parallelism)
        observed, count = count_written(rows)
        writer = observed.write.format(self.file_format).options(**self.options)
        if self.partitions:
            writer = writer.partitionBy(*self.partitions)
        writer.mode(mode).save(place)
        return count()

    def write(self, rows: BatchRows, hidden: str) -> tuple[list[str], int]:
        """Write rows to a hidden directory, and return its sorted files and their number of rows.

        Raises:
            OSError: The directory cannot be written to.
            SetupError: The driver does not see the files that tasks write.
            ExecutionError: Rows are missing in the files.
        """
        assert self.files is not None, "otherwise Spark writes to the table's path"
        source = rows.in_process or rows.arrow
        encoding = None if source is None else self._encoding(source, rows.schema)
        if encoding is None or source is None:
            n_rows = self.save(rows.dataframe, as_uri(hidden))
            # executors may have joined in the meantime
            check_shared(self.spark, self.path, self.spec)
            paths = written_files(self.files, hidden)

            def count() -> int:
                return self.spark.read.parquet(as_uri(hidden)).count()

            check_written(self.files, self.file_format, self.path, paths, n_rows, count)
            return paths, n_rows
        columns = tuple((name, source.schema.field(name).type) for name in self.partitions)
        new = NewFiles(
            hidden,
            source.schema,
            self.partitions,
            partial(spark_directory, columns),
            encoding=encoding,
            with_statistics=False,
        )
        if isinstance(source, ProcessRows):
            written = list(new.write(source.batches()))
        else:
            written = records_of(source.then(file_task(new), FILE_DDL))
            check_shared(self.spark, self.path, self.spec)
        if not written and not self.partitions:
            written = [new.write_empty()]
        (Path(hidden) / _SUCCESS).touch()
        return new.show(written), sum(file.n_rows for file in written)

    def _encoding(self, source: ArrowRows | ProcessRows, schema: StructType) -> Encoding | None:
        """Return the encoding in which sqlwin writes rows, or None if Spark writes them."""
        is_plain = self.file_format == "parquet" and not self.partitions
        is_here = is_local_path(self.path) and self.parallelism is None
        # rows are computed in this process only if `why_spark_writes` returns no reason
        if not (isinstance(source, ProcessRows) or (is_plain and is_here)):
            return None
        has_instants = any(pa.types.is_timestamp(t) and t.tz for t in source.schema.types)
        stored = StructType([f for f in schema if f.name not in self.partitions])
        try:
            return encoding_of(
                self.spark, self.file_format, self.options, has_instants=has_instants, schema=stored
            )
        except Refused:
            return None


def open_target(
    spark: SparkSession, columns: Sequence[str], spec: TableSpec, files: Files | None = None
) -> FileTarget:
    """Check that rows can be written to a table's path.

    Args:
        spark: Spark session.
        columns: Columns of the rows.
        spec: Table specification.
        files: File system of the path. None to use the session's.

    Raises:
        CatalogError: The path is a file or a glob, or there are only partition columns.
        ExecutionError: Its file system cannot be reached.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate_table() has seen to it"
    partitions = [name for p in spec.partitioned_by for name in find_column(columns, p)]
    check_partitions(spec, partitions, columns)
    path = resolve(spark, values["path"])
    if files is None and not is_remote(spark):
        files = writable_files_at(spark, path)
    if files is not None:
        _check_directory(path, spec, files)
    options = file_writer_options(spec, file_format)
    allow_encoding(spark, options)
    parallelism = values.get("sink.parallelism")
    n_tasks = int(parallelism) if parallelism else None
    return FileTarget(spark, spec, path, files, file_format, options, tuple(partitions), n_tasks)


def write_rows(rows: BatchRows, spec: TableSpec, overwrite: bool) -> int:
    """Write rows below the table's path and return their number.

    Args:
        rows: Rows to write. Workers or this process write local files themselves if they have the
            rows as Arrow and the files would equal the output of Spark's writer.
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
    target = open_target(rows.spark, rows.schema.names, spec)
    if target.partitions and overwrite:
        # as in Flink, partitions without new rows stay
        target = replace(target, options={_MODE: "dynamic", **target.options})
    files, path = target.files, target.path
    try:
        if files is None:
            return target.save(rows.dataframe, path, "overwrite" if overwrite else "append")
        if rows.in_process is None:
            check_shared(rows.spark, path, spec)
        if is_local_path(path):
            finish_replacing(path)
        clear_batches(files, path)
        write = partial(target.write, rows)
        is_dynamic = target.options.get(_MODE, "").lower() == "dynamic"
        by_partition = bool(target.partitions) and is_dynamic
        replaces = overwrite and files.exists(path)
        if replaces and not by_partition and _can_swap(path, files):
            return _swap(write, path, files)
        return _publish(
            write, batch_writer(files, path), replaces=replaces, by_partition=by_partition
        )
    except PySparkException as error:
        if condition_of(error) in NO_AVRO:
            raise missing_package(spec, "writes Avro", AVRO_PACKAGE) from error
        raise
    except OSError as error:
        raise unwritable(path, error) from error


def why_spark_writes(spark: SparkSession, spec: TableSpec) -> str | None:
    """Return why Spark has to write rows computed in this process, or None."""
    values = option_values(spec)
    file_format = format_of(values)
    if file_format not in ("parquet", "csv", "json"):
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
    if file_format != "parquet" and not spec.columns:
        return f"Spark writes {file_format} tables without declared columns"
    for name, pattern in timestamp_output_options(spec, file_format).items():
        if options[name] != pattern:
            return f"Spark writes {file_format} with the option '{name}'"
    encoding = tried(encoding_of, spark, file_format, options)
    if isinstance(encoding, Refusal) or file_format == "parquet":
        return encoding.reason if isinstance(encoding, Refusal) else None
    from runtime.text.write import why_not_text

    types = zip(spec.physical_columns, declared_types(spec), strict=True)
    reason = why_not_text([(c.name, type_.simpleString()) for c, type_ in types])
    n_stored = len(spec.physical_columns) - len(spec.partitioned_by)
    if reason is None and file_format == "csv" and n_stored < 2:
        # Spark leaves out rows whose only column is NULL
        return "Spark writes csv with one column"
    return reason


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


def _check_directory(path: str, spec: TableSpec, files: Files) -> None:
    """Check that a resolved path can be a directory to write into.

    Raises:
        CatalogError: The path is a file or a glob.
        ExecutionError: Its file system cannot be reached.
    """
    try:
        many, is_file = is_glob(path, files), files.is_file(path)
    except OSError as error:
        raise unwritable(path, error) from error
    if many or is_file:
        what = "matches many files" if many else "is a file"
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} {what}",
            subjects=(spec.name,),
            hint="set 'path' to a directory",
        )


def _can_swap(path: str, files: Files) -> bool:
    """Return whether a path is a directory that another one can replace."""
    above = path.rpartition("/")[0]
    is_root = not above or above.endswith("/")
    return not is_root and files.is_directory(path)


def _publish(write: Write, batch: BatchWriter, *, replaces: bool, by_partition: bool) -> int:
    """Write files in addition to existing ones or replacing them; readers see all at once.

    Args:
        write: Writes files to a directory and returns them, with their number of rows.
        batch: Writer of the files.
        replaces: Whether existing files are replaced.
        by_partition: Whether to replace only files of partitions that get new ones.
    """
    files, path = batch.files, batch.path
    is_new = not files.exists(path)
    try:
        with writing_to(files, batch.hidden):
            paths, n_rows = write(batch.hidden)
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
    return n_rows


def _swap(write: Write, path: str, files: Files) -> int:
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
            _, n_rows = write(new)
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
    return n_rows
