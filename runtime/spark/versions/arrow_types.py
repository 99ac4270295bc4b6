"""Arrow types of Spark's types. Instants have a time zone, which is a label only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from runtime.spark.versions.capabilities import ARROW_ZONES, has

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_UTC = "UTC"


def to_arrow_schema(schema: StructType, zone: str = _UTC) -> pa.Schema:
    """Return the Arrow schema of Spark's columns, with instants in a time zone."""
    from pyspark.sql.pandas import types

    if has(ARROW_ZONES):
        return types.to_arrow_schema(schema, timezone=zone)
    return schema_in_zone(types.to_arrow_schema(schema), zone)


def to_arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type of a type of Spark, with instants in UTC."""
    from pyspark.sql.pandas import types

    if has(ARROW_ZONES):
        return types.to_arrow_type(type_, timezone=_UTC)
    return types.to_arrow_type(type_)


def in_zone(data_type: pa.DataType, zone: str) -> pa.DataType:
    """Return the type with all instants, including nested ones, in an Arrow time zone."""
    if pa.types.is_timestamp(data_type):
        return data_type if data_type.tz is None else pa.timestamp(data_type.unit, zone)
    if pa.types.is_struct(data_type):
        return pa.struct([_field_in_zone(field, zone) for field in data_type])
    if pa.types.is_map(data_type):
        keys, items = data_type.key_field, data_type.item_field
        return pa.map_(_field_in_zone(keys, zone), _field_in_zone(items, zone))
    if pa.types.is_list(data_type):
        return pa.list_(_field_in_zone(data_type.value_field, zone))
    if pa.types.is_large_list(data_type):
        return pa.large_list(_field_in_zone(data_type.value_field, zone))
    return data_type


def schema_in_zone(schema: pa.Schema, zone: str) -> pa.Schema:
    """Return the schema with all instants in an Arrow time zone."""
    return pa.schema([_field_in_zone(field, zone) for field in schema])


def _field_in_zone(field: pa.Field, zone: str) -> pa.Field:
    return field.with_type(in_zone(field.type, zone))
