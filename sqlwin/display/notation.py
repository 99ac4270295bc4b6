"""Text of Arrow arrays, in the three notations of the result formats.

| value | to read (table, Markdown) | CSV | JSON |
| --- | --- | --- | --- |
| timestamp | `2013-01-01 05:15:00` | `2013-01-01T05:15:00` | the same as a string |
| timestamp with time zone | local time | `2013-01-01T05:15:00+01:00` | the same as a string |
| interval | `1 02:03:04` | `P1DT2H3M4S` | the same as a string |
| decimal | all digits of its scale | the same | the same as a number |
| double | shortest exact | the same | a number; `"NaN"`, `"Infinity"`, `"-Infinity"` |
| binary | hexadecimal | hexadecimal | base 64 |
| array | `[1, NULL]` | JSON | `[1,null]` |
| map | `{'k' -> 1}` | JSON | `{"k":1}` |
| struct | `{x: 1, y: 'a'}` | JSON | `{"x":1,"y":"a"}` |
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from sqlwin.display import scalars
from sqlwin.display.scalars import TEXT, concatenate, text_scalar

Render = Callable[[pa.Array], pa.Array]

_NEEDS_ESCAPE = r'["\\\x00-\x1f]'


def is_number(data_type: pa.DataType) -> bool:
    """Return whether values of a type are numbers, which are aligned right."""
    return bool(
        types.is_integer(data_type) or types.is_floating(data_type) or types.is_decimal(data_type)
    )


def is_text(data_type: pa.DataType) -> bool:
    """Return whether values of a type are strings."""
    return bool(
        types.is_string(data_type)
        or types.is_large_string(data_type)
        or types.is_string_view(data_type)
    )


def is_binary(data_type: pa.DataType) -> bool:
    """Return whether values of a type are bytes."""
    return bool(
        types.is_binary(data_type)
        or types.is_large_binary(data_type)
        or types.is_fixed_size_binary(data_type)
        or types.is_binary_view(data_type)
    )


def display_texts(array: pa.Array, *, uniform: bool = False) -> pa.Array:
    """Return values as shown to users. `uniform` gives times the same number of digits."""
    data_type = array.type
    if types.is_dictionary(data_type):
        return display_texts(array.dictionary_decode(), uniform=uniform)
    if is_variant(data_type):
        return _variant_texts(array)
    if _is_list(data_type):
        return _list_texts(array, _display_elements, ", ")
    if types.is_map(data_type):
        return _map_texts(array, _display_elements, _display_elements, ", ", " -> ")
    if types.is_struct(data_type):
        names = [f"{field.name}: " for field in data_type]
        return _struct_texts(array, names, _display_elements, ", ")
    return _flat_texts(array, iso=False, uniform=uniform)


def csv_texts(array: pa.Array) -> pa.Array:
    """Return values as CSV fields before quoting."""
    data_type = array.type
    if types.is_dictionary(data_type):
        return csv_texts(array.dictionary_decode())
    if types.is_nested(data_type):
        return pc.if_else(array.is_valid(), json_texts(array), pa.scalar(None, TEXT))
    return _flat_texts(array, iso=True)


def json_texts(array: pa.Array) -> pa.Array:
    """Return values as JSON. NULL becomes `null`."""
    return pc.fill_null(_json_texts(array), text_scalar("null"))


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the names with a number appended to repeated ones, as JSON keys must be unique.

    Example:
        >>> unique_names(["a", "b", "a", "a_2"])
        ['a', 'b', 'a_3', 'a_2']
    """
    used_names = set(names)
    assigned: set[str] = set()
    unique = []
    for name in names:
        candidate, number = name, 2
        while candidate in assigned or (candidate != name and candidate in used_names):
            candidate = f"{name}_{number}"
            number += 1
        assigned.add(candidate)
        unique.append(candidate)
    return unique


def json_objects(names: Sequence[str], arrays: Sequence[pa.Array], n_rows: int) -> pa.Array:
    """Return a JSON object per row, with a member for every column."""
    if not arrays:
        return pa.array(["{}"] * n_rows, TEXT)
    parts: list[pa.Array | pa.Scalar] = []
    for i, (name, array) in enumerate(zip(unique_names(names), arrays, strict=True)):
        key = json.dumps(name, ensure_ascii=False)
        parts += [text_scalar(f"{',' if i else '{'}{key}:"), json_texts(array)]
    return concatenate(*parts, text_scalar("}"))


def is_variant(data_type: pa.DataType) -> bool:
    """Return whether a type is PySpark's form of VARIANT: a struct with a marked field."""
    return bool(types.is_struct(data_type)) and any(
        (field.metadata or {}).get(b"variant") == b"true" for field in data_type
    )


