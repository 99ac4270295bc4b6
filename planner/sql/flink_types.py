"""Flink's semantics for operators and calls where it depends on the argument types.

Applies only under `sqlwin.strict-flink`, like `planner.sql.flink_meanings`.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.sql.build import (
    INTEGERS,
    case_when,
    cast_as,
    function_call,
    literal,
    operand,
    replace_call,
    to_sql,
    with_wrappers,
)
from planner.sql.flink_meanings import LENGTH
from planner.sql.nodes import error_at
from planner.sql.parts import own_clauses, own_nodes
from planner.sql.render import RAW, SparkSql
from runtime.errors import AnalysisError

# Function that returns Spark's type of an expression over the rows of a SELECT, or None
TypeOf = Callable[[exp.Expr], str | None]

_FLOATS = ("float", "double")
_TIMES = ("timestamp", "timestamp_ntz")
_NESTED = ("array", "map", "struct", "interval")
_SPREADS = frozenset("STDDEV STDDEV_POP STDDEV_SAMP VARIANCE VAR_POP VAR_SAMP".split())
_LARGEST_INT = 2**31 - 1
# Doubles from this value on are whole numbers
_ALL_WHOLE = 2**53
_WIDEST = 38


def rewrite_by_type(select: exp.Select, type_of: TypeOf, sql: str) -> bool:
    """Give operators and calls of a SELECT, except in subqueries, Flink's semantics in place.

    Args:
        select: The SELECT.
        type_of: Function that returns Spark's type of an expression over its rows.
        sql: Text of the statement, for errors.

    Returns:
        Whether anything was rewritten.

    Raises:
        AnalysisError: Spark has no equivalent.
    """
    has_any = False
    for node in reversed(list(own_nodes(own_clauses(select)))):  # inner nodes first
        if not isinstance(node, exp.Anonymous | exp.Bracket | exp.Cast | exp.Div):
            continue
        new = _rewrite(node, _Types(type_of), sql)
        if new is None:
            continue
        has_any = True
        outer: exp.Expr = node
        if isinstance(node, exp.Anonymous) and node.name.upper() == "AVG":
            outer = with_wrappers(node)
        new.meta.update({key: value for key, value in outer.meta.items() if key != RAW})
        replace_call(outer, new)
    return has_any


class _Types:
    """Types of expressions. Literals and casts are typed without Spark."""

    def __init__(self, type_of: TypeOf) -> None:
        self._type_of = type_of

    def of(self, expr: exp.Expr) -> str:
        """Return Spark's type, or "" if unknown."""
        expr = expr.unnest()
        if isinstance(expr, exp.Literal) and not expr.is_string and expr.name.isdecimal():
            return "int" if int(expr.name) <= _LARGEST_INT else "bigint"
        if isinstance(expr, exp.Cast):
            return str(expr.to.sql(dialect=SparkSql)).lower().replace(" ", "")
        return self._type_of(expr) or ""


def _rewrite(node: exp.Expr, types: _Types, sql: str) -> exp.Expr | None:
    match node:
        case exp.Div():
            return _division(node, types, sql)
        case exp.Cast() if node.meta.get(RAW) is None:
            return _cast(node, types, sql)
        case exp.Bracket() if len(node.expressions) == 1:
            if types.of(node.this).startswith("array"):
                # Indexes start at 1, and the result is NULL beyond the end.
                return function_call("TRY_ELEMENT_AT", node.this, node.expressions[0])
        case exp.Anonymous() if isinstance(node.this, str) and len(node.expressions) == 1:
            return _call(node, node.name.upper(), types, sql)
    return None


def _division(node: exp.Div, types: _Types, sql: str) -> exp.Expr | None:
    left, right = node.this, node.expression
    kinds = [types.of(left), types.of(right)]
    select = node.find_ancestor(exp.Select)
    is_inside = select is not None and select.find_ancestor(exp.Select) is not None
    if not all(kinds) and (is_inside or node.find_ancestor(exp.Lambda)):
        # Anything else is an error that Spark reports.
        unknown = left if not kinds[0] else right
        message = f"cannot determine the type of {to_sql(unknown)}, which decides how Flink divides"
        raise error_at(sql, message, node, hint="add CAST(... AS ...) to both sides")
    if all(kind in INTEGERS for kind in kinds):
        widest = max(kinds, key=INTEGERS.index)
        quotient = exp.IntDiv(this=operand(left), expression=operand(right))
        return cast_as(quotient, widest)
    if not any(kind in _FLOATS for kind in kinds):
        return None
    if isinstance(right, exp.Literal) and right.name.strip("0."):
        divided: exp.Expr = node.copy()
    else:
        # IEEE's Infinity and NaN, where Spark raises an error.
        infinity = cast_as(literal("Infinity"), "double")
        endless = exp.Mul(this=cast_as(left.copy(), "double"), expression=infinity)
        is_zero = exp.EQ(this=operand(right), expression=literal(0))
        divided = case_when(is_zero, endless, node.copy())
    if "double" not in kinds:
        return cast_as(divided, "float")
    return None if divided == node else divided


