"""Partial columns that Python aggregates from rows of Spark's."""

from __future__ import annotations

from planner.aggregate_plans import AggregatePlan
from planner.partial_calls import partial_calls
from planner.sql import to_sql
from runtime.errors import AnalysisError
from runtime.stream_spec import StreamPartial


def row_partials(plans: tuple[AggregatePlan, ...]) -> tuple[StreamPartial, ...]:
    """One for each accumulator, with Spark SQL of its arguments and of its FILTER.

    Raises:
        AnalysisError: an aggregate has a local stage inside Spark only.
    """
    found = []
    for call in partial_calls(plans):
        if call.kind in ("registers", "percentiles"):
            raise AnalysisError(
                f"{call.text} cannot be computed on a stream yet, nor beside an aggregate "
                "written in Python",
                hint="COUNT(DISTINCT ...), which is exact, can"
                if call.kind == "registers"
                else "AVG, MIN, MAX and STDDEV can",
            )
        args = tuple(to_sql(arg) for arg in call.args)
        condition = None if call.condition is None else to_sql(call.condition)
        function = None if call.user is None else call.user.function
        found.append(StreamPartial(call.kind, args, condition, call.columns, function))
    return tuple(found)
