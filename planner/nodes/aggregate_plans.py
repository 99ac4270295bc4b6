"""How an aggregate call is computed in two phases."""

from __future__ import annotations

from collections.abc import Iterable
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


def partials_by_column(plans: Iterable[AggregatePlan]) -> dict[str, Partial]:
    """The partials of some plans by the columns that they become."""
    partials = (partial for plan in plans for partial in plan.partials)
    return {name: partial for partial in partials for name in partial.columns}


def partial_schema(plans: Iterable[AggregatePlan]) -> Schema:
    """The partial columns of some plans, as columns of nodes."""
    return tuple(Column(name, "partial") for name in partials_by_column(plans))
