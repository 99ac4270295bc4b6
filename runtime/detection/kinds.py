"""Classify the values of a text column: numbers, times, booleans, and words for NULL."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from unicodedata import category

from runtime.detection.doubtful_times import doubtful_times, month_note
from runtime.detection.epochs import epoch_format
from runtime.detection.times import ISO, month_pattern, orders, time_format

# Words that stand for NULL if all other values of the column have one type
NULL_WORDS = frozenset(
    "- -- --- ? . # * n/a N/A #N/A n.a. N.A. NA na #NA k.A. null NULL Null (null) none None NONE "
    "nil \\N missing undefined unknown nan NAN #NV #VALUE! #DIV/0! #NULL!".split()
)
_TRUTH = frozenset({"true", "false"})
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_POINT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?(?:\d+,\d*|,\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# Grouped digits such as 1,234 and 1,234,567.8
_GROUPS = {
    ",": re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(\.\d*)?", re.ASCII),
    ".": re.compile(r"[+-]?\d{1,3}(?:\.\d{3})+(,\d*)?", re.ASCII),
    " ": re.compile(r"[+-]?\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?:[.,]\d*)?", re.ASCII),
    "'": re.compile(r"[+-]?\d{1,3}(?:'\d{3})+(?:[.,]\d*)?", re.ASCII),
}
# Units of measurement, in lower case
UNITS = frozenset(
    "% ‰ °c °f k c f m mm cm km m/s km/h mph kn hpa pa bar mbar kwh wh kw w mw v mv volts a ma hz "
    "s ms us ns sec min h d g kg t l ml m² m³ m2 m3 w/m² w/m2 w/m^2 ppm ppb ug/m3 µg/m³ deg degc "
    "kb mb gb tb mib gib".split()
)
_CURRENCIES = frozenset("eur usd gbp chf jpy cny inr kr zł us$ a$ c$".split())
_DOUBLE_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})
# Minimum share of typed values for a note that lists the misfits
_NEARLY = 0.8
_MAX_SHOWN, _MAX_SYMBOLS = 10, 3
# Maximum characters of a value in a message
SHOWN_CHARACTERS = 60
_WITH_AFFIXES = re.compile(
    r"[+-]?\s*(?P<before>[^\s\d.,'+-]{0,5})\s*[+-]?[\d.,' \u00a0\u202f]*\d[.,]?\s*"
    r"(?P<behind>[^\s\d.,'+-][^\s\d.,']{0,4})?"
)


@dataclass(frozen=True)
class ValueKind:
    """Type and notation of a column's values.

    Attributes:
        type: Spark type.
        format: Time pattern. Empty for ISO 8601 and for other types.
        null_words: Words in the column that stand for NULL.
        note: Reason why the column stays text although its values look like another type.
        decimal: Decimal separator, if any value shows it.
        group: Thousands separator, if any value shows it.
        misfits: The only values that keep the column from being `would_be`.
        would_be: Spark type of the other values. Empty without misfits.
        times: Notation of the other values if they are times.
        symbols: Texts around numbers that keep the column from being numeric.
    """

    type: str
    format: str = ""
    null_words: frozenset[str] = frozenset()
    note: str = ""
    decimal: str = ""
    group: str = ""
    misfits: tuple[str, ...] = ()
    would_be: str = ""
    times: str = ""
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True)
class Habits:
    """Notation of numbers and dates throughout a file.

    Attributes:
        decimal: Decimal separator.
        is_certain: Whether a value shows the decimal separator unambiguously.
        day_first: Whether the day precedes the month. None if no value shows it.
    """

    decimal: str = "."
    is_certain: bool = False
    day_first: bool | None = None


def habits_of(columns: Sequence[Sequence[str]]) -> Habits:
    """Return the notation used by the columns of a file. Values must not be empty."""
    marks: dict[str, int] = {}
    date_orders: set[str] = set()
    for values in columns:
        bare = [value.strip() for value in values if value not in NULL_WORDS]
        if not all(map(is_number, bare)):
            date_orders |= orders(bare)
            continue  # only purely numeric columns count
        for mark in set(filter(None, map(_certain_decimal, bare))):
            marks[mark] = marks.get(mark, 0) + 1
    day_first = None if len(date_orders) != 1 else date_orders == {"dmy"}
    if not marks:
        return Habits(day_first=day_first)
    decimal = max(marks, key=lambda mark: marks[mark])
    return Habits(decimal, is_certain=len(marks) == 1, day_first=day_first)


def value_kind(
    name: str,
    values: Sequence[str],
    habits: Habits,
    null_words: Collection[str] = NULL_WORDS,
    last: str = "",
) -> ValueKind:
    """Return type and notation of a column.

    Args:
        name: Column name, which tells whether integers may be times.
        values: Non-empty values of the sample.
        habits: Notation of the file.
        null_words: Words that may stand for NULL.
        last: Value in the last line of a file, which may be a total. Empty if the line is unknown.
    """
    words = frozenset(values).intersection(null_words)
    bare = [value.strip() for value in values if value not in words]
    if not bare:
        return ValueKind("string")
    kind = _common_kind(name, bare, habits)
    if kind is None:
        return _nearly(name, bare, habits, last.strip())
    return kind if kind.type == "string" else replace(kind, null_words=words)


def without_symbols(text: str, symbols: Sequence[str]) -> str:
    """Remove symbols such as `€` and `%` around a number.

    Example:
        >>> without_symbols("-€ 1.50", ["€", "%"]), without_symbols("12 %", ["€", "%"])
        ('-1.50', '12')
    """
    any_symbol = "|".join(re.escape(symbol) for symbol in sorted(symbols, key=len, reverse=True))
    text = re.sub(rf"^\s*([+-]?)\s*(?:{any_symbol})\s*", r"\1", text)
    return re.sub(rf"\s*(?:{any_symbol})\s*$", "", text)


def is_typed(text: str) -> bool:
    """Return whether a text alone is recognizable as a number, a time, a boolean or NULL."""
    return (
        not text
        or text in NULL_WORDS
        or is_number(text)
        or text.lower() in _TRUTH
        or time_format([text]) is not None
    )


def _common_kind(name: str, values: Sequence[str], habits: Habits) -> ValueKind | None:
    if all(value.lower() in _TRUTH for value in values):
        return ValueKind("boolean")
    times = time_format(values, habits.day_first)
    if times is not None and times.ambiguous is None:
        return ValueKind(times.type, "" if times.pattern == ISO else times.pattern)
    if times is not None:
        return ValueKind(
            "string",
            note=f"`{name}` is STRING, because its times may be {times.pattern} or "
            f"{times.ambiguous}; set 'fields.{name}.format' = '{times.pattern}' or "
            f"'{times.ambiguous}'",
        )
    if (month := month_pattern(values)) is not None:
        return ValueKind("string", note=month_note(name, month))
    return _number(name, values, habits)


def _number(name: str, values: Sequence[str], habits: Habits) -> ValueKind | None:
    if all(_WHOLE.fullmatch(value) for value in values):
        if any(_has_leading_zero(value) for value in values):
            return ValueKind("string")  # a code such as a postcode
        epoch = epoch_format(name, [int(value) for value in values])
        return ValueKind("timestamp", epoch) if epoch else ValueKind("bigint")
    if not all(map(is_number, values)):
        return None
    groups = {mark for value in values for mark in _groups_in(value)}
    decimals = {mark for value in values if (mark := _certain_decimal(value))}
    if len(decimals) > 1:
        return None
    decimal = decimals.pop() if decimals else habits.decimal if habits.is_certain else ""
    if not decimal and groups and groups <= {" ", "'"}:
        decimal = "."
    if not decimal and all(_POINT.fullmatch(v) or v in _DOUBLE_WORDS for v in values):
        return ValueKind("double")
    if not decimal:
        unclear = values_text([v for v in values if not _WHOLE.fullmatch(v)])
        return ValueKind(
            "string",
            note=f"`{name}` is STRING, because the separator in {unclear} may be for "
            "thousands or decimals; set 'csv.decimal-separator'",
        )
    pattern = _POINT if decimal == "." else _COMMA
    groups = {mark for mark in groups if mark != decimal}
    is_whole = True
    for value in values:
        plain = value
        for mark in groups:
            plain = "".join(plain.split()) if mark == " " else plain.replace(mark, "")
        if value in _DOUBLE_WORDS:
            is_whole = False
        elif not _WHOLE.fullmatch(plain):
            is_whole = False
            if not pattern.fullmatch(plain):
                return None
    if len(groups) > 1:
        return None
    group = groups.pop() if groups else ""
    return ValueKind("bigint" if is_whole else "double", decimal=decimal, group=group)


def is_number(text: str) -> bool:
    """Return whether a text is a number in some notation."""
    return bool(
        (text.isascii() and text.isdigit())
        or text in _DOUBLE_WORDS
        or _POINT.fullmatch(text)
        or _COMMA.fullmatch(text)
        or any(pattern.fullmatch(text) for pattern in _GROUPS.values())
    )


def _groups_in(text: str) -> list[str]:
    return [mark for mark, pattern in _GROUPS.items() if pattern.fullmatch(text)]


def _certain_decimal(text: str) -> str:
    """Return the decimal separator of a number if it is unambiguous."""
    if text.isascii() and text.isdigit():
        return ""
    if _POINT.fullmatch(text) and "." in text and not _GROUPS["."].fullmatch(text):
        return "."
    if _COMMA.fullmatch(text) and not _GROUPS[","].fullmatch(text):
        return ","
    for mark, other in ((",", "."), (".", ",")):
        match = _GROUPS[mark].fullmatch(text)
        if match is not None and (match[1] or text.count(mark) > 1):
            return other
    if any(_GROUPS[mark].fullmatch(text) for mark in " '"):
        return "," if "," in text else "." if "." in text else ""
    return ""


def _has_leading_zero(text: str) -> bool:
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0"


def values_text(values: Sequence[str]) -> str:
    """Format distinct values as a list: the first ones, and how many follow."""
    distinct = list(dict.fromkeys(values))
    more = len(distinct) - _MAX_SHOWN
    shown = ", ".join(
        repr(value) if len(value) <= SHOWN_CHARACTERS else f"{value[:SHOWN_CHARACTERS]!r}…"
        for value in distinct[:_MAX_SHOWN]
    )
    return shown if more <= 0 else f"{shown} and {more} more"


def _nearly(name: str, values: Sequence[str], habits: Habits, last: str) -> ValueKind:
    """Return a text column's kind, with the values that keep it from being numbers or times."""
    times = doubtful_times(name, values, habits.day_first)
    if times is not None:
        return ValueKind(
            "string",
            note=times.note,
            misfits=times.misfits,
            would_be=times.type,
            times=times.shown,
        )
    others = [value for value in values if not (is_number(value) or time_format([value]))]
    affixes = {affix for value in others for affix in affixes_of(value)}
    if affixes and len(affixes) <= _MAX_SYMBOLS:
        symbols = sorted(affixes)
        kind = _common_kind(name, [without_symbols(value, symbols) for value in values], habits)
        if kind is not None and kind.type in ("bigint", "double"):
            return ValueKind("string", symbols=tuple(symbols), would_be=kind.type)
    is_total = others == [last] and len(values) > 1
    if not others or (len(others) > (1 - _NEARLY) * len(values) and not is_total):
        return ValueKind("string")
    rest = [value for value in values if value not in others]
    kind = _common_kind(name, rest, habits)
    if kind is None or kind.type == "string":
        return ValueKind("string")
    return ValueKind("string", misfits=tuple(dict.fromkeys(others)), would_be=kind.type)


def affixes_of(text: str) -> list[str]:
    """Return the texts around a number; empty if the text is not a number with such texts."""
    match = _WITH_AFFIXES.fullmatch(text)
    if match is None:
        return []
    before, behind = match.group("before", "behind")
    # A17 and 17a are names, and HTTP/1.1 is not a number
    fits = not before or _is_symbol(before) or before.lower() in _CURRENCIES
    if behind and not _is_symbol(behind):
        is_apart = text[: -len(behind)][-1:].isspace()
        is_unit = behind.lower() in UNITS or behind.lower() in _CURRENCIES
        fits = fits and is_unit and (is_apart or len(behind) > 1)
    return [affix for affix in (before, behind) if affix] if fits else []


def _is_symbol(text: str) -> bool:
    return any(c in "%‰°" or category(c) == "Sc" for c in text)
