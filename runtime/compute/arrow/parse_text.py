"""Spark's TRY_CAST from text to numbers and times: NULL for other text.

Regular expressions describe the forms that Spark accepts, so that most texts are parsed by Arrow.
Rare forms, such as hexadecimal doubles, are parsed one distinct text at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext
from functools import lru_cache
from typing import Any
from zoneinfo import available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.types import INTEGER_TYPES, arrow_type
from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_array, int64_values
from runtime.compute.wall_clock import instants_us
from runtime.errors import ExecutionError

# Characters that Spark trims: spaces and control characters
BLANKS = "".join(map(chr, (*range(33), 127)))
# Characters that Java trims before it parses a floating-point number
_JAVA_BLANKS = "".join(map(chr, range(33)))
_INTEGER = r"\A[+-]?[0-9]+\z"
_SHORT_INTEGER = r"\A[+-]?[0-9]{1,18}\z"
_PLAIN_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_HEX_NUMBER = re.compile(
    r"([+-]?)0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP]([+-]?[0-9]+)[fFdD]?"
)
_SUFFIXED = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fFdD]")
_SPECIAL = {
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "inf"),
    **dict.fromkeys(("-inf", "-infinity"), "-inf"),
    "nan": "nan",
}
# Java's names are case-sensitive and signed; Spark adds the ones above
_JAVA_SPECIAL = {"+NaN": "nan", "-NaN": "nan"}
# Java's decimals accept digits of any script
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_MAX_DIGITS = 38
_LARGEST_EXPONENT = 2**31 - 1
_DATE = (
    r"(?P<year>[+-]?[0-9]{{4,{digits}}})"
    r"(?:-(?P<month>[0-9]{{1,2}})(?:-(?P<day>[0-9]{{1,2}}){rest})?)?"
)
_DATE_TEXT = r"\A" + _DATE.format(digits=7, rest=r"(?:[ T](?s:.)*)?") + r"\z"
_TIME = (
    r"(?:[ T](?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})"
    r"(?:(?P<fraction>\.[0-9]*)(?P<zone>[^0-9](?s:.)*)?|(?P<zone2>[^0-9.](?s:.)*))?)?)?)?"
)
_TIMESTAMP_TEXT = r"\A" + _DATE.format(digits=6, rest=_TIME) + r"\z"
_DAYS_OF_MONTH = np.array([0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_SECOND_US = 1_000_000
_DAY_US = 86_400 * _SECOND_US
# Days on which microseconds fit into 64 bits
_LAST_DAY = (2**63 - 1) // _DAY_US
# Maximum time of the last such day, and minimum time of the first
_LAST_TIME = (2**63 - 1) - _LAST_DAY * _DAY_US
_FIRST_TIME = (_LAST_DAY + 1) * _DAY_US - 2**63
# One-digit hours have no minutes; minutes and seconds both follow colons, or neither does
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<offset>[+-](?:\d|\d\d(?::[0-5]\d(?::[0-5]\d)?|[0-5]\d(?:[0-5]\d)?)?))"
    r"|Z|UTC|GMT|UT",
    re.ASCII,
)
_ONE_DIGIT_HOUR = re.compile(r"([+-])(\d):", re.ASCII)
_ONE_DIGIT_MINUTE = re.compile(r"([+-])(\d\d):(\d)$", re.ASCII)
_LONGEST_OFFSET_S = 18 * 3600
# Abbreviations that Java maps to zones of its own
_JAVA_ZONES = frozenset(
    "ACT AET AGT ART AST BET BST CAT CNT CST CTT EAT ECT EST HST IET IST JST MIT MST NET NST PLT "
    "PNT PRT PST SST VST".split()
)


def parse_text(values: pa.Array, target: str, zone: str) -> pa.Array:
    """Return texts as values of a type; NULL for texts that Spark cannot cast to it.

    Args:
        values: Texts.
        target: Numeric type, `date`, `timestamp` or `timestamp_ntz`.
        zone: Session time zone, for `timestamp`.

    Raises:
        ExecutionError: A time has a zone that only Java knows.
    """
    type_ = arrow_type(target)
    if target in INTEGER_TYPES:
        return _integers(values, type_)
    if pa.types.is_decimal(type_):
        return _decimals(values, type_)
    if target in ("float", "double"):
        return _doubles(values, type_)
    if target == "date":
        return _dates(values)
    return _timestamps(values, zone if target == "timestamp" else None)


def nulls_unless(values: pa.Array, is_valid: Any) -> pa.Array:
    """Return values, NULL where a condition is false or NULL."""
    return pc.if_else(pc.fill_null(is_valid, False), values, pa.scalar(None, values.type))


def _one_by_one(
    values: pa.Array,
    parsed: pa.Array,
    is_rare: Any,
    function: Callable[[str], Any],
) -> pa.Array:
    """Replace the results of rare texts by a function, called once per distinct text."""
    is_rare = pc.fill_null(is_rare, False)
    if not pc.any(is_rare).as_py():
        return parsed
    rare = values.filter(is_rare).dictionary_encode()
    results = pa.array([function(text) for text in rare.dictionary.to_pylist()], parsed.type)
    return pc.replace_with_mask(parsed, is_rare, results.take(rare.indices))


# -- numbers ---------------------------------------------------------------------------------------


def _integers(values: pa.Array, type_: pa.DataType) -> pa.Array:
    trimmed = pc.ascii_trim(values, BLANKS)
    is_short = pc.match_substring_regex(trimmed, _SHORT_INTEGER)
    numbers = pc.cast(pc.ascii_ltrim(nulls_unless(trimmed, is_short), "+"), pa.int64())
    is_long = pc.and_not(pc.match_substring_regex(trimmed, _INTEGER), is_short)
    half = 1 << (type_.bit_width - 1)

    def number(text: str) -> int | None:
        # Python refuses to convert thousands of digits
        digits = text.lstrip("+-").lstrip("0")
        result = int(digits or "0") if len(digits) < 20 else half
        result = -result if text.startswith("-") else result
        return result if -half <= result < half else None

    numbers = _one_by_one(trimmed, numbers, is_long, number)
    fits = pc.and_(pc.greater_equal(numbers, -half), pc.less_equal(numbers, half - 1))
    return pc.cast(nulls_unless(numbers, fits), type_)


def _doubles(values: pa.Array, type_: pa.DataType) -> pa.Array:
    trimmed = pc.ascii_trim(values, _JAVA_BLANKS)
    is_plain = pc.match_substring_regex(trimmed, _PLAIN_NUMBER)
    parsed = pc.cast(pc.ascii_ltrim(nulls_unless(trimmed, is_plain), "+"), type_)

    def number(text: str) -> pa.Scalar | None:
        if (suffixed := _SUFFIXED.fullmatch(text)) is not None:
            return pc.cast(pa.scalar(suffixed[1].removeprefix("+")), type_)
        if (hexadecimal := _HEX_NUMBER.fullmatch(text)) is not None:
            return pa.scalar(_hexadecimal(*hexadecimal.groups()), type_)
        special = _JAVA_SPECIAL.get(text) or _SPECIAL.get(text.lower())
        return None if special is None else pa.scalar(float(special), type_)

    return _one_by_one(trimmed, parsed, pc.invert(is_plain), number)


def _hexadecimal(sign: str, digits: str, exponent: str) -> float:
    try:
        return float.fromhex(f"{sign}0x{digits}p{exponent}")
    except OverflowError:
        return float(f"{sign}inf")


def _decimals(values: pa.Array, type_: pa.DataType) -> pa.Array:
    trimmed = pc.ascii_trim(values, BLANKS)
    n_whole = type_.precision - type_.scale
    fraction = rf"(\.[0-9]{{0,{type_.scale}}})?" if type_.scale else r"\.?"
    is_exact = pc.match_substring_regex(
        trimmed, rf"\A[+-]?[0-9]{{1,{max(n_whole, 1)}}}{fraction}\z"
    )
    if n_whole == 0:
        is_exact = pc.and_(is_exact, False)
    parsed = pc.cast(pc.ascii_ltrim(nulls_unless(trimmed, is_exact), "+"), type_)
    unit = Decimal(1).scaleb(-type_.scale)

    def number(text: str) -> Decimal | None:
        return decimal_of(text, unit, type_.precision)

    return _one_by_one(trimmed, parsed, pc.invert(is_exact), number)


def decimal_of(text: str, unit: Decimal, precision: int) -> Decimal | None:
    """Return a text as a decimal, rounded half up; None if it is not one or does not fit.

    Args:
        text: Text without blanks around it.
        unit: Smallest positive value of the result's type.
        precision: Digits of the type.
    """
    if _DECIMAL.fullmatch(text) is None:
        return None
    exponent = text.lower().partition("e")[2]
    if len(exponent.lstrip("+-").lstrip("0")) > 10 or abs(int(exponent or "0")) > _LARGEST_EXPONENT:
        return None
    with localcontext(prec=len(text) + 2 * _MAX_DIGITS) as context:
        context.Emax, context.Emin = 10**18 - 1, -(10**18) + 1
        value = Decimal(text)
        if value.adjusted() >= _MAX_DIGITS:
            # also a zero with a large exponent
            return None if value else Decimal(0)
        try:
            rounded = value.quantize(unit, ROUND_HALF_UP)
        except InvalidOperation:
            return None
        n_digits = len(rounded.as_tuple().digits)
        return rounded if not rounded or n_digits <= precision else None


# -- times -----------------------------------------------------------------------------------------


def _dates(values: pa.Array) -> pa.Array:
    parts = pc.extract_regex(pc.ascii_trim(values, BLANKS), _DATE_TEXT)
    days, is_valid = _days(parts)
    fits = is_valid & (np.abs(days) < 2**31)
    return int64_array(np.where(fits, days, 0), fits, pa.date32())


def _timestamps(values: pa.Array, zone: str | None) -> pa.Array:
    """Return texts as instants, or without a zone as times on a wall clock."""
    parts = pc.extract_regex(pc.ascii_trim(values, BLANKS), _TIMESTAMP_TEXT)
    days, is_valid = _days(parts)
    fraction = pc.utf8_rpad(
        pc.utf8_slice_codeunits(pc.utf8_ltrim(_texts(parts, "fraction"), "."), 0, 6), 6, "0"
    )
    hour, minute, second = (_numbers(_texts(parts, n)) for n in ("hour", "minute", "second"))
    of_day = ((hour * 60 + minute) * 60 + second) * _SECOND_US + _numbers(fraction)
    is_valid &= (hour < 24) & (minute < 60) & (second < 60)
    if zone is None:
        fits = (np.abs(days) < _LAST_DAY) | ((days == _LAST_DAY) & (of_day <= _LAST_TIME))
        fits |= (days == -_LAST_DAY) | ((days == -_LAST_DAY - 1) & (of_day >= _FIRST_TIME))
    else:
        fits = np.abs(days) < _LAST_DAY - 2
    is_valid &= fits
    # on the first day the product exceeds 64 bits, and the sum is within them again
    local = np.where(is_valid, days, 0) * _DAY_US + of_day
    zones = pc.binary_join_element_wise(_texts(parts, "zone"), _texts(parts, "zone2"), "")
    return _in_zones(local, is_valid, zones, zone)


def _in_zones(
    local: Int64Array, is_valid: BoolArray, zones: pa.Array, session_zone: str | None
) -> pa.Array:
    """Return times on wall clocks as timestamps.

    Args:
        local: Microseconds on the wall clocks.
        is_valid: Whether the times exist.
        zones: Zones in the texts, empty for the session's.
        session_zone: Session time zone. None: the result has no zone, but zones must be valid.
    """
    type_ = pa.timestamp("us", tz=None if session_zone is None else "UTC")
    encoded = pc.fill_null(zones, "").dictionary_encode()
    names = [
        _zone_name(text, is_dropped=session_zone is None) for text in encoded.dictionary.to_pylist()
    ]
    codes = int64_values(pc.cast(encoded.indices, pa.int64()))
    is_valid = is_valid & np.array([name is not None for name in names], np.bool_)[codes]
    if session_zone is not None:
        result = local.copy()
        for code, name in enumerate(names):
            rows = (codes == code) & is_valid
            if name is not None and rows.any():
                result[rows] = instants_us(local[rows], name or session_zone)
        local = result
    return int64_array(np.where(is_valid, local, 0), is_valid, type_)


@lru_cache(maxsize=1024)
def _zone_name(text: str, *, is_dropped: bool) -> str | None:
    """Return the zone that Java means, empty for none. None: it is not a zone.

    Args:
        text: Text after a time.
        is_dropped: Whether it only matters that the zone exists.

    Raises:
        ExecutionError: Only Java knows the zone.
    """
    if not text:
        return ""
    name = text.strip(_JAVA_BLANKS)
    name = _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", name, count=1)
    name = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", name, count=1)
    if (match := _OFFSET.fullmatch(name)) is not None:
        if match["offset"] is None:
            return "UTC"
        sign, digits = match["offset"][0], match["offset"][1:].replace(":", "")
        hours, minutes, seconds = (int(digits[place : place + 2] or 0) for place in (0, 2, 4))
        is_valid = hours * 3600 + minutes * 60 + seconds <= _LONGEST_OFFSET_S
        return f"{sign}{hours:02}:{minutes:02}:{seconds:02}" if is_valid else None
    is_region = name in available_timezones()
    if is_region and ("/" in name or is_dropped):
        return name
    if is_dropped and name in _JAVA_ZONES:
        return name
    if is_region or name in _JAVA_ZONES or name.startswith("SystemV/"):
        raise ExecutionError(
            f"Spark has its own rules for the time zone {name} in a text",
            hint="set 'sqlwin.in-process.max-bytes' = '0' to let Spark run the query",
        )
    return None


def _texts(parts: pa.Array, name: str) -> pa.Array:
    return pc.fill_null(pc.struct_field(parts, name), "")


def _numbers(texts: pa.Array, default: str = "0") -> Int64Array:
    """Return the numbers in texts; the default for empty ones."""
    filled = pc.if_else(pc.equal(texts, ""), default, texts)
    return int64_values(pc.cast(pc.ascii_ltrim(filled, "+"), pa.int64()))


def _days(parts: pa.Array) -> tuple[Int64Array, BoolArray]:
    """Return the days since 1970 of dates, and whether they exist."""
    is_valid: BoolArray = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    years = _numbers(_texts(parts, "year"), "1970")
    return days_of(
        years, _numbers(_texts(parts, "month"), "1"), _numbers(_texts(parts, "day"), "1"), is_valid
    )


def days_of(
    years: Int64Array, months: Int64Array, days: Int64Array, is_valid: BoolArray
) -> tuple[Int64Array, BoolArray]:
    """Return the days since 1970 of dates in the proleptic Gregorian calendar.

    Args:
        years: Years; 0 is the one before year 1.
        months: Months from 1.
        days: Days of the months.
        is_valid: Dates to compute.

    Returns:
        Days, and which of the dates are valid and exist.
    """
    in_year = (months >= 1) & (months <= 12)
    month = np.where(in_year, months, 1)
    is_leap = (years % 4 == 0) & ((years % 100 != 0) | (years % 400 == 0))
    length = _DAYS_OF_MONTH[month] - ((month == 2) & ~is_leap)
    exists = is_valid & in_year & (days >= 1) & (days <= length)
    first = ((years - 1970) * 12 + month - 1).astype("M8[M]").astype("M8[D]").astype(np.int64)
    result: Int64Array = first + days - 1
    return result, exists
