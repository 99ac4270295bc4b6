"""Python values of Arrow arrays, for `Result.rows`.

A TIMESTAMP_LTZ becomes a datetime in the time zone of its type, a TIMESTAMP one without a zone.
Dates and times outside Python's years 1 to 9999 become text, as in shown results.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types
from pyspark.sql import Row

from sqlwin.display.scalars import date_texts, timestamp_texts, zone_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DATE = date(1970, 1, 1)
_FIRST_DAY = (date.min - _EPOCH_DATE).days
_LAST_DAY = (date.max - _EPOCH_DATE).days
_MICROSECOND = timedelta(microseconds=1)


def python_rows(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch as PySpark rows, with access by name and by position."""
    named = Row(*batch.schema.names)  # two columns may have the same name
    columns = [python_values(column) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield named(*values)


def leaves_calendar(array: pa.Array) -> bool:
    """Return whether an array has dates or nested times that Arrow cannot convert to Python."""
    type_ = array.type
    if types.is_date32(type_):
        return not _is_in_calendar(array.cast(pa.int32()))
    if not types.is_nested(type_) or not any(word in str(type_) for word in ("date", "timestamp")):
        return False
    try:
        array.to_pylist()
    except (OverflowError, ValueError):
        return True
    return False


def python_values(array: pa.Array) -> list[Any]:
    """Return an array as Python values, with structs as rows and maps as dictionaries."""
    type_ = array.type
    if types.is_timestamp(type_):
        return _timestamps(array)
    if types.is_date32(type_):
        return _dates(array)
    if types.is_map(type_):
        entries = list(zip(python_values(array.keys), python_values(array.items), strict=True))
        return _slice_elements(array, entries, dict)
    if types.is_list(type_) or types.is_large_list(type_):
        return _slice_elements(array, python_values(array.values), list)
    if types.is_struct(type_):
        named = Row(*(field.name for field in type_))
        fields = [python_values(array.field(i)) for i in range(type_.num_fields)]
        rows = zip(*fields, strict=True) if fields else iter([()] * len(array))
        valid = array.is_valid().to_pylist()
        return [
            named(*row) if is_valid else None for row, is_valid in zip(rows, valid, strict=True)
        ]
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:
        return _texts(array)


def _texts(array: pa.Array) -> list[str | None]:
    """Return strings, with U+FFFD for invalid UTF-8, which Spark does not check."""
    raw = array.cast(pa.large_binary()).to_pylist()
    return [None if value is None else value.decode(errors="replace") for value in raw]


def _slice_elements(array: pa.Array, elements: list[Any], make: Any) -> list[Any]:
    """Return the elements per row of a list or map array, None where the row is NULL."""
    ends = array.offsets.to_pylist()
    valid = array.is_valid().to_pylist()
    return [
        make(elements[first:last]) if is_valid else None
        for first, last, is_valid in zip(ends, ends[1:], valid, strict=False)
    ]


def _dates(array: pa.Array) -> list[Any]:
    days = array.cast(pa.int32())
    if _is_in_calendar(days):
        return list(array.to_pylist())
    return [
        text
        if day is None or not _FIRST_DAY <= day <= _LAST_DAY
        else _EPOCH_DATE + timedelta(days=day)
        for day, text in zip(days.to_pylist(), date_texts(array).to_pylist(), strict=True)
    ]


def _is_in_calendar(days: pa.Array) -> bool:
    extremes = pc.min_max(days).as_py()
    low, high = extremes["min"], extremes["max"]
    return low is None or bool(_FIRST_DAY <= low and high <= _LAST_DAY)


def _timestamps(array: pa.Array) -> list[Any]:
    zone = None if array.type.tz is None else zone_of(array.type.tz) or UTC
    micros = array.cast(pa.timestamp("us", array.type.tz)).cast(pa.int64()).to_pylist()
    values: list[Any] = []
    for place, us in enumerate(micros):
        if us is None:
            values.append(None)
            continue
        try:
            instant = _EPOCH + us * _MICROSECOND
            value = instant.replace(tzinfo=None) if zone is None else instant.astimezone(zone)
        except OverflowError:
            values += timestamp_texts(array.slice(place, 1), iso=False).to_pylist()
        else:
            values.append(value)
    return values
