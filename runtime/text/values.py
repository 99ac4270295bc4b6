"""Values of text columns: numbers with separators, times with patterns, words for NULL.

Mirrors `runtime.connectors.filesystem.text`, which describes the same conversions to Spark.
"""

from __future__ import annotations

import re
from decimal import Decimal
from functools import lru_cache, reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.parse_text import days_of, nulls_unless, parse_text
from runtime.compute.kernels.conversions import Int64Array, int64_array, int64_values
from runtime.compute.wall_clock import instants_us
from runtime.options.formats import TIME_UNITS
from runtime.spec.text import Notation, TextColumn
from runtime.text.patterns import pattern_regex

_SPACE = " "
_SECOND_LENGTH = len("2025-01-31 10:00:00")
_DAY_US = 86_400_000_000
# Java's white space in regular expressions
_BLANK = r"[ \t\n\x0B\f\r]"
_GROUP_SPACES = (" ", "\u00a0", "\u202f")
# Days within which microseconds are certain to fit into 64 bits
_MAX_DAYS = 106_000_000


def convert(
    texts: pa.Array, column: TextColumn, notation: Notation
) -> tuple[pa.Array, pa.BooleanArray]:
    """Return the values of a column, and which texts do not fit its type.

    Texts that do not fit are NULL in the values.

    Args:
        texts: Fields; NULL for missing ones.
        column: Column.
        notation: How values are written.

    Raises:
        ExecutionError: A time has a zone that only Java knows.
    """
    if notation.nulls:
        is_word = pc.is_in(texts, pa.array(notation.nulls, pa.string()))
        texts = nulls_unless(texts, pc.invert(is_word))
    if column.type == "string":
        return texts, pa.array(np.zeros(len(texts), np.bool_))
    values = _values(texts, column, notation)
    is_blank = pc.fill_null(pc.equal(pc.utf8_trim(texts, _SPACE), ""), True)
    return values, pc.and_(pc.is_null(values), pc.invert(is_blank))


def _values(texts: pa.Array, column: TextColumn, notation: Notation) -> pa.Array:
    match column.type:
        case "boolean":
            # no other letter than A to Z has these in lower case
            words = pc.ascii_lower(pc.utf8_trim(texts, _SPACE))
            is_true = pc.equal(words, "true")
            return nulls_unless(is_true, pc.or_(is_true, pc.equal(words, "false")))
        case "date" | "timestamp" | "timestamp_ntz":
            return _times(pc.utf8_trim(texts, _SPACE), column, notation.zone)
    if notation.symbols:
        texts = _without_symbols(texts, notation.symbols)
    if notation.thousands:
        texts = _without_groups(texts, notation.thousands, notation.decimal)
    if notation.decimal != ".":
        texts = pc.replace_substring(texts, ".", "\0")
        texts = pc.replace_substring(texts, notation.decimal, ".")
    return parse_text(texts, column.type, notation.zone)


def _without_symbols(texts: pa.Array, symbols: tuple[str, ...]) -> pa.Array:
    any_symbol = "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))
    before = rf"\A{_BLANK}*([+-]?){_BLANK}*(?:{any_symbol}){_BLANK}*"
    texts = pc.replace_substring_regex(texts, before, r"\1")
    return pc.replace_substring_regex(texts, rf"{_BLANK}*(?:{any_symbol}){_BLANK}*\z", "")


def _without_groups(texts: pa.Array, group: str, decimal: str) -> pa.Array:
    marks = _GROUP_SPACES if group == " " else (group,)
    between = "[" + "".join(re.escape(mark) for mark in marks) + "]"
    groups = (
        rf"\A{_BLANK}*[+-]?[0-9]{{1,3}}(?:{between}[0-9]{{3}})+"
        rf"(?:{re.escape(decimal)}[0-9]*)?{_BLANK}*\z"
    )
    has_mark = pc.match_substring_regex(pc.utf8_trim(texts, _SPACE), between)
    fits = pc.or_(pc.invert(has_mark), pc.match_substring_regex(texts, groups))
    plain = reduce(lambda text, mark: pc.replace_substring(text, mark, ""), marks, texts)
    return nulls_unless(plain, fits)


