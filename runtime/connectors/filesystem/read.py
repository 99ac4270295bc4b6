"""The connector 'filesystem': files, directories and globs of Parquet, CSV, JSON, ORC, Avro, text.

Columns are found by name in any case, except in CSV without a header, where they stand in order.
JSON has no fixed columns: one that a line lacks is NULL. Parquet, ORC and Avro type their columns;
a declared type may be wider than the file's, but a value never changes.
"""

from __future__ import annotations

import json
import os
import re

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from runtime.connectors.columns import (
    check_columns,
    declared_schema,
    declared_type,
    find_column,
    physical_columns,
    pick,
    unsupported_metadata,
)
from runtime.connectors.filesystem.formats import (
    FLINK_OPTIONS,
    FORMATS,
    SELF_DESCRIBING,
    format_of,
    format_option_names,
    spark_options,
)
from runtime.connectors.filesystem.nanoseconds import has_nanoseconds, read_nanoseconds
from runtime.connectors.filesystem.paths import (
    data_files,
    is_glob,
    local_path,
    missing_path,
    path_for_spark,
)
from runtime.connectors.options import (
    Option,
    bad_option,
    boolean,
    check_options,
    duration,
    idle_options,
    one_of,
    option_values,
    pattern,
    unknown_option,
    whole_number,
)
from runtime.connectors.packages import AVRO, missing_package
from runtime.errors import CatalogError, ExecutionError, SqlwinError, nearest
from runtime.spark.errors import translate
from runtime.spec.table import TableColumn, TableSpec

METADATA = {
    "file.path": "file_path",
    "file.name": "file_name",
    "file.size": "file_size",
    "file.modification-time": "file_modification_time",
}
# Lines of a JSON file that are looked at for the spelling of its field names
_SAMPLED_LINES = 100

# These tell a stream when to look for files. Those about files that are written are of Flink's way
# of it: here a micro-batch writes files of its own, which are complete when they can be seen.
_STREAMING_ONLY = {
    "source.monitor-interval": Option(duration),
    "max-files-per-trigger": Option(whole_number(1)),
    "maxFilesPerTrigger": Option(whole_number(1)),
    "max-bytes-per-trigger": Option(),
    "maxBytesPerTrigger": Option(),
    "latest-first": Option(boolean),
    "latestFirst": Option(boolean),
    "max-file-age": Option(),
    "maxFileAge": Option(),
    "file-name-only": Option(boolean),
    "fileNameOnly": Option(boolean),
    "clean-source": Option(one_of("archive", "delete", "off")),
    "cleanSource": Option(one_of("archive", "delete", "off")),
    "source-archive-dir": Option(),
    "sourceArchiveDir": Option(),
    "sink.rolling-policy.file-size": Option(has_effect=False),
    "sink.rolling-policy.rollover-interval": Option(duration, has_effect=False),
    "sink.rolling-policy.check-interval": Option(duration, has_effect=False),
    "sink.rolling-policy.inactivity-interval": Option(duration, has_effect=False),
    "auto-compaction": Option(boolean, has_effect=False),
    "compaction.file-size": Option(has_effect=False),
    "sink.partition-commit.trigger": Option(has_effect=False),
    "sink.partition-commit.delay": Option(duration, has_effect=False),
    "sink.partition-commit.watermark-time-zone": Option(has_effect=False),
    "sink.partition-commit.policy.kind": Option(has_effect=False),
    "sink.partition-commit.success-file.name": Option(has_effect=False),
    "partition.time-extractor.kind": Option(has_effect=False),
    "partition.time-extractor.timestamp-pattern": Option(has_effect=False),
}
_OPTIONS = {
    "path": Option(required=True),
    "format": Option(),
    "source.path.regex-pattern": Option(pattern),
    "sink.parallelism": Option(whole_number(1)),
    **_STREAMING_ONLY,
}
IDLE_OPTIONS = idle_options(_OPTIONS)


