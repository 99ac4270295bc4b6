"""Scalar functions that ClickHouse spells or computes in its own way."""

from __future__ import annotations

import math

from sqlglot import exp

from planner.lowering.sql.engines.shared_functions import (
    Writer,
    check_division,
    check_replace,
    write_in_wider_type,
    writers_of_parts,
)
from planner.lowering.sql.target import FLOATING, ExpressionWriter
from planner.lowering.sql.text import binary, call, case, cast, not_null
from planner.scalars.decimals import decimal_digits
from planner.scalars.types import is_integer
from runtime.spec.expressions import Call, Constant, Expression

_FIELDS = {
    "year": "toYear",
    "quarter": "toQuarter",
    "month": "toMonth",
    "weekofyear": "toISOWeek",
    "day": "toDayOfMonth",
    "dayofyear": "toDayOfYear",
    "dayofweek": "toDayOfWeek",
    "weekday": "toDayOfWeek",
    "hour": "toHour",
    "minute": "toMinute",
    "second": "toSecond",
}
_TRIMS = {"trim": "trimBoth", "ltrim": "trimLeft", "rtrim": "trimRight"}
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_MIRRORED = {">": "<", ">=": "<=", "<": ">", "<=": ">="}


def part_of_time(function: str, time: exp.Expr) -> exp.Expr:
    """Return a part of a time as INT, by the name of Spark's function."""
    name = function.lower()
    part = call(_FIELDS[name], time)
    if name == "dayofweek":
        # Monday is 1 here, Sunday is 1 in Spark
        part = binary(exp.Add, binary(exp.Mod, part, 7), 1)
    if name == "weekday":
        part = binary(exp.Sub, part, 1)
    return cast(part, "int")