def _flat_texts(array: pa.Array, *, iso: bool, uniform: bool = False) -> pa.Array:
    """Return the texts of flat values, with times in ISO 8601 or in SQL's form."""
    data_type = array.type
    if types.is_timestamp(data_type):
        return scalars.timestamp_texts(array, iso=iso, uniform=uniform)
    if types.is_date(data_type):
        return scalars.date_texts(array)
    if types.is_time(data_type):
        return scalars.time_texts(array, uniform=uniform)
    if types.is_duration(data_type):
        return scalars.duration_texts(array, iso=iso)
    if types.is_floating(data_type):
        return scalars.float_texts(array)
    if types.is_decimal(data_type):
        return scalars.decimal_texts(array)
    if is_binary(data_type):
        return scalars.hex_texts(array)
    return scalars.other_texts(array)


def _display_elements(array: pa.Array) -> pa.Array:
    """Return elements of nested values. Strings are quoted, so that they differ from NULL."""
    text = display_texts(array)
    if is_text(array.type):
        text = concatenate(
            text_scalar("'"), pc.replace_substring(text, "'", "''"), text_scalar("'")
        )
    return pc.fill_null(text, text_scalar("NULL"))


def _json_texts(array: pa.Array) -> pa.Array:
    data_type = array.type
    if types.is_dictionary(data_type):
        return _json_texts(array.dictionary_decode())
    if is_variant(data_type):
        return _variant_texts(array)
    if _is_list(data_type):
        return _list_texts(array, json_texts, ",")
    if types.is_map(data_type):
        return _map_texts(array, _json_keys, json_texts, ",", ":")
    if types.is_struct(data_type):
        keys = unique_names([field.name for field in data_type])
        names = [json.dumps(key, ensure_ascii=False) + ":" for key in keys]
        return _struct_texts(array, names, json_texts, ",")
    if is_binary(data_type):
        return _json_strings(scalars.base64_texts(array))
    text = csv_texts(array)
    if types.is_floating(data_type):
        # NaN and Infinity are not JSON numbers
        return pc.if_else(pc.match_substring_regex(text, "[Ny]$"), _json_strings(text), text)
    if types.is_boolean(data_type) or is_number(data_type):
        return text
    return _json_strings(text)


def _json_keys(array: pa.Array) -> pa.Array:
    """Return map keys, which JSON requires to be strings."""
    text = _json_texts(array)
    if pc.all(pc.starts_with(text, '"')).as_py():
        return text
    return pa.array(
        [t if t.startswith('"') else json.dumps(t, ensure_ascii=False) for t in text.to_pylist()],
        TEXT,
    )


def _json_strings(text: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(text, _NEEDS_ESCAPE)).as_py():
        values = text.to_pylist()
        return pa.array(
            [None if v is None else json.dumps(v, ensure_ascii=False) for v in values], TEXT
        )
    return concatenate(text_scalar('"'), text, text_scalar('"'))


def _is_list(data_type: pa.DataType) -> bool:
    return bool(
        types.is_list(data_type)
        or types.is_large_list(data_type)
        or types.is_fixed_size_list(data_type)
    )


def _list_texts(array: pa.Array, element: Render, separator: str) -> pa.Array:
    elements = element(array.flatten()).to_pylist()  # excludes elements of NULL lists
    texts: list[str | None] = []
    start = 0
    for length in pc.list_value_length(array).to_pylist():
        if length is None:
            texts.append(None)
        else:
            texts.append("[" + separator.join(elements[start : start + length]) + "]")
            start += length
    return pa.array(texts, TEXT)


def _map_texts(array: pa.Array, key: Render, value: Render, separator: str, arrow: str) -> pa.Array:
    offsets = array.offsets.to_pylist()
    first, count = offsets[0], offsets[-1] - offsets[0]
    keys, values = key(array.keys.slice(first, count)), value(array.items.slice(first, count))
    entries = concatenate(keys, text_scalar(arrow), values).to_pylist()
    valid = array.is_valid().to_pylist()
    return pa.array(
        [
            "{" + separator.join(entries[start - first : end - first]) + "}" if is_valid else None
            for start, end, is_valid in zip(offsets[:-1], offsets[1:], valid, strict=True)
        ],
        TEXT,
    )


def _struct_texts(
    array: pa.Array, names: Sequence[str], element: Render, separator: str
) -> pa.Array:
    valid = array.is_valid()
    if not names:
        return pc.if_else(valid, text_scalar("{}"), pa.scalar(None, TEXT))
    parts: list[pa.Array | pa.Scalar] = []
    for i, (name, child) in enumerate(zip(names, array.flatten(), strict=True)):
        parts += [text_scalar((separator if i else "{") + name), element(child)]
    return pc.if_else(valid, concatenate(*parts, text_scalar("}")), pa.scalar(None, TEXT))


def _variant_texts(array: pa.Array) -> pa.Array:
    """Return VARIANT values as JSON."""
    # Only results of Spark contain VARIANT, so PySpark is loaded already
    from pyspark.sql.types import VariantVal

    return pa.array(
        [
            None if v is None else VariantVal(v["value"], v["metadata"]).toJson()
            for v in array.to_pylist()
        ],
        TEXT,
    )
