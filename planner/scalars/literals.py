"""Constants of the Arrow scan, from literals and from strings with dates and timestamps."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from itertools import pairwise
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from planner.scalars.decimals import MAX_DECIMAL_DIGITS, decimal_digits
from planner.scalars.types import integer_fits, is_integer
from runtime.spec.expressions import Constant, Value

_INTEGER = re.compile(r"-?\d+")
_DECIMAL = re.compile(r"-?(\d+\.\d*|\.\d+)")
_EXPONENT = re.compile(r"-?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")

_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_TIMESTAMP = re.compile(
    r"(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?(Z|UTC|[+-]\d{2}:\d{2})?)?"
)
_OFFSET = re.compile(r"([+-])(\d{2}):(\d{2})")
_LONGEST_OFFSET = timedelta(hours=18)

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # a wall clock, as TIMESTAMP_NTZ is
_MICROSECOND = timedelta(microseconds=1)

# Instants are compared on the wall clock only if the offset is constant this long around them
_STEADY = timedelta(days=2)
_UTC = frozenset(("UTC", "Z", "GMT", "UT", "Etc/UTC", "Etc/GMT"))

_LARGEST_EXACT_FLOAT = 1 << 24
_SPECIAL_DOUBLES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}

# A time format whose fields have one meaning for every year: letters and separators
_TIME_FORMAT = re.compile(r"(?:yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|'[^']+'|[-/:., _])+")
_TIME_FIELD = re.compile(r"yyyy|MM|dd|HH|mm|ss|SSSSSS|SSS|'[^']+'|.", re.DOTALL)


def number_constant(text: str) -> Constant | None:
    """Return a number literal, including its sign, as a constant.

    The type follows Spark's `AstBuilder`: INT, else BIGINT, else DECIMAL for whole numbers; DECIMAL
    with a point; DOUBLE with an exponent. None if the scan lacks the type.

    Example:
        >>> number_constant("-0.10")
        Constant(value=Decimal('-0.10'), type='decimal(2,2)')
    """
    if _INTEGER.fullmatch(text):
        value = int(text)
        for type_ in ("int", "bigint"):
            if integer_fits(value, type_):
                return Constant(value, type_)
        return _decimal_constant(Decimal(text))
    if _DECIMAL.fullmatch(text):
        return _decimal_constant(Decimal(text))
    if _EXPONENT.fullmatch(text):
        number = float(text)
        # Spark rejects numbers out of range.
        return Constant(number, "double") if math.isfinite(number) else None
    return None


def _decimal_constant(value: Decimal) -> Constant | None:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)  # literals are finite
    scale = -exponent
    precision = max(len(str(int("".join(map(str, digits))))), scale)
    if precision > MAX_DECIMAL_DIGITS:
        return None
    return Constant(value, f"decimal({precision},{scale})")


def cast_number(value: Value, source: str, target: str) -> Value:
    """Return `CAST(value AS target)` of an integer or decimal if it is exact or correctly rounded.

    Otherwise None, for example for an integer that does not fit: Spark raises an error only for
    rows that evaluate the cast.
    """
    digits = decimal_digits(target)
    if isinstance(value, Decimal):
        if target == "double":
            return float(value)
        return value if digits is not None and _fits(value, *digits) else None
    if not isinstance(value, int) or not is_integer(source):
        return None
    if is_integer(target):
        return value if integer_fits(value, target) else None
    if target == "double" or (target == "float" and abs(value) <= _LARGEST_EXACT_FLOAT):
        return float(value)
    return Decimal(value) if digits is not None and _fits(Decimal(value), *digits) else None


def cast_string(text: str, target: str, session_time_zone: str) -> Value:
    """Return `CAST(text AS target)` for decimals, dates, timestamps, NaN and Infinity.

    None for other targets and for spellings that only Spark reads.
    """
    match target:
        case "double":
            return _SPECIAL_DOUBLES.get(text)
        case "date":
            return _days(text)
        case "timestamp_ntz":
            return _microseconds(text, None)
        case "timestamp":
            return _microseconds(text, session_time_zone)
    digits = decimal_digits(target)
    if digits is None or not (_INTEGER.fullmatch(text) or _is_decimal_text(text)):
        return None
    return Decimal(text) if _fits(Decimal(text), *digits) else None


def _is_decimal_text(text: str) -> bool:
    # `1.5e2BD` casts the string '1.5e2'. Only exponents small enough to write out are accepted.
    if _EXPONENT.fullmatch(text):
        return abs(int(re.split("[eE]", text)[1])) <= MAX_DECIMAL_DIGITS
    return _DECIMAL.fullmatch(text) is not None


def _fits(value: Decimal, precision: int, scale: int) -> bool:
    """Return whether `value` is a DECIMAL(precision, scale) without rounding."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    # Trailing zeros need no decimal place.
    integer = int("".join(map(str, digits)))
    while integer and exponent < -scale and integer % 10 == 0:
        integer, exponent = integer // 10, exponent + 1
    if integer == 0:
        return True
    return exponent >= -scale and len(str(integer)) + exponent <= precision - scale


