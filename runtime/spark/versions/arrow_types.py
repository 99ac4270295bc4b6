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
    in_utc = types.to_arrow_schema(schema)
    return pa.schema([field.with_type(_in_zone(field.type, zone)) for field in in_utc])


def to_arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type of a type of Spark, with instants in UTC."""
    from pyspark.sql.pandas import types

    if has(ARROW_ZONES):
        return types.to_arrow_type(type_, timezone=_UTC)
    return types.to_arrow_type(type_)


def _in_zone(type_: pa.DataType, zone: str) -> pa.DataType:
    """Return a type with the time zone of its instants replaced, on any level."""
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return pa.timestamp(type_.unit, zone)
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_in_zone(f.type, zone)) for f in type_])
    if pa.types.is_map(type_):
        fields = (type_.key_field, type_.item_field)
        return pa.map_(*(f.with_type(_in_zone(f.type, zone)) for f in fields))
    if pa.types.is_list(type_):
        field = type_.value_field
        return pa.list_(field.with_type(_in_zone(field.type, zone)))
    return type_
