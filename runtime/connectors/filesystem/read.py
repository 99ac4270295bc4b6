"""Read files in batch: find their schema and select the declared columns."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatch
from functools import partial
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from runtime.commits import committed_files, counting_files, read_commits
from runtime.connectors.connector import AVRO_PACKAGE, NO_AVRO, missing_package
from runtime.connectors.declared_columns import (
    declared_schema,
    declared_type,
    find_column,
    no_columns,
    pick,
)
from runtime.connectors.filesystem.loaded import load_cached
from runtime.connectors.filesystem.parquet_types import read_special, special_column
from runtime.connectors.filesystem.planning import METADATA, may_be_unwritten
from runtime.connectors.filesystem.publish import finish_replacing
from runtime.connectors.filesystem.records import load_objects, load_records
from runtime.connectors.filesystem.stored import read_stored
from runtime.connectors.filesystem.text import TextReading, allow_encoding, text_reading
from runtime.detection.detect import too_many_fields
from runtime.detection.sample import open_text_bytes
from runtime.errors import CatalogError, ExecutionError, SqlwinError
from runtime.files import Files, LocalFiles, as_uri, is_local_path
from runtime.frames.file_rows import decode_uri, file_metadata
from runtime.options.checks import bad_option, option_values
from runtime.options.formats import (
    MAX_CSV_COLUMNS,
    SELF_DESCRIBING,
    format_of,
    spark_options,
)
from runtime.scan.paths import (
    check_links,
    data_files,
    is_glob,
    missing_path,
    path_for_spark,
)
from runtime.scan.stored_files import StoredFiles
from runtime.spark.errors import translate, translate_spark_errors
from runtime.spark.files import files_at, resolve
from runtime.spark.messages import plain_name
from runtime.spark.session import is_remote
from runtime.spark.versions.errors import condition_of
from runtime.spec.table import TableColumn, TableSpec
from runtime.text.json_record import SAMPLED_LINES, spellings

_SKIP_CORRUPT = "spark.sql.files.ignoreCorruptFiles"
# Number of attempts of Spark to list a directory that streams write to at the same time
_ATTEMPTS = 3
# Maximum bytes of a first line whose fields are counted
_LONGEST_LINE = 1 << 24
# Characters of a faulty line that an error shows
_SHOWN_CHARACTERS = 60


def read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read the files of `spec`, with its physical and metadata columns, or with all their columns.

    Raises:
        ExecutionError: The path does not exist, or a file cannot be read.
        CatalogError: The files do not have the declared columns.
        SetupError: The package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate() has seen to it"
    origin = resolve(spark, values["path"])
    files = reachable_files(spark, spec, origin)
    if files is None:
        if "source.path.regex-pattern" in values:
            raise _pattern_error(spec)
        return _read(spark, spec, origin, spark_options(spec, file_format), [origin], None)
    if isinstance(files, StoredFiles):
        return read_stored_table(spark, spec, origin, files)
    with reachable(spec, origin):
        is_unwritten = not is_glob(origin, files) and not files.exists(origin)
    if is_unwritten:
        return spark.createDataFrame([], declared_schema(spec, _file_columns(spec)))
    attempt = 0
    while True:
        attempt += 1
        options = spark_options(spec, file_format)
        with reachable(spec, origin):
            commits = read_commits(files, origin)
            # Spark lists directories itself, unless a writer is publishing; then it gets a list of
            # files
            every = attempt > _ATTEMPTS or not all(commit.is_done for commit in commits.values())
            paths_on_disk = set(data_files(origin)) if is_local_path(origin) and not every else None
            paths = _paths(spec, origin, files, values, options, every=every)
            first = next(filter(counting_files(origin, commits), data_files(origin, files)), None)
        if first is None and spec.columns and not any(c.metadata for c in spec.columns):
            # a directory without any writes yet
            return spark.createDataFrame([], declared_schema(spec, spec.physical_columns))
        load = partial(_read, spark, spec, origin, options, paths, first)
        if every:
            return load()
        if paths_on_disk is not None and not commits and file_format in SELF_DESCRIBING:
            dataframe = load_cached(spark, spec, options, paths, paths_on_disk, load)
        else:
            dataframe = load()
        with reachable(spec, origin):
            # a batch published in the meantime has left files but no commit
            is_same = paths_on_disk is None or set(data_files(origin)) == paths_on_disk
            if is_same and read_commits(files, origin) == commits:
                return dataframe


def read_stored_table(
    spark: SparkSession, spec: TableSpec, origin: str, files: StoredFiles
) -> DataFrame:
    """Read files in a store for which Spark has no file system."""
    if "source.path.regex-pattern" in option_values(spec):
        raise _pattern_error(spec)
    with reachable(spec, origin):
        dataframe = read_stored(spark, spec, origin, files)
    if dataframe is None:
        return spark.createDataFrame([], declared_schema(spec, _file_columns(spec)))
    return select_declared(dataframe, spec, origin, text_reading(spec, "parquet", {}))


def _read(
    spark: SparkSession,
    spec: TableSpec,
    origin: str,
    options: dict[str, str],
    paths: list[str],
    first: str | None,
) -> DataFrame:
    """Read the files below `paths` as Spark lists them now; `first` is one of them."""
    file_format = format_of(option_values(spec)) or ""
    text = text_reading(spec, file_format, options)
    with translate_spark_errors(partial(explain, spec, origin)):
        if file_format == "parquet" and first is not None and special_column(first):
            files = filter(selection_filter(spec), data_files(origin))
            reader = spark.read.format(file_format).options(**options)
            dataframe = read_special(reader, first, files, paths)
        else:
            dataframe = load_files(spark, spec, options, text, paths)
        if is_remote(spark):
            _ = dataframe.schema  # some formats look at the path only when the schema is used
    return select_declared(dataframe, spec, origin, text)


def load_files(
    spark: SparkSession,
    spec: TableSpec,
    options: dict[str, str],
    text: TextReading | None,
    paths: list[str] | str,
    stream_options: Mapping[str, str] | None = None,
    *,
    is_empty: bool = False,
) -> DataFrame:
    """Load all columns of files, as a batch or as a stream.

    Args:
        spark: Spark session.
        spec: Table specification.
        options: Options of Spark's reader.
        text: Rules for values that are read as text.
        paths: Paths for Spark to load: one path for a stream.
        stream_options: Options of Spark's file stream source. None for a batch.
        is_empty: Whether no file of a stream exists yet.

    Raises:
        CatalogError: No file exists to take the columns from.
    """
    file_format = format_of(option_values(spec)) or ""
    allow_encoding(spark, options)
    new_reader: Any = spark.read
    if stream_options is not None:
        new_reader = spark.readStream.options(**stream_options)
    if text is not None and text.line_rules is not None:
        return load_records(spark, new_reader, text, paths, is_empty=is_empty)
    brings_types = not spec.columns or file_format in SELF_DESCRIBING
    if is_empty:
        if not spec.columns:
            raise no_columns(spec, str(paths))
        schema = declared_schema(spec, spec.physical_columns)
    elif brings_types:
        batch = spark.read.format(file_format).options(**options)
        rows = _load_with_partition_types(batch, spec, paths)
        if stream_options is None:
            return rows
        schema = rows.schema
    else:
        schema = _schema_to_read(spark, spec, file_format, options, paths)
    # the schema adds an option
    read_options = options if text is None else text.reader_options
    reader = new_reader.format(file_format).options(**read_options)
    if brings_types:
        loaded: DataFrame = reader.schema(schema).load(paths)
        return loaded
    schema = schema if text is None else text.schema(schema)
    return _load_text(reader, schema, text, paths)


def reachable_files(
    spark: SparkSession, spec: TableSpec, path: str, *, is_awaited: bool = False
) -> Files | None:
    """Return the file system of a table's resolved path; None over Spark Connect.

    Args:
        spark: Spark session.
        spec: Table specification.
        path: Resolved path of the table.
        is_awaited: Whether files may arrive later. In an object store a path without files does not
            exist yet.

    Raises:
        ExecutionError: The path is missing and `may_be_unwritten` is false, its file system cannot
            be reached, or a file is empty in a format without empty files.
    """
    if is_remote(spark):
        return None
    files = files_at(spark, path)
    with reachable(spec, path):
        is_there = is_glob(path, files) or files.exists(path)
        if not is_there and not (is_awaited and isinstance(files, StoredFiles)):
            if is_local_path(path):
                finish_replacing(path)
            if not files.exists(path) and not may_be_unwritten(spec, path):
                raise missing_path(path)
    options = spark_options(spec, format_of(option_values(spec)) or "text")
    if is_local_path(path) and options.get("recursiveFileLookup", "").lower() == "true":
        with reachable(spec, path):
            check_links(path)
    is_checked = completeness_filter(spark, spec) if is_local_path(path) else None
    for file in filter(is_checked, data_files(path)) if is_checked is not None else ():
        with suppress(FileNotFoundError):  # removed since it was listed
            # Spark silently skips empty files
            if os.path.getsize(file) == 0:
                raise incomplete_file_error(
                    spec, f"{file} is empty and not a valid file of format", "delete the file"
                )
    return files


def completeness_filter(spark: SparkSession, spec: TableSpec) -> Callable[[str], bool] | None:
    """Return the filter for files that must be complete, or None if broken files are possible."""
    values = option_values(spec)
    file_format = format_of(values)
    if file_format not in SELF_DESCRIBING:
        return None
    options = spark_options(spec, file_format)
    skips = options.get("ignoreCorruptFiles", spark.conf.get(_SKIP_CORRUPT, "false"))
    return None if str(skips).lower() == "true" else selection_filter(spec)


def selection_filter(spec: TableSpec) -> Callable[[str], bool]:
    """Return the filter for files of a table, from the options that select files."""
    values = option_values(spec)
    options = spark_options(spec, format_of(values) or "")
    regex, glob = values.get("source.path.regex-pattern"), options.get("pathGlobFilter", "*")
    return lambda file: (
        fnmatch(os.path.basename(file), glob) and (not regex or bool(re.fullmatch(regex, file)))
    )


def incomplete_file_error(spec: TableSpec, what: str, remedy: str) -> ExecutionError:
    """Return the error for an incomplete file. `what` is the message up to the format's name."""
    return ExecutionError(
        f"table `{spec.name}`: {what} {format_of(option_values(spec))}",
        subjects=(spec.name,),
        hint=f"{remedy}, and move only complete files into the directory; SET "
        f"'{_SKIP_CORRUPT}' = 'true' skips unreadable files",
    )