def _times(texts: pa.Array, column: TextColumn, zone: str) -> pa.Array:
    """Return times in trimmed texts; NULL for texts in another notation."""
    if column.pattern in TIME_UNITS:
        return _epoch_times(texts, column, zone)
    if column.pattern:
        return _by_pattern(texts, column, zone)
    if column.type != "date" and (local := _plain_times(texts)) is not None:
        if column.type == "timestamp_ntz":
            return local
        instants = instants_us(int64_values(local), zone)
        return int64_array(instants, local.is_valid().to_numpy(False), pa.timestamp("us", "UTC"))
    # a cast would also accept a year, a month, and a time of today
    is_date = pc.match_substring_regex(texts, r"\A(?:(?s:.{4})-(?s:.{3,})|[+-](?s:.*))\z")
    if column.type == "date":
        # ... and truncate the time of day
        is_date = pc.and_not(is_date, pc.match_substring_regex(texts, "[ T]"))
    elif column.type == "timestamp_ntz":
        # ... or drop the zone
        has_zone = pc.match_substring_regex(texts, r"\A(?s:.{11,49})[A-Za-z+-]")
        is_date = pc.and_not(is_date, has_zone)
    return parse_text(nulls_unless(texts, is_date), column.type, zone)


def _plain_times(texts: pa.Array) -> pa.Array | None:
    """Return times such as 2025-01-31 10:00:00.5, or None if a text has another notation."""
    shortest = pc.min(pc.binary_length(texts)).as_py()
    if shortest is None or shortest < _SECOND_LENGTH:
        return None
    try:
        return pc.cast(texts, pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None


def _epoch_times(texts: pa.Array, column: TextColumn, zone: str) -> pa.Array:
    numbers = parse_text(texts, "decimal(29,9)", zone)
    unit = pa.scalar(Decimal(TIME_UNITS[column.pattern]), pa.decimal128(10, 3))
    # truncated, like a cast to BIGINT
    whole = pc.trunc(pc.multiply(pc.cast(numbers, pa.decimal256(38, 9)), unit))
    limit = pa.scalar(2**63, pa.decimal256(20, 0))
    fits = pc.and_(pc.less(whole, limit), pc.greater_equal(whole, pc.negate(limit)))
    micros = pc.cast(nulls_unless(whole, fits), pa.int64())
    if column.type == "timestamp":
        return pc.cast(micros, pa.timestamp("us", "UTC"))
    times = pc.cast(micros, pa.timestamp("us"))
    return pc.cast(times, pa.date32(), safe=False) if column.type == "date" else times


def _by_pattern(texts: pa.Array, column: TextColumn, zone: str) -> pa.Array:
    parts = pc.extract_regex(texts, _regex(column.pattern))
    names = {field.name for field in parts.type}

    def numbers(name: str) -> Int64Array:
        if name not in names:
            return np.zeros(len(texts), np.int64)
        # Longer numbers are out of every range, unless they only have leading zeros.
        digits = pc.replace_substring_regex(
            pc.fill_null(pc.struct_field(parts, name), "0"), r"\A([+-]?)0*([0-9]{1,18})\z", r"\1\2"
        )
        is_short = pc.less_equal(pc.utf8_length(digits), 18)
        digits = pc.if_else(is_short, digits, "1" + "0" * 17)
        return int64_values(pc.cast(pc.ascii_ltrim(digits, "+"), pa.int64()))

    is_valid = pc.is_valid(parts).to_numpy(zero_copy_only=False)
    years = numbers("year")
    is_valid = is_valid & (np.abs(years) < 999_999_999)
    days, is_valid = days_of(
        np.where(is_valid, years, 0), numbers("month"), numbers("day"), is_valid
    )
    hour, minute, second = (numbers(name) for name in ("hour", "minute", "second"))
    is_valid = is_valid & (hour < 24) & (minute < 60) & (second < 60) & (np.abs(days) < _MAX_DAYS)
    micros = np.zeros(len(texts), np.int64)
    if "fraction" in names:
        fraction = pc.fill_null(pc.struct_field(parts, "fraction"), "")
        padded = pc.utf8_rpad(pc.utf8_slice_codeunits(fraction, 0, 6), 6, "0")
        micros = int64_values(pc.cast(padded, pa.int64()))
    if column.type == "date":
        return int64_array(np.where(is_valid, days, 0), is_valid, pa.date32())
    of_day = ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros
    local = np.where(is_valid, days * _DAY_US + of_day, 0)
    if column.type == "timestamp":
        return int64_array(instants_us(local, zone), is_valid, pa.timestamp("us", "UTC"))
    return int64_array(local, is_valid, pa.timestamp("us"))


@lru_cache(maxsize=64)
def _regex(pattern: str) -> str:
    regex = pattern_regex(pattern)
    assert regex is not None, "the planner checks patterns"
    return regex
