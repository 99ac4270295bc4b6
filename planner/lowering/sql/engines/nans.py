"""MIN and MAX of doubles on engines for which NaN is not the greatest number."""

from __future__ import annotations

from sqlglot import exp

from planner.lowering.sql.text import aggregate, all_of, call, case, cast
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
