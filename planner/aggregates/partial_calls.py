"""Partial columns as aggregates of arguments, for local stages that are not Spark's."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.approximate import hashed_value
from planner.aggregates.recipes import AggregatePlan, Partial
from runtime.spec.aggregates import Accumulator, UserAggregate


@dataclass(frozen=True)
class PartialCall:
    """The partial columns of an accumulator, as an aggregate of arguments.

    Attributes:
        kind: as in `runtime.spec.scan.ArrowPartial.function`.
        args: the arguments.
        condition: the FILTER.
        columns: the names of the partial columns.
        text: the call as the person wrote it.
        arguments: of `registers` the precision, of `percentiles` the accuracy.
        user: the aggregate, if a person wrote it.
    """

    kind: str
    args: tuple[exp.Expr, ...]
    condition: exp.Expr | None
    columns: tuple[str, ...]
    text: str
    arguments: tuple[float, ...] = ()
    user: UserAggregate | None = None


def partial_calls(plans: tuple[AggregatePlan, ...]) -> tuple[PartialCall, ...]:
    """One for each accumulator, in order, but only one for all that read the same set of values."""
    # What distinct accumulators read may be another plan's.
    by_column = {
        name: partial
        for plan in plans
        for partial in plan.partials
        for name in (partial.struct_fields or (partial.name,))
    }
    found: list[PartialCall] = []
    for plan in plans:
        for accumulator in plan.accumulators:
            call = _call_of(plan, accumulator, by_column[accumulator.columns[0]])
            same = [place for place, each in enumerate(found) if each.columns == call.columns]
            if not accumulator.is_distinct or not same:
                found.append(call)
            elif call.arguments > found[same[0]].arguments:
                # the more accurate of two percentiles
                found[same[0]] = call
    return tuple(found)


def _call_of(plan: AggregatePlan, accumulator: Accumulator, partial: Partial) -> PartialCall:
    call, condition = partial.expr, None
    if isinstance(call, exp.Filter):
        call, condition = call.this, call.expression.this
    if accumulator.kind == "moments":
        # count, mean and M2 of one argument, the first of them as a call
        args = list(call.expressions)
        return PartialCall("moments", tuple(args), condition, accumulator.columns, plan.call.text)
    assert isinstance(call, exp.Anonymous)
    function, args = call.name.upper(), list(call.expressions)
    if function == "COUNT_IF":
        condition = args[0] if condition is None else exp.and_(condition, args[0])
        function, args = "COUNT", []
    if accumulator.kind in ("first", "last"):
        args = [args[0].expressions[1], args[0].expressions[3]]
    if function.startswith("COLLECT_") and args[0].name == "NAMED_STRUCT":
        args = args[0].expressions[1::2]
    if function == "COUNT":
        args = [arg for arg in args if not isinstance(arg, exp.Star | exp.Literal)]
    kind = "set" if accumulator.is_distinct else accumulator.kind
    if accumulator.kind == "listagg":
        kind = "rows"
    if accumulator.kind == "approx_count_distinct":
        hashed = (hashed_value(partial.expr),)
        return PartialCall(
            "registers",
            hashed,
            condition,
            accumulator.columns,
            plan.call.text,
            accumulator.arguments,
        )
    accuracy: tuple[float, ...] = ()
    if accumulator.kind == "approx_percentile":
        kind, accuracy = "percentiles", accumulator.arguments[:1]
    return PartialCall(
        kind,
        tuple(args),
        condition,
        accumulator.columns,
        plan.call.text,
        accuracy,
        plan.call.user,
    )
