"""Format counts, sizes, durations, dates and times."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # wall-clock arithmetic
_DAYS_TO_2000 = 10_957
# The Gregorian calendar repeats every 400 years.
_DAYS_OF_400_YEARS = 146_097


def count_text(number: int, unit: str) -> str:
    """Return a number with its unit: `1 row`, `12,345 partials`.

    Example:
        >>> count_text(1, "rows"), count_text(12345, "partials"), count_text(1, "histories")
        ('1 row', '12,345 partials', '1 history')
    """
    if number == 1:
        unit = f"{unit[:-3]}y" if unit.endswith("ies") else unit[:-1]
    return f"{number:,} {unit}"


def size_text(n_bytes: int) -> str:
    """Return a size in bytes with a binary unit.

    Example:
        >>> [size_text(n) for n in (0, 1023, 1536, 5 * 2**30)]
        ['0 B', '1,023 B', '1.5 KiB', '5.0 GiB']
    """
    if n_bytes < 1024:
        return f"{n_bytes:,} B"
    size = float(n_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:,.1f} TiB"


def seconds_text(seconds: float) -> str:
    """Return a duration in one suitable unit or its two largest ones.

    Example:
        >>> [seconds_text(s) for s in (0.0004, 0.25, 3.14159, 75, 3_660, 200_000)]
        ['0 ms', '250 ms', '3.14 s', '1 min 15 s', '1 h 01 min', '2 d 7 h']
    """
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.995:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours < 48 else f"{hours // 24:,} d {hours % 24} h"


def java_number(text: str) -> str:
    """Return a floating-point number as `Double.toString` of Java 19 writes it.

    Args:
        text: The shortest digits that stand for the number, as `repr` returns them.

    Example:
        >>> [java_number(text) for text in ("100", "1e-05", "-2.5e+16", "5e-324", "-0.0", "nan")]
        ['100.0', '1.0E-5', '-2.5E16', '4.9E-324', '-0.0', 'NaN']
    """
    # of two digits that stand for the smallest number, Java takes the nearest
    number = Decimal(text.replace("5e-324", "4.9e-324"))
    if number.is_nan():
        return "NaN"
    sign, digits, _ = number.as_tuple()
    if number.is_infinite():
        return f"{'-' * sign}Infinity"
    exponent = number.adjusted()
    if not number or -3 <= exponent < 7:
        plain = f"{number:f}"
        return plain if "." in plain else f"{plain}.0"
    figures = "".join(map(str, digits)).rstrip("0")
    return f"{'-' * sign}{figures[0]}.{figures[1:] or '0'}E{exponent}"


def date_text(days: int) -> str:
    """Return a date of any year in ISO 8601; years of more than four digits have a sign.

    Python's own dates are limited to the years 1 to 9999.

    Args:
        days: Days since 1970.

    Example:
        >>> [date_text(days) for days in (0, 2_932_897, -719_529)]
        ['1970-01-01', '+10000-01-01', '-0001-12-31']
    """
    cycles, rest = divmod(days - _DAYS_TO_2000, _DAYS_OF_400_YEARS)
    date = dt.date(2000, 1, 1) + dt.timedelta(days=rest)
    year = date.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{date:%m-%d}"


def timestamp_text(time_us: int, separator: str = " ") -> str:
    """Return a date and time of any year in ISO 8601, to the microsecond.

    Args:
        time_us: Microseconds since 1970.
        separator: Text between date and time.
    """
    days, rest = divmod(time_us, 86_400_000_000)
    clock = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=rest)  # noqa: DTZ001
    return f"{date_text(days)}{separator}{clock:%H:%M:%S.%f}"


def wall_clock_text(time_us: int | None) -> str:
    """Return a wall-clock time; as a number if outside the range of Python's dates."""
    if time_us is None:
        return "none yet"
    try:
        wall_clock = _EPOCH + dt.timedelta(microseconds=time_us)
    except OverflowError:
        return str(time_us)
    return wall_clock.isoformat(" ", "milliseconds" if wall_clock.microsecond else "seconds")
