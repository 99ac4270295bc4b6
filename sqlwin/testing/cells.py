"""Cells of a test file as values of SQL types, and back."""

from __future__ import annotations

import base64
import math
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from runtime.compute.arrow.types import spark_type

_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WALL_EPOCH = _EPOCH.replace(tzinfo=None)


class CellError(ValueError):
    """A cell does not fit its type. The message has the cell and an example that fits."""


def cell_value(cell: object, type_: pa.DataType) -> Any:
    """Return a cell as the Python value that Arrow has for a type.

    Args:
        cell: Plain value of a test file: text, number, truth value, None, list or dict.
        type_: Type of the column.

    Raises:
        CellError: The cell does not fit.
    """
    if cell is None:
        return None
    if pa.types.is_timestamp(type_):
        return _timestamp(cell, has_zone=type_.tz is not None)
    if pa.types.is_boolean(type_):
        return _checked(cell, bool, "true or false")
    if pa.types.is_integer(type_):
        if isinstance(cell, bool) or not isinstance(cell, int):
            raise CellError(f"{cell!r} is not a whole number")
        bits = type_.bit_width - 1
        if not -(1 << bits) <= cell < 1 << bits:
            raise CellError(f"{cell} does not fit {bits + 1} bits")
        return cell
    if pa.types.is_floating(type_):
        if isinstance(cell, bool) or not isinstance(cell, int | float):
            raise CellError(f"{cell!r} is not a number")
        # a FLOAT has fewer digits than the text
        return pa.scalar(float(cell), type_).as_py()
    if pa.types.is_decimal(type_):
        return _decimal(cell, type_)
    if pa.types.is_date(type_):
        return _date(str(cell))
    if pa.types.is_binary(type_):
        try:
            return base64.b64decode(str(cell), validate=True)
        except ValueError as error:
            raise CellError(f"{cell!r} is not base64") from error
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return str(cell) if not isinstance(cell, bool) else str(cell).lower()
    if pa.types.is_list(type_) and isinstance(cell, list):
        return [cell_value(item, type_.value_type) for item in cell]
    if pa.types.is_struct(type_) and isinstance(cell, dict):
        return {field.name: cell_value(cell.get(field.name), field.type) for field in type_}
    if pa.types.is_map(type_):
        return _entries(cell, type_)
    raise CellError(f"{cell!r} is not a value of type {(spark_type(type_) or str(type_)).upper()}")


def cell_text(value: Any) -> str:
    """Return a value as it is written in a test file, in YAML's flow style."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return ".nan" if math.isnan(value) else repr(value).replace("inf", ".inf")
        case datetime():
            wall = value if value.tzinfo is None else value.astimezone(UTC)
            text = wall.replace(tzinfo=None).isoformat(" ")
            return f"'{text}{'' if value.tzinfo is None else 'Z'}'"
        case date():
            return f"'{value.isoformat()}'"
        case Decimal():
            return f"'{value}'"
        case bytes():
            return f"'{base64.b64encode(value).decode()}'"
        case list() | tuple():
            return f"[{', '.join(map(cell_text, value))}]"
        case dict():
            return "{" + ", ".join(f"{key}: {cell_text(item)}" for key, item in value.items()) + "}"
    return _text(str(value))


def _text(text: str) -> str:
    if re.fullmatch(r"[A-Za-z_][\w ./-]*", text) and text.lower() not in (
        *("true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"),
    ):
        return text.strip() if text == text.strip() else f"'{text}'"
    if "\n" in text or not text.isprintable():
        return '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'
    return "'" + text.replace("'", "''") + "'"


def _checked(cell: object, kind: type, allowed: str) -> Any:
    if not isinstance(cell, kind):
        raise CellError(f"{cell!r} is not {allowed}")
    return cell


def _entries(cell: object, type_: pa.MapType) -> list[tuple[Any, Any]]:
    """Return a map, which is a mapping of texts or a list of pairs."""
    pairs = list(cell.items()) if isinstance(cell, dict) else cell
    if not isinstance(pairs, list) or any(
        not isinstance(pair, list | tuple) or len(pair) != 2 for pair in pairs
    ):
        raise CellError(f"{cell!r} is not a mapping or a list of pairs such as [[1, one]]")
    return [
        (cell_value(key, type_.key_type), cell_value(value, type_.item_type))
        for key, value in pairs
    ]


def _decimal(cell: object, type_: pa.DataType) -> Decimal:
    try:
        value = Decimal(str(cell))
        exact = value.quantize(Decimal(1).scaleb(-type_.scale))
    except InvalidOperation as error:
        raise CellError(f"{cell!r} is not a decimal number") from error
    if exact != value:
        raise CellError(f"{cell} has more than {type_.scale} digits after the point")
    return exact


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise CellError(f"{text!r} is not a date such as 2024-05-01") from error


def _timestamp(cell: object, *, has_zone: bool) -> datetime:
    """Return a timestamp. A time without a date is on 1970-01-01."""
    text = str(cell).strip()
    instant = text.endswith("Z") or re.search(r"[+-]\d\d:\d\d$", text)
    try:
        if _TIME.fullmatch(text):
            clock = time.fromisoformat(text)
            value = _WALL_EPOCH + timedelta(
                hours=clock.hour,
                minutes=clock.minute,
                seconds=clock.second,
                microseconds=clock.microsecond,
            )
        else:
            value = datetime.fromisoformat(text)
    except ValueError as error:
        raise CellError(
            f"{text!r} is not a timestamp such as '2024-05-01 10:00:05.250' or '10:00:05'"
        ) from error
    if instant and not has_zone:
        raise CellError(f"{text!r} has a zone, but the column is a TIMESTAMP without one")
    if has_zone:
        return (value if instant else value.replace(tzinfo=UTC)).astimezone(UTC)
    return value
