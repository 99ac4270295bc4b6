"""Rows of random queries: columns, and the order and equality of values as in Spark."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tests.fuzz.choices import Choices

MS_US, SECOND_US = 1_000, 1_000_000
MINUTE_US, HOUR_US = 60 * SECOND_US, 3_600 * SECOND_US
DAY_US = 24 * HOUR_US
COLUMNS = (
    ("id", "BIGINT"),
    ("ts", "TIMESTAMP(6)"),
    ("tz", "TIMESTAMP_LTZ(6)"),
    ("k", "STRING"),
    ("g", "INT"),
    ("v", "BIGINT"),
    ("d", "DOUBLE"),
    ("p", "DECIMAL(10, 2)"),
)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("ts", pa.timestamp("us")),
        ("tz", pa.timestamp("us", "UTC")),
        ("k", pa.string()),
        ("g", pa.int32()),
        ("v", pa.int64()),
        ("d", pa.float64()),
        ("p", pa.decimal128(10, 2)),
    ]
)
# Clock changes of an hour, half an hour, two hours, at midnight, of a whole day, and none
ZONES = (
    "UTC",
    "America/New_York",
    "Asia/Kolkata",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Antarctica/Troll",
    "America/Sao_Paulo",
    "Asia/Gaza",
    "Pacific/Apia",
    "Pacific/Kiritimati",
    "Africa/Casablanca",
    "Africa/Monrovia",
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
YEARS = (2024, 2024, 1970, 1970, 1900, 1582, 10, 9_900)
CLOCK_CHANGE_YEARS = (2024, 2011, 1987)
# Microseconds from a limit of int64 at which rows begin
LIMITS = (-(2**63) + 40 * DAY_US, 2**63 - 1 - 40 * DAY_US)

Row = dict[str, Any]
Tables = dict[str, list[Row]]


def table_of(rows: Sequence[Row]) -> pa.Table:
    """Return rows as an Arrow table."""
    return pa.table([_array([row[f.name] for row in rows], f.type) for f in SCHEMA], schema=SCHEMA)


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(type_):
        return pa.array(values, pa.int64()).cast(type_)
    return pa.array(values, type_)


def same(value: Any) -> Any:
    """Return a value that is equal for values that are one key: NaN is one value, -0.0 is 0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def order(value: Any) -> Any:
    """Return a sort key of a value that is not NULL: NaN is the greatest number."""
    if isinstance(value, float):
        return math.isnan(value), 0.0 if math.isnan(value) else value
    return value


def rank_order(rows: list[Row], by: Sequence[tuple[str, bool]]) -> list[Row]:
    """Sort rows by (column, is descending) pairs. NULL is the smallest value."""
    for name, descending in reversed(by):
        rows = sorted(
            rows,
            key=lambda row, name=name: (
                row[name] is not None,
                0 if row[name] is None else order(row[name]),
            ),
            reverse=descending,
        )
    return rows


@cache
def clock_changes(zone: str, year: int) -> tuple[int, ...]:
    """Return the instants of a year, in microseconds, at which a zone's clocks change."""
    info, day = ZoneInfo(zone), dt.timedelta(days=1)
    first = dt.datetime(year, 1, 1, tzinfo=dt.UTC)
    changes = []
    for number in range(365):
        low = first + number * day
        high = low + day
        offset = low.astimezone(info).utcoffset()
        if offset == high.astimezone(info).utcoffset():
            continue
        while high - low > dt.timedelta(minutes=1):
            middle = low + (high - low) / 2
            is_before = middle.astimezone(info).utcoffset() == offset
            low, high = (middle, high) if is_before else (low, middle)
        moment = high.replace(second=0, microsecond=0)
        changes.append((moment - EPOCH) // dt.timedelta(microseconds=1))
    return tuple(changes)


def draw_base(draw: Choices, zone: str, is_calendar: bool) -> int:
    """Return the time around which rows lie, in microseconds."""
    if draw.chance(5) and not is_calendar:
        return draw.one_of(LIMITS)
    changes = clock_changes(zone, draw.one_of(CLOCK_CHANGE_YEARS))
    if changes and draw.chance(50):
        return draw.one_of(changes)
    base = dt.datetime(draw.one_of(YEARS), draw.between(1, 13), 1, tzinfo=dt.UTC)
    return (base - EPOCH) // dt.timedelta(microseconds=1)


def draw_rows(draw: Choices, base_us: int, length_us: int, first_id: int) -> list[Row]:
    """Draw rows around the bounds of windows with a length."""
    is_limit = abs(base_us) > 2**62
    if is_limit:
        length_us = min(length_us, 10 * DAY_US)
    elif draw.chance(50):
        base_us -= base_us % length_us
    exact = draw.one_of([MS_US, 1])
    # on average one row less than this
    size = draw.one_of([3, 6, 13, 26, 40])
    spread = draw.one_of([3, 1])
    rows: list[Row] = []
    while draw.pick(size) and len(rows) < 60:
        time = base_us + draw.between(0, 2 * spread * length_us) - spread * length_us
        if draw.chance(30):  # a bound of a window, or next to one
            time = base_us + draw.between(-3, 4) * length_us + draw.one_of([0, 1, -1])
        if rows and draw.chance(15):
            time = rows[-1]["ts"] or time
        time -= time % exact
        is_null = draw.chance(5)
        rows.append(
            {
                "id": first_id + len(rows),
                "ts": None if is_null else time,
                "tz": None if is_null else time,
                "k": draw.one_of(["a", "b", "B", "é", "", None]),
                "g": draw.one_of([0, 1, 2, -(2**31), None]),
                "v": draw.one_of([1, 2, 3, -4, 0, 2**40, -(2**40), None]),
                "d": draw.one_of([0.0, -0.0, 1.5, -2.25, math.nan, 1e10, None]),
                "p": draw.one_of([Decimal("1.10"), Decimal("-0.01"), Decimal("99999999.99"), None]),
            }
        )
    return rows
