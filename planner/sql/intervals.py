"""Constant intervals as months and microseconds, and durations as text."""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from planner.sql.build import is_number_literal
from planner.sql.nodes import MultiUnitInterval
from planner.sql.render import RAW, SparkSql
from runtime.errors import AnalysisError
from runtime.windows.intervals import (
    ExactInterval,
    IntervalValue,
    decimal,
    interval_of_text,
    interval_of_unit,
    split_sign,
    unit_name,
)

# Fields of `INTERVAL '1 02:03:04.5' DAY TO SECOND`: the separator before each, and its bound unless
# it is the first field.
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


def fold_interval(expr: exp.Expr) -> IntervalValue:
    """Evaluate a constant interval expression exactly.

    Supports INTERVAL literals of Flink and Spark, signs, parentheses, sums and differences of
    intervals, and intervals multiplied or divided by constant numbers.

    Raises:
        AnalysisError: The expression is not an interval, not constant, finer than a microsecond, or
            exceeds 64 bits of microseconds. Has no position.

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
            hint=f"add the unit: INTERVAL '{value}' MINUTE",
        )
    return value.to_interval_value(_sql(expr))


def is_in_weeks(expr: exp.Expr) -> bool:
    """Return whether an interval is written in weeks only, such as INTERVAL '2' WEEKS.

    Example:
        >>> from sqlglot import parse_one
        >>> [is_in_weeks(parse_one(f"INTERVAL '7' {unit}")) for unit in ("WEEK", "DAY")]
        [True, False]
    """
    units = []
    for interval in expr.find_all(exp.Interval):
        unit = interval.args.get("unit")
        if unit is not None:
            units.append(unit_name(unit.name))
        elif isinstance(interval.this, exp.Literal):
            units += [unit_name(word) for word in interval.this.name.split() if word.isalpha()]
    return bool(units) and all(unit in ("WEEK", "INTERVAL") for unit in units)


def _fold(expr: exp.Expr) -> ExactInterval | Fraction:
    """Evaluate an interval or a plain number."""
    if isinstance(expr, exp.Paren):
        return _fold(expr.this)
    if isinstance(expr, exp.Interval):
        return _literal(expr)
    if isinstance(expr, MultiUnitInterval):
        return sum(map(_literal, expr.expressions), ExactInterval())
    if isinstance(expr, exp.Neg):
        value = _fold(expr.this)
        return -value if isinstance(value, Fraction) else value.times(Fraction(-1))
    if isinstance(expr, exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _arithmetic(expr, _fold(expr.this), _fold(expr.expression))
    if isinstance(expr, exp.Cast) and RAW in expr.meta:
        expr = expr.this  # a number with a suffix, `10L`
    number = decimal(expr.name) if is_number_literal(expr) else None
    if number is None:
        raise _not_constant(expr)
    return number


def _arithmetic(
    expr: exp.Binary, left: ExactInterval | Fraction, right: ExactInterval | Fraction
) -> ExactInterval | Fraction:
    if isinstance(expr, exp.Add | exp.Sub):
        sign = Fraction(-1 if isinstance(expr, exp.Sub) else 1)
        if isinstance(left, Fraction) and isinstance(right, Fraction):
            return left + sign * right
        if isinstance(left, ExactInterval) and isinstance(right, ExactInterval):
            return left + right.times(sign)
        raise _wrong(expr, " mixes an interval and a number without a unit")
    if isinstance(expr, exp.Mul):
        if isinstance(left, Fraction):
            return left * right if isinstance(right, Fraction) else right.times(left)
        if isinstance(right, Fraction):
            return left.times(right)
        raise _wrong(expr, " multiplies two intervals")
    if isinstance(right, ExactInterval):
        raise _wrong(expr, " divides by an interval")
    if right == 0:
        raise _wrong(expr, " divides by zero")
    return left / right if isinstance(left, Fraction) else left.times(1 / right)


def _literal(interval: exp.Interval) -> ExactInterval:
    value, unit = interval.this, interval.args.get("unit")
    sign = Fraction(1)
    while isinstance(value, exp.Neg | exp.Paren):
        sign = -sign if isinstance(value, exp.Neg) else sign
        value = value.this
    if not isinstance(value, exp.Literal):
        raise _not_constant(interval)
    text = value.name.strip()
    if isinstance(unit, exp.IntervalSpan):
        return _range(interval, text, unit).times(sign)
    if unit is None:
        return interval_of_text(text, _sql(interval)).times(sign)
    number = decimal(text)
    if number is None:
        raise _wrong(interval, f": '{text}' is not a number", f"'{text}'")
    return interval_of_unit(number, unit.name, _sql(interval)).times(sign)


def _range(interval: exp.Interval, text: str, span: exp.IntervalSpan) -> ExactInterval:
    """Evaluate `'1 02:03:04.5' DAY TO SECOND`, checking the bounds of all but the first field."""
    first, last = unit_name(span.this.name), unit_name(span.expression.name)
    form = _FORMS.get(f"{first} TO {last}")
    if form is None:
        hint = f"available ranges: {', '.join(_FORMS)}"
        raise _wrong(interval, f": {first} TO {last} is not a valid range", hint=hint)
    all_fields = _YEAR_MONTH_FIELDS if first == "YEAR" else _DAY_TIME_FIELDS
    fields = all_fields[all_fields.index(first) : all_fields.index(last) + 1]
    sign, rest = split_sign(text)
    numbers: list[str] = []
    for following in fields[1:]:
        # Fields may be separated by several blanks.
        number, separator, rest = rest.partition(_SEPARATORS[following])
        rest = rest.lstrip() if separator == " " else rest
        numbers.append(number)
    numbers.append(rest)
    total = ExactInterval()
    for i, (field, digits) in enumerate(zip(fields, numbers, strict=True)):
        number_value = decimal(digits) if digits[:1].isdigit() else None
        if number_value is None or not (field == "SECOND" or digits.isdigit()):
            message = f": '{text}' does not have the form {first} TO {last}"
            hint = f"for example INTERVAL '{form}' {first} TO {last}"
            raise _wrong(interval, message, f"'{text}'", hint=hint)
        if i and number_value >= _BOUNDS[field]:
            message = f": {digits} {field}S exceed the range below {fields[i - 1]}"
            hint = f"{field} must be from 0 to {_BOUNDS[field] - 1} here"
            raise _wrong(interval, message, hint=hint)
        total += interval_of_unit(number_value, field, _sql(interval))
    return total.times(sign)


def _not_constant(expr: exp.Expr) -> AnalysisError:
    return AnalysisError(
        f"expected a constant interval, but got `{_sql(expr)}`",
        subjects=(_sql(expr),),
        hint="for example INTERVAL '10' MINUTE",
    )


def _wrong(expr: exp.Expr, message: str, *subjects: str, hint: str | None = None) -> AnalysisError:
    """Return an error that begins with the expression. `subjects` are the other names in it."""
    text = _sql(expr)
    return AnalysisError(f"`{text}`{message}", subjects=(*subjects, text), hint=hint)


def _sql(expr: exp.Expr) -> str:
    return expr.sql(dialect=SparkSql, comments=False)
