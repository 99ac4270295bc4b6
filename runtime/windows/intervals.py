"""Intervals: months and microseconds, parsed from texts such as `1 day 2 hours` and formatted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction

from runtime.errors import AnalysisError

# Units of fixed length in microseconds, calendar units in months, and the names of all units
US_OF_UNIT = {
    "NANOSECOND": Fraction(1, 1000),
    "MICROSECOND": Fraction(1),
    "MILLISECOND": Fraction(1_000),
    "SECOND": Fraction(1_000_000),
    "MINUTE": Fraction(60_000_000),
    "HOUR": Fraction(3_600_000_000),
    "DAY": Fraction(86_400_000_000),
    "WEEK": Fraction(604_800_000_000),
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
UNITS = frozenset(US_OF_UNIT) | frozenset(_MONTHS)

_INT64 = 2**63

# Units of formatted durations
_WIDTHS = (
    (86_400_000_000, "d"),
    (3_600_000_000, "h"),
    (60_000_000, "min"),
    (1_000_000, "s"),
    (1_000, "ms"),
    (1, "us"),
)


@dataclass(frozen=True)
class IntervalValue:
    """Interval: calendar months plus microseconds."""

    months: int
    us: int

    @property
    def text(self) -> str:
        """Interval with units: `1 year 6 months 2 d`."""
        if not self.months:
            return render_duration(self.us)
        return render_months(self.months) + (f" {render_duration(self.us)}" if self.us else "")

    def in_one_unit(self) -> str:
        """Return the interval in months, or in the largest unit that divides it."""
        if self.months:
            return f"{self.months} month{'s' * (self.months > 1)}"
        return duration_text(self.us)


@dataclass(frozen=True)
class ExactInterval:
    """Interval before rounding. It may have fractions of a microsecond or month."""

    months: Fraction = Fraction(0)
    us: Fraction = Fraction(0)

    def __add__(self, other: ExactInterval) -> ExactInterval:
        return ExactInterval(self.months + other.months, self.us + other.us)

    def times(self, factor: Fraction) -> ExactInterval:
        """Return the interval multiplied by a factor."""
        return ExactInterval(self.months * factor, self.us * factor)

    def to_interval_value(self, shown: str) -> IntervalValue:
        """Return the interval in whole months and microseconds.

        Args:
            shown: Text of the interval for error messages.

        Raises:
            AnalysisError: The interval is finer than a microsecond, has a fraction of a month, or
                exceeds 64 bits.
        """
        if self.us.denominator != 1:
            raise AnalysisError(f"`{shown}` is finer than a microsecond", subjects=(shown,))
        if self.months.denominator != 1:
            raise AnalysisError(f"`{shown}` is not a whole number of months", subjects=(shown,))
        if abs(self.us) >= _INT64 or abs(self.months) >= _INT64:
            raise AnalysisError(f"`{shown}` is too long", subjects=(shown,))
        return IntervalValue(int(self.months), int(self.us))


def length_us(length: str | timedelta) -> int:
    """Return a length of time in microseconds, for triggers and evictors.

    Raises:
        AnalysisError: The text is not an interval, or has months, whose length varies.

    Example:
        >>> length_us("1 hour 30 minutes")
        5400000000
    """
    if isinstance(length, timedelta):
        return length // timedelta(microseconds=1)
    shown = f"INTERVAL '{length}'"
    value = interval_of_text(length, shown).to_interval_value(shown)
    if value.months:
        raise AnalysisError(f"'{length}' has no fixed length", hint="use days or smaller units")
    return value.us


def interval_of_text(text: str, shown: str) -> ExactInterval:
    """Parse numbers and units in one string, such as `1 day -2 hours`; `shown` is for messages.

    Raises:
        AnalysisError: The text is not an interval.
    """
    words = text.split()
    if words and words[0].lower() == "interval":
        words = words[1:]
    hint = "for example INTERVAL '10' MINUTE or INTERVAL '1 day 2 hours'"
    if len(words) < 2:
        raise AnalysisError(f"`{shown}` has no unit", subjects=(shown,), hint=hint)
    total = ExactInterval()
    i = 0
    while i < len(words):
        sign = Fraction(1)
        if words[i] in ("+", "-") and i + 1 < len(words):  # `- 2 hours`
            sign = Fraction(-1 if words[i] == "-" else 1)
            i += 1
        number = decimal(words[i])
        if number is None:
            raise AnalysisError(
                f"`{shown}`: '{words[i]}' is not a number",
                subjects=(f"'{words[i]}'", shown),
                hint=hint,
            )
        if i + 1 == len(words):
            raise AnalysisError(f"`{shown}`: {words[i]} has no unit", subjects=(shown,), hint=hint)
        total += interval_of_unit(number, words[i + 1], shown).times(sign)
        i += 2
    return total


def interval_of_unit(number: Fraction, unit: str, shown: str) -> ExactInterval:
    """Return a number of units. The unit may be singular or plural, in any case.

    Raises:
        AnalysisError: The unit is unknown.
    """
    name = unit_name(unit)
    if name in _MONTHS:
        return ExactInterval(months=number * _MONTHS[name])
    if name in US_OF_UNIT:
        return ExactInterval(us=number * US_OF_UNIT[name])
    raise AnalysisError(
        f"`{shown}`: unknown unit {unit}",
        subjects=(shown,),
        hint="available units: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, "
        "MILLISECOND, MICROSECOND",
    )


def unit_name(text: str) -> str:
    """Return the name of a unit as in UNITS; convert other text to upper case."""
    upper = text.upper()
    return upper[:-1] if upper.endswith("S") and upper[:-1] in UNITS else upper


def decimal(text: str) -> Fraction | None:
    """Parse a number such as 10, -4 or .5 exactly. Return None for other text."""
    sign, digits = split_sign(text.strip())
    integer, _, fraction = digits.partition(".")
    if not (integer + fraction) or not (integer + fraction).isascii():
        return None
    if not (integer + fraction).isdigit():
        return None
    return sign * Fraction(int(integer + fraction), 10 ** len(fraction))


def split_sign(text: str) -> tuple[Fraction, str]:
    """Return the sign of a number, 1 or -1, and the text after it."""
    if text[:1] in ("+", "-"):
        return Fraction(-1 if text[0] == "-" else 1), text[1:].lstrip()
    return Fraction(1), text


def render_months(months: int) -> str:
    """Format a number of months with units.

    Example:
        >>> [render_months(months) for months in (1, 3, 12, 18, -24)]
        ['1 month', '3 months', '1 year', '1 year 6 months', '-2 years']
    """
    years, rest = divmod(abs(months), 12)
    parts = [(years, "year"), (rest, "month")]
    texts = [f"{n} {unit}{'s' if n > 1 else ''}" for n, unit in parts if n]
    return ("-" if months < 0 else "") + " ".join(texts or ["0 months"])


def render_duration(us: int) -> str:
    """Format a duration exactly, with units.

    Example:
        >>> [render_duration(us) for us in (600_000_000, 5_400_000_000, 1_500, 0)]
        ['10 min', '1 h 30 min', '1 ms 500 us', '0 ms']
    """
    if us == 0:
        return "0 ms"
    rest = abs(us)
    parts = []
    for width, name in _WIDTHS:
        count, rest = divmod(rest, width)
        if count:
            parts.append(f"{count} {name}")
    return ("-" if us < 0 else "") + " ".join(parts)


def duration_text(length_us: int) -> str:
    """Format a length in the largest unit that divides it: `90 s`, `0 s`."""
    if not length_us:
        return "0 s"
    width, name = next(unit for unit in _WIDTHS if length_us % unit[0] == 0)
    return f"{length_us // width} {name}"
