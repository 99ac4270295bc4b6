"""Calls of the table's functions in SQL trees, however they are written."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from planner.scalars.literals import number_constant
from planner.scalars.types import VOID
from planner.sql.build import has_only, is_number_literal, literal
from planner.sql.intervals import fold_interval
from planner.sql.nodes import KeywordCall
from planner.sql.render import RAW
from runtime.errors import SqlwinError
from runtime.refusal import refuse
from runtime.spec.expressions import Constant

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.NEQ: "<>",
    exp.NullSafeEQ: "<=>",
    exp.NullSafeNEQ: "is distinct",
}
OPERATORS: dict[type[exp.Expr], str] = {
    **COMPARISONS,
    exp.Add: "+",
    exp.DPipe: "CONCAT",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.Mul: "*",
    exp.Sub: "-",
}
# Functions behind `EXTRACT(field FROM time)`
_FIELDS = {field: field for field in ("YEAR", "QUARTER", "MONTH", "DAY", "HOUR", "MINUTE")}
_FIELDS |= {"DOW": "DAYOFWEEK", "DOY": "DAYOFYEAR", "WEEK": "WEEKOFYEAR"}

# Name in the table of functions, and arguments
NamedCall = tuple[str, list[exp.Expr]]


def call_of(node: exp.Expr) -> NamedCall | None:
    """Return the name in the table of functions that a node calls, and its arguments.

    None for other nodes. The table may lack the name of a function.

    Raises:
        Refused: The node has a form that only Spark evaluates.
    """
    match node:
        case exp.Anonymous():
            return node.name.upper(), node.expressions
        case KeywordCall():
            return _plain_call(node)
        case exp.And() | exp.Or():
            return "and" if isinstance(node, exp.And) else "or", _chain(node)
        case exp.Add() | exp.Sub() if isinstance(node.expression, exp.Interval):
            return _shift(node)
        case exp.Not():
            return "not", [node.this]
        case exp.Neg():
            return "NEGATIVE", [node.this]
        case exp.Is() if isinstance(node.expression, exp.Null):
            return "ISNULL", [node.this]
        case exp.Is() if isinstance(node.expression, exp.Boolean):
            return "<=>", [node.this, node.expression]
        case exp.Between():
            if node.args.get("symmetric"):
                refuse("BETWEEN SYMMETRIC is not supported by the scan")
            return "between", [node.this, node.args["low"], node.args["high"]]
        case exp.In():
            if not node.expressions or not has_only(node, {"this", "expressions"}):
                refuse("IN with a subquery is not supported by the scan")
            return "in", [node.this, *node.expressions]
        case exp.Like() if has_only(node, {"this", "expression", "negate"}):
            operands = [node.this, node.expression]
            return ("not like" if node.args.get("negate") else "like"), operands
        case exp.Case():
            return _case(node)
    name = OPERATORS.get(type(node))
    return None if name is None else (name, [node.this, node.expression])


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """Return the operands of AND or OR.

    Long chains lean to the left and are deeper than Python's recursion limit.
    """
    operands: list[exp.Expr] = []
    kind, rest = type(node), node
    while isinstance(rest, kind):
        operands.append(rest.expression)
        rest = rest.this
    return [rest, *reversed(operands)]


def _shift(node: exp.Expr) -> NamedCall | None:
    """Return a time plus or minus an interval as a time and microseconds."""
    try:
        interval = fold_interval(node.expression)
    except SqlwinError:
        return None
    if interval.months:
        return None
    sign = -1 if isinstance(node, exp.Sub) else 1
    return "+ interval", [node.this, literal(sign * interval.us)]


def _case(node: exp.Case) -> NamedCall:
    parts = [part for branch in node.args["ifs"] for part in (branch.this, branch.args["true"])]
    parts.append(node.args.get("default") or exp.Null())
    return ("case", parts) if node.this is None else ("case of", [node.this, *parts])


def _plain_call(node: KeywordCall) -> NamedCall | None:
    """Return `EXTRACT(YEAR FROM t)` as YEAR of t, and SUBSTRING without keywords."""
    name, args = node.name.upper(), list(node.expressions)
    words = [str(word).upper() for word in node.args["words"]]
    if name in ("SUBSTRING", "SUBSTR") and words in (["", "FROM"], ["", "FROM", "FOR"]):
        return name, args
    if name == "EXTRACT" and words == ["", "FROM"] and isinstance(args[0], exp.Var):
        function = _FIELDS.get(args[0].name.upper())
        return None if function is None else (function, args[1:])
    return None


def constant_of(node: exp.Expr) -> Constant | None:
    """Return a literal with Spark's type, or None for other nodes and literals of other types."""
    match node:
        case exp.Boolean():
            return Constant(bool(node.this), "boolean")
        case exp.Null():
            return Constant(None, VOID)
        case exp.HexString() if len(node.this) % 2 == 0:  # Spark pads an odd number of digits
            return Constant(bytes.fromhex(node.this), "binary")
        case exp.Literal() if node.is_string:
            return Constant(str(node.this), "string")
        case exp.Literal():
            return number_constant(str(node.this))
        case exp.Neg() if is_number_literal(node.this):
            # The sign is part of the number, so that the minimum of each type can be written.
            return number_constant(f"-{node.this.this}")
    return None


def literal_of(node: exp.Expr) -> int | Decimal | str | None:
    """Return the exact number, with a sign or a suffix such as L, or the text of a literal."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        return str(inner.this)
    sign, inner = (-1, inner.this) if isinstance(inner, exp.Neg) else (1, inner)
    if isinstance(inner, exp.Cast) and inner.meta.get(RAW) is not None:
        inner = inner.this
    constant = number_constant(str(inner.this)) if is_number_literal(inner) else None
    number = None if constant is None else constant.value
    return sign * number if isinstance(number, int | Decimal) else None
