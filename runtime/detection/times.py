"""Find the Spark pattern that reads all dates or times of a text column.

Spark reads ISO 8601 without a pattern: `2025-12-31`, `2025-12-31 23:59:59.123`,
`2025-12-31T23:59:59Z`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import chain

# Stands for a pattern where Spark needs none
ISO = "ISO-8601"

_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_DATE = re.compile(
    r"(?P<a>\d{1,4})(?P<sep>[-/. ])(?P<b>\d{1,2}|[A-Za-z]{3})(?P=sep)(?P<c>\d{4}|\d{1,2})"
)
_TIME = re.compile(
    r"(?P<h>\d{1,2}):(?P<m>\d\d)(?P<s>:\d\d)?(?P<f>[.,]\d{1,9})?(?P<half> ?[AaPp][Mm])?"
)
_ZONE = re.compile(r"(?P<space> ?)(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)")
_BETWEEN = re.compile(r"[T:]|,? +")


@dataclass(frozen=True)
class _TimeShape:
    """Notation of a single value, without its numbers.

    Attributes:
        order: Order of the numbers of the date: `ymd`, `dmy`, `mdy`, or `?` if it can be either of
            the last two.
        separator: Text between the numbers of the date.
        has_month_name: Whether the month is a word.
        year_digits: 2 or 4.
        between: Text between date and time. Empty without a time.
        seconds: Whether the time has seconds.
        fraction: Character before a fraction of a second. Empty without a fraction.
        half: Text before AM or PM. None if hours count from 0 to 23.
        zone: Zone pattern including a leading space. Empty without a zone.
    """

    order: str
    separator: str
    has_month_name: bool
    year_digits: int
    between: str = ""
    seconds: bool = False
    fraction: str = ""
    half: str | None = None
    zone: str = ""


@dataclass(frozen=True)
class TimeFormat:
    """Notation of a column's values.

    Attributes:
        type: `date`, `timestamp_ntz`, or `timestamp` if the values include a zone.
        pattern: Spark pattern, or `ISO`.
        ambiguous: The other pattern if both day/month and month/day read every value.
    """

    type: str
    pattern: str
    ambiguous: str | None = None


def time_format(values: Iterable[str], day_first: bool | None = None) -> TimeFormat | None:
    """Return the common notation of values that are all dates or all times, or None.

    Args:
        values: At least one value, none empty.
        day_first: Whether the day precedes the month, if other columns show it.

    Example:
        >>> time_format(["31.12.2025 23:59", "1.1.2026 00:00"]).pattern
        'd.M.yyyy H:mm'
        >>> time_format(["01/02/2025"])
        TimeFormat(type='date', pattern='d/M/yyyy', ambiguous='M/d/yyyy')
    """
    shapes: dict[_TimeShape, None] = {}
    for value in values:
        shape = _shape(value.strip())
        if shape is None:
            return None
        shapes[shape] = None
    return _combine(list(shapes), day_first)


def orders(values: Iterable[str]) -> set[str]:
    """Return the orders of day and month, `dmy` or `mdy`, that values show unambiguously.

    The values count as dates if the first one is a date.
    """
    values = iter(values)
    first = next(values, "")
    if _shape(first.strip()) is None:
        return set()
    values = chain([first], values)
    certain = {shape.order for value in values if (shape := _shape(value.strip())) is not None}
    return certain & {"dmy", "mdy"}


@lru_cache(maxsize=1 << 16)
def _shape(text: str) -> _TimeShape | None:
    if not text[:1].isdigit():
        return None
    match = _DATE.match(text)
    if match is None:
        return None
    order = _order(match)
    if order is None:
        return None
    year = match["a"] if order == "ymd" else match["c"]
    head = (order, match["sep"], match["b"][0].isalpha(), 4 if len(year) == 4 else 2)
    rest = text[match.end() :]
    if not rest:
        return _TimeShape(*head)
    between = _BETWEEN.match(rest)
    if between is None:
        return None
    time = _TIME.match(rest, between.end())
    if time is None or not _is_time(time):
        return None
    zone = ""
    if time.end() < len(rest):
        tail = _ZONE.fullmatch(rest, time.end())
        if tail is None:
            return None
        zone = tail["space"] + _zone_pattern(tail["zone"])
    half = None if time["half"] is None else time["half"][:-2]
    return _TimeShape(
        *head,
        between=between[0],
        seconds=time["s"] is not None,
        fraction=(time["f"] or "")[:1],
        half=half,
        zone=zone,
    )


def _order(match: re.Match[str]) -> str | None:
    """Return the order of year, month and day, or None if the numbers are not a date."""
    a, b, c = match["a"], match["b"], match["c"]
    if b[0].isalpha():
        if b.title() not in _MONTHS or len(a) > 2:
            return None
        return "dmy" if _is_date(c, str(_MONTHS.index(b.title()) + 1), a) else None
    if len(a) == 4:
        return "ymd" if len(c) < 4 and _is_date(a, b, c) else None
    if len(a) > 2:
        return None
    is_dmy, is_mdy = _is_date(c, b, a), _is_date(c, a, b)
    if match["sep"] == ".":
        # every country that writes dates with dots puts the day first; 1.2.25 is a version
        is_mdy = False
        is_dmy = is_dmy and (len(c) == 4 or len(a) == len(b) == 2)
    if is_dmy and is_mdy:
        return "?"
    return "dmy" if is_dmy else "mdy" if is_mdy else None


def _is_date(year: str, month: str, day: str) -> bool:
    try:
        date(int(year) + (2000 if len(year) < 3 else 0), int(month), int(day))
    except ValueError:
        return False
    return True


def _is_time(time: re.Match[str]) -> bool:
    hour, minute, second = int(time["h"]), int(time["m"]), int((time["s"] or ":0")[1:])
    in_day = 1 <= hour <= 12 if time["half"] else hour <= 23
    return in_day and minute <= 59 and second <= 59 and not (time["f"] and not time["s"])


def _zone_pattern(zone: str) -> str:
    if zone in ("UTC", "GMT"):
        return "VV"
    return "XXX" if ":" in zone or zone == "Z" else "XX" if len(zone) == 5 else "X"


def _combine(shapes: Sequence[_TimeShape], day_first: bool | None) -> TimeFormat | None:
    """Return the pattern that reads values of all the shapes."""
    first = shapes[0]
    heads = {(s.separator, s.has_month_name, s.year_digits, s.half) for s in shapes if s.between}
    heads |= {(s.separator, s.has_month_name, s.year_digits, None) for s in shapes if not s.between}
    if len(heads) != 1 or len({s.between for s in shapes}) != 1:
        return None
    order = _common_order({s.order for s in shapes}, day_first)
    zones = {s.zone for s in shapes}
    if order is None or ("" in zones and len(zones) > 1):
        return None
    type_ = "timestamp" if first.zone else "timestamp_ntz" if first.between else "date"
    if _is_iso(shapes, order):
        return TimeFormat(type_, ISO)
    zone = _common_zone(zones)
    if zone is None:
        return None
    rest = _rest(shapes) + zone
    other = _date_pattern(first, "mdy") + rest if order == "?" else None
    return TimeFormat(type_, _date_pattern(first, "dmy" if order == "?" else order) + rest, other)


def _common_order(orders: set[str], day_first: bool | None) -> str | None:
    certain = orders - {"?"}
    if len(certain) > 1:
        return None
    if certain:
        order = certain.pop()
        return None if order == "ymd" and "?" in orders else order
    return "?" if day_first is None else "dmy" if day_first else "mdy"


def _is_iso(shapes: Sequence[_TimeShape], order: str) -> bool:
    return order == "ymd" and all(
        s.separator == "-"
        and s.between in ("", "T", " ")
        and s.half is None
        and s.fraction in ("", ".")
        and s.zone in ("", "XXX")
        for s in shapes
    )


def _common_zone(zones: set[str]) -> str | None:
    bare = {zone.strip() for zone in zones}
    if len({zone[:1] == " " for zone in zones}) > 1:
        return None
    space = " " if next(iter(zones))[:1] == " " else ""
    if bare == {"XXX", "XX"} or bare == {"XXX", "X"} or bare == {"XX", "X"}:
        return f"{space}[XXX][XX][X]"
    return space + bare.pop() if len(bare) == 1 else None


def _date_pattern(shape: _TimeShape, order: str) -> str:
    month = "MMM" if shape.has_month_name else "M"
    letters = {"d": "d", "m": month, "y": "yyyy" if shape.year_digits == 4 else "yy"}
    return shape.separator.join(letters[letter] for letter in order)


def _rest(shapes: Sequence[_TimeShape]) -> str:
    """Return the part of the pattern that follows the date."""
    first = shapes[0]
    if not first.between:
        return ""
    between = "'T'" if first.between == "T" else first.between
    hour, half = ("H", "") if first.half is None else ("h", f"{first.half}a")
    with_seconds = [s.seconds for s in shapes]
    seconds = ":ss" if all(with_seconds) else "[:ss]" if any(with_seconds) else ""
    fractions = {s.fraction for s in shapes}
    marks = sorted(fractions - {""})
    fraction = "".join(f"[{mark}SSSSSSSSS]" for mark in marks)
    if len(marks) == 1 and "" not in fractions:
        fraction = f"{marks[0]}SSSSSSSSS"
    return f"{between}{hour}:mm{seconds}{fraction}{half}"