def validate(spec: TableSpec) -> None:
    """Check the options and columns of a filesystem table; whether files are there is not checked.

    Raises:
        CatalogError: an option or a column is wrong.
    """
    values = option_values(spec)
    file_format = format_of(values)
    if file_format is None:
        if "path" not in values:
            raise bad_option(spec, "option 'path' is missing", subjects=("'path'",))
        raise bad_option(
            spec,
            f"option 'format' is missing, and '{values['path']}' does not say it",
            f"'format' = one of {', '.join(FORMATS)}",
            subjects=(f"'{values['path']}'", "'format'"),
        )
    if file_format not in FORMATS:
        meant = nearest(file_format, FORMATS)
        raise bad_option(
            spec,
            f"there is no format '{values['format']}'",
            f"did you mean '{meant}'?" if meant else f"there are {', '.join(FORMATS)}",
            subjects=(f"'{values['format']}'",),
        )
    own = FLINK_OPTIONS.get(file_format, {})
    names = format_option_names(file_format)
    for name, _ in spec.options:
        prefix = name.lower().split(".")[0]
        # An option of another format is a mistake even where its name alone is right.
        if prefix in FORMATS and prefix != file_format:
            known = [n for n in (*own, *names) if n.startswith(file_format)]
            raise unknown_option(spec, name, known)
    check_options(spec, {**_OPTIONS, **own}, names)
    check_columns(spec)
    if error := unsupported_metadata(spec, list(METADATA)):
        raise error
    physical = physical_columns(spec)
    if file_format == "text" and spec.columns:
        types = {(c.type or "").lower() for c in physical}
        if len(physical) != 1 or types != {"string"}:
            raise CatalogError(
                f"table `{spec.name}`: format 'text' has one column, of type STRING",
                subjects=("'text'", spec.name),
            )


def read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """The files of `spec`, with its physical and metadata columns, or with all columns they have.

    Raises:
        ExecutionError: the path is not there, or a file cannot be read.
        CatalogError: the files' columns are not those declared.
        SetupError: the package for Avro is missing.
    """
    values = option_values(spec)
    file_format = format_of(values)
    assert file_format is not None, "validate() has seen to it"
    options = spark_options(spec, file_format)
    local = local_path(spark, values["path"])
    paths = _paths(spec, local, values, options)
    files = data_files(local) if local is not None else None
    if files == [] and spec.columns and not any(c.metadata for c in spec.columns):
        # A directory that nothing has been written to yet.
        return spark.createDataFrame([], declared_schema(spec, physical_columns(spec)))
    reader = spark.read.format(file_format).options(**options)
    origin = local or values["path"]
    try:
        if file_format == "parquet" and files and has_nanoseconds(files[0]):
            dataframe = read_nanoseconds(reader, files[0], paths)
        elif not spec.columns:
            dataframe = reader.load(paths)
        elif file_format in SELF_DESCRIBING:
            dataframe = with_partition_types(reader, spec, paths)
        else:
            schema = schema_to_read(spark, spec, file_format, options, paths)
            dataframe = reader.schema(schema).load(paths)
            if options.get("mode") == "PERMISSIVE" and file_format == "json":
                dataframe = without_broken_lines(reader, spec, schema, paths)
    except SqlwinError:
        raise
    except Exception as error:
        raise explained(error, spec, origin) from error
    if not spec.columns:
        return dataframe
    # Positional formats were given the declared names; all others are looked up by name.
    return dataframe.select(*(column_of(dataframe, spec, c, origin) for c in brought_columns(spec)))


def brought_columns(spec: TableSpec) -> list[TableColumn]:
    """The columns that files bring: physical ones and metadata."""
    return [c for c in spec.columns if c.computed is None]


def column_of(dataframe: DataFrame, spec: TableSpec, column: TableColumn, origin: str) -> Column:
    """A column that files bring, as it is declared."""
    if column.metadata is None:
        return pick(dataframe, spec, column, origin)
    value = dataframe.metadataColumn("_metadata")[METADATA[column.metadata]]
    if column.metadata in ("file.path", "file.name"):
        value = _decoded_uri(value)
    return value.cast(declared_type(spec, column)).alias(column.name)


def file_path(dataframe: DataFrame) -> Column:
    """The path of the file that a row comes from."""
    return _decoded_uri(dataframe.metadataColumn("_metadata")["file_path"])


def _decoded_uri(value: Column) -> Column:
    # Spark gives parts of a URI, in which a plus is a plus; url_decode takes it for a space.
    return F.url_decode(F.replace(value, F.lit("+"), F.lit("%2B")))


def _paths(
    spec: TableSpec, local: str | None, values: dict[str, str], options: dict[str, str]
) -> list[str]:
    """What Spark's reader is to load."""
    regex = values.get("source.path.regex-pattern")
    if local is None:
        if regex is not None:
            raise bad_option(
                spec,
                "option 'source.path.regex-pattern' works for files of this machine only",
                "use a glob in 'path', such as s3a://bucket/2024-*",
                subjects=("'source.path.regex-pattern'",),
            )
        return [values["path"]]
    if not is_glob(local) and not os.path.exists(local):
        raise missing_path(local)
    if regex is not None:
        # As in Flink, the pattern is for the whole absolute path.
        matching = [f for f in data_files(local) if re.fullmatch(regex, f)]
        if not matching:
            raise ExecutionError(
                f"no file below {local} matches '{regex}'",
                hint="the pattern is for the whole absolute path, such as '.*/part-.*'",
            )
        if os.path.isdir(local):
            # So that partition directories below it keep their meaning.
            options.setdefault("basePath", local)
        return [path_for_spark(f) for f in matching]
    if is_glob(local) and not data_files(local):
        raise missing_path(local)
    return [path_for_spark(local)]


