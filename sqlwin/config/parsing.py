"""Parsing of setting values, with errors that show valid values."""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Sequence
from difflib import get_close_matches
from fractions import Fraction

from runtime.errors import AnalysisError, nearest
from runtime.windows.intervals import US_OF_UNIT

# Flink's unit labels. A number without a label means milliseconds.
_LABELS = {
    "NANOSECOND": "ns nano nanos nanosecond nanoseconds",
    "MICROSECOND": "us µs micro micros microsecond microseconds",
    "MILLISECOND": "ms milli millis millisecond milliseconds",
    "SECOND": "s sec secs second seconds",
    "MINUTE": "m min mins minute minutes",
    "HOUR": "h hour hours",
    "DAY": "d day days",
}
_DURATION_UNITS = {"": US_OF_UNIT["MILLISECOND"]} | {
    label: US_OF_UNIT[unit] for unit, labels in _LABELS.items() for label in labels.split()
}

_MEMORY_UNITS = {
    **dict.fromkeys(("", "b", "byte", "bytes"), 1),
    **dict.fromkeys(("k", "kb", "kib", "kibibytes"), 2**10),
    **dict.fromkeys(("m", "mb", "mib", "mebibytes"), 2**20),
    **dict.fromkeys(("g", "gb", "gib", "gibibytes"), 2**30),
    **dict.fromkeys(("t", "tb", "tib", "tebibytes"), 2**40),
}

# Spark accepts offsets from -18:00 to +18:00
_MAX_OFFSET_HOURS = 18
_OFFSET = re.compile(r"(GMT|UTC|UT)?[+-](?P<hours>[0-9]{1,2})(:(?P<minutes>[0-9]{2}))?")


def parse_duration(key: str, text: str) -> int:
    """Parse `10 s`, `1 min` or `500 ms` to microseconds. A plain number means milliseconds.

    Raises:
        AnalysisError: The text is not a duration, is negative, or is finer than a microsecond.
    """
    number, unit = _split_unit(text)
    factor = _DURATION_UNITS.get(unit)
    if number is None or factor is None:
        raise _wrong(key, text, "a duration such as 10 s, 1 min or 500 ms")
    us = number * factor
    if us.denominator != 1:
        raise _wrong(key, text, "a whole number of microseconds")
    return int(us)


def parse_pattern(key: str, text: str) -> str:
    """Check a regular expression and return its text.

    Raises:
        AnalysisError: The expression is not valid.
    """
    text = text.strip()
    try:
        re.compile(text)
    except re.error as error:
        raise _wrong(key, text, f"a regular expression ({error})") from error
    return text


def parse_memory(key: str, text: str) -> int:
    """Parse `64 mb` or `1g` to bytes. A plain number means bytes.

    Raises:
        AnalysisError: The text is not a size.
    """
    number, unit = _split_unit(text)
    factor = _MEMORY_UNITS.get(unit)
    if number is None or factor is None or number.denominator != 1:
        raise _wrong(key, text, "a memory size such as 64 mb or 1 gb")
    return int(number) * factor


def parse_boolean(key: str, text: str) -> bool:
    """Parse `true` or `false`, ignoring case.

    Raises:
        AnalysisError: The text is neither.
    """
    lower_text = text.strip().lower()
    if lower_text not in ("true", "false"):
        raise _wrong(key, text, "true or false")
    return lower_text == "true"


def parse_int(key: str, text: str, least: int = 0) -> int:
    """Parse an integer of at least `least`.

    Raises:
        AnalysisError: The text is not an integer or is too small.
    """
    digits = text.strip()
    number = int(digits) if digits.isascii() and digits.isdigit() else None
    if number is None or number < least:
        raise _wrong(key, text, f"a whole number, {least} or more")
    return number


def parse_choice(key: str, text: str, choices: tuple[str, ...]) -> str:
    """Return the matching element of `choices`, ignoring case.

    Raises:
        AnalysisError: No choice matches.
    """
    for choice in choices:
        if choice.lower() == text.strip().lower():
            return choice
    close = nearest(text.strip(), choices)
    allowed = ", ".join(choices)
    raise _wrong(key, text, f"one of {allowed}" + (f"; did you mean {close}?" if close else ""))


def parse_list(text: str) -> tuple[str, ...]:
    """Split a comma-separated list, dropping empty parts."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_rules(key: str, text: str, rules: Sequence[str]) -> tuple[str, ...]:
    """Parse a comma-separated list of rules of the planner, ignoring case.

    Raises:
        AnalysisError: A rule does not exist. The hint names similar rules, or all.
    """
    by_name = {rule.lower(): rule for rule in rules}
    names = parse_list(text)
    for name in names:
        if name.lower() not in by_name:
            similar = get_close_matches(name.lower(), by_name, n=3, cutoff=0.5)
            raise AnalysisError(
                f"unknown rule '{name}' in setting '{key}'",
                subjects=(f"'{text}'", f"'{key}'"),
                hint=f"did you mean {' or '.join(similar)}?"
                if similar
                else f"available rules: {', '.join(rules)}",
            )
    return tuple(by_name[name.lower()] for name in names)


def parse_time_zone(key: str, text: str) -> str:
    """Check a time zone known to Java and Python: a region, UTC, or an offset such as `+08:00`.

    Raises:
        AnalysisError: The zone does not exist.
    """
    name = text.strip()
    if _is_offset(name):
        return name
    regions = zoneinfo.available_timezones()
    # If Python has no zone data on this machine, Spark checks the name.
    if name in regions or (name and not regions):
        return name
    if close := nearest(name, regions):
        raise _wrong(key, text, f"did you mean {close}?", is_question=True)
    raise _wrong(key, text, "a time zone such as Europe/Berlin, UTC or +08:00")


def _is_offset(name: str) -> bool:
    """Return whether a name is an offset: `+08:00`, `GMT-08:00`, `UTC+8`."""
    match = _OFFSET.fullmatch(name)
    if match is None:
        return False
    hours, minutes = int(match["hours"]), int(match["minutes"] or 0)
    return minutes < 60 and hours * 60 + minutes <= _MAX_OFFSET_HOURS * 60


def _split_unit(text: str) -> tuple[Fraction | None, str]:
    match = re.fullmatch(r"([0-9]+)\s*(.*)", text.strip(), re.DOTALL)
    return (None, "") if match is None else (Fraction(int(match[1])), match[2].lower())


def _wrong(key: str, text: str, right: str, is_question: bool = False) -> AnalysisError:
    hint = right if is_question else f"it must be {right}"
    return AnalysisError(
        f"invalid value '{text}' for setting '{key}'",
        subjects=(f"'{text}'", f"'{key}'"),
        hint=hint,
    )
