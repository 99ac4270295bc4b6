"""Scalar functions that PostgreSQL spells or computes in its own way."""

from __future__ import annotations

import re

from sqlglot import exp

from planner.lowering.sql.engines.shared_functions import (
    DAY_SHIFTS,
    Writer,
    check_division,
    field_of,
    writers_of_parts,
)
from planner.lowering.sql.target import ExpressionWriter
from planner.lowering.sql.text import binary, call, case, cast, number, operand
from planner.scalars.decimals import decimal_digits
from planner.scalars.types import is_integer
from runtime.spec.expressions import Call, Constant, Expression

_FIRST_YEAR = exp.Cast(this=exp.Literal.string("0001-01-01"), to=exp.DataType(this=exp.DType.DATE))
_NAN = exp.Literal.string("NaN")
_PIECE = re.compile(r"\.\*|\.|\\x\{([0-9a-f]+)\}|[^.\\]")
_MAX_DECIMALS = 15
_NUMERIC = exp.DataType(this=exp.DType.DECIMAL)


def part_of_time(function: str, time: exp.Expr) -> exp.Expr:
    """Return a part of a time as INT, by the name of Spark's function."""
    name = function.lower()
    field = exp.Var(this=field_of(name))
    part: exp.Expr = exp.Extract(this=field, expression=time.copy())
    if name == "second":
        part = call("FLOOR", part)
    if name in DAY_SHIFTS:
        part = binary(exp.Add, part, DAY_SHIFTS[name])
    whole = cast(part, "int")
    if name != "year":
        return whole
    # the year before 1 is -1 here, 0 in Spark
    return exp.Paren(
        this=binary(exp.Add, whole, cast(exp.Paren(this=binary(exp.LT, time, _FIRST_YEAR)), "int"))
    )


def _divided(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write `/`, `%` and `div`, which fail on a division by zero."""
    function, type_ = expression.function, expression.type
    args = expression.args
    check_division(rows, expression)
    if function == "%" and not is_integer(type_):
        rows.refuse(expression)
    left, right = (_as_type(rows, arg, type_) for arg in args)
    kind = {"/": exp.Div, "%": exp.Mod, "div": exp.IntDiv}[function]
    quotient = binary(kind, left, right)
    return cast(quotient, type_) if type_ in ("tinyint", "smallint") else quotient


def _as_type(rows: ExpressionWriter, value: Expression, type_: str) -> exp.Expr:
    written = rows.write(value)
    return cast(written, "double") if type_ == "double" and is_integer(value.type) else written


def _negated(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    (value,) = expression.args
    negative = exp.Neg(this=operand(rows.write(value)))
    # the result of an operator has no digits
    return cast(negative, expression.type) if decimal_digits(expression.type) else negative


def _rounded(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    value, decimals = expression.args
    if not isinstance(decimals, Constant) or not isinstance(decimals.value, int):
        rows.refuse(expression)
    if not 0 <= decimals.value <= _MAX_DECIMALS:
        rows.refuse(expression, "a negative number of decimals is not the same")
    written = rows.write(value)
    if value.type == "double":
        # Spark rounds the shortest text of a double; a cast to NUMERIC has 15 digits
        written = cast(cast(written, "string"), _NUMERIC)
    elif decimal_digits(value.type) is None:
        rows.refuse(expression)
    return cast(call("ROUND", written, decimals.value), expression.type)


def _bound(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write FLOOR or CEIL of a double."""
    (value,) = expression.args
    if value.type != "double":
        rows.refuse(expression)
    written = rows.write(value)
    bound = cast(call(expression.function.upper(), written), "bigint")
    # Java's NaN is 0 as an integer
    return case([(binary(exp.EQ, written, _NAN), number(0))], bound)


def _root(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    (value,) = expression.args
    written = _as_type(rows, value, "double")
    return case([(binary(exp.LT, written, 0), cast(_NAN, "double"))], call("SQRT", written))


def _cast(rows: ExpressionWriter, expression: Call) -> exp.Expr | None:
    (value,) = expression.args
    source, type_ = value.type, expression.type
    if source == "double" and is_integer(type_):
        # PostgreSQL rounds, Spark cuts off
        return cast(call("TRUNC", rows.write(value)), type_)
    if source == "boolean" and is_integer(type_):
        # only INT is known for booleans
        whole = cast(rows.write(value), "int")
        return whole if type_ == "int" else cast(whole, type_)
    return None


def _extreme(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write GREATEST or LEAST."""
    args = [rows.write(arg) for arg in expression.args]
    if expression.type == "string":
        args[0] = exp.Collate(
            this=operand(args[0]), expression=exp.Identifier(this="C", quoted=True)
        )
    result = call(expression.function.upper(), *args)
    return cast(result, expression.type) if decimal_digits(expression.type) else result


def _trimmed(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    (value,) = expression.args
    name = "BTRIM" if expression.function == "trim" else expression.function.upper()
    return call(name, rows.write(value))


def _text_test(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    text, part = (rows.write(arg) for arg in expression.args)
    match expression.function:
        case "starts_with":
            return call("STARTS_WITH", text, part)
        case "ends_with":
            return binary(exp.EQ, call("RIGHT", text, call("LENGTH", part)), part)
    return binary(exp.GT, call("STRPOS", text, part), 0)


def _like(rows: ExpressionWriter, expression: Call) -> exp.Expr:
    """Write LIKE for the regular expression of a pattern."""
    text, regex = expression.args
    if not isinstance(regex, Constant) or not isinstance(regex.value, str):
        rows.refuse(expression)
    body = regex.value.removeprefix(r"(?s)\A").removesuffix(r"\z")
    pattern = ""
    for piece in _PIECE.finditer(body):
        char = chr(int(piece[1], 16)) if piece[1] else piece[0]
        is_wildcard = piece[0] in (".*", ".")
        if is_wildcard:
            pattern += "%" if piece[0] == ".*" else "_"
        else:
            pattern += f"\\{char}" if char in "%_\\" else char
    return exp.Like(this=operand(rows.write(text)), expression=exp.Literal.string(pattern))


WRITERS: dict[str, Writer] = {
    **writers_of_parts(part_of_time),
    **dict.fromkeys(("/", "%", "div"), _divided),
    "neg": _negated,
    "round": _rounded,
    **dict.fromkeys(("floor", "ceil"), _bound),
    "sqrt": _root,
    "cast": _cast,
    **dict.fromkeys(("greatest", "least"), _extreme),
    **dict.fromkeys(("trim", "ltrim", "rtrim"), _trimmed),
    **dict.fromkeys(("contains", "starts_with", "ends_with"), _text_test),
    "like": _like,
}