@contextmanager
def reachable(spec: TableSpec, path: str) -> Iterator[None]:
    """Add table and path to errors of a file system."""
    try:
        yield
    except OSError as error:
        raise ExecutionError(
            f"table `{spec.name}`: cannot read {path}: {error.strerror or error}",
            subjects=(spec.name,),
        ) from error


def _file_columns(spec: TableSpec) -> list[TableColumn]:
    """Return the columns that files provide: physical columns and metadata."""
    return [c for c in spec.columns if c.computed is None]


def select_declared(
    dataframe: DataFrame, spec: TableSpec, origin: str, text: TextReading | None
) -> DataFrame:
    """Select the columns of files as declared; without declared columns, all.

    Positional formats have the declared names; columns of all others are matched by name. `text`
    converts columns that are read as text.
    """
    if not spec.columns:
        return dataframe
    return dataframe.select(
        *(_declared_column(dataframe, spec, c, origin, text) for c in _file_columns(spec))
    )


def _declared_column(
    dataframe: DataFrame,
    spec: TableSpec,
    column: TableColumn,
    origin: str,
    text: TextReading | None,
) -> Column:
    if text is not None and text.converts(column):
        matches = find_column(dataframe.columns, column.name)
        if len(matches) == 1:
            return text.value(dataframe, column, matches[0])
    if column.metadata is None:
        return pick(dataframe, spec, column, origin)
    value = file_metadata(dataframe)[METADATA[column.metadata]]
    if column.metadata in ("file.path", "file.name"):
        value = decode_uri(value)
    return value.cast(declared_type(spec, column)).alias(column.name)


