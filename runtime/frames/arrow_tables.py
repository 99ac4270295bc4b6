"""Convert DataFrames to Arrow tables whose instants are in the session's time zone.

PySpark's `toArrow()` labels instants UTC, ignoring the session's zone. The label decides how they
are displayed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from runtime.spark.versions.arrow_types import schema_in_zone
from runtime.spark.versions.frames import from_arrow, to_arrow
from runtime.spec.stream import KIND_COLUMN, ROW_KIND

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?")


def session_zone(frame: DataFrame) -> str:
    """Return the session's time zone in Arrow's spelling."""
    return arrow_zone(str(frame.sparkSession.conf.get("spark.sql.session.timeZone")))


def arrow_zone(zone: str) -> str:
    """Convert a Spark time zone to the spelling of Arrow and Python; UTC if they do not know it.

    Example:
        >>> [arrow_zone(zone) for zone in ("Europe/Berlin", "GMT+8", "+5:30", "Z")]
        ['Europe/Berlin', '+08:00', '+05:30', 'UTC']
    """
    offset = _OFFSET.fullmatch(zone)
    if offset is not None:
        return f"{offset[1]}{int(offset[2]):02d}:{offset[3] or '00'}"
    try:
        return ZoneInfo(zone).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def cast_to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Cast the columns to the types of a schema, fields of structs by position.

    Time zones, nullability and names of fields depend on where the columns come from.
    """
    columns = [
        _cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, data_type: pa.DataType) -> pa.Array:
    if column.type == data_type:
        return column
    if not (_repeats_field_name(data_type) or _repeats_field_name(column.type)):
        return column.cast(data_type)
    # Arrow casts the fields of structs by name.
    return column.view(_number_fields(column.type)).cast(_number_fields(data_type)).view(data_type)


def _repeats_field_name(data_type: pa.DataType) -> bool:
    fields = [data_type.field(i) for i in range(data_type.num_fields)]
    if pa.types.is_struct(data_type) and len({field.name for field in fields}) < len(fields):
        return True
    return any(_repeats_field_name(field.type) for field in fields)


def _number_fields(data_type: pa.DataType) -> pa.DataType:
    """Return the type with the fields of structs renamed to their positions."""

    def numbered(field: pa.Field) -> pa.Field:
        return field.with_type(_number_fields(field.type))

    if pa.types.is_struct(data_type):
        fields = [numbered(field) for field in data_type]
        return pa.struct([field.with_name(str(i)) for i, field in enumerate(fields)])
    if pa.types.is_map(data_type):
        return pa.map_(numbered(data_type.key_field), numbered(data_type.item_field))
    if pa.types.is_list(data_type):
        return pa.list_(numbered(data_type.value_field))
    if pa.types.is_large_list(data_type):
        return pa.large_list(numbered(data_type.value_field))
    return data_type


def fields_may_be_null(schema: StructType) -> StructType:
    """Return the schema with nullable fields in every struct that may be NULL.

    Spark calls a field NOT NULL even if its struct may be NULL. In Arrow the field of such a struct
    has no value either, and PySpark refuses to convert it.
    """
    from pyspark.sql.types import StructField, StructType

    return StructType(
        [
            StructField(f.name, _fields_may_be_null(f.dataType, f.nullable), f.nullable, f.metadata)
            for f in schema
        ]
    )


def _fields_may_be_null(type_: DataType, may_be_null: bool) -> DataType:
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(type_, StructType):
        return StructType(
            [
                StructField(
                    field.name,
                    _fields_may_be_null(field.dataType, may_be_null or field.nullable),
                    may_be_null or field.nullable,
                    field.metadata,
                )
                for field in type_
            ]
        )
    if isinstance(type_, ArrayType):
        element = _fields_may_be_null(type_.elementType, type_.containsNull)
        return ArrayType(element, type_.containsNull)
    if isinstance(type_, MapType):
        key = _fields_may_be_null(type_.keyType, False)
        value = _fields_may_be_null(type_.valueType, type_.valueContainsNull)
        return MapType(key, value, type_.valueContainsNull)
    return type_


def name_fields_apart(data_type: DataType) -> DataType:
    """Return the type with numbered fields in structs that repeat the name of a field.

    `STRUCT(*)` of a join makes such structs. PySpark refuses to convert them to Arrow.
    """
    from pyspark.sql.types import ArrayType, MapType, StructField, StructType

    if isinstance(data_type, StructType):
        fields = [
            StructField(f.name, name_fields_apart(f.dataType), f.nullable, f.metadata)
            for f in data_type
        ]
        if len(set(data_type.names)) < len(fields):
            for place, struct_field in enumerate(fields):
                struct_field.name = str(place)
        return StructType(fields)
    if isinstance(data_type, ArrayType):
        return ArrayType(name_fields_apart(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, MapType):
        key, value = map(name_fields_apart, (data_type.keyType, data_type.valueType))
        return MapType(key, value, data_type.valueContainsNull)
    return data_type


def cast_columns(frame: DataFrame, types: Sequence[DataType]) -> DataFrame:
    """Cast columns, and the fields of their structs, by position."""
    from pyspark.sql import functions as F

    from runtime.frames.blobs import number_columns

    if list(types) == [field.dataType for field in frame.schema]:
        return frame
    columns = [F.col(f"_{place}").cast(data_type) for place, data_type in enumerate(types)]
    return number_columns(frame).select(*columns).toDF(*frame.columns)


def collect_arrow(frame: DataFrame) -> pa.Table:
    """Collect a DataFrame with its instants labelled UTC, as `fields_may_be_null`."""
    from runtime.spark.versions.arrow_types import to_arrow_schema

    schema = fields_may_be_null(frame.schema)
    types = [field.dataType for field in schema]
    types_sent = [name_fields_apart(data_type) for data_type in types]
    table = to_arrow(cast_columns(frame, types_sent))
    if types_sent == types:
        return table
    named = to_arrow_schema(schema)
    return pa.Table.from_batches(
        (cast_to_schema(batch, named) for batch in table.to_batches()), named
    )


def create_frame(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Return a table as a DataFrame, with instants without a zone as TIMESTAMP_NTZ."""
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    from runtime.spark.versions.arrow_types import to_arrow_schema

    # without a schema Spark would read times without a zone as instants
    schema = from_arrow_schema(table.schema, prefer_timestamp_ntz=True)
    types = [field.dataType for field in schema]
    types_sent = [name_fields_apart(data_type) for data_type in types]
    if types_sent == types:
        return from_arrow(spark, table, schema)
    sent = StructType([StructField(f.name, t) for f, t in zip(schema, types_sent, strict=True)])
    columns = to_arrow_schema(sent)
    batches = [cast_to_schema(batch, columns) for batch in table.to_batches()]
    return cast_columns(from_arrow(spark, pa.Table.from_batches(batches, columns), sent), types)


def arrow_table(frame: DataFrame) -> pa.Table:
    """Collect a DataFrame with its instants in the session's time zone."""
    table = collect_arrow(frame)
    schema = schema_in_zone(table.schema, session_zone(frame))
    if schema.equals(table.schema):
        return table
    return pa.Table.from_batches(
        (cast_to_schema(batch, schema) for batch in table.to_batches()), schema
    )


def rename_kind_column(rows: DataFrame) -> DataFrame:
    """Rename the row kind column of a stream, if there is one, to KIND_COLUMN."""
    if ROW_KIND not in rows.columns:
        return rows
    return rows.withColumnRenamed(ROW_KIND, KIND_COLUMN)
