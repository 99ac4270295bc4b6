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

_MONTHS = (
    "January February March April May June July August September October November December".split()
)
# A date as numbers with separators, with the month's name first, or as eight digits
_DATE = re.compile(
    r"(?P<a>\d{1,4})(?P<sep>[-/. ])(?P<b>\d{1,2}|[A-Za-z]{3,9})(?P=sep)(?P<c>\d{4}|\d{1,2})"
)
_MONTH_FIRST = re.compile(
    r"(?P<b>[A-Za-z]{3,9})(?P<sep> )(?P<a>\d{1,2})(?P<sep2>,? )(?P<c>\d{4})(?!\d)"
)
_COMPACT_DATE = re.compile(r"(?P<a>\d{4})(?P<sep>)(?P<b>\d\d)(?P<c>\d\d)(?!\d)")
_TIME = re.compile(
    r"(?P<h>\d{1,2})(?P<sep>:)(?P<m>\d\d)(?::(?P<s>\d\d))?(?P<f>[.,]\d{1,9})?"
    r"(?P<half> ?[AaPp][Mm])?"
)
_COMPACT_TIME = re.compile(
    r"(?P<h>\d\d)(?P<sep>)(?P<m>\d\d)(?P<s>\d\d)?(?P<f>[.,]\d{1,9})?(?P<half>(?!))?(?!\d)"
)
_ZONE = re.compile(r"(?P<space> ?)(?P<zone>Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)")
_BETWEEN = re.compile(r"[T:]|,? +")


@dataclass(frozen=True)
class _TimeShape:
    """Notation of a single value, without its numbers.

    Attributes:
        order: Order of the numbers of the date: `ymd`, `dmy`, `mdy`, or `?` if it can be either of
            the last two.
        separators: The two texts between the numbers of the date.
        month: `M`, or `MMM` or `MMMM` if it is a word; `May` if it can be either of the last two.
        year_digits: 2 or 4.
        between: Text between date and time. Empty without a time.
        clock: Text between the numbers of the time.
        seconds: Whether the time has seconds.
        fraction: Character before a fraction of a second. Empty without a fraction.
        half: Text before AM or PM. None if hours count from 0 to 23.
        zone: Zone pattern including a leading space. Empty without a zone.
    """

    order: str
    separators: tuple[str, str]
    month: str
    year_digits: int
    between: str = ""
    clock: str = ":"
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


@dataclass(frozen=True)
class TimeGroup:
    """Values of one notation.

    Attributes:
        format: The notation.
        values: The values, without repetition.
    """

    format: TimeFormat
    values: tuple[str, ...]


def time_groups(values: Iterable[str], day_first: bool | None = None) -> list[TimeGroup]:
    """Return those values that are dates or times, by notation.

    Args:
        values: Values, none empty. Some may be no times.
        day_first: Whether the day precedes the month, if other columns show it.

    Example:
        >>> [g.format.pattern for g in time_groups(["1.2.2026 1:00", "2026-01-01 1:00", "Total"])]
        ['d.M.yyyy H:mm', 'ISO-8601']
    """
    groups: list[dict[_TimeShape, list[str]]] = []
    for value in dict.fromkeys(values):
        shape = _shape(value.strip())
        if shape is None:
            continue
        for group in groups:
            if shape in group or _combine([*group, shape], day_first) is not None:
                group.setdefault(shape, []).append(value)
                break
        else:
            groups.append({shape: [value]})
    found = [(_combine(list(group), day_first), group) for group in groups]
    return [
        TimeGroup(format_, tuple(value for part in group.values() for value in part))
        for format_, group in found
        if format_ is not None
    ]


def shown_pattern(time: TimeFormat, values: Iterable[str]) -> str:
    """Return a pattern for messages: `dd.MM.yyyy` if all values have two digits there."""
    if time.pattern == ISO:
        return "ISO 8601"
    pattern = time.pattern.replace("SSSSSSSSS", "SSS")
    if time.ambiguous is not None:
        return f"{pattern} or {time.ambiguous.replace('SSSSSSSSS', 'SSS')}"
    padded = re.sub(r"(?<![A-Za-z])([dMHh])(?![A-Za-z])", r"\1\1", pattern)
    return padded if {len(v.strip()) for v in values} == {len(padded)} else pattern


_MONTH_PATTERNS = {
    "yyyy-MM": re.compile(r"\d{4}-(?:0[1-9]|1[0-2])"),
    "yyyy/MM": re.compile(r"\d{4}/(?:0[1-9]|1[0-2])"),
    "MM/yyyy": re.compile(r"(?:0[1-9]|1[0-2])/\d{4}"),
    "MMM yyyy": re.compile(rf"(?:{'|'.join(m[:3] for m in _MONTHS)}) \d{{4}}"),
    "MMMM yyyy": re.compile(rf"(?:{'|'.join(_MONTHS)}) \d{{4}}"),
}


def month_pattern(values: Sequence[str]) -> str | None:
    """Return the common pattern of values that are all months of a year, or None.

    Example:
        >>> month_pattern(["2026-01", "2026-02"])
        'yyyy-MM'
    """
    for pattern, regex in _MONTH_PATTERNS.items():
        if values and all(regex.fullmatch(value.strip()) for value in values):
            return pattern
    return None


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
    if not text[:1].isalnum():
        return None
    match = _DATE.match(text) or _MONTH_FIRST.match(text) or _COMPACT_DATE.match(text)
    if match is None:
        return None
    order = _order(match)
    if order is None:
        return None
    year = match["a"] if order == "ymd" else match["c"]
    separators = (match["sep"], match.groupdict().get("sep2") or match["sep"])
    head = (order, separators, _month_letters(match["b"]), 4 if len(year) == 4 else 2)
    rest = text[match.end() :]
    if not rest:
        # eight digits alone are a number
        return _TimeShape(*head) if separators[0] else None
    between = _BETWEEN.match(rest)
    if between is None:
        return None
    time = _TIME.match(rest, between.end()) or _COMPACT_TIME.match(rest, between.end())
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
        clock=time["sep"],
        seconds=time["s"] is not None,
        fraction=(time["f"] or "")[:1],
        half=half,
        zone=zone,
    )


