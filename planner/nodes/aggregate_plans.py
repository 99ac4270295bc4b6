"""Two-phase forms of aggregate calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.catalog import Schema
from planner.nodes.logical import COPIES, AggregateCall
from runtime.spec.aggregates import Accumulator, Average, WindowAggregation
from runtime.spec.table import Column
from runtime.windows import Window

# Names inside a plan. Columns of tables and queries never begin with a dollar sign.
START, END, TIME = "$window_start", "$window_end", "$window_time"
SLICE_END = "$slice_end"
# Columns of merged windows by role
BOUNDS = {"start": START, "end": END, "time": TIME}


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
        finish: Result as an expression over the merged columns and the averages.
        averages: Averages that the global stage computes from merged columns.
    """

    call: AggregateCall
    partials: tuple[Partial, ...]
    accumulators: tuple[Accumulator, ...]
    finish: exp.Expr
    averages: tuple[Average, ...] = ()

    def bounded(self, max_values: int) -> AggregatePlan:
        """Return the plan with a maximum of values per key and window."""
        bounded = tuple(part.bounded(max_values) for part in self.accumulators)
        return replace(self, accumulators=bounded)


def sums_changes(plan: AggregatePlan) -> bool:
    """Return whether a plan's call is the number of rows that remain after changes."""
    return plan.call.name == COPIES and plan.call.function == "SUM"


def merge_windows(
    plans: Iterable[AggregatePlan],
    window: Window,
    keys: tuple[str, ...],
    slice_end: str = SLICE_END,
) -> WindowAggregation:
    """Return the global stage of some plans.

    Args:
        plans: Plans with shared partials.
        window: Window.
        keys: Names of the group keys.
        slice_end: Name of the column with the slice end of a partial.
    """
    plans = tuple(plans)
    accumulators = tuple(part for plan in plans for part in plan.accumulators)
    averages = tuple(average for plan in plans for average in plan.averages)
    remaining = None
    if not window.closes or not window.has_slices:
        counts = (plan.accumulators[0] for plan in plans if sums_changes(plan))
        remaining = next((count.output_columns[0] for count in counts), None)
    return WindowAggregation(window, keys, slice_end, accumulators, START, END, averages, remaining)


def partials_by_column(plans: Iterable[AggregatePlan]) -> dict[str, Partial]:
    """Return the partials of some plans by column name."""
    partials = (partial for plan in plans for partial in plan.partials)
    return {name: partial for partial in partials for name in partial.columns}


def partial_schema(plans: Iterable[AggregatePlan]) -> Schema:
    """Return the partial columns of some plans as a schema."""
    return tuple(Column(name, "partial") for name in partials_by_column(plans))
