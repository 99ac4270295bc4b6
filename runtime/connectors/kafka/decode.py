"""Decode values of messages to columns with Arrow, in a Python worker.

The results are the same as with Spark's from_json and from_csv. Where the two may differ, or if a
message is broken, the whole record batch is left to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from runtime.text.json_objects import parse_objects
from runtime.text.lines import Lines

JSON, CSV = "json", "csv"
_NUMBERS: Mapping[str, pa.DataType] = {
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
}
_INTEGER = r"^-?(?:0|[1-9]\d{0,18})$"
_DATE = r"[1-9]\d{3}-\d{2}-\d{2}"
_TIMESTAMP = rf"{_DATE}[ T]\d{{2}}:\d{{2}}:\d{{2}}(?:\.\d{{1,6}})?"
# Texts that Arrow and Spark read in the same way, by Spark type
_TEXTS: Mapping[str, str] = {
    "tinyint": _INTEGER,
    "smallint": _INTEGER,
    "int": _INTEGER,
    "bigint": _INTEGER,
    "double": r"^-?\d{1,17}(?:\.\d{1,17})?(?:[eE][+-]?\d{1,2})?$",
    "boolean": "^(?:true|false)$",
    "date": f"^{_DATE}$",
    "timestamp_ntz": f"^{_TIMESTAMP}$",
    # Java accepts at most 18 hours
    "timestamp": rf"^{_TIMESTAMP}(?:Z|[+-](?:0\d|1[0-7]):[0-5]\d)$",
}
_TYPES: Mapping[str, pa.DataType] = {
    **_NUMBERS,
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
    "timestamp_ntz": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", tz="UTC"),
}
_NEW_LINE = ord("\n")
_IN_JSON_TEXTS = ("string", "date", "timestamp_ntz", "timestamp")


@dataclass(frozen=True)
class Decoding:
    """Rules for decoding message values into columns.

    Attributes:
        file_format: JSON or CSV.
        fields: Name and Spark type of each field.
        delimiter: Field delimiter of CSV, one byte.
    """

    file_format: str
    fields: tuple[tuple[str, str], ...]
    delimiter: str = ","


def column_of(position: int) -> str:
    """Return the column name of the field at a position."""
    return f"field_{position}"


def can_decode(how: Decoding) -> bool:
    """Return whether Arrow can decode messages with these rules."""
    is_one_byte = how.delimiter.isascii() and len(how.delimiter) == 1
    if how.file_format == CSV and (not is_one_byte or how.delimiter in '"\\\r\n\0 '):
        return False
    # Arrow and Spark disagree on DECIMALs with too many digits
    return bool(how.fields) and all(type_ in _TYPES for _, type_ in how.fields)


def arrow_type(type_: str) -> pa.DataType:
    """Return the Arrow type for a Spark type that can be decoded."""
    return _TYPES[type_]


def decode_values(values: Sequence[bytes | None], how: Decoding) -> list[pa.Array] | None:
    """Decode messages into columns. None if Spark has to decode them.

    Args:
        values: Messages, at least one. A message without a value has NULL in all columns.
        how: Format and fields.
    """
    read = _decode_json if how.file_format == JSON else _decode_csv
    try:
        return read(values, how)
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None


def _decode_json(values: Sequence[bytes | None], how: Decoding) -> list[pa.Array] | None:
    lines: Sequence[Any] = values
    try:
        text = b"\n".join(lines)
    except TypeError:
        # An object without fields is also a row of NULLs.
        lines = [b"{}" if value is None else value for value in values]
        text = b"\n".join(lines)
    ends = np.append(np.flatnonzero(np.frombuffer(text, np.uint8) == _NEW_LINE), len(text))
    starts = np.append(0, ends[:-1] + 1)
    if len(ends) != len(lines) or (ends == starts).any() or not _is_utf8(text):
        return None
    fields = [pa.field(n, pa.string() if t in _IN_JSON_TEXTS else _TYPES[t]) for n, t in how.fields]
    columns = parse_objects(Lines(text, starts, ends), fields)
    return None if columns is None else _cast_columns(columns, how)


def _decode_csv(values: Sequence[bytes | None], how: Decoding) -> list[pa.Array] | None:
    if any(not value for value in values):
        return None
    lines: list[bytes] = [value for value in values if value]
    text = b"\n".join(lines)
    # quotes and escapes have different rules, and Arrow skips a byte order mark
    if any(char in text for char in (b'"', b"\\", b"\r", b"\0", b"\xef\xbb\xbf")):
        return None
    if text.count(b"\n") != len(lines) - 1 or not _is_utf8(text):
        return None
    names = [name for name, _ in how.fields]
    table = pa.csv.read_csv(
        pa.BufferReader(text),
        pa.csv.ReadOptions(use_threads=False, block_size=len(text) + 1, column_names=names),
        pa.csv.ParseOptions(
            delimiter=how.delimiter, quote_char=False, double_quote=False, ignore_empty_lines=False
        ),
        pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        ),
    )
    if table.num_rows != len(lines):
        return None
    return _cast_columns([_one_array(table.column(name)) for name in names], how)


def _is_utf8(text: bytes) -> bool:
    """Return True, or raise UnicodeDecodeError for invalid UTF-8."""
    return text.isascii() or text.decode() is not None


def _cast_columns(columns: Sequence[pa.Array], how: Decoding) -> list[pa.Array] | None:
    """Convert columns to their types. None if Spark might read a text differently."""
    typed = []
    for column, (_, type_) in zip(columns, how.fields, strict=True):
        if type_ != "string" and pa.types.is_string(column.type):
            fits = pc.match_substring_regex(column, _TEXTS[type_])
            if not pc.all(fits, min_count=0).as_py():
                return None
            column = column.cast(arrow_type(type_))
        if type_ == "double":
            numbers = column.fill_null(1.0).to_numpy(zero_copy_only=False)
            # non-numbers have several spellings, and for Spark "-0" is an integer without a sign
            if not np.isfinite(numbers).all() or (np.signbit(numbers) & (numbers == 0)).any():
                return None
        typed.append(column)
    return typed


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    # combine_chunks() would copy a single chunk
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
