"""Reading files in batch: their schema, and the declared columns out of what they hold."""

from __future__ import annotations

import json
import os
import re
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from runtime.connectors.columns import (
    declared_schema,
    declared_type,
    find_column,
    physical_columns,
    pick,
)
from runtime.connectors.connector import AVRO_PACKAGE, NO_AVRO, missing_package
from runtime.connectors.filesystem.nanoseconds import has_nanoseconds, read_nanoseconds
from runtime.connectors.filesystem.paths import (
    data_files,
    is_glob,
    local_path,
    missing_path,
    path_for_spark,
)
from runtime.connectors.options.checks import bad_option, option_values
from runtime.connectors.options.formats import SELF_DESCRIBING, format_of, spark_options
from runtime.errors import CatalogError, ExecutionError, SqlwinError
from runtime.spark.errors import translate, translated_errors
from runtime.spec.table import TableColumn, TableSpec

METADATA = {
    "file.path": "file_path",
    "file.name": "file_name",
    "file.size": "file_size",
    "file.modification-time": "file_modification_time",
}
# Lines of a JSON file that are looked at for the spelling of its field names
_SAMPLED_LINES = 100


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
    with translated_errors(partial(explain, spec, origin)):
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
    """The names of fields in the first lines: in Spark their case matters, in SQL it does not."""
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


def explain(spec: TableSpec, origin: str, error: Exception) -> SqlwinError:
    """What is wrong with the files at `origin`."""
    if not isinstance(error, PySparkException):
        return translate(error)
    if error.getCondition() in NO_AVRO:
        return missing_package(spec, "reads Avro", AVRO_PACKAGE)
    if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
        return CatalogError(
            f"table `{spec.name}`: {origin} holds no file to take the columns from",
            subjects=(spec.name,),
            hint="declare the columns in CREATE TABLE",
        )
    return translate(error)
