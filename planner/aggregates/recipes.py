"""How an aggregate call is computed in two phases, and what recipes for it are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sqlglot import exp

from planner.catalog import Schema
from planner.nodes.logical import AggregateCall
from runtime.spec.aggregates import Accumulator
from runtime.spec.table import Column


@dataclass(frozen=True)
class Partial:
    """A partial column of the local stage: `expr` aggregates the rows of a key and slice.

    `struct_fields` names the columns that a struct-valued `expr` is taken apart into.
    """

    name: str
    expr: exp.Expr
    struct_fields: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it becomes."""
        return self.struct_fields or (self.name,)


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


class NotMergeable(Exception):
    """A call has no two-phase form; the text says why."""


# The two-phase form of a call; raises NotMergeable where it has none
Recipe = Callable[[AggregateCall], AggregatePlan]


def partials_by_column(plans: Iterable[AggregatePlan]) -> dict[str, Partial]:
    """The partials of some plans by the columns that they become."""
    partials = (partial for plan in plans for partial in plan.partials)
    return {name: partial for partial in partials for name in partial.columns}


def partial_schema(plans: Iterable[AggregatePlan]) -> Schema:
    """The partial columns of some plans, as columns of nodes."""
    return tuple(Column(name, "partial") for name in partials_by_column(plans))


def call_of(function: str, call: AggregateCall, *args: exp.Expr) -> exp.Expr:
    """`function(args) FILTER (WHERE the call's condition)`."""
    aggregate: exp.Expr = exp.Anonymous(this=function, expressions=[arg.copy() for arg in args])
    return filtered(aggregate, call.condition)


def filtered(aggregate: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """`aggregate FILTER (WHERE condition)`, if there is a condition."""
    if condition is None:
        return aggregate
    return exp.Filter(this=aggregate, expression=exp.Where(this=condition.copy()))
