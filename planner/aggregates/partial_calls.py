"""Partial columns as aggregate calls, for local stages that Catalyst does not run."""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.approximate import hashed_value, register_of
from planner.nodes.aggregate_plans import AggregatePlan, Partial, partials_by_column
from planner.sql.build import to_sql
from runtime.plan.local import PartialColumns
from runtime.spec.aggregates import (
    Accumulator,
)

_OF_STRUCTS = frozenset({"MIN", "MAX", "COLLECT_LIST", "COLLECT_SET"})


def partial_calls(plans: tuple[AggregatePlan, ...]) -> tuple[PartialColumns[exp.Expr], ...]:
    """Return one entry per accumulator, in order.

    Accumulators over the same set share one entry.
    """
    # A distinct accumulator may read the column of another plan.
    by_column = partials_by_column(plans)
    partials: list[PartialColumns[exp.Expr]] = []
    for plan in plans:
        for accumulator in plan.accumulators:
            call = _partial(plan, accumulator, by_column[accumulator.columns[0]])
            same = [place for place, other in enumerate(partials) if other.columns == call.columns]
            if not accumulator.merges_in_windows or not same:
                partials.append(call)
            elif not partials[same[0]].into.covers(call.into):
                partials[same[0]] = call
    return tuple(partials)


def row_partials(plans: tuple[AggregatePlan, ...]) -> tuple[PartialColumns[str], ...]:
    """Return the same as `partial_calls`, with arguments and conditions as Spark SQL."""
    return tuple(map(_sql_columns, partial_calls(plans)))


def _sql_columns(partial: PartialColumns[exp.Expr]) -> PartialColumns[str]:
    args = partial.args
    if partial.into.hash_bits is not None:
        # Let Spark compute the hash, so that values of any type get the registers of Spark's
        # function.
        args = tuple(register_of(arg, partial.into.hash_bits) for arg in args)
    condition = None if partial.condition is None else to_sql(partial.condition)
    return PartialColumns(partial.into, tuple(map(to_sql, args)), condition, partial.text)


def _fields(arg: exp.Expr) -> list[exp.Expr]:
    """Return the fields of a struct of values that are counted together, or the argument."""
    return arg.expressions[1::2] if arg.name == "NAMED_STRUCT" else [arg]


def _partial(
    plan: AggregatePlan, accumulator: Accumulator, partial: Partial
) -> PartialColumns[exp.Expr]:
    call, condition, text = partial.expr, None, plan.call.text
    if isinstance(call, exp.Filter):
        call, condition = call.this, call.expression.this
    into = accumulator.collector
    if into.hash_bits is not None:
        return PartialColumns(into, (hashed_value(partial.expr),), condition, text)
    assert isinstance(call, exp.Anonymous)
    function, args = call.name.upper(), list(call.expressions)
    if function == "COUNT_IF":
        condition = args[0] if condition is None else exp.and_(condition, args[0])
        function, args = "COUNT", []
    # Only pick_struct and lists of several columns have a struct here: MIN, MAX and DISTINCT of the
    # user's structs have no partials. The struct of a counted value may have one as its value.
    if function in _OF_STRUCTS and args[0].name == "NAMED_STRUCT":
        args = [field for arg in args[0].expressions[1::2] for field in _fields(arg)]
    if function == "COUNT":
        args = [arg for arg in args if not isinstance(arg, exp.Star | exp.Literal)]
    return PartialColumns(into, tuple(args), condition, text)
