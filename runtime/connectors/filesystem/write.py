"""Writing files: Parquet, CSV, JSON, ORC, Avro or text, in a directory."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameWriter

from runtime.connectors.columns import find_column
from runtime.connectors.connector import AVRO_PACKAGE, NO_AVRO, missing_package
from runtime.connectors.filesystem.paths import is_glob, local_path
from runtime.connectors.options.checks import option_values
from runtime.connectors.options.formats import format_of, spark_options, written_timestamps
from runtime.connectors.writing import count_written
from runtime.errors import CatalogError, ExecutionError
from runtime.spec.table import TableSpec

# The reader's, and of no meaning or another one to the writer
_READER_ONLY = ("mode", "basePath", "enforceSchema", "inferSchema", "mergeSchema", "pathGlobFilter")


def write_files(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int:
    """Write the rows below the table's path and return how many there were.

    Spark's committer shows files only when all are written. Overwriting a directory of this
    machine puts the new files beside the old ones first, so that what is there stays if the job
    fails; and a query may read the very table that it overwrites.

    Raises:
        CatalogError: the path is a file or a glob, or no column is left beside the partitions.
        ExecutionError: it is a place that cannot be written to.
        SetupError: the package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate_table() has seen to it"
    partitions = partition_columns(dataframe, spec)
    local = local_path(dataframe.sparkSession, values["path"])
    if local is not None:
        check_directory(local, spec)
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
            if local is not None and swaps and os.path.isdir(local):
                _replace(writer, Path(local))
            else:
                path = local if local is not None else values["path"]
                writer.mode("overwrite" if overwrite else "append").save(path)
        return count()
    except PySparkException as error:
        if error.getCondition() in NO_AVRO:
            raise missing_package(spec, "writes Avro", AVRO_PACKAGE) from error
        raise
    except OSError as error:
        raise ExecutionError(f"cannot write to {values['path']}: {error.strerror}") from error


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


def check_directory(path: str, spec: TableSpec) -> None:
    """Check that a local path can be a directory to write into.

    Raises:
        CatalogError: it is a file or a glob.
    """
    if is_glob(path):
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} stands for many files",
            subjects=(spec.name,),
            hint="INSERT writes into one directory",
        )
    if os.path.isfile(path):
        raise CatalogError(
            f"table `{spec.name}` cannot be written: its path {path} is a file",
            subjects=(spec.name,),
            hint="INSERT writes into a directory",
        )


def _replace(writer: DataFrameWriter, path: Path) -> None:
    """Write a directory anew and put it in the place of the old one when it is complete.

    If `path` is a symbolic link, the directory that it points to is replaced, not the link.
    """
    path = path.resolve()
    unique = uuid.uuid4().hex[:12]
    # Names with a dot in front are invisible to readers of the directory above.
    new, old = (
        path.with_name(f".{path.name}.{unique}"),
        path.with_name(f".{path.name}.{unique}.old"),
    )
    try:
        writer.mode("errorifexists").save(str(new))
        path.rename(old)
        try:
            new.rename(path)
        except OSError:
            old.rename(path)
            raise
    finally:
        shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(old, ignore_errors=True)
