"""Scalar functions that DataFusion spells or computes in its own way."""

from __future__ import annotations

from sqlglot import exp

from planner.lowering.sql.engines.shared_functions import (
    DAY_SHIFTS,
    Writer,
    check_division,
    check_replace,
    field_of,
    write_in_wider_type,
    writers_of_parts,
)
from planner.lowering.sql.target import FLOATING, ExpressionWriter
from planner.lowering.sql.text import (
    OPERATORS,
    binary,
    call,
    case,
    cast,
    data_type,
    decimal,
    number,
    operand,
)
from planner.scalars.decimals import MAX_DECIMAL_DIGITS
from runtime.spec.expressions import Call, Constant, Expression

_BIGINT = decimal(19, 0)
# A double below has an exponent in its text, which no cast reads
_LEAST_PLAIN, _PLAIN_LIMIT = "1e-5", "1e16"
_MAX_DECIMALS = 4


def part_of_time(function: str, time: exp.Expr) -> exp.Expr:
    """Return a part of a time as INT, by the name of Spark's function."""
    name = function.lower()
    part = call("DATE_PART", field_of(name), time)
    more = DAY_SHIFTS.get(name)
    return cast(part if more is None else binary(exp.Add, part, more), "int")


def _arithmetic(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    return write_in_wider_type(rows, expression, _widened)


def _widened(value: exp.Expr, type_: str) -> exp.Expr:
    return cast(value, _BIGINT if type_ == "bigint" else data_type("bigint"))


def _divided(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write `/`, `%` and `div`. Integers fail on a division by zero, doubles do not."""
    function, type_ = expression.function, expression.type
    args = expression.args
    check_division(rows, expression)
    kind = {"/": exp.Div, "%": exp.Mod, "div": exp.IntDiv}[function]
    operands = "double" if type_ == "double" else "bigint"
    left, right = (_as_type(rows, arg, operands) for arg in args)
    quotient = binary(kind, left, right)
    if type_ != "double":
        return cast(quotient, type_)
    if rows.is_not_zero(args[1]):
        return quotient
    failure = cast(binary(exp.Div, number(1), cast(right, "bigint")), "double")
    return case([(binary(exp.EQ, right, 0), failure)], quotient)


def _as_type(rows: ExpressionWriter, value: Expression, type_: str) -> exp.Expr:
    written = rows.write(value)
    return written if value.type == type_ else cast(written, type_)


def _compared(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    """Write a comparison of doubles, where NaN is greater than any number."""
    if not any(arg.type in FLOATING for arg in expression.args):
        return None
    left, right = (_with_one_nan(rows, arg) for arg in expression.args)
    return binary(OPERATORS[expression.function], left, right)


def _in(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    value, *members = expression.args
    if value.type not in FLOATING:
        return None
    written = [rows.write(member) for member in members]
    return exp.In(this=_with_one_nan(rows, value), expressions=written)


def _with_one_nan(rows: ExpressionWriter, value: Expression) -> exp.Expr:
    written = rows.write(value)
    if isinstance(value, Constant) or value.type not in FLOATING:
        return written
    return call("NANVL", written, cast(exp.Literal.string("NaN"), value.type))


def _extreme(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write GREATEST or LEAST."""
    args = [_with_one_nan(rows, arg) for arg in expression.args]
    return cast(call(expression.function.upper(), *args), expression.type)


def _rounded(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    """Write ROUND of a double, whose shortest text Spark rounds."""
    value, decimals = expression.args
    if value.type != "double":
        return None
    if not isinstance(decimals, Constant) or not isinstance(decimals.value, int):
        rows.refuse(expression)
    if not 0 <= decimals.value <= _MAX_DECIMALS:
        rows.refuse(expression, f"more than {_MAX_DECIMALS} decimals are not the same")
    written = rows.write(value)
    text = cast(written, "string")
    for type_ in (decimal(MAX_DECIMAL_DIGITS, decimals.value), data_type("string")):
        text = cast(text, type_)
    size = call("ABS", written)
    is_large = binary(exp.GTE, size, exp.Literal.number(_PLAIN_LIMIT))
    is_tiny = binary(exp.LT, size, exp.Literal.number(_LEAST_PLAIN))
    zero = exp.Literal.number("0e0")
    return case([(is_large, written), (is_tiny, zero)], cast(text, "double"))


def _root(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    (value,) = expression.args
    written = _as_type(rows, value, "double")
    nan = cast(exp.Literal.string("NaN"), "double")
    return case([(binary(exp.LT, written, 0), nan)], call("SQRT", written))


def _replaced(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    check_replace(rows, expression)
    return None


def _shifted_right(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    value, bits = (rows.write(arg) for arg in expression.args)
    shifted = exp.BitwiseRightShift(this=operand(value), expression=operand(bits))
    return cast(shifted, expression.type)


def _text_test(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    args = (rows.write(arg) for arg in expression.args)
    return call(expression.function.upper(), *args)


WRITERS: dict[str, Writer] = {
    **writers_of_parts(part_of_time),
    **dict.fromkeys(("+", "-", "*", "neg"), _arithmetic),
    **dict.fromkeys(("/", "%", "div"), _divided),
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), _compared),
    "in": _in,
    **dict.fromkeys(("greatest", "least"), _extreme),
    "round": _rounded,
    "sqrt": _root,
    "replace": _replaced,
    "shift_right": _shifted_right,
    **dict.fromkeys(("contains", "starts_with", "ends_with"), _text_test),
}