def with_partition_types(reader: DataFrameReader, spec: TableSpec, paths: list[str]) -> DataFrame:
    """Load files that type their columns; partition columns get the types that are declared.

    Spark guesses the type of a partition column from the names of directories: `01` would be 1.
    """
    found = reader.load(paths)
    declared = {c.name.lower(): c for c in physical_columns(spec)}
    partitions = {name.lower() for name in spec.partitioned_by}
    fields = [
        StructField(field.name, declared_type(spec, declared[field.name.lower()]))
        if field.name.lower() in partitions and field.name.lower() in declared
        else field
        for field in found.schema.fields
    ]
    return found if fields == found.schema.fields else reader.schema(StructType(fields)).load(paths)


def schema_to_read(
    spark: SparkSession,
    spec: TableSpec,
    file_format: str,
    options: dict[str, str],
    paths: list[str],
) -> StructType:
    """The schema that a format without types of its own is read with."""
    declared = declared_schema(spec, physical_columns(spec))
    if file_format == "csv" and options.get("header", "false").lower() == "true":
        return _schema_by_header(spark, spec, declared, options, paths)
    if file_format == "json" and options.get("multiLine", "false").lower() != "true":
        spelled = _sampled_fields(spark, options, paths)
        return StructType(
            [
                StructField((find_column(spelled, field.name) or [field.name])[0], field.dataType)
                for field in declared.fields
            ]
        )
    return declared


def _schema_by_header(
    spark: SparkSession,
    spec: TableSpec,
    declared: StructType,
    options: dict[str, str],
    paths: list[str],
) -> StructType:
    """The columns of the header in their order, those that are declared with their types."""
    # Each further file must have the same header, or its columns would be taken for others.
    options.setdefault("enforceSchema", "false")
    bare = {**options, "inferSchema": "false"}
    header = spark.read.format("csv").options(**bare).load(paths).schema
    types = {field.name.lower(): field.dataType for field in declared.fields}
    return StructType(
        [StructField(f.name, types.get(f.name.lower(), StringType())) for f in header.fields]
    )


def _sampled_fields(spark: SparkSession, options: dict[str, str], paths: list[str]) -> list[str]:
    """The names of fields in the first lines: Spark tells them apart by case, SQL does not."""
    text = {
        name: options[name]
        for name in ("lineSep", "basePath", "pathGlobFilter", "recursiveFileLookup")
        if name in options
    }
    names: dict[str, None] = {}
    for row in (
        spark.read.format("text").options(**text).load(paths).limit(_SAMPLED_LINES).collect()
    ):
        try:
            fields = json.loads(row[0])
        except ValueError:
            # The reader proper says what is wrong with a line.
            continue
        if isinstance(fields, dict):
            names |= dict.fromkeys(fields)
    return list(names)


def without_broken_lines(
    reader: DataFrameReader, spec: TableSpec, schema: StructType, paths: list[str] | str
) -> DataFrame:
    """JSON whose broken lines are left out; a field that does not fit is NULL, as in Flink."""
    broken = "_sqlwin_broken_line"
    fields = [*schema.fields, StructField(broken, StringType())]
    dataframe = (
        reader.option("columnNameOfCorruptRecord", broken).schema(StructType(fields)).load(paths)
    )
    found_any = None
    for field in schema.fields:
        is_there = dataframe["`" + field.name.replace("`", "``") + "`"].isNotNull()
        found_any = is_there if found_any is None else found_any | is_there
    kept = dataframe[broken].isNull()
    return dataframe.filter(kept if found_any is None else kept | found_any).drop(broken)


def explained(error: Exception, spec: TableSpec, origin: str) -> SqlwinError:
    """What is wrong with the files at `origin`."""
    if not isinstance(error, PySparkException):
        return translate(error)
    if error.getCondition() == "AVRO_DATA_SOURCE_NOT_ENABLED":
        return missing_package(spec, "reads Avro", AVRO)
    if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
        return CatalogError(
            f"table `{spec.name}`: {origin} holds no file to take the columns from",
            subjects=(spec.name,),
            hint="declare the columns in CREATE TABLE",
        )
    return translate(error)