def _order(match: re.Match[str]) -> str | None:
    """Return the order of year, month and day, or None if the numbers are not a date."""
    a, b, c = match["a"], match["b"], match["c"]
    if b[0].isalpha():
        names = [m for m in _MONTHS if b.title() in (m, m[:3])]
        if not names or len(a) > 2 or not _is_date(c, str(_MONTHS.index(names[0]) + 1), a):
            return None
        return "dmy" if match.start("a") < match.start("b") else "mdy"
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


def _month_letters(month: str) -> str:
    if not month[0].isalpha():
        return "M"
    return "May" if month.title() == "May" else "MMM" if len(month) == 3 else "MMMM"


def _is_date(year: str, month: str, day: str) -> bool:
    try:
        date(int(year) + (2000 if len(year) < 3 else 0), int(month), int(day))
    except ValueError:
        return False
    return True


def _is_time(time: re.Match[str]) -> bool:
    hour, minute, second = int(time["h"]), int(time["m"]), int(time["s"] or 0)
    in_day = 1 <= hour <= 12 if time["half"] else hour <= 23
    return in_day and minute <= 59 and second <= 59 and not (time["f"] and not time["s"])


def _zone_pattern(zone: str) -> str:
    if zone in ("UTC", "GMT"):
        return "VV"
    return "XXX" if ":" in zone or zone == "Z" else "XX" if len(zone) == 5 else "X"


def _combine(shapes: Sequence[_TimeShape], day_first: bool | None) -> TimeFormat | None:
    """Return the pattern that reads values of all the shapes."""
    zones = {s.zone for s in shapes}
    if "" in zones and len(zones) > 1:
        return None
    if all(map(_is_iso, shapes)):
        # Spark reads dates, times, and all offsets in one column
        has_time = any(s.between for s in shapes)
        return TimeFormat("timestamp" if "" not in zones else _zoneless(has_time), ISO)
    first = shapes[0]
    heads = {
        (s.separators, s.year_digits, s.between, s.clock if s.between else "", s.half)
        for s in shapes
    }
    months = {s.month for s in shapes} - {"May"} or {"MMM"}
    if len(heads) != 1 or len(months) != 1:
        return None
    order = _common_order({s.order for s in shapes}, day_first)
    zone = _common_zone(zones)
    if order is None or zone is None:
        return None
    rest = _rest(shapes) + zone
    (month,) = months
    other = _date_pattern(first, month, "mdy") + rest if order == "?" else None
    pattern = _date_pattern(first, month, "dmy" if order == "?" else order) + rest
    type_ = "timestamp" if first.zone else _zoneless(bool(first.between))
    return TimeFormat(type_, pattern, other)


def _zoneless(has_time: bool) -> str:
    return "timestamp_ntz" if has_time else "date"


def _common_order(orders: set[str], day_first: bool | None) -> str | None:
    certain = orders - {"?"}
    if len(certain) > 1:
        return None
    if certain:
        order = certain.pop()
        return None if order == "ymd" and "?" in orders else order
    return "?" if day_first is None else "dmy" if day_first else "mdy"


def _is_iso(shape: _TimeShape) -> bool:
    return (
        shape.order == "ymd"
        and shape.separators == ("-", "-")
        and shape.month == "M"
        and shape.between in ("", "T", " ")
        and shape.clock == ":"
        and shape.half is None
        and shape.fraction in ("", ".")
        and shape.zone in ("", "XXX", "XX", "X")
    )


def _common_zone(zones: set[str]) -> str | None:
    bare = {zone.strip() for zone in zones}
    if len({zone[:1] == " " for zone in zones}) > 1:
        return None
    space = " " if next(iter(zones))[:1] == " " else ""
    if len(bare) > 1 and bare <= {"XXX", "XX", "X"}:
        return f"{space}[XXX][XX][X]"
    return space + bare.pop() if len(bare) == 1 else None


def _date_pattern(shape: _TimeShape, month: str, order: str) -> str:
    if not shape.separators[0]:
        return "yyyyMMdd"
    letters = {"d": "d", "m": month, "y": "yyyy" if shape.year_digits == 4 else "yy"}
    one, two = shape.separators
    first, second, third = (letters[letter] for letter in order)
    return f"{first}{one}{second}{two}{third}"


def _rest(shapes: Sequence[_TimeShape]) -> str:
    """Return the part of the pattern that follows the date."""
    first = shapes[0]
    if not first.between:
        return ""
    between = "'T'" if first.between == "T" else first.between
    hour, half = ("H", "") if first.half is None else ("h", f"{first.half}a")
    with_seconds = [s.seconds for s in shapes]
    seconds = f"{first.clock}ss" if any(with_seconds) else ""
    seconds = seconds if all(with_seconds) else f"[{seconds}]" if seconds else ""
    fractions = {s.fraction for s in shapes}
    marks = sorted(fractions - {""})
    fraction = "".join(f"[{mark}SSSSSSSSS]" for mark in marks)
    if len(marks) == 1 and "" not in fractions:
        fraction = f"{marks[0]}SSSSSSSSS"
    hour = hour if first.clock else "HH"
    return f"{between}{hour}{first.clock}mm{seconds}{fraction}{half}"
