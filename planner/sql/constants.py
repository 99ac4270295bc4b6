"""Values of constant expressions whose value decides what a function means, such as its unit."""

from __future__ import annotations

import operator
from collections.abc import Callable

from sqlglot import exp

_ARITHMETIC: dict[type[exp.Expr], Callable[[int, int], int]] = {
    exp.Add: operator.add,
    exp.Mul: operator.mul,
    exp.Sub: operator.sub,
}


def constant_text(expr: exp.Expr) -> str | None:
    """Return the text of a constant expression: literals, `||`, CONCAT and CASTs.

    None for other expressions, also for constants that only Spark computes.

    Example:
        >>> mon, th = exp.Literal.string("mon"), exp.Literal.string("th")
        >>> constant_text(exp.DPipe(this=mon, expression=th))
        'month'
    """
    match expr:
        case exp.Literal():
            return str(expr.this) if expr.is_string else None
        case exp.Paren():
            return constant_text(expr.this)
        case exp.Cast() if expr.to.this in exp.DataType.TEXT_TYPES and not expr.to.expressions:
            return constant_text(expr.this)
        case exp.DPipe():
            return _joined([expr.this, expr.expression])
        case exp.Anonymous() if expr.name.upper() == "CONCAT":
            return _joined(expr.expressions)
    return None


def _joined(parts: list[exp.Expr]) -> str | None:
    texts = [text for part in parts if (text := constant_text(part)) is not None]
    return "".join(texts) if len(texts) == len(parts) else None


def constant_integer(expr: exp.Expr) -> int | None:
    """Return the value of a constant whole number: literals, CASTs and `+ - *`."""
    match expr:
        case exp.Literal():
            return int(expr.this) if not expr.is_string and expr.this.isdecimal() else None
        case exp.Paren():
            return constant_integer(expr.this)
        case exp.Cast() if expr.to.this in exp.DataType.SIGNED_INTEGER_TYPES:
            return constant_integer(expr.this)
        case exp.Add() | exp.Sub() | exp.Mul():
            left, right = constant_integer(expr.this), constant_integer(expr.expression)
            if left is not None and right is not None:
                return _ARITHMETIC[type(expr)](left, right)
    return None
