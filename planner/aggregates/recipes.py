"""How an aggregate call is computed in two phases, and what recipes for it are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from planner.nodes.logical import AggregateCall
from runtime.spec.aggregates import Accumulator


@dataclass(frozen=True)
class Partial:
    """A partial column of the local stage: `expr` aggregates the rows of a key and slice.

    `struct_fields` names the columns that a struct-valued `expr` is taken apart into.
    """

    name: str
    expr: exp.Expr
    struct_fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class AggregatePlan:
    """How one aggregate call is computed in two phases.

    Attributes:
        call: the call.
        partials: what the local stage computes.
        accumulators: how the global stage merges it.
        finish: the result, as an expression over the merged columns.
    """

    call: AggregateCall
    partials: tuple[Partial, ...]
    accumulators: tuple[Accumulator, ...]
    finish: exp.Expr


@dataclass(frozen=True)
class NotMergeable:
    """Why a call has no two-phase form."""

    reason: str


Recipe = Callable[[AggregateCall], AggregatePlan | NotMergeable]


def call_of(function: str, call: AggregateCall, *args: exp.Expr) -> exp.Expr:
    """`function(args) FILTER (WHERE the call's condition)`."""
    aggregate: exp.Expr = exp.Anonymous(this=function, expressions=[arg.copy() for arg in args])
    return filtered(aggregate, call.condition)


def filtered(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """`aggregate FILTER (WHERE condition)`, if there is a condition."""
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))
