"""Exact text of flat Arrow arrays, one array at a time.

Every function takes an array of its type and returns a `large_string` array of the same length with
NULL where the input has NULL.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

TEXT = pa.large_string()

_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Instants that datetime can represent in any zone: 0001-01-02 to 9999-12-30
_FIRST_SECOND, _LAST_SECOND = -62_135_510_400, 253_402_128_000
_FIRST_DAY, _LAST_DAY = _FIRST_SECOND // 86_400, _LAST_SECOND // 86_400
# The calendar repeats every 400 years
_CYCLE_YEARS, _CYCLE_SECONDS = 400, 12_622_780_800
_FIXED_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")


def text_scalar(text: str) -> pa.Scalar:
    """Return a text scalar of the type that this module's functions return."""
    return pa.scalar(text, TEXT)


def concatenate(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Concatenate the parts row by row. NULL if a part is NULL."""
    return pc.binary_join_element_wise(*parts, text_scalar(""))


def float_texts(array: pa.Array) -> pa.Array:
    """Return the shortest text that reads back as the same double.

    For example 1.0 for 1. NaN, Infinity and -Infinity are spelled as in Spark.
    """
    if pa.types.is_float16(array.type):
        array = array.cast(pa.float32())
    text = array.cast(TEXT)
    text = pc.if_else(
        pc.match_substring_regex(text, r"^-?[0-9]+$"), concatenate(text, text_scalar(".0")), text
    )
    for arrow, spark in (("nan", "NaN"), ("inf", "Infinity"), ("-inf", "-Infinity")):
        text = pc.if_else(pc.equal(text, text_scalar(arrow)), text_scalar(spark), text)
    return text


def decimal_texts(array: pa.Array) -> pa.Array:
    """Return all digits of the scale, without an exponent."""
    text = array.cast(TEXT)
    if pc.any(pc.match_substring(text, "E")).as_py():
        text = pa.array([None if t is None else f"{Decimal(t):f}" for t in text.to_pylist()], TEXT)
    return text


def timestamp_texts(array: pa.Array, *, iso: bool, uniform: bool = False) -> pa.Array:
    """Return date and time: `2013-01-01T05:15:00+01:00` if `iso`, else `2013-01-01 05:15:00`.

    Args:
        array: Timestamps of any unit, with or without a time zone.
        iso: Whether to write a T in between, and the offset from UTC if the type has a time zone.
            If the zone is unknown here, the time is in UTC.
        uniform: Whether all rows have the same number of fraction digits. Otherwise each row has as
            many as it needs, in groups of three.
    """
    per_second = _PER_SECOND[array.type.unit]
    seconds, fraction = _floor_divide(array.cast(pa.int64()).fill_null(0), per_second)
    suffix = None
    if array.type.tz is not None:
        zone = zone_of(array.type.tz)
        offsets, suffix = _utc_offsets(seconds, zone or UTC)
        seconds = pc.add(seconds, offsets)
    text = _clock_texts(seconds)
    if iso:
        text = pc.replace_substring(text, " ", "T")
    text = _append_fraction(text, fraction, per_second, uniform)
    if suffix is not None and (iso or zone is None):
        text = concatenate(text, suffix)
    return pc.if_else(array.is_valid(), text, pa.scalar(None, TEXT))


def date_texts(array: pa.Array) -> pa.Array:
    """Return dates such as `2013-01-01`, for years of any number of digits."""
    days = array.cast(pa.date32()).cast(pa.int32())
    extremes = pc.min_max(days).as_py()
    if extremes["min"] is None or (_FIRST_DAY <= extremes["min"] <= extremes["max"] <= _LAST_DAY):
        return array.cast(TEXT)
    midnights = pc.multiply(days.cast(pa.int64()).fill_null(0), 86_400)
    text = pc.utf8_slice_codeunits(_clock_texts(midnights), 0, -len(" 00:00:00"))
    return pc.if_else(array.is_valid(), text, pa.scalar(None, TEXT))


def time_texts(array: pa.Array, *, uniform: bool = False) -> pa.Array:
    """Return times of day, `05:15:00` or `05:15:00.500`."""
    per_second = _PER_SECOND[array.type.unit]
    storage = pa.int32() if per_second <= 1_000 else pa.int64()
    values = array.cast(storage).cast(pa.int64()).fill_null(0)
    seconds, fraction = _floor_divide(values, per_second)
    text = pc.utf8_slice_codeunits(_clock_texts(seconds), len("1970-01-01 "))
    text = _append_fraction(text, fraction, per_second, uniform)
    return pc.if_else(array.is_valid(), text, pa.scalar(None, TEXT))


def duration_texts(array: pa.Array, *, iso: bool) -> pa.Array:
    """Return day-time intervals: `P1DT2H3M4.500S` if `iso`, else SQL's `1 02:03:04.500`."""
    per_second = _PER_SECOND[array.type.unit]
    values = array.cast(pa.int64()).to_pylist()
    return pa.array([None if v is None else _duration(v, per_second, iso) for v in values], TEXT)


def _duration(value: int, per_second: int, iso: bool) -> str:
    sign = "-" if value < 0 else ""
    seconds, fraction = divmod(abs(value), per_second)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    rest = _fraction(fraction, len(str(per_second)) - 1, _digits(fraction, per_second))
    if not iso:
        return f"{sign}{days} {hour:02d}:{minute:02d}:{second:02d}{rest}"
    clock = f"{hour}H" * (hour > 0) + f"{minute}M" * (minute > 0)
    if second or rest:
        clock += f"{second}{rest}S"
    text = f"{days}D" * (days > 0) + ("T" + clock if clock else "")
    return f"{sign}P{text}" if text else "PT0S"


def hex_texts(array: pa.Array) -> pa.Array:
    """Return binary values as upper-case hexadecimal digits, as in Spark's `hex` and `X'..'`."""
    return pa.array([None if v is None else v.hex().upper() for v in array.to_pylist()], TEXT)


def base64_texts(array: pa.Array) -> pa.Array:
    """Return binary values in base 64 (RFC 4648, padded)."""
    values = array.to_pylist()
    return pa.array([None if v is None else base64.b64encode(v).decode() for v in values], TEXT)


def other_texts(array: pa.Array) -> pa.Array:
    """Return integers, booleans and strings as text, using `str` for types Arrow cannot cast."""
    try:
        return array.cast(TEXT)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.array([None if v is None else str(v) for v in array.to_pylist()], TEXT)


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo | None:
    """Return the zone for a Spark time zone name, a region or fixed offset, or None if unknown."""
    if name in ("Z", "UTC", "GMT"):
        return UTC
    if fixed := _FIXED_OFFSET.fullmatch(name):
        hours, minutes, seconds = (int(part or 0) for part in fixed.group(2, 3, 4))
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        return timezone(-offset if fixed.group(1) == "-" else offset)
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):  # not found, a directory, not a relative path
        return None


