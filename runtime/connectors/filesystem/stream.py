"""Stream of files: the existing ones and, with `source.monitor-interval`, new ones.

Each file is read once and must be complete when it appears: programs should write a file under
another name or in another directory, and then move it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.commits import read_commits
from runtime.connectors.filesystem.parquet_types import special_column
from runtime.connectors.filesystem.planning import may_be_unwritten
from runtime.connectors.filesystem.publish import clear_batches
from runtime.connectors.filesystem.read import (
    explain,
    load_files,
    reachable,
    reachable_files,
    read_stored_table,
    select_declared,
)
from runtime.connectors.filesystem.records import FILES_DDL
from runtime.connectors.filesystem.text import text_reading
from runtime.connectors.unread_rows import unread_rows
from runtime.errors import CatalogError, ExecutionError, SetupError
from runtime.files import Files
from runtime.frames.file_rows import file_path
from runtime.options.checks import is_monitored, option_values
from runtime.options.formats import (
    STREAM_OPTIONS,
    format_of,
    spark_options,
)
from runtime.scan.paths import data_files, path_for_spark
from runtime.scan.stored_files import StoredFiles
from runtime.spark.errors import translate_spark_errors
from runtime.spark.files import files_at, resolve, store_package
from runtime.spec.table import TableSpec

# Maximum time to wait for the files of one micro-batch to be moved
_MOVING_S = 10.0
_POLL_S = 0.05


def file_source_options(spec: TableSpec) -> dict[str, str]:
    """Return the stream options of `spec` under the names of Spark's file source."""
    values = option_values(spec)
    options: dict[str, str] = {}
    for ours, sparks in STREAM_OPTIONS.items():
        value = values.get(ours, values.get(sparks.lower()))
        if value is not None:
            options[sparks] = value
    return options


def stream(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read the files of `spec` as a stream, with its physical and metadata columns, or with all.

    Raises:
        ExecutionError: The path does not exist.
        CatalogError: The files do not have the declared columns, or no file exists to take them
            from.
        SetupError: The package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate() has seen to it"
    options = spark_options(spec, file_format)
    origin = resolve(spark, values["path"])
    files = reachable_files(spark, spec, origin, is_awaited=is_monitored(spec))
    if isinstance(files, StoredFiles):
        return _stored_stream(spark, spec, origin, files)
    if files is not None:
        with reachable(spec, origin):
            if may_be_unwritten(spec, origin) and not files.exists(origin):
                files.make_directory(origin)  # Spark cannot watch a missing directory
        _await_commits(spec, origin, files)
    path = origin if files is None else _directory_or_glob(origin, files)
    first = None if files is None else next(data_files(origin, files), None)
    special = special_column(first) if file_format == "parquet" and first else None
    if special is not None:
        raise CatalogError(
            f"table `{spec.name}`: column `{special.name}` of {first} has Arrow type "
            f"{special.type}, which streams cannot read",
            subjects=(spec.name,),
            hint="SET 'execution.runtime-mode' = 'batch', or write the files with a type of SQL",
        )
    text = text_reading(spec, file_format, options)
    with translate_spark_errors(partial(explain, spec, origin)):
        dataframe = load_files(
            spark,
            spec,
            options,
            text,
            path,
            file_source_options(spec),
            is_empty=files is not None and first is None,
        )
    if (regex := values.get("source.path.regex-pattern")) is not None:
        # as in Flink, the pattern applies to the absolute path
        name = F.regexp_replace(file_path(dataframe), "^file:/+", "/")
        dataframe = dataframe.filter(name.rlike(f"^(?:{regex})$"))
    return select_declared(dataframe, spec, origin, text)


def _stored_stream(
    spark: SparkSession, spec: TableSpec, origin: str, files: StoredFiles
) -> DataFrame:
    """Return a stream with the columns of files in a store that only the Arrow scan can read.

    Spark has no file system for the store, so the stream fails if Spark itself has to read it.
    """
    package = store_package(spark, origin)
    others = sorted(set(file_source_options(spec)) - {"maxFilesPerTrigger", "maxBytesPerTrigger"})
    if others:
        raise SetupError(
            f"table `{spec.name}`: a stream of {origin} supports {others[0]} only with {package}",
            subjects=(spec.name,),
        )
    schema = read_stored_table(spark, spec, origin, files).schema
    reason = f"table `{spec.name}`: this query needs rows of {origin} that streams read only with "
    return unread_rows(spark, schema, f"{reason}{package}")


def _await_commits(spec: TableSpec, path: str, files: Files) -> None:
    """Wait, for a limited time, until no writer is moving files to a table's directory.

    Otherwise the stream might start with only some of the files of a micro-batch.

    Raises:
        ExecutionError: A writer was killed while moving files.
    """
    until = time.monotonic() + _MOVING_S
    while True:
        with reachable(spec, path):
            # a reader without write permission cannot remove leftovers; it matters only whether
            # they interfere
            with suppress(PermissionError):
                clear_batches(files, path)
            commits = read_commits(files, path)
        moving = [name for name, commit in commits.items() if not commit.is_done]
        if not moving:
            return
        if time.monotonic() > until:
            raise ExecutionError(
                f"table `{spec.name}`: {path} contains an incomplete write of a process "
                f"that was killed (.sqlwin-{moving[0]}.json)",
                subjects=(spec.name,),
                hint="run that INSERT again to complete it, or delete the .json file to read "
                "the files as they are",
            )
        time.sleep(_POLL_S)


def path_of(spark: SparkSession, spec: TableSpec) -> str:
    """Return the resolved path of a table."""
    return resolve(spark, option_values(spec)["path"])


def stream_paths(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Return the paths of the files that `stream` reads, in the column `path`, as they arrive.

    Spark's checkpoint is the same as for the stream of rows, so either can resume from the other's.
    The table's path must be on a file system that Spark knows.
    """
    values = option_values(spec)
    local = path_of(spark, spec)
    system = files_at(spark, local)
    _await_commits(spec, local, system)
    reader: Any = spark.readStream.format("binaryFile").schema(FILES_DDL)
    files = reader.options(**file_source_options(spec)).load(_directory_or_glob(local, system))
    path = F.regexp_replace("path", "^file:/+", "/")
    paths: DataFrame = files.select(path.alias("path"))
    if (regex := values.get("source.path.regex-pattern")) is not None:
        return paths.filter(F.col("path").rlike(f"^(?:{regex})$"))
    return paths


def _directory_or_glob(path: str, files: Files) -> str:
    """Return a path as Spark's file stream accepts it: a directory or a glob, but not a file."""
    plain = path_for_spark(path, files)
    if not files.is_file(path):
        return plain
    directory, _, name = plain.rpartition("/")
    first = next((i for i, c in enumerate(name) if c.isalnum()), None)
    if first is None:
        return plain
    return f"{directory}/{name[:first]}[{name[first]}]{name[first + 1 :]}"
