"""Decode and encode messages with Spark: formats json, csv, raw and avro."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from runtime.connectors.avro.encoding import encode_avro, unwritten_part
from runtime.connectors.avro.options import avro_schema
from runtime.connectors.connector import AVRO_PACKAGE, missing_package
from runtime.connectors.declared_columns import declared_schema
from runtime.errors import CatalogError, ExecutionError
from runtime.frames.user_functions import as_arrow_udf
from runtime.names import quote_name
from runtime.options.checks import bad_option
from runtime.options.formats import spark_options, timestamp_output_options
from runtime.shown_types import shown_type
from runtime.spec.table import TableSpec

_BROKEN = "_sqlwin_broken"
# Maximum characters of an unreadable message in an error
_SHOWN_CHARACTERS = 120


def decode_fields(
    messages: DataFrame,
    message: Column,
    schema: StructType,
    file_format: str,
    spec: TableSpec,
    *,
    is_key: bool = False,
) -> tuple[DataFrame, dict[str, Column]]:
    """Decode the fields of a message.

    Args:
        messages: Rows with the message. Rows with unreadable messages may be dropped.
        message: The message, a BINARY column of `messages`.
        schema: Fields to decode.
        file_format: One of MESSAGE_FORMATS.
        spec: Table specification with the options of the format.
        is_key: Whether it is the key of a Kafka message, for errors.

    Returns:
        The remaining rows, and a column for each field.

    Raises:
        CatalogError: The fields do not fit the format.
        SetupError: Spark's package for Avro is missing.
    """
    if not schema.fields:
        return messages, {}
    if file_format == "raw":
        (field,) = schema.fields
        if not isinstance(field.dataType, (StringType, BinaryType)):
            raise CatalogError(
                f"format 'raw' of table `{spec.name}` requires STRING or BYTES, but "
                f"column `{field.name}` is {shown_type(field.dataType.simpleString())}",
                subjects=("'raw'", spec.name, field.name),
                hint="declare it STRING, and cast it in a computed column",
            )
        return messages, {field.name: message.cast(field.dataType)}
    if file_format == "avro":
        parsed = _from_avro(message, schema, spec)
        return messages, {f.name: parsed[f.name] for f in schema.fields}
    options = spark_options(spec, file_format)
    is_tolerant = options["mode"] == "PERMISSIVE"
    options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    read = StructType([*schema.fields, StructField(_BROKEN, StringType())])
    text = message.cast("string")
    if file_format == "json":
        parsed = F.from_json(text, read, options)
    else:
        parsed = F.from_csv(text, _ddl(read), options)
    # Spark decodes an empty message as NULL
    name = f"_sqlwin_{len(messages.columns)}"
    # Use a separate column, so that a message is parsed once for all its fields.
    messages = messages.withColumn(name, parsed)
    parsed = F.col(name)
    is_whole = text.isNull() | (parsed.isNotNull() & parsed[_BROKEN].isNull())
    if is_tolerant:
        # as in Flink, unreadable messages are dropped
        messages = messages.filter(is_whole)
    else:
        what = f"{'the key is ' if is_key else ''}not valid {file_format.upper()}"
        names = [field.name for field in schema.fields] if is_key else None
        misfit = F.raise_error(_misfit(messages, text, what, spec, names))
        parsed = F.when(is_whole, parsed).otherwise(misfit)
    return messages, {f.name: parsed[f.name] for f in schema.fields}


def _misfit(
    messages: DataFrame, text: Column, what: str, spec: TableSpec, names: Sequence[str] | None
) -> Column:
    """Return the error text for an unreadable message: its position and beginning.

    `what` describes the fault; `names` are the columns of the message, None for all of the table.
    """
    parts = [F.lit(f"table `{spec.name}`: ")]
    for name, column in (
        ("topic '", "topic"),
        ("', partition ", "partition"),
        (", offset ", "offset"),
    ):
        if column in messages.columns:
            parts += [F.lit(name), F.coalesce(F.col(column).cast("string"), F.lit("?"))]
    columns = ", ".join(names or [c.name for c in spec.physical_columns])
    parts.append(F.lit(f": {what} for the columns {columns}: "))
    shown = F.regexp_replace(F.left(text, F.lit(_SHOWN_CHARACTERS)), r"\s+", " ")
    return F.concat(*parts, shown)


def encode_message(fields: list[str], file_format: str, spec: TableSpec) -> Column:
    """Encode the columns `fields` as a message.

    Raises:
        CatalogError: The columns do not fit the format.
    """
    value = F.struct(*(F.col(quote_name(name)) for name in fields))
    if file_format == "raw":
        if len(fields) != 1:
            raise bad_option(
                spec, "format 'raw' writes exactly one column", f"the query has {', '.join(fields)}"
            )
        return F.col(quote_name(fields[0]))
    if file_format == "avro":
        columns = {column.name: column for column in spec.physical_columns}
        written = declared_schema(spec, [columns[name] for name in fields])
        return _to_avro(value.cast(written), fields, avro_schema(spec, written), spec)
    options = {**timestamp_output_options(spec, file_format), **spark_options(spec, file_format)}
    options.pop("mode", None)
    return F.to_json(value, options) if file_format == "json" else F.to_csv(value, options)


def _to_avro(value: Column, fields: Sequence[str], schema: str, spec: TableSpec) -> Column:
    try:
        why = unwritten_part(schema, fields)
    except ExecutionError as error:
        raise CatalogError(f"table `{spec.name}`: {error.message}", hint=error.hint) from error
    if why is not None:
        raise bad_option(
            spec,
            f"format 'avro' cannot write the columns: {why}",
            "'avro.schema' must have a field for each column, and a default in each other field",
            subjects=("'avro.schema'",),
        )
    message: Column = as_arrow_udf(partial(encode_avro, schema=schema), BinaryType())(value)
    return message


def _from_avro(message: Column, schema: StructType, spec: TableSpec) -> Column:
    from pyspark.sql.avro.functions import from_avro

    try:
        return from_avro(message, avro_schema(spec, schema))
    except (PySparkException, TypeError) as error:
        # py4j treats a name that the JVM lacks as a package, which cannot be called
        raise missing_package(spec, "reads Avro", AVRO_PACKAGE) from error


def _ddl(schema: StructType) -> str:
    return ", ".join(f"{quote_name(f.name)} {f.dataType.simpleString()}" for f in schema.fields)