def _floor_divide(values: pa.Array, divisor: int) -> tuple[pa.Array, pa.Array]:
    """Return quotients rounded down, and the non-negative remainders."""
    quotient = pc.divide(values, divisor)  # rounds towards zero
    rest = pc.subtract(values, pc.multiply(quotient, divisor))
    borrows = pc.less(rest, 0).cast(pa.int64())
    return pc.subtract(quotient, borrows), pc.add(rest, pc.multiply(borrows, divisor))


def _clock_texts(seconds: pa.Array) -> pa.Array:
    """Return seconds since 1970 as `2013-01-01 05:15:00`, for years of any number of digits."""
    extremes = pc.min_max(seconds).as_py()
    if len(seconds) == 0 or (_FIRST_SECOND <= extremes["min"] and extremes["max"] <= _LAST_SECOND):
        return seconds.cast(pa.timestamp("s")).cast(TEXT)
    # Arrow's text ends at the year 32767, Spark's calendar continues.
    cycles, rest = _floor_divide(seconds, _CYCLE_SECONDS)
    texts = []
    for cycle, text in zip(cycles.to_pylist(), _clock_texts(rest).to_pylist(), strict=True):
        year = int(text[:4]) + cycle * _CYCLE_YEARS
        texts.append(f"{'-' * (year < 0)}{abs(year):04d}{text[4:]}")
    return pa.array(texts, TEXT)


def _utc_offsets(seconds: pa.Array, zone: tzinfo) -> tuple[pa.Array, pa.Array]:
    """Return the offsets east of UTC at the given instants, in seconds and as `+01:00`."""
    encoded = seconds.dictionary_encode()
    offsets, names = [], []
    for instant in encoded.dictionary.to_pylist():
        shown = min(max(instant, _FIRST_SECOND), _LAST_SECOND)
        local = (_EPOCH + timedelta(seconds=shown)).astimezone(zone)
        offsets.append(int((local.utcoffset() or timedelta()).total_seconds()))
        names.append(local.isoformat()[len("1970-01-01T00:00:00") :])
    indices = encoded.indices
    return pa.array(offsets, pa.int64()).take(indices), pa.array(names, TEXT).take(indices)


def _append_fraction(
    text: pa.Array, fraction: pa.Array, per_second: int, uniform: bool
) -> pa.Array:
    values = fraction.to_pylist()
    if not any(values):
        return text
    width = len(str(per_second)) - 1
    digits = [_digits(value, per_second) for value in values]
    if uniform:
        digits = [max(digits)] * len(digits)
    return concatenate(
        text, pa.array([_fraction(v, width, d) for v, d in zip(values, digits, strict=True)], TEXT)
    )


def _digits(fraction: int, per_second: int) -> int:
    """Return the number of digits that a fraction needs: 0, 3, 6 or 9."""
    digits = 0
    while fraction % per_second:
        fraction *= 1_000
        digits += 3
    return digits


def _fraction(fraction: int, width: int, digits: int) -> str:
    """Return the first `digits` digits of a fraction with `width` digits."""
    return f".{fraction:0{width}d}"[: digits + 1] if digits else ""
