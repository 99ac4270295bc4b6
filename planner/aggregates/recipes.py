"""Building blocks for the two-phase forms of aggregate calls."""

from __future__ import annotations

from sqlglot import exp

from planner.nodes.logical import AggregateCall


def call_of(function: str, call: AggregateCall, *args: exp.Expr) -> exp.Expr:
    """Build `function(args) FILTER (WHERE the call's condition)`."""
    aggregate: exp.Expr = exp.Anonymous(this=function, expressions=[arg.copy() for arg in args])
    return with_filter(aggregate, call.condition)


def with_filter(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """Build `aggregate FILTER (WHERE condition)`; without a condition, return the aggregate."""
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))
