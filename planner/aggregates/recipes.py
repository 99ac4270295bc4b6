"""How an aggregate call is computed in two phases, and what recipes for it are made of."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.nodes.aggregate_plans import AggregatePlan
from planner.nodes.logical import AggregateCall


class NotMergeable(Exception):
    """A call has no two-phase form; the text says why."""


# The two-phase form of a call; raises NotMergeable where it has none
Recipe = Callable[[AggregateCall], AggregatePlan]


def call_of(function: str, call: AggregateCall, *args: exp.Expr) -> exp.Expr:
    """`function(args) FILTER (WHERE the call's condition)`."""
    aggregate: exp.Expr = exp.Anonymous(this=function, expressions=[arg.copy() for arg in args])
    return filtered(aggregate, call.condition)


def filtered(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """`aggregate FILTER (WHERE condition)`, if there is a condition."""
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))
