"""Partial columns that Python aggregates from rows of Spark's."""

from __future__ import annotations

from planner.aggregates.approximate import register_of
from planner.aggregates.partial_calls import PartialCall, partial_calls
from planner.aggregates.recipes import AggregatePlan
from planner.sql.build import to_sql
from runtime.spec.local import StreamPartial


def row_partials(plans: tuple[AggregatePlan, ...]) -> tuple[StreamPartial, ...]:
    """One for each accumulator, with Spark SQL of its arguments and of its FILTER."""
    return tuple(_row_partial(call) for call in partial_calls(plans))


def _row_partial(call: PartialCall) -> StreamPartial:
    args = call.args
    if call.kind == "registers":
        # Spark hashes, so that values of any type have the registers of its own function
        args = tuple(register_of(arg, call.arguments) for arg in args)
    condition = None if call.condition is None else to_sql(call.condition)
    function = None if call.user is None else call.user.function
    sql = tuple(map(to_sql, args))
    return StreamPartial(call.kind, sql, condition, call.columns, function, call.arguments)
