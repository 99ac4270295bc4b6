"""Arrow types of Spark types."""

from __future__ import annotations

import re
from functools import cache
from typing import TypeAlias

import pyarrow as pa

# A column's values, or one value for all rows
Datum: TypeAlias = pa.Array | pa.Scalar

INTEGER_TYPES = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
}

_TYPES: dict[str, pa.DataType] = {
    **INTEGER_TYPES,
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    # The zone is only a label: the values are instants.
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_NAMES = {type_: name for name, type_ in _TYPES.items()}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LIST = re.compile(r"array<(.+)>")
_STRUCT = re.compile(r"struct<(.+)>")
_FIELD = re.compile(r"(\w+):(\w+(?:\(\d+,\d+\)|<[^<>]*>)?)")


@cache
def arrow_type(spark_type: str) -> pa.DataType:
    """Return the Arrow type for a Spark type in DDL spelling.

    Args:
        spark_type: Flat type, or an array or a struct of such; fields may be structs of flat types.

    Raises:
        KeyError: The type is not supported.
    """
    if match := _LIST.fullmatch(spark_type):
        return pa.list_(arrow_type(match[1]))
    if match := _STRUCT.fullmatch(spark_type):
        return pa.struct([(name, arrow_type(type_)) for name, type_ in _FIELD.findall(match[1])])
    match = _DECIMAL.fullmatch(spark_type)
    return pa.decimal128(int(match[1]), int(match[2])) if match else _TYPES[spark_type]


def spark_type(type_: pa.DataType) -> str | None:
    """Return the Spark type of an Arrow type, the inverse of `arrow_type`, or None if unnamed."""
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        item = spark_type(type_.value_type)
        return None if item is None else f"array<{item}>"
    return _NAMES.get(type_)
