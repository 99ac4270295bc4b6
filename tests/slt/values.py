"""Values as `.slt` files write them, in both directions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

# Times without a zone on this day are written without the date
DAY = date(2026, 1, 1)
_TIME = re.compile(r"\d\d:\d\d(:\d\d(\.\d+)?)?")


def row_text(row: Sequence[Any]) -> str:
    """Return a result row as a line."""
    return " | ".join(map(value_text, row))


def value_text(value: Any) -> str:
    """Return a value as text. A datetime with a zone is an instant in that zone."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return _time_text(value)
    if isinstance(value, timedelta):
        return _interval_text(value)
    if isinstance(value, bytes | bytearray):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, list):
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{value_text(k)}: {value_text(v)}' for k, v in value.items())}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(value_text, value))})"
    return str(value)


def _interval_text(value: timedelta) -> str:
    size = abs(value)
    time = datetime.min.replace(tzinfo=UTC) + timedelta(
        seconds=size.seconds, microseconds=size.microseconds
    )
    sign = "-" if value < timedelta() else ""
    return f"{sign}{size.days} {time:%H:%M:%S}{_fraction(size.microseconds)}"


def _fraction(microsecond: int) -> str:
    """Return the fraction of a second with 3 or 6 digits, nothing if it is zero."""
    if not microsecond:
        return ""
    return "." + f"{microsecond:06}"[: 3 if microsecond % 1000 == 0 else 6]


def _time_text(value: datetime) -> str:
    has_seconds = value.second or value.microsecond
    time = value.strftime("%H:%M:%S" if has_seconds else "%H:%M") + _fraction(value.microsecond)
    if value.tzinfo is not None:
        offset = value.isoformat()[-6:]
        return f"{value:%Y-%m-%d} {time}{offset}"
    return time if value.date() == DAY else f"{value.date().isoformat()} {time}"


def arrow_column(type_: str, texts: Sequence[str]) -> pa.Array:
    """Return the values of a column of a `table` record.

    Args:
        type_: The declared SQL type.
        texts: The values as written.

    Raises:
        ValueError: The type is not supported in `table` records, or a text does not fit it.
    """
    arrow, parse = _reader(type_.upper())
    return pa.array([None if text == "NULL" else parse(text) for text in texts], arrow)


def _reader(type_: str) -> tuple[pa.DataType, Any]:
    name = re.sub(r"\(.*", "", type_)
    match name:
        case "STRING":
            return pa.string(), lambda text: "" if text == "''" else text
        case "BOOLEAN":
            return pa.bool_(), lambda text: text == "true"
        case "DATE":
            return pa.date32(), date.fromisoformat
        case "TIMESTAMP":
            return pa.timestamp("us"), _read_time
        case "TIMESTAMP_LTZ":
            return pa.timestamp("us", "UTC"), _read_instant
        case "DECIMAL":
            precision, scale = map(int, re.findall(r"\d+", type_))
            return pa.decimal128(precision, scale), Decimal
        case "DOUBLE" | "FLOAT":
            return {"DOUBLE": pa.float64(), "FLOAT": pa.float32()}[name], float
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            integers = {"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32()}
            return integers.get(name, pa.int64()), int
    raise ValueError(f"`table` records have no columns of type {type_}")


def _read_time(text: str) -> datetime:
    return datetime.fromisoformat(f"{DAY} {text}" if _TIME.fullmatch(text) else text)


def _read_instant(text: str) -> datetime:
    """Return the instant of a text, in UTC if it names no offset."""
    value = _read_time(text)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
