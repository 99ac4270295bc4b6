"""Convert Avro values to columns: which schemas fit which types, and the conversion itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.connectors.declared_columns import find_column

_PRIMITIVE: Mapping[str, pa.DataType] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
}
_UNITS = {
    "timestamp-millis": "ms",
    "timestamp-micros": "us",
    "local-timestamp-millis": "ms",
    "local-timestamp-micros": "us",
}
_DECIMAL_BYTES = 16
# Arrow types that each Avro type can be converted to as a whole
_FROM: Mapping[str, tuple[pa.DataType, ...]] = {
    "boolean": (pa.bool_(),),
    "int": (
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.date32(),
    ),
    "long": (pa.int64(), pa.float32(), pa.float64()),
    "float": (pa.float32(), pa.float64()),
    "double": (pa.float64(),),
    "string": (pa.string(), pa.binary()),
    "bytes": (pa.string(), pa.binary()),
    "enum": (pa.string(),),
    "fixed": (pa.binary(),),
}  # fmt: skip

Named = Mapping[str, Any]


class NoTypeError(Exception):
    """Error for a schema without an Arrow type because it is a union of several types."""


def kind_of(schema: Any, named: Named) -> tuple[str, Any]:
    """Return the kind of a schema and the schema with names resolved; `union` for a list."""
    while True:
        if isinstance(schema, list):
            return "union", schema
        if isinstance(schema, str):
            if schema not in named:
                return schema, {"type": schema}
            schema = named[schema]
        elif isinstance(schema["type"], str) and schema["type"] not in named:
            return schema["type"], schema
        else:
            schema = schema["type"]


def raw_type(schema: Any, named: Named) -> pa.DataType:
    """Return the Arrow type of encoded values, ignoring logical types.

    Raises:
        NoTypeError: The schema has no Arrow type, for example a union of several types.
    """
    kind, schema = kind_of(schema, named)
    match kind:
        case "union":
            others = [branch for branch in schema if kind_of(branch, named)[0] != "null"]
            if len(others) > 1:
                raise NoTypeError("a union of several types")
            return raw_type(others[0], named) if others else pa.null()
        case "fixed":
            return pa.binary()
        case "record":
            return pa.struct([(f["name"], raw_type(f["type"], named)) for f in schema["fields"]])
        case "array":
            return pa.list_(raw_type(schema["items"], named))
        case "map":
            return pa.map_(pa.string(), raw_type(schema["values"], named))
    return _PRIMITIVE[kind]


def misfit(schema: Any, named: Named, type_: pa.DataType) -> str | None:
    """Return a description of a schema whose values do not fit a type, or None if they do.

    A wider type fits, as in Avro's schema resolution.
    """
    try:
        raw_type(schema, named)
    except NoTypeError as error:
        return str(error)
    except RecursionError:
        return "a recursive type"
    kind, schema = present(schema, named)
    logical = schema.get("logicalType")
    fits = type_ in _FROM.get(kind, ())
    if pa.types.is_timestamp(type_):
        # without a logical type Flink assumes milliseconds
        unit = _UNITS.get(logical or "timestamp-millis")
        is_local = (logical or "").startswith("local")
        fits = kind == "long" and unit is not None and not (is_local and type_.tz)
    elif pa.types.is_decimal(type_):
        fits = kind in ("bytes", "fixed") and logical == "decimal"
    elif pa.types.is_list(type_):
        fits = kind == "array" and misfit(schema["items"], named, type_.value_type) is None
    elif pa.types.is_map(type_):
        fits = kind == "map" and misfit(schema["values"], named, type_.item_type) is None
    elif pa.types.is_struct(type_):
        fits = kind == "record" and _has_fields(schema, named, type_)
    elif kind == "null":
        fits = True
    return None if fits else f"{kind} ({logical})" if logical else kind


def _has_fields(schema: Any, named: Named, type_: pa.StructType) -> bool:
    types = {field["name"]: field["type"] for field in schema["fields"]}
    matches = [(field, find_column(list(types), field.name)) for field in type_]
    return all(not place or misfit(types[place[0]], named, f.type) is None for f, place in matches)


def present(schema: Any, named: Named) -> tuple[str, Any]:
    """Return the kind and schema of the non-null values; see `kind_of`."""
    kind, schema = kind_of(schema, named)
    while kind == "union":
        others = [branch for branch in schema if kind_of(branch, named)[0] != "null"]
        kind, schema = kind_of(others[0], named) if others else ("null", {"type": "null"})
    return kind, schema


def plain(value: Any, schema: Any, named: Named) -> Any:
    """Return a value with maps as lists of pairs, as Arrow expects them."""
    kind, schema = present(schema, named)
    if value is None:
        return None
    match kind:
        case "record":
            return {f["name"]: plain(value[f["name"]], f["type"], named) for f in schema["fields"]}
        case "array":
            return [plain(item, schema["items"], named) for item in value]
        case "map":
            return [(key, plain(item, schema["values"], named)) for key, item in value.items()]
    return value


def convert_values(array: pa.Array, schema: Any, named: Named, type_: pa.DataType) -> pa.Array:
    """Convert raw values (see `raw_type`) to a column type that they fit.

    Raises:
        ArrowInvalid: A value does not fit the type.
    """
    kind, schema = present(schema, named)
    if array.type == type_:
        return array
    if kind == "null":
        return pa.nulls(len(array), type_)
    if pa.types.is_timestamp(type_):
        unit = _UNITS.get(schema.get("logicalType") or "", "ms")
        return array.cast(pa.timestamp(unit)).cast(pa.timestamp("us")).cast(type_)
    if pa.types.is_decimal(type_):
        return _decimals(array, schema).cast(type_)
    if pa.types.is_list(type_):
        values = convert_values(array.values, schema["items"], named, type_.value_type)
        return pa.ListArray.from_arrays(_offsets(array), values, type=type_)
    if pa.types.is_map(type_):
        items = convert_values(array.items, schema["values"], named, type_.item_type)
        return pa.MapArray.from_arrays(_offsets(array), array.keys, items).cast(type_)
    if pa.types.is_struct(type_):
        types = {field["name"]: field["type"] for field in schema["fields"]}
        places = [find_column(list(types), field.name) for field in type_]
        parts = [
            convert_values(array.field(place[0]), types[place[0]], named, field.type)
            if place
            else pa.nulls(len(array), field.type)
            for field, place in zip(type_, places, strict=True)
        ]
        return pa.StructArray.from_arrays(parts, fields=list(type_), mask=array.is_null())
    # floats may lose digits, as the Avro specification allows
    return array.cast(type_, safe=not pa.types.is_floating(type_))


def _offsets(array: pa.Array) -> pa.Array:
    """Return the list offsets, NULL for null lists."""
    is_null = np.append(array.is_null().to_numpy(zero_copy_only=False), False)
    return pa.array(array.offsets.to_numpy(), mask=is_null)


def _decimals(array: pa.Array, schema: Mapping[str, Any]) -> pa.Array:
    """Convert two's complement big-endian numbers, in bytes or fixed, to decimals."""
    type_ = pa.decimal128(schema["precision"], schema.get("scale", 0))
    is_null = array.is_null().to_numpy(zero_copy_only=False)
    filled = array.fill_null(b"\0")
    offsets = np.frombuffer(filled.buffers()[1], np.int32)[filled.offset :][: len(filled) + 1]
    offsets = offsets.astype(np.int64)
    lengths = np.diff(offsets)
    if (lengths > _DECIMAL_BYTES).any():
        raise pa.ArrowInvalid(f"a decimal has more than {_DECIMAL_BYTES} bytes")
    data = np.frombuffer(filled.buffers()[2] or b"\0", np.uint8)
    # from the lowest byte up; missing high bytes are filled with the sign
    places = offsets[1:, None] - 1 - np.arange(_DECIMAL_BYTES)
    is_there = places >= offsets[:-1, None]
    is_negative = (lengths > 0) & (data[np.minimum(offsets[:-1], len(data) - 1)] >= 0x80)
    sign = np.where(is_negative, 0xFF, 0).astype(np.uint8)
    sign_extended = np.where(is_there, data[np.maximum(places, 0)], sign[:, None]).astype(np.uint8)
    validity = pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    decimals = pa.Array.from_buffers(
        type_, len(array), [validity, pa.py_buffer(sign_extended.tobytes())]
    )
    decimals.validate(full=True)
    return decimals
