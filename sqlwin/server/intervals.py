"""Texts of intervals, in the formats that PostgreSQL reads."""

from __future__ import annotations

import re

_UNITS = {
    unit: (field, factor)
    for field, factor, names in (
        ("MONTH", 120_000, "millennium millennia"),
        ("MONTH", 1_200, "century centuries c"),
        ("MONTH", 120, "decade decades dec decs"),
        ("MONTH", 12, "year years y yr yrs"),
        ("MONTH", 1, "month months mon mons"),
        ("DAY", 7, "week weeks w"),
        ("DAY", 1, "day days d"),
        ("SECOND", 3600, "hour hours h hr hrs"),
        ("SECOND", 60, "minute minutes m min mins"),
        ("SECOND", 1, "second seconds s sec secs"),
        ("MILLISECOND", 1, "millisecond milliseconds ms msec msecs"),
        ("MICROSECOND", 1, "microsecond microseconds us usec usecs"),
    )
    for unit in names.split()
}
_PART = re.compile(r"\s*([+-]?\d*\.?\d+)\s*([a-z]+)\s*", re.IGNORECASE)
_CLOCK = re.compile(r"\s*([+-]?)(\d+):(\d+)(?::(\d+(?:\.\d+)?))?\s*")
_ISO = re.compile(r"P(?=.)((?:\d+[YMWD])*)(?:T((?:\d+(?:\.\d+)?[HMS])+))?")
_SHORT = {"Y": "year", "W": "week", "D": "day", "H": "hour", "S": "second"}
_MICROS = {"DAY": 86_400_000_000, "SECOND": 1_000_000, "MILLISECOND": 1000, "MICROSECOND": 1}


def read_interval(text: str) -> tuple[int, int]:
    """Return the months and microseconds of an interval's text.

    Example:
        >>> read_interval("1 day 02:30:00") == (0, 95_400_000_000)
        True
        >>> read_interval("1 year 2 mons"), read_interval("P1M")
        ((14, 0), (1, 0))

    Raises:
        ValueError: The text is invalid.
    """
    iso = _ISO.fullmatch(text.strip())
    if iso is not None:
        dates = re.findall(r"(\d+)([YMWD])", iso[1] or "")
        times = re.findall(r"([\d.]+)([HMS])", iso[2] or "")
        parts = [(n, _SHORT.get(unit, "month")) for n, unit in dates]
        parts += [(n, _SHORT.get(unit, "minute")) for n, unit in times]
        text = " ".join(f"{n} {unit}" for n, unit in parts)
    rest, months, micros, sign = text.lower().strip().removeprefix("@"), 0, 0, 1
    if rest.endswith(" ago"):
        rest, sign = rest.removesuffix(" ago"), -1
    if not rest:
        raise ValueError(text)
    while rest:
        if (clock := _CLOCK.match(rest)) is not None:
            seconds = int(clock[2]) * 3600 + int(clock[3]) * 60
            part = seconds * 1_000_000 + round(float(clock[4] or 0) * 1_000_000)
            micros += -part if clock[1] == "-" else part
            rest = rest[clock.end() :]
            continue
        found = _PART.match(rest)
        if found is None or found[2] not in _UNITS:
            raise ValueError(text)
        unit, factor = _UNITS[found[2]]
        amount = float(found[1]) * factor
        if unit == "MONTH":
            if amount != int(amount):
                raise ValueError(text)
            months += int(amount)
        else:
            micros += round(amount * _MICROS[unit])
        rest = rest[found.end() :].lstrip(" ,")
    return sign * months, sign * micros