def _paths(
    spec: TableSpec,
    path: str,
    files: Files,
    values: dict[str, str],
    options: dict[str, str],
    *,
    every: bool,
) -> list[str]:
    """Return the paths for Spark's reader: single files if `every` is set."""
    regex = values.get("source.path.regex-pattern")
    if regex is not None:
        if not is_local_path(path):
            raise _pattern_error(spec)
        # as in Flink, the pattern applies to the absolute path
        committed = committed_files(files, path, lambda: list(data_files(path, files)))
        matching = [f for f in committed if re.fullmatch(regex, f)]
        if not matching:
            raise ExecutionError(
                f"no file below {path} matches '{regex}'",
                hint="the pattern must match the whole absolute path, such as '.*/part-.*'",
            )
        if files.is_directory(path):
            # keeps the partition directories below the path
            options.setdefault("basePath", as_uri(path))
        return [path_for_spark(f, files) for f in matching]
    if every:
        options.setdefault("basePath", as_uri(path))
        committed = committed_files(files, path, lambda: list(data_files(path, files)))
        return [path_for_spark(f, files) for f in committed]
    if is_glob(path, files) and next(data_files(path, files), None) is None:
        raise missing_path(path)
    return [path_for_spark(path, files)]


def _pattern_error(spec: TableSpec) -> CatalogError:
    return bad_option(
        spec,
        "option 'source.path.regex-pattern' supports local files only",
        "use a glob in 'path', such as s3a://bucket/2024-*",
    )


