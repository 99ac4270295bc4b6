"""Builders of SQL for engines other than the session's Spark.

Functions are written by their names in the target, so that sqlglot renders them as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from planner.scalars.decimals import decimal_digits
from planner.sql.build import COMPARISONS

_TYPES = {
    "tinyint": exp.DType.TINYINT,
    "smallint": exp.DType.SMALLINT,
    "int": exp.DType.INT,
    "bigint": exp.DType.BIGINT,
    "float": exp.DType.FLOAT,
    "double": exp.DType.DOUBLE,
    "string": exp.DType.TEXT,
    "binary": exp.DType.BINARY,
    "boolean": exp.DType.BOOLEAN,
    "date": exp.DType.DATE,
    "timestamp": exp.DType.TIMESTAMPTZ,
    "timestamp_ntz": exp.DType.TIMESTAMPNTZ,
}
# Operators by the names of functions
OPERATORS: dict[str, type[exp.Binary]] = {
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
    "=": exp.EQ,
    "<>": exp.NEQ,
    **COMPARISONS,
    "<=>": exp.NullSafeEQ,
}
FIRST_DAY = exp.Cast(this=exp.Literal.string("1970-01-01"), to=exp.DataType(this=exp.DType.DATE))
_ARITHMETIC = (exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Add, exp.Sub)
# More than any operator
_ATOM = 4
_ATOMS = (
    exp.Column,
    exp.Dot,
    exp.Func,
    exp.Literal,
    exp.Interval,
    exp.Paren,
    exp.Cast,
    exp.Null,
    exp.Boolean,
    exp.Window,
)


def call(name: str, *args: exp.Expr | int | str) -> exp.Expr:
    """Build a call of a function of the target. Numbers and texts become literals."""
    return exp.Anonymous(this=name, expressions=[_value(arg) for arg in args])


def _value(arg: exp.Expr | int | str) -> exp.Expr:
    if isinstance(arg, exp.Expr):
        return arg.copy()
    return exp.Literal.string(arg) if isinstance(arg, str) else number(arg)


def number(value: int) -> exp.Expr:
    """Build an integer literal."""
    literal = exp.Literal(this=str(abs(value)), is_string=False)
    return exp.Neg(this=literal) if value < 0 else literal


def binary(kind: type[exp.Binary], left: exp.Expr, right: exp.Expr | int) -> exp.Expr:
    """Build a binary operator, with parentheses around operands that bind less tightly."""
    other = right if isinstance(right, exp.Expr) else number(right)
    strength = _strength(kind)
    # comparisons do not associate
    least = strength + (kind not in _ARITHMETIC)
    return kind(this=_operand(left, least), expression=_operand(other, strength + 1))


def operand(value: exp.Expr) -> exp.Expr:
    """Return a copy of an expression that can stand next to any operator."""
    return _operand(value, _ATOM)


def _operand(value: exp.Expr, least: int) -> exp.Expr:
    is_atom = isinstance(value, _ATOMS) and not isinstance(value, exp.Connector)
    is_kept = is_atom or _strength(type(value)) >= least
    return value.copy() if is_kept else exp.Paren(this=value.copy())


def _strength(kind: type[exp.Expr]) -> int:
    """Return how tightly an operator binds, 0 if unknown."""
    if kind in (exp.Mul, exp.Div, exp.IntDiv, exp.Mod):
        return 3
    if kind in (exp.Add, exp.Sub):
        return 2
    return 1 if issubclass(kind, exp.Predicate) and issubclass(kind, exp.Binary) else 0


def is_flat(type_: str) -> bool:
    """Return whether `data_type` knows a type."""
    return type_ in _TYPES or decimal_digits(type_) is not None


def data_type(type_: str) -> exp.DataType:
    """Return a flat type of Spark."""
    digits = decimal_digits(type_)
    if digits is None:
        return exp.DataType(this=_TYPES[type_])
    return decimal(*digits)


def decimal(precision: int, scale: int) -> exp.DataType:
    """Return a DECIMAL type."""
    digits = [exp.DataTypeParam(this=number(part)) for part in (precision, scale)]
    return exp.DataType(this=exp.DType.DECIMAL, expressions=digits)


def cast(value: exp.Expr, type_: str | exp.DataType) -> exp.Expr:
    """Build `CAST(value AS type)`."""
    to = data_type(type_) if isinstance(type_, str) else type_
    return exp.Cast(this=value.copy(), to=to)


def case(
    branches: Iterable[tuple[exp.Expr, exp.Expr]], default: exp.Expr | None = None
) -> exp.Expr:
    """Build CASE with conditions and values."""
    ifs = [exp.If(this=condition.copy(), true=value.copy()) for condition, value in branches]
    return exp.Case(ifs=ifs, default=None if default is None else default.copy())


def not_null(value: exp.Expr) -> exp.Expr:
    """Build `value IS NOT NULL`."""
    return exp.Not(this=exp.Is(this=operand(value), expression=exp.Null()))


def all_of(conditions: Iterable[exp.Expr]) -> exp.Expr | None:
    """Join conditions with AND. None without conditions."""
    parts = [operand(part) if isinstance(part, exp.Or) else part.copy() for part in conditions]
    if not parts:
        return None
    whole = parts[0]
    for part in parts[1:]:
        whole = exp.And(this=whole, expression=part)
    return whole


def and_not_null(condition: exp.Expr | None, value: exp.Expr) -> exp.Expr:
    """Join a condition, if there is one, with `value IS NOT NULL`."""
    parts = [] if condition is None else [condition]
    if isinstance(condition, exp.And):
        parts = [*condition.flatten()]
    whole = all_of(dict.fromkeys([*parts, not_null(value)]))
    assert whole is not None
    return whole


def where(condition: exp.Expr | None) -> exp.Where | None:
    """Return a WHERE clause, or None without a condition."""
    return None if condition is None else exp.Where(this=condition.copy())


def aggregate(function: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Return an aggregate call with its FILTER."""
    if condition is None:
        return function
    return exp.Filter(this=function, expression=exp.Where(this=condition.copy()))


def ordered(
    name: str, value: exp.Expr, keys: Iterable[exp.Expr], *, is_descending: bool = False
) -> exp.Expr:
    """Build an aggregate over rows in an order in which NULL is the smallest: `F(v ORDER BY k)`."""
    order = [
        exp.Ordered(this=key.copy(), desc=is_descending, nulls_first=not is_descending)
        for key in keys
    ]
    return call(name, exp.Order(this=value.copy(), expressions=order))