def _days(text: str) -> int | None:
    """Return the days since 1970 of `yyyy-[m]m-[d]d`, or None for other text."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        day = date(*map(int, match.groups()))
    except ValueError:
        return None
    return (day - _EPOCH.date()).days


def _microseconds(text: str, session_time_zone: str | None) -> int | None:
    """Return the microseconds since 1970 of `yyyy-[m]m-[d]d[ [h]h:[m]m:[s]s[.u][zone]]`.

    Without a session time zone the text is a wall-clock time, and a valid zone in it is ignored, as
    in Spark. As in java.time, an ambiguous local time means the earlier instant, and a skipped one
    moves forward by the length of the gap: both use the offset before the transition.

    Returns:
        None for Spark's other formats, and where Python's time zones may differ from Java's.
    """
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    micro = int((match[7] or "0").ljust(6, "0"))
    try:
        local = datetime(year, month, day, hour, minute, second, micro)  # noqa: DTZ001
    except ValueError:
        return None
    wall_clock_us = (local - _EPOCH) // _MICROSECOND
    if session_time_zone is None:
        return None if match[8] and time_zone(match[8]) is None else wall_clock_us
    return _instant_us(local, match[8] or session_time_zone)


def instant_of_wall_clock_us(time_us: int, session_time_zone: str) -> int | None:
    """Return the instant that Spark assigns to a TIMESTAMP without a zone; see `_microseconds`.

    Args:
        time_us: Microseconds since 1970 on the wall clock.
        session_time_zone: Time zone of the wall clock.
    """
    try:
        local = _EPOCH + time_us * _MICROSECOND
    except OverflowError:
        return None
    return _instant_us(local, session_time_zone)


def _instant_us(local: datetime, zone_name: str) -> int | None:
    zone = time_zone(zone_name)
    if zone is None or (isinstance(zone, ZoneInfo) and local < _EPOCH):
        # Time zone data before 1970 differs between distributions.
        return None
    offset = local.replace(tzinfo=zone, fold=0).utcoffset()
    assert offset is not None
    return (local - _EPOCH - offset) // _MICROSECOND


def time_zone(name: str) -> tzinfo | None:
    """Return the zone that Spark means by `name`, or None if Python may read it differently."""
    if name in ("Z", "UTC", "GMT", "Etc/UTC"):
        return UTC
    match = _OFFSET.fullmatch(name)
    if match is not None:
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        if int(match[3]) >= 60 or offset > _LONGEST_OFFSET:
            return None
        return timezone(offset if match[1] == "+" else -offset)
    # Java defines abbreviations of its own, such as IST and EST.
    if "/" not in name:
        return None
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def has_fixed_offset(zone: str) -> bool:
    """Return whether the clocks of a zone never change."""
    return isinstance(time_zone(zone), timezone)


def wall_clock_bound_us(time_us: int, zone: str) -> int | None:
    """Convert an instant to a wall-clock bound that separates the same earlier and later times.

    Args:
        time_us: Microseconds since 1970.
        zone: Time zone of the wall clock.

    Returns:
        Microseconds on the wall clock. None if the clock changes within two days, so that the order
        of wall-clock times may differ, or if the zone is unknown.
    """
    if zone in _UTC:
        return time_us
    try:
        zone_info = ZoneInfo(zone)
        at = _EPOCH.replace(tzinfo=UTC) + time_us * _MICROSECOND
        offsets = {(at + apart).astimezone(zone_info).utcoffset() for apart in (-_STEADY, _STEADY)}
    except (ZoneInfoNotFoundError, ValueError, OverflowError):
        return None
    (offset, *others) = offsets
    return None if others or offset is None else time_us + offset // _MICROSECOND


def time_format_fields(pattern: str) -> tuple[str, ...] | None:
    """Return the fields and separators of a DATE_FORMAT pattern. None if only Spark can tell.

    Example:
        >>> time_format_fields("yyyy-MM'T'HH")
        ('yyyy', '-', 'MM', "'T'", 'HH')
    """
    if not _TIME_FORMAT.fullmatch(pattern):
        return None
    parts: list[str] = _TIME_FIELD.findall(pattern)
    # A repeated letter may be another field, and two quotes are one quote.
    for before, after in pairwise(parts):
        if before[0] == after[0] and (before[0].isalpha() or before[0] == "'"):
            return None
    return tuple(parts)
