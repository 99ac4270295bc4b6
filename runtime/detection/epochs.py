"""Recognize integers that are times: counts since 1970, and dates written as digits."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

# Column names whose integers may be times, and the ranges of such integers
_TIME_NAME = re.compile(
    r"(?:^|.*[_. -])(?:ts|time|times|timestamp|epoch|date|datetime|at|created|updated|when)"
    r"(?:[_. -]?(?:s|sec|seconds|ms|millis|us|micros|ns|nanos|utc))?"
    r"|.*[_. -](?:ms|millis|us|micros|ns|nanos|epoch)",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_EPOCHS = {
    "epoch-seconds": (10**9, 4 * 10**9),
    "epoch-millis": (10**12, 4 * 10**12),
    "epoch-micros": (10**15, 4 * 10**15),
    "epoch-nanos": (10**18, 4 * 10**18),
}
_PER_SECOND = {
    "epoch-seconds": 1,
    "epoch-millis": 10**3,
    "epoch-micros": 10**6,
    "epoch-nanos": 10**9,
}
_YEAR = re.compile(r"(?<!\d)(?:19|20)\d\d(?!\d)|(?<!\d)(?:19|20)\d\d(?=\d{4}[ T])")
# Dates and times as digits, and names of columns that hold dates
_DATE_DIGITS = r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_CLOCK_DIGITS = r"(?:[01]\d|2[0-3])[0-5]\d"
_DIGITS = {
    "yyyyMMdd": re.compile(_DATE_DIGITS),
    "yyyyMMddHHmm": re.compile(_DATE_DIGITS + _CLOCK_DIGITS),
    "yyyyMMddHHmmss": re.compile(rf"{_DATE_DIGITS}{_CLOCK_DIGITS}[0-5]\d"),
}
_DAY_NAME = re.compile(r"date|day|time|datum|tag|zeit", re.IGNORECASE)


def epoch_format(name: str, values: Sequence[float]) -> str:
    """Return the unit of integers that are times since 1970, judging by column name and range.

    Example:
        >>> epoch_format("created_at", [1735689599])
        'epoch-seconds'
        >>> epoch_format("price", [1735689599])
        ''
    """
    return epoch_unit(values) if _TIME_NAME.fullmatch(_CAMEL.sub("_", name)) else ""


def epoch_unit(values: Sequence[float]) -> str:
    """Return the unit of integers that may be times since 1970, judging by their range."""
    if not values:
        return ""
    return next(
        (unit for unit, (least, most) in _EPOCHS.items() if all(least <= v < most for v in values)),
        "",
    )


def years_of(values: Iterable[str]) -> set[int]:
    """Return the years in the texts of times."""
    return {int(year) for value in values for year in _YEAR.findall(value)}


def whole_times_note(name: str, values: Sequence[int], years: Collection[int]) -> str:
    """Return a note about integers that may be times; empty for others.

    Args:
        name: Column name.
        values: Values, without repetition.
        years: Years of the times in other columns.

    Example:
        >>> whole_times_note("day", [20260301, 20260302], [])
        "`day` is BIGINT; if its values are times, set 'fields.day.format' = 'yyyyMMdd'"
    """
    format_ = next((f for f, regex in _DIGITS.items() if _all_match(regex, values)), "")
    if format_ == "yyyyMMdd" and not _DAY_NAME.search(name):
        format_ = ""
    unit = epoch_unit(values)
    if unit and years:
        seconds = (value / _PER_SECOND[unit] for value in (min(values), max(values)))
        first, last = (datetime.fromtimestamp(s, UTC).year for s in seconds)
        format_ = unit if min(years) <= first and last <= max(years) else format_
    if not format_:
        return ""
    return f"`{name}` is BIGINT; if its values are times, set 'fields.{name}.format' = '{format_}'"


def _all_match(regex: re.Pattern[str], values: Sequence[int]) -> bool:
    return bool(values) and all(regex.fullmatch(str(value)) for value in values)