def _arithmetic(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    return write_in_wider_type(rows, expression, _widened)


def _widened(value: exp.Expr, type_: str) -> exp.Expr:
    return call("toInt128" if type_ == "bigint" else "toInt64", value)


def _divided(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write `/`, `%` and `div`. Integers fail on a division by zero, doubles do not."""
    function, type_ = expression.function, expression.type
    args = expression.args
    check_division(rows, expression)
    if function == "%" and not is_integer(type_):
        rows.refuse(expression)
    if is_integer(type_):
        name = {"%": "modulo", "div": "intDiv"}[function]
        return cast(call(name, *(call("toInt64", rows.write(arg)) for arg in args)), type_)
    left, right = (_as_double(rows, arg) for arg in args)
    quotient = binary(exp.Div, left, right)
    if rows.is_not_zero(args[1]):
        return quotient
    is_zero = binary(exp.EQ, right, 0)
    failure = call("toFloat64", call("throwIf", is_zero, "division by zero"))
    return case([(is_zero, failure)], quotient)


def _as_double(rows: ExpressionWriter, value: Expression) -> exp.Expr:
    written = rows.write(value)
    return written if value.type == "double" else cast(written, "double")


def _compared(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    """Write a comparison of doubles, where NaN equals itself and is greater than any number."""
    if not any(arg.type in FLOATING for arg in expression.args):
        return None
    function, args = expression.function, expression.args
    if function == "<=>":
        rows.refuse(expression)
    if function in (">", ">="):
        function, args = _MIRRORED[function], args[::-1]
    if function == "<>":
        return exp.Not(this=exp.Paren(this=_equal(rows, *args)))
    if function == "=":
        return exp.Paren(this=_equal(rows, *args))
    left, right = (rows.write(arg) for arg in args)
    kind = exp.LT if function == "<" else exp.LTE
    plain = binary(kind, left, right)
    if not _can_be_nan(args[1]):
        return plain
    other = not_null(left) if function == "<=" else exp.Not(this=call("isNaN", left))
    is_last = exp.And(this=call("isNaN", right), expression=other)
    return exp.Paren(this=exp.Or(this=plain, expression=exp.Paren(this=is_last)))


def _equal(rows: ExpressionWriter, first: Expression, second: Expression) -> exp.Expr:
    left, right = rows.write(first), rows.write(second)
    plain = binary(exp.EQ, left, right)
    if not (_can_be_nan(first) and _can_be_nan(second)):
        return plain
    both = exp.And(this=call("isNaN", left), expression=call("isNaN", right))
    return exp.Or(this=plain, expression=exp.Paren(this=both))


def _can_be_nan(value: Expression) -> bool:
    if not isinstance(value, Constant):
        return value.type in FLOATING
    return isinstance(value.value, float) and math.isnan(value.value)


def _in(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    if any(arg.type in FLOATING for arg in expression.args):
        rows.refuse(expression)
    if any(not isinstance(arg, Constant) or arg.value is None for arg in expression.args[1:]):
        # ClickHouse skips a NULL in the list
        value, *members = (rows.write(arg) for arg in expression.args)
        whole: exp.Expr = binary(exp.EQ, value, members[0])
        for member in members[1:]:
            whole = exp.Or(this=whole, expression=binary(exp.EQ, value, member))
        return exp.Paren(this=whole)
    return None


def _extreme(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write GREATEST or LEAST."""
    if expression.type in FLOATING:
        rows.refuse(expression)
    args = [rows.write(arg) for arg in expression.args]
    return cast(call(expression.function, *args), expression.type)


def _rounded(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    value, decimals = expression.args
    if decimal_digits(value.type) is None or not isinstance(decimals, Constant):
        rows.refuse(expression)
    if not isinstance(decimals.value, int) or decimals.value < 0:
        rows.refuse(expression, "a negative number of decimals is not the same")
    return cast(call("round", rows.write(value), decimals.value), expression.type)


def _bound(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write FLOOR or CEIL of a double."""
    (value,) = expression.args
    if value.type != "double":
        rows.refuse(expression)
    written = rows.write(value)
    # Java's NaN is 0 as an integer
    known = case([(call("isNaN", written), exp.Literal.number("0e0"))], written)
    return cast(call(expression.function, known), "bigint")


def _cast(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    (value,) = expression.args
    source, type_ = value.type, expression.type
    written = rows.write(value)
    digits, new = decimal_digits(source), decimal_digits(type_)
    if source == "double" and is_integer(type_):
        return cast(call("trunc", written), type_)
    if new is not None and is_integer(source):
        digits = (_DIGITS[source], 0)
    if new is not None and digits is not None:
        if new[0] - new[1] < digits[0] - digits[1]:
            rows.refuse(expression, "digits that do not fit are not found")
        # a cast cuts off, Spark rounds
        is_shorter = new[1] < digits[1]
        return cast(call("round", written, new[1]) if is_shorter else written, type_)
    if digits is not None and type_ == "string" and digits[0] <= 15 and digits[1] <= 6:
        return call("toDecimalString", written, digits[1])
    if source == "boolean":
        return cast(cast(written, "boolean"), type_)
    return None


def _root(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    return call("sqrt", _as_double(rows, expression.args[0]))


def _length(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    (value,) = expression.args
    if value.type != "string":
        rows.refuse(expression)
    return cast(call("lengthUTF8", rows.write(value)), "int")


def _trimmed(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    return call(_TRIMS[expression.function], rows.write(expression.args[0]))


def _substring(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    text, *bounds = expression.args
    numbers = [bound.value if isinstance(bound, Constant) else None for bound in bounds]
    whole = [part for part in numbers if isinstance(part, int)]
    if len(whole) < len(numbers) or whole[0] < 1 or min(whole) < 0:
        rows.refuse(expression, "a position before 1 or a negative length is not the same")
    return call("substringUTF8", rows.write(text), *whole)


def _replaced(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    check_replace(rows, expression)
    return call("replaceAll", *(rows.write(arg) for arg in expression.args))


def _shifted_right(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    value, bits = (rows.write(arg) for arg in expression.args)
    return cast(call("bitShiftRight", value, bits), expression.type)


def _text_test(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    text, part = (rows.write(arg) for arg in expression.args)
    match expression.function:
        case "starts_with":
            return call("startsWith", text, part)
        case "ends_with":
            return call("endsWith", text, part)
    return binary(exp.GT, call("position", text, part), 0)


def _like(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    return call("match", *(rows.write(arg) for arg in expression.args))


def _refused(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    rows.refuse(expression)


WRITERS: dict[str, Writer] = {
    **writers_of_parts(part_of_time),
    **dict.fromkeys(("+", "-", "*", "neg"), _arithmetic),
    **dict.fromkeys(("/", "%", "div"), _divided),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), _compared),
    "in": _in,
    **dict.fromkeys(("greatest", "least"), _extreme),
    "round": _rounded,
    **dict.fromkeys(("floor", "ceil"), _bound),
    "cast": _cast,
    "sqrt": _root,
    "length": _length,
    **dict.fromkeys(_TRIMS, _trimmed),
    "substring": _substring,
    "replace": _replaced,
    "shift_right": _shifted_right,
    **dict.fromkeys(("contains", "starts_with", "ends_with"), _text_test),
    "like": _like,
    "concat_ws": _refused,
}
