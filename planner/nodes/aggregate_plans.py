"""Two-phase forms of aggregate calls."""

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

    `struct_fields` names the columns into which a struct-valued `expr` is split.
    """

    name: str
    expr: exp.Expr
    struct_fields: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the resulting columns."""
        return self.struct_fields or (self.name,)


@dataclass(frozen=True)
class AggregatePlan:
    """Two-phase form of one aggregate call.

    Attributes:
        call: The call.
        partials: Columns that the local stage computes.
        accumulators: Accumulators with which the global stage merges them.
        finish: Result as an expression over the merged columns.
    """

    call: AggregateCall
    partials: tuple[Partial, ...]
    accumulators: tuple[Accumulator, ...]
    finish: exp.Expr


def partials_by_column(plans: Iterable[AggregatePlan]) -> dict[str, Partial]:
    """Return the partials of some plans by column name."""
    partials = (partial for plan in plans for partial in plan.partials)
    return {name: partial for partial in partials for name in partial.columns}


def partial_schema(plans: Iterable[AggregatePlan]) -> Schema:
    """Return the partial columns of some plans as a schema."""
    return tuple(Column(name, "partial") for name in partials_by_column(plans))