def _load_with_partition_types(
    reader: DataFrameReader, spec: TableSpec, paths: list[str] | str
) -> DataFrame:
    """Load files with their own types, and declared types for their partition columns.

    Spark infers the type of a partition column from directory names: `01` would become 1.
    """
    dataframe = reader.load(paths)
    declared = {c.name.lower(): c for c in spec.physical_columns}
    partitions = {name.lower() for name in spec.partitioned_by}
    fields = [
        StructField(field.name, declared_type(spec, declared[field.name.lower()]))
        if field.name.lower() in partitions and field.name.lower() in declared
        else field
        for field in dataframe.schema.fields
    ]
    return (
        dataframe
        if fields == dataframe.schema.fields
        else reader.schema(StructType(fields)).load(paths)
    )


def _schema_to_read(
    spark: SparkSession,
    spec: TableSpec,
    file_format: str,
    options: dict[str, str],
    paths: list[str] | str,
) -> StructType:
    """Return the schema for reading a format that does not type its columns."""
    declared = declared_schema(spec, spec.physical_columns)
    if file_format == "csv" and options.get("header", "false").lower() == "true":
        partitions = {name.lower() for name in spec.partitioned_by}
        return _schema_by_header(spark, declared, partitions, options, paths)
    if file_format == "json" and options.get("multiLine", "false").lower() != "true":
        spelled = _spelled_fields(spark, options, paths)
        fields = [(spelled.get(f.name.lower(), [f.name]), f) for f in declared.fields]
        return StructType(
            [StructField(find_column(names, f.name)[0], f.dataType) for names, f in fields]
        )
    return declared


