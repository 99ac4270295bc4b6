"""Writing files: Parquet, CSV, JSON, ORC, Avro or text, in a directory."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from runtime.connectors.columns import find_column
from runtime.connectors.connector import AVRO_PACKAGE, NO_AVRO, missing_package
from runtime.connectors.filesystem.paths import is_glob
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import format_of, spark_options, written_timestamps
from runtime.connectors.writing import count_written
from runtime.errors import CatalogError, ErrorKind, ExecutionError
from runtime.files import Files, as_uri, is_local_path
from runtime.spark.clusters import check_seen_by_all
from runtime.spark.files import files_at, resolve
from runtime.spark.session import is_remote
from runtime.spec.table import TableSpec

# The reader's, and of no meaning or another one to the writer
_READER_ONLY = ("mode", "basePath", "enforceSchema", "inferSchema", "mergeSchema", "pathGlobFilter")


def write_files(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Write the rows below the table's path and return how many there were.

    Spark's committer shows files only when all are written. Overwriting a directory puts the new
    one beside it first, so that what is there stays if the job fails; and a query may read the very
    table that it overwrites.

    Raises:
        CatalogError: the path is a file or a glob, or no column is left beside the partitions.
        ExecutionError: it is a place that cannot be written to.
        SetupError: the package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate_table() has seen to it"
    partitions = partition_columns(dataframe, spec)
    spark = dataframe.sparkSession
    path = resolve(spark, values["path"])
    files = None if is_remote(spark) else files_at(spark, path)
    if files is not None:
        check_directory(path, spec, files)
        check_shared(spark, path, spec)
    options = writer_options(spec, file_format)
    if partitions and overwrite:
        # As in Flink: partitions that get no rows stay.
        options.setdefault("partitionOverwriteMode", "dynamic")
    if parallelism := values.get("sink.parallelism"):
        dataframe = dataframe.repartition(int(parallelism))
    try:
        with count_written(dataframe) as (counted, count):
            writer = counted.write.format(file_format).options(**options)
            if partitions:
                writer = writer.partitionBy(*partitions)
            swaps = overwrite and options.get("partitionOverwriteMode", "").lower() != "dynamic"
            if files is not None and swaps and _can_swap(path, files):
                _replace(writer, path, files)
            else:
                location = path if files is None else as_uri(path)
                writer.mode("overwrite" if overwrite else "append").save(location)
        # executors may have come since
        check_shared(spark, path, spec)
        return count()
    except PySparkException as error:
        if error.getCondition() in NO_AVRO:
            raise missing_package(spec, "writes Avro", AVRO_PACKAGE) from error
        raise
    except OSError as error:
        raise unwritable(path, error) from error


def writer_options(spec: TableSpec, file_format: str) -> dict[str, str]:
    """The options of Spark's writer that say what the options of `spec` say."""
    options = {k: v for k, v in spark_options(spec, file_format).items() if k not in _READER_ONLY}
    return {**written_timestamps(spec, file_format), **options}


def partition_columns(dataframe: DataFrame, spec: TableSpec) -> list[str]:
    """The columns that directories are made for, as `dataframe` spells them.

    Raises:
        CatalogError: there is no other column.
    """
    names = [found for p in spec.partitioned_by for found in find_column(dataframe.columns, p)]
    if names and len(names) == len(dataframe.columns):
        raise CatalogError(
            f"table `{spec.name}` is partitioned by all of its columns",
            subjects=(spec.name,),
            hint="files need at least one column of their own",
        )
    return names


def check_shared(spark: SparkSession, path: str, spec: TableSpec) -> None:
    """Check that a table's files are written where the driver sees them.

    Raises:
        SetupError: its resolved path is on a disk of this machine, and tasks run on others.
    """
    check_seen_by_all(
        spark,
        path,
        f"the files of table `{spec.name}`",
        "'path' takes a directory that all hosts see, such as hdfs:// or s3a://",
    )


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


def _replace(writer: DataFrameWriter, path: str, files: Files) -> None:
    """Write a directory anew and put it in the place of the old one when it is complete.

    If `path` is a symbolic link, the directory that it points to is replaced, not the link.
    """
    if is_local_path(path):
        path = os.path.realpath(path)
    unique = uuid.uuid4().hex[:12]
    above, _, name = path.rpartition("/")
    # Names with a dot in front are invisible to readers of the directory above.
    new = f"{above}/.{name}.{unique}"
    old = f"{new}.old"
    try:
        writer.mode("errorifexists").save(as_uri(new))
        files.rename(path, old)
        try:
            files.rename(new, path)
        except OSError:
            files.rename(old, path)
            raise
    except BaseException:
        with suppress(OSError):
            files.delete(new)
        raise
    # the rows are written: what is left of the old ones is in nobody's way
    with suppress(OSError):
        files.delete(old)
