"""Fields of the lines of a JSON file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.parse_text import decimal_of
from runtime.compute.arrow.types import INTEGER_TYPES, arrow_type
from runtime.spec.text import TextColumn
from runtime.text.fields import BrokenRecordError, Fields
from runtime.text.json_objects import parse_objects
from runtime.text.json_record import (
    Fraction,
    Integer,
    Nested,
    Object,
    Special,
    Token,
    as_text,
    parse_record,
)
from runtime.text.lines import Lines

_REPLACEMENT = "\ufffd"
# Texts of doubles that Spark accepts in quotes, and as words
_SPECIAL = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+Infinity", "+INF"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}
# Spark accepts a TINYINT up to this number and keeps its low byte
_LARGEST_BYTE = 255


class _MisfitError(Exception):
    """A value does not fit the type of its column."""


def json_fields(lines: Lines, columns: Sequence[TextColumn], first: TextColumn | None) -> Fields:
    """Return the fields of the objects in lines.

    Columns that are cast have texts, the others values.

    Args:
        lines: Lines of a part of a file.
        columns: Columns to read.
        first: First column of the table, which Spark reads with each record.

    Raises:
        BrokenRecordError: A line is not a JSON object, or a value does not fit its column.
    """
    read = {column.key: column for column in (*columns, *([first] if first else []))}
    lines = _with_text(lines)
    if not lines.is_repaired:
        types = [pa.field(key, _parsed_type(column)) for key, column in read.items()]
        if (parsed := parse_objects(lines, types)) is not None:
            by_key = dict(zip(read, parsed, strict=True))
            return _fields(len(lines.starts), columns, by_key)
    verbatim = {key for key, column in read.items() if _is_text(column)}
    converters = {key: _converter(column) for key, column in read.items()}
    tokens: dict[str, list[object]] = {key: [] for key in read}
    n_rows = 0
    for number in range(len(lines.starts)):
        line = lines.text(number)
        objects = parse_record(line, verbatim)
        if objects is None or (lines.is_repaired and _REPLACEMENT in line):
            raise BrokenRecordError(line)
        for fields in objects:
            n_rows += 1
            try:
                for key, value in _converted(fields, converters).items():
                    tokens[key].append(value)
            except _MisfitError:
                raise BrokenRecordError(line) from None
    arrays = {key: _array(tokens[key], column) for key, column in read.items()}
    return _fields(n_rows, columns, arrays)


def _fields(n_rows: int, columns: Sequence[TextColumn], arrays: Mapping[str, pa.Array]) -> Fields:
    texts = {column.name: arrays[column.key] for column in columns if column.is_cast}
    values = {column.name: arrays[column.key] for column in columns if not column.is_cast}
    return Fields(n_rows, texts, values)


def _with_text(lines: Lines) -> Lines:
    """Return the lines that are not empty, which have no object."""
    is_text = lines.ends > lines.starts
    if is_text.all():
        return lines
    return replace(lines, starts=lines.starts[is_text], ends=lines.ends[is_text])


def _converted(
    fields: Object, converters: Mapping[str, Callable[[Token], object]]
) -> dict[str, object]:
    """Return the values of an object's fields, NULL for missing ones."""
    values: dict[str, object] = dict.fromkeys(converters)
    for name, token in fields:
        convert = converters.get(name)
        if convert is not None:
            # of several fields of a name the last one counts, but all must fit
            values[name] = convert(token)
    return values


def _is_text(column: TextColumn) -> bool:
    return column.is_cast or column.type == "string"


def _parsed_type(column: TextColumn) -> pa.DataType:
    return pa.string() if column.is_cast else arrow_type(column.type)


def _array(values: list[object], column: TextColumn) -> pa.Array:
    if column.type == "float" and not column.is_cast:
        # rounded once from the text
        texts = pa.array(values, pa.string())
        return pc.cast(texts, pa.float32())
    return pa.array(values, _parsed_type(column))


def _converter(column: TextColumn) -> Callable[[Token], object]:
    """Return the function that converts a field.

    Raises `_MisfitError` for a value of another type.
    """
    if _is_text(column):
        return as_text
    if column.type == "tinyint":
        return _byte
    if column.type in INTEGER_TYPES:
        half = 1 << (arrow_type(column.type).bit_width - 1)
        return lambda token: _integer(token, half)
    if column.type == "double":
        return _double
    if column.type == "float":
        return _float
    if column.type == "boolean":
        return _boolean
    type_ = arrow_type(column.type)
    unit = Decimal(1).scaleb(-type_.scale)
    return lambda token: _decimal(token, unit, type_.precision)


def _integer(token: Token, half: int) -> int | None:
    if token is None:
        return None
    if not isinstance(token, Integer) or len(token) > 20:
        raise _MisfitError
    number = int(token)
    if not -half <= number < half:
        raise _MisfitError
    return number


def _byte(token: Token) -> int | None:
    number = _integer(token, _LARGEST_BYTE + 1)
    if number is not None and number < -(_LARGEST_BYTE + 1) // 2:
        raise _MisfitError
    return number if number is None or number <= _LARGEST_BYTE // 2 else number - _LARGEST_BYTE - 1


def _double(token: Token) -> float | None:
    if token is None:
        return None
    if isinstance(token, Integer):
        # -0 is 0, unlike -0.0
        return float(token) + 0.0
    if isinstance(token, Fraction):
        return float(token)
    if isinstance(token, str) and token in _SPECIAL:
        return _SPECIAL[token]
    raise _MisfitError


def _float(token: Token) -> str | None:
    if token is None:
        return None
    if isinstance(token, Integer):
        return "0" if token == "-0" else token
    if isinstance(token, Fraction):
        return token
    if isinstance(token, str) and token in _SPECIAL:
        return str(np.float32(_SPECIAL[token]))
    raise _MisfitError


def _boolean(token: Token) -> bool | None:
    if token is None or isinstance(token, bool):
        return token
    raise _MisfitError


def _decimal(token: Token, unit: Decimal, precision: int) -> Decimal | None:
    if token is None:
        return None
    if isinstance(token, str) and not isinstance(token, Special | Nested):
        # Spark ignores commas in texts
        number = decimal_of(token.replace(",", ""), unit, precision)
        if number is not None:
            return number
    raise _MisfitError