def _schema_by_header(
    spark: SparkSession,
    declared: StructType,
    partitions: set[str],
    options: dict[str, str],
    paths: list[str] | str,
) -> StructType:
    """Return the columns of the header in order, with their declared types."""
    bare = {**options, "inferSchema": "false"}
    header = spark.read.format("csv").options(**bare).load(paths).schema
    if _are_in_file(spark, header.names, bare, paths):
        # all files must have the same header, or their columns would be mixed up
        options.setdefault("enforceSchema", "false")
    types = {field.name.lower(): field.dataType for field in declared.fields}
    in_header = {field.name.lower() for field in header.fields}
    # also partition columns, with their declared types
    from_directories = [
        field for field in declared.fields if field.name.lower() in partitions - in_header
    ]
    return StructType(
        [
            *(StructField(f.name, types.get(f.name.lower(), StringType())) for f in header.fields),
            *from_directories,
        ]
    )


def _are_in_file(
    spark: SparkSession, names: list[str], options: dict[str, str], paths: list[str] | str
) -> bool:
    """Return whether all names come from a header.

    Spark appends the position to a name that is empty or repeated.
    """
    if not any(name.endswith(str(position)) for position, name in enumerate(names)):
        return True
    rows = spark.read.format("csv").options(**{**options, "header": "false"}).load(paths)
    fields = {field.lower() for field in rows.first() or () if field}
    return len(fields) == len(names)


def _spelled_fields(
    spark: SparkSession, options: dict[str, str], paths: list[str] | str
) -> dict[str, list[str]]:
    """Return the field names in the first lines. Their case matters in Spark but not in SQL."""
    text = {
        name: options[name]
        for name in ("lineSep", "basePath", "pathGlobFilter", "recursiveFileLookup")
        if name in options
    }
    lines = spark.read.format("text").options(**text).load(paths).limit(SAMPLED_LINES)
    return spellings(row[0] for row in lines.collect())


def _load_text(
    reader: DataFrameReader,
    schema: StructType,
    text: TextReading | None,
    paths: list[str] | str,
) -> DataFrame:
    """Load files of a format that does not type its columns, with `text` if given."""
    if text is not None and text.records_field:
        return load_objects(reader, text, schema, text.records_field, paths)
    dataframe = reader.schema(schema).load(paths)
    return dataframe if text is None else text.check_records(dataframe)


def explain(spec: TableSpec, origin: str, error: Exception) -> SqlwinError:
    """Translate an error about the files at `origin`."""
    if not isinstance(error, PySparkException):
        return translate(error)
    if condition_of(error) in NO_AVRO:
        return missing_package(spec, "reads Avro", AVRO_PACKAGE)
    if condition_of(error) == "UNABLE_TO_INFER_SCHEMA":
        return no_columns(spec, origin)
    if condition_of(error) == "COLUMN_ALREADY_EXISTS":
        name = plain_name((error.getMessageParameters() or {}).get("columnName", ""))
        return CatalogError(
            f"{origin} has several columns {name} that differ in case only",
            subjects=(spec.name,),
            hint="rename the columns in the file",
        )
    if (condition_of(error) or "").startswith("MALFORMED_CSV_RECORD"):
        record = (error.getMessageParameters() or {}).get("badRecord", "")
        return _malformed_error(spec, origin, record)
    return translate(error)


def _malformed_error(spec: TableSpec, origin: str, record: str) -> ExecutionError:
    """Return the error for a line that Spark's CSV reader rejects; `record` may be truncated."""
    options = spark_options(spec, "csv")
    path = next(data_files(origin), None) if is_local_path(origin) else None
    n_fields = 0
    if path is not None:
        with suppress(OSError), open_text_bytes(LocalFiles(), path) as file:
            separator = options.get("sep", options.get("delimiter", ",")).encode()
            n_fields = file.readline(_LONGEST_LINE).count(separator) + 1
    if path is not None and n_fields > int(options.get("maxColumns", MAX_CSV_COLUMNS)):
        return too_many_fields(path, n_fields, options)
    shown = record if len(record) <= _SHOWN_CHARACTERS else f"{record[:_SHOWN_CHARACTERS]}…"
    return ExecutionError(
        f"{origin} contains a malformed CSV line: {shown!r}",
        subjects=(spec.name,),
        hint="check 'csv.field-delimiter', 'csv.quote-character' and 'csv.escape-character'",
    )