def _cast(node: exp.Cast, types: _Types, sql: str) -> exp.Expr | None:
    """Format booleans in upper case and times with milliseconds, and apply the length of CHAR."""
    if node.to.this != exp.DType.TEXT:
        return None
    kind = types.of(node.this)
    text: exp.Expr = node.copy()
    if kind == "boolean":
        text = function_call("UPPER", text)
    elif kind in _TIMES:
        text = _format_milliseconds(text)
    elif kind.startswith(_NESTED):
        what = kind.partition("<")[0].partition(" ")[0].upper()
        hint = "use TO_JSON(x) for text" if what != "INTERVAL" else "use EXTRACT for its parts"
        message = f"the text of {what} differs in Flink (sqlwin.strict-flink is on)"
        raise error_at(sql, message, node, hint=hint)
    length = node.to.meta.get(LENGTH)
    if length is not None:
        name, n = length
        if name == "CHAR":
            return function_call("RPAD", text, literal(n), literal(" "))
        return function_call("LEFT", text, literal(n))
    return None if text == node else text


def _format_milliseconds(text: exp.Expr) -> exp.Expr:
    """Format a time with three fractional digits, or six if it has more."""
    point = function_call("INSTR", text, literal("."))
    n_digits = exp.Paren(
        this=exp.Sub(this=function_call("CHAR_LENGTH", text), expression=point.copy())
    )

    def zeros(width: int) -> exp.Expr:
        missing = exp.Sub(this=literal(width), expression=n_digits.copy())
        return function_call("REPEAT", literal("0"), missing)

    ifs = [
        exp.If(this=exp.EQ(this=point, expression=literal(0)), true=literal(".000")),
        exp.If(this=exp.LTE(this=n_digits.copy(), expression=literal(3)), true=zeros(3)),
    ]
    return function_call("CONCAT", text, exp.Case(ifs=ifs, default=zeros(6)))


def _call(node: exp.Anonymous, name: str, types: _Types, sql: str) -> exp.Expr | None:
    value = node.expressions[0]
    if name == "AVG" or name in _SPREADS:
        item = value.expressions[0] if isinstance(value, exp.Distinct) else value
        kind = types.of(item)
        if name == "AVG":
            return _average(node, kind)
        if kind in INTEGERS:
            raise _spread_error(node, name, item, sql)
        return None
    if name in ("FLOOR", "CEIL", "CEILING") and (kind := types.of(value)) in _FLOATS:
        absolute = function_call("ABS", value)
        small = exp.LT(this=absolute, expression=literal(_ALL_WHOLE))
        rounded = cast_as(node.copy(), kind)
        return case_when(small, rounded, value.copy())
    if name == "SIGN" and (kind := types.of(value)) and kind != "double":
        return cast_as(node.copy(), kind)
    if name == "TYPEOF":
        message = "TYPEOF returns other type names in Flink (sqlwin.strict-flink is on)"
        raise error_at(sql, message, node, hint="remove it, or SET 'sqlwin.strict-flink' = 'false'")
    return None


def _spread_error(node: exp.Expr, name: str, item: exp.Expr, sql: str) -> AnalysisError:
    return error_at(
        sql,
        f"{name} of integers is an integer in Flink (sqlwin.strict-flink is on)",
        node,
        hint=f"use {name}(CAST({to_sql(item)} AS DOUBLE)), which is the same in both",
    )


def _average(node: exp.Anonymous, kind: str) -> exp.Expr | None:
    """Return an integer for integers, and a DECIMAL(38, max(6, s)) for DECIMAL(p, s)."""
    if kind in INTEGERS:
        total, count = (_like(node, name) for name in ("SUM", "COUNT"))
        divisor = function_call("NULLIF", count, literal(0))
        quotient = exp.IntDiv(this=total, expression=divisor)
        return cast_as(quotient, kind)
    if not kind.startswith("decimal("):
        return None
    precision, scale = (int(digits) for digits in kind[len("decimal(") : -1].split(","))
    average = _like(node, "AVG")
    if scale < 2:
        inner = next(call for call in average.find_all(exp.Anonymous) if call.name == "AVG")
        argument = inner.expressions[0]
        item = argument.expressions[0] if isinstance(argument, exp.Distinct) else argument
        item.replace(cast_as(item.copy(), f"decimal({min(precision + 2, _WIDEST)}, 2)"))
    return cast_as(average, f"decimal({_WIDEST}, {max(6, scale)})")


def _like(node: exp.Anonymous, name: str) -> exp.Expr:
    """Build another aggregate of the same values, with the same FILTER and OVER."""
    before = node.this
    node.set("this", name)
    copy = with_wrappers(node).copy()
    node.set("this", before)
    return copy
