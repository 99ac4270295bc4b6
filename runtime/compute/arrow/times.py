"""Fields and texts of dates and wall-clock times, in the proleptic Gregorian calendar."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.types import Datum
from runtime.compute.kernels.conversions import Int64Array, int64_array, int64_values, validity
from runtime.compute.wall_clock import instants_us, wall_clock_us
from runtime.errors import ComputationError
from runtime.shown_types import shown_type

_SECOND_US = 1_000_000
_MINUTE_US = 60 * _SECOND_US
_HOUR_US = 60 * _MINUTE_US
_DAY_US = 24 * _HOUR_US
# 1970 began on a Thursday: days since the Sunday, and since the Monday before
_AFTER_SUNDAY, _AFTER_MONDAY = 4, 3
_FORMAT_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|'[^']+'|.", re.DOTALL)


def on_wall_clock(instants: Datum, zone: str) -> Datum:
    """Return instants as times on the wall clock of a zone."""
    return _per_value(instants, lambda values: wall_clock_us(values, zone), pa.timestamp("us"))


def on_timeline(times: Datum, zone: str) -> Datum:
    """Return times on the wall clock of a zone as instants; see `instants_us`."""
    return _per_value(times, lambda values: instants_us(values, zone), pa.timestamp("us", "UTC"))


def shift(times: Datum, by_us: int) -> Datum:
    """Return times plus a number of microseconds.

    Raises:
        ComputationError: A time is beyond 64 bits of microseconds.
    """
    numbers = pc.cast(times, pa.int64())
    try:
        return pc.cast(pc.add_checked(numbers, pa.scalar(by_us, pa.int64())), times.type)
    except pa.ArrowInvalid as error:
        raise ComputationError(f"{_name(times)} overflow in + of an interval") from error


def floor(times: Datum, width_us: int) -> Datum:
    """Return the multiples of a number of microseconds since 1970 that begin last before times."""
    return _per_value(times, lambda values: values - values % width_us, times.type)


def start_of_date(dates: Datum, unit: str) -> Datum:
    """Return the first day of the WEEK (from Monday), MM, QUARTER or YEAR that contains dates."""

    def first_day(days: Int64Array) -> Int64Array:
        if unit == "WEEK":
            return days - (days + _AFTER_MONDAY) % 7
        n_months = {"MM": 1, "QUARTER": 3, "YEAR": 12}[unit]
        return _first_of_month(_months(days) // n_months * n_months)

    return _per_value(dates, first_day, pa.date32())


def _name(times: Datum) -> str:
    return shown_type("timestamp_ntz" if times.type.tz is None else "timestamp")


def field(times: Datum, name: str) -> Datum:
    """Return a field, such as `year`, of dates or wall-clock times as INT.

    Weekdays are 1 (Sunday) to 7 for `dayofweek`, 0 (Monday) to 6 for `weekday`. `weekofyear` is the
    week of ISO 8601.
    """
    is_date = pa.types.is_date(times.type)

    def compute(values: Int64Array) -> Int64Array:
        days = values if is_date else values // _DAY_US
        return FIELDS[name](days, days * 0 if is_date else values - days * _DAY_US)

    return _per_value(times, compute, pa.int32())


def _per_value(
    values: Datum, function: Callable[[Int64Array], Int64Array], type_: pa.DataType
) -> Datum:
    """Apply a function to the numbers behind times; NULL stays NULL."""
    if isinstance(values, pa.Scalar):
        return _per_value(pa.array([values], values.type), function, type_)[0]
    numbers = int64_values(values)
    valid = validity(values)
    if valid is not None:
        numbers = np.where(valid, numbers, 0)
    return int64_array(function(numbers), valid, type_)


def _months(days: Int64Array) -> Int64Array:
    """Return the months since 1970 that contain days since 1970."""
    months: Int64Array = days.astype("M8[D]").astype("M8[M]").astype(np.int64)
    return months


def _first_of_month(months: Int64Array) -> Int64Array:
    days: Int64Array = months.astype("M8[M]").astype("M8[D]").astype(np.int64)
    return days


def _day_of_year(days: Int64Array) -> Int64Array:
    return days - _first_of_month(_months(days) // 12 * 12) + 1


def _week(days: Int64Array) -> Int64Array:
    # a week belongs to the year of its Thursday
    thursday = days - (days + _AFTER_MONDAY) % 7 + 3
    return (_day_of_year(thursday) - 1) // 7 + 1


_Field = Callable[[Int64Array, Int64Array], Int64Array]
# By name: function of the day since 1970 and the microsecond of the day
FIELDS: dict[str, _Field] = {
    "year": lambda days, us: _months(days) // 12 + 1970,
    "quarter": lambda days, us: _months(days) % 12 // 3 + 1,
    "month": lambda days, us: _months(days) % 12 + 1,
    "day": lambda days, us: days - _first_of_month(_months(days)) + 1,
    "dayofyear": lambda days, us: _day_of_year(days),
    "dayofweek": lambda days, us: (days + _AFTER_SUNDAY) % 7 + 1,
    "weekday": lambda days, us: (days + _AFTER_MONDAY) % 7,
    "weekofyear": lambda days, us: _week(days),
    "hour": lambda days, us: us // _HOUR_US,
    "minute": lambda days, us: us // _MINUTE_US % 60,
    "second": lambda days, us: us // _SECOND_US % 60,
}


def date_text(dates: Datum) -> Datum:
    """Return dates as `yyyy-MM-dd`."""
    return format_time(dates, "yyyy-MM-dd")


def time_text(times: Datum) -> Datum:
    """Return wall-clock times as `yyyy-MM-dd HH:mm:ss`, with the decimals up to the last not 0."""
    texts = format_time(times, "yyyy-MM-dd HH:mm:ss.SSSSSS")
    return pc.ascii_rtrim(pc.ascii_rtrim(texts, "0"), ".")


def format_time(times: Datum, pattern: str) -> Datum:
    """Return dates or wall-clock times as texts.

    Args:
        times: Dates or wall-clock times.
        pattern: Fields `yyyy MM dd HH mm ss SSS SSSSSS`, quoted texts and separators.
    """
    if isinstance(times, pa.Scalar):
        return format_time(pa.array([times], times.type), pattern)[0]
    parts = [_format_part(times, part) for part in _FORMAT_FIELD.findall(pattern)]
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))


def _format_part(times: pa.Array, part: str) -> Datum:
    match part:
        case "yyyy":
            return _year_text(field(times, "year"))
        case "MM":
            return _padded(field(times, "month"), 2)
        case "dd":
            return _padded(field(times, "day"), 2)
        case "HH":
            return _padded(field(times, "hour"), 2)
        case "mm":
            return _padded(field(times, "minute"), 2)
        case "ss":
            return _padded(field(times, "second"), 2)
        case "SSS" | "SSSSSS":
            micros = _per_value(times, lambda us: us % _SECOND_US, pa.int64())
            return pc.utf8_slice_codeunits(_padded(micros, 6), 0, len(part))
    return pa.scalar(part.strip("'") if len(part) > 1 else part, pa.string())


def _padded(numbers: Datum, width: int) -> Datum:
    return pc.utf8_lpad(pc.cast(numbers, pa.string()), width, "0")


def _year_text(years: pa.Array) -> Datum:
    """Return years with at least four digits, and a sign if they are negative or beyond 9999."""
    plain = _padded(pc.abs(years), 4)
    if pc.all(pc.and_(pc.greater_equal(years, 0), pc.less(years, 10_000))).as_py() in (True, None):
        return plain
    sign = pc.if_else(pc.less(years, 0), "-", pc.if_else(pc.less(years, 10_000), "", "+"))
    return pc.binary_join_element_wise(sign, plain, "")
