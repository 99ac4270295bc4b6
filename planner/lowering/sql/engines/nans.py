"""Aggregates of doubles on engines that treat NaN or infinity differently."""

from __future__ import annotations

from sqlglot import exp

from planner.lowering.sql.text import aggregate, all_of, binary, call, case, cast
from runtime.spec.aggregates import MergeOp


def extreme_of_doubles(
    op: MergeOp, value: exp.Expr, type_: str, is_nan: exp.Expr, condition: exp.Expr | None
) -> exp.Expr:
    """Return MIN or MAX of values as Spark computes it.

    Args:
        op: MIN or MAX.
        value: Value.
        type_: `float` or `double`.
        is_nan: Condition that the value is NaN.
        condition: Condition of FILTER. None for all rows.
    """
    given = [] if condition is None else [condition]
    nan = cast(exp.Literal.string("NaN"), type_)
    nans = aggregate(call("COUNT", exp.Star()), all_of([*given, is_nan]))
    numbers = aggregate(call(op.name, value), all_of([*given, exp.Not(this=is_nan.copy())]))
    has_nan = exp.GT(this=nans, expression=exp.Literal.number(0))
    if op == MergeOp.MAX:
        return case([(has_nan, nan)], numbers)
    return call("COALESCE", numbers, case([(has_nan, nan)]))


def variance_of_doubles(name: str, value: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Return a population variance that is NaN for a single NaN or infinity.

    Args:
        name: Function of the engine, which returns 0 for them.
        value: Value.
        condition: Condition of FILTER. None for all rows.
    """
    variance, mean = (aggregate(call(part, value), condition) for part in (name, "AVG"))
    return exp.Paren(this=binary(exp.Add, variance, binary(exp.Mul, mean, 0)))
