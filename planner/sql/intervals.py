"""Constant intervals: from expressions to months and microseconds, and durations as text."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from planner.sql.nodes import MultiUnitInterval
from planner.sql.render import SparkSql
from runtime.errors import AnalysisError

# Units of fixed length in microseconds, those of the calendar in months, and all of them
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

# The fields of `INTERVAL '1 02:03:04.5' DAY TO SECOND`: what stands before each, and its bound
# where it is not the first one.
_DAY_TIME_FIELDS = ("DAY", "HOUR", "MINUTE", "SECOND")
_YEAR_MONTH_FIELDS = ("YEAR", "MONTH")
_SEPARATORS = {"HOUR": " ", "MINUTE": ":", "SECOND": ":", "MONTH": "-"}
_BOUNDS = {"HOUR": 24, "MINUTE": 60, "SECOND": 60, "MONTH": 12}
_FORMS = {
    "YEAR TO MONTH": "1-2",
    "DAY TO HOUR": "1 02",
    "DAY TO MINUTE": "1 02:03",
    "DAY TO SECOND": "1 02:03:04.5",
    "HOUR TO MINUTE": "02:03",
    "HOUR TO SECOND": "02:03:04.5",
    "MINUTE TO SECOND": "03:04.5",
}

_INT64 = 2**63


@dataclass(frozen=True)
class IntervalValue:
    """A span of time: calendar months, and microseconds on top."""

    months: int
    us: int


@dataclass(frozen=True)
class _Exact:
    """An interval before rounding errors could come in: they are checked for at the end."""

    months: Fraction = Fraction(0)
    us: Fraction = Fraction(0)

    def __add__(self, other: _Exact) -> _Exact:
        return _Exact(self.months + other.months, self.us + other.us)

    def times(self, factor: Fraction) -> _Exact:
        return _Exact(self.months * factor, self.us * factor)


def fold_interval(expr: exp.Expr) -> IntervalValue:
    """The value of a constant interval expression, exactly.

    INTERVAL literals of Flink and Spark, signs, parentheses, sums and differences of intervals,
    and intervals multiplied or divided by constant numbers.

    Raises:
        AnalysisError: it is no interval, not constant, finer than a microsecond, or longer than
            64 bits of microseconds; without position.

    Example:
        >>> from sqlglot import parse_one
        >>> fold_interval(parse_one("INTERVAL '1' HOUR / 2"))
        IntervalValue(months=0, us=1800000000)
    """
    value = _fold(expr)
    if isinstance(value, Fraction):
        raise AnalysisError(
            f"expected an interval, but `{_sql(expr)}` is a number",
            subjects=(_sql(expr),),
            hint=f"write the unit: INTERVAL '{value}' MINUTE",
        )
    if value.us.denominator != 1:
        raise AnalysisError(f"`{_sql(expr)}` is finer than a microsecond", subjects=(_sql(expr),))
    if value.months.denominator != 1:
        raise AnalysisError(f"`{_sql(expr)}` is no whole number of months", subjects=(_sql(expr),))
    if abs(value.us) >= _INT64 or abs(value.months) >= _INT64:
        raise AnalysisError(f"`{_sql(expr)}` is too long an interval", subjects=(_sql(expr),))
    return IntervalValue(int(value.months), int(value.us))


def is_in_weeks(expr: exp.Expr) -> bool:
    """Whether an interval is written in weeks and nothing else, such as INTERVAL '2' WEEKS.

    Example:
        >>> from sqlglot import parse_one
        >>> [is_in_weeks(parse_one(f"INTERVAL '7' {unit}")) for unit in ("WEEK", "DAY")]
        [True, False]
    """
    units = []
    for interval in expr.find_all(exp.Interval):
        unit = interval.args.get("unit")
        if unit is not None:
            units.append(_unit(unit.name))
        elif isinstance(interval.this, exp.Literal):
            units += [_unit(word) for word in interval.this.name.split() if word.isalpha()]
    return bool(units) and all(unit in ("WEEK", "INTERVAL") for unit in units)


def render_months(months: int) -> str:
    """A number of months with its units.

    Example:
        >>> [render_months(months) for months in (1, 3, 12, 18, -24)]
        ['1 month', '3 months', '1 year', '1 year 6 months', '-2 years']
    """
    years, rest = divmod(abs(months), 12)
    parts = [(years, "year"), (rest, "month")]
    texts = [f"{n} {unit}{'s' if n > 1 else ''}" for n, unit in parts if n]
    return ("-" if months < 0 else "") + " ".join(texts or ["0 months"])


def render_duration(us: int) -> str:
    """An exact duration with its units.

    Example:
        >>> [render_duration(us) for us in (600_000_000, 5_400_000_000, 1_500, 0)]
        ['10 min', '1 h 30 min', '1 ms 500 us', '0 ms']
    """
    if us == 0:
        return "0 ms"
    rest = abs(us)
    parts = []
    for name, width in (
        ("d", 86_400_000_000),
        ("h", 3_600_000_000),
        ("min", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
        ("us", 1),
    ):
        count, rest = divmod(rest, width)
        if count:
            parts.append(f"{count} {name}")
    return ("-" if us < 0 else "") + " ".join(parts)


def _fold(expr: exp.Expr) -> _Exact | Fraction:
    """An interval or a plain number."""
    if isinstance(expr, exp.Paren):
        return _fold(expr.this)
    if isinstance(expr, exp.Interval):
        return _literal(expr)
    if isinstance(expr, MultiUnitInterval):
        total = _Exact()
        for part in expr.expressions:
            total += _literal(part)
        return total
    if isinstance(expr, exp.Neg):
        value = _fold(expr.this)
        return -value if isinstance(value, Fraction) else value.times(Fraction(-1))
    if isinstance(expr, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _arithmetic(expr, _fold(expr.this), _fold(expr.expression))
    number = _number_literal(expr)
    if number is None:
        raise AnalysisError(
            f"expected a constant interval, but got `{_sql(expr)}`",
            subjects=(_sql(expr),),
            hint="for example INTERVAL '10' MINUTE",
        )
    return number


def _arithmetic(
    expr: exp.Binary, left: _Exact | Fraction, right: _Exact | Fraction
) -> _Exact | Fraction:
    if isinstance(expr, exp.Add | exp.Sub):
        sign = Fraction(-1 if isinstance(expr, exp.Sub) else 1)
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return left + sign * right
        if isinstance(left, _Exact) and isinstance(right, _Exact):
            return left + right.times(sign)
        raise AnalysisError(
            f"`{_sql(expr)}` mixes an interval and a number without a unit", subjects=(_sql(expr),)
        )
    if isinstance(expr, exp.Mul):
        if isinstance(left, Fraction):
            return left * right if isinstance(right, Fraction) else right.times(left)
        if isinstance(right, Fraction):
            return left.times(right)
        raise AnalysisError(f"`{_sql(expr)}` multiplies two intervals", subjects=(_sql(expr),))
    if isinstance(right, _Exact):
        raise AnalysisError(f"`{_sql(expr)}` divides by an interval", subjects=(_sql(expr),))
    if right == 0:
        raise AnalysisError(f"`{_sql(expr)}` divides by zero", subjects=(_sql(expr),))
    return left / right if isinstance(left, Fraction) else left.times(1 / right)


def _number_literal(expr: exp.Expr) -> Fraction | None:
    if isinstance(expr, exp.Cast) and "raw" in expr.meta:
        expr = expr.this  # a number with a suffix, `10L`
    if isinstance(expr, exp.Literal) and not expr.is_string:
        return _decimal(expr.name)
    return None


def _literal(interval: exp.Interval) -> _Exact:
    value, unit = interval.this, interval.args.get("unit")
    sign = Fraction(1)
    while isinstance(value, exp.Neg | exp.Paren):
        sign = -sign if isinstance(value, exp.Neg) else sign
        value = value.this
    if not isinstance(value, exp.Literal):
        raise AnalysisError(
            f"expected a constant interval, but got `{_sql(interval)}`",
            subjects=(_sql(interval),),
            hint="for example INTERVAL '10' MINUTE",
        )
    text = value.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        return _range(interval, text, unit).times(sign)
    if unit is None:
        return _text(interval, text).times(sign)
    number = _decimal(text)
    if number is None:
        raise AnalysisError(
            f"`{_sql(interval)}`: '{text}' is no number", subjects=(f"'{text}'", _sql(interval))
        )
    return _of_unit(interval, number, unit.name).times(sign)


def _of_unit(interval: exp.Interval, number: Fraction, unit: str) -> _Exact:
    name = _unit(unit)
    if name in _MONTHS:
        return _Exact(months=number * _MONTHS[name])
    if name in US_OF_UNIT:
        return _Exact(us=number * US_OF_UNIT[name])
    raise AnalysisError(
        f"`{_sql(interval)}`: unknown unit {unit}",
        subjects=(_sql(interval),),
        hint="the units are YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND "
        "and MICROSECOND",
    )


def _unit(text: str) -> str:
    upper = text.upper()
    return upper[:-1] if upper.endswith("S") and upper[:-1] in UNITS else upper


def _range(interval: exp.Interval, text: str, span: exp.IntervalSpan) -> _Exact:
    """`'1 02:03:04.5' DAY TO SECOND`: every field after the first within its bound."""
    first, last = _unit(span.this.name), _unit(span.expression.name)
    form = _FORMS.get(f"{first} TO {last}")
    if form is None:
        raise AnalysisError(
            f"`{_sql(interval)}`: an interval cannot reach from {first} to {last}",
            subjects=(_sql(interval),),
            hint=f"the ranges are {', '.join(_FORMS)}",
        )
    all_fields = _YEAR_MONTH_FIELDS if first == "YEAR" else _DAY_TIME_FIELDS
    fields = all_fields[all_fields.index(first) : all_fields.index(last) + 1]
    sign, rest = _sign(text)
    numbers: list[str] = []
    for following in fields[1:]:
        # fields may stand apart from the next by several blanks
        number, separator, rest = rest.partition(_SEPARATORS[following])
        rest = rest.lstrip() if separator == " " else rest
        numbers.append(number)
    numbers.append(rest)
    total = _Exact()
    for i, (field, digits) in enumerate(zip(fields, numbers, strict=True)):
        may_have_fraction = field == "SECOND"
        number_value = _decimal(digits) if digits[:1].isdigit() else None
        if number_value is None or not (may_have_fraction or digits.isdigit()):
            raise AnalysisError(
                f"`{_sql(interval)}`: '{text}' is not of the form {first} TO {last}",
                subjects=(f"'{text}'", _sql(interval)),
                hint=f"for example INTERVAL '{form}' {first} TO {last}",
            )
        if i and number_value >= _BOUNDS[field]:
            raise AnalysisError(
                f"`{_sql(interval)}`: {digits} {field}S do not fit below {fields[i - 1]}",
                subjects=(_sql(interval),),
                hint=f"{field} goes from 0 to {_BOUNDS[field] - 1} here",
            )
        total += _of_unit(interval, number_value, field)
    return total.times(sign)


def _text(interval: exp.Interval, text: str) -> _Exact:
    """`INTERVAL '1 day -2 hours'`: numbers and units in one string."""
    words = text.split()
    if words and words[0].lower() == "interval":
        words = words[1:]
    hint = "for example INTERVAL '10' MINUTE or INTERVAL '1 day 2 hours'"
    if len(words) < 2:
        raise AnalysisError(
            f"`{_sql(interval)}` has no unit", subjects=(_sql(interval),), hint=hint
        )
    total = _Exact()
    i = 0
    while i < len(words):
        sign = Fraction(1)
        if words[i] in ("+", "-") and i + 1 < len(words):  # `- 2 hours`
            sign = Fraction(-1 if words[i] == "-" else 1)
            i += 1
        number = _decimal(words[i])
        if number is None:
            raise AnalysisError(
                f"`{_sql(interval)}`: '{words[i]}' is no number",
                subjects=(f"'{words[i]}'", _sql(interval)),
                hint=hint,
            )
        if i + 1 == len(words):
            raise AnalysisError(
                f"`{_sql(interval)}`: {words[i]} has no unit", subjects=(_sql(interval),), hint=hint
            )
        total += _of_unit(interval, number, words[i + 1]).times(sign)
        i += 2
    return total


def _decimal(text: str) -> Fraction | None:
    """A number such as 10, -4 or .5, exactly; None if it is none."""
    sign, digits = _sign(text.strip())
    whole, _, fraction = digits.partition(".")
    if not (whole + fraction) or not (whole + fraction).isascii():
        return None
    if not (whole + fraction).isdigit():
        return None
    return sign * Fraction(int(whole + fraction), 10 ** len(fraction))


def _sign(text: str) -> tuple[Fraction, str]:
    if text[:1] in ("+", "-"):
        return Fraction(-1 if text[0] == "-" else 1), text[1:].lstrip()
    return Fraction(1), text


def _sql(expr: exp.Expr) -> str:
    return expr.sql(dialect=SparkSql, comments=False)
