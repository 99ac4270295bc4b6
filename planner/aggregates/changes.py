"""Aggregate calls from which deleted rows are subtracted.

Other calls are computed from the counts of their values, from which deleted rows are subtracted:
doubles that are added and subtracted leave rounding errors, and the next smaller value of a MAX is
unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.calls import read_call
from planner.aggregates.functions import plan_aggregate
from planner.aggregates.intervals import is_day_interval
from planner.catalog import Schema, column_named
from planner.nodes.logical import CHANGE, AggregateCall
from planner.sql.build import (
    INTEGERS,
    bare_column,
    case_when,
    cast_as,
    column,
    conjunction,
    function_call,
    is_not_null,
    literal,
    operand,
)
from runtime.functions.aggregates import AGGREGATES
from runtime.functions.aggregates.function import Mean, TakesBack
from runtime.refusal import refuse


@dataclass(frozen=True)
class CallOfChanges:
    """A call as calls over changes.

    Attributes:
        name: Name of the call.
        calls: Sums, or the call over the counts of its values.
        result: Result of the call as an expression over their names.
    """

    name: str
    calls: tuple[AggregateCall, ...]
    result: exp.Expr


def call_of_changes(call: AggregateCall, schema: Schema) -> CallOfChanges:
    """Return a call over changes: sums, or the call over the counts of its values.

    Raises:
        Refused: It needs the rows that remain.
    """
    return _as_sums(call, schema) or _as_counts(call)


def _as_counts(call: AggregateCall) -> CallOfChanges:
    if call.user is not None:
        refuse(f"{call.text} cannot take back deleted rows")
    change = column(CHANGE)
    counted = replace(
        call,
        name=f"{call.name}$of",
        expr=function_call("OF_CHANGES", call.expr, change),
        change=change,
    )
    plan_aggregate(counted)
    counted = replace(counted, text=f"{call.text} OF CHANGES")
    return CallOfChanges(call.name, (counted,), column(counted.name))


def _as_sums(call: AggregateCall, schema: Schema) -> CallOfChanges | None:
    """Return a call as sums over changes; None if a row cannot be taken back from them."""
    function = AGGREGATES.get(call.function)
    if function is None or function.takes_back is TakesBack.VALUES or call.distinct or call.user:
        return None
    is_sum = function.takes_back is TakesBack.SUBTRACTED_IF_EXACT
    is_mean = is_sum and isinstance(function.form, Mean)
    if is_mean:
        # Its type is DOUBLE for integers too. A sum of BIGINT may not fit, though the mean does.
        name = bare_column(call.args[0])
        found = None if name is None else column_named(schema, name)
        if found is None or found.type not in ("tinyint", "smallint", "int"):
            return None
    elif is_sum and not _is_exact(call.type):
        return None
    condition = _counted(call)
    change: exp.Expr = column(CHANGE)
    if condition is not None:
        change = case_when(condition, change, literal(0))
    count = _sum(change, f"{call.name}$count", "bigint")
    if not is_sum:
        return CallOfChanges(call.name, (count,), column(count.name))
    (value,) = call.args
    is_added = exp.GT(this=column(CHANGE), expression=literal(0))
    if is_mean or call.type == "bigint":
        value = cast_as(value.copy(), "bigint")
    signed = case_when(is_added, value, exp.Neg(this=operand(value)))
    if call.condition is not None:
        signed = case_when(call.condition, signed)
    total = _sum(signed, f"{call.name}$sum", "bigint" if is_mean else call.type)
    result: exp.Expr = column(total.name)
    if is_mean:
        result = exp.Div(this=cast_as(result, "double"), expression=column(count.name))
    some = exp.GT(this=column(count.name), expression=literal(0))
    return CallOfChanges(call.name, (total, count), case_when(some, result))


def _is_exact(type_: str) -> bool:
    return type_ in INTEGERS or type_.startswith("decimal") or is_day_interval(type_)


def _counted(call: AggregateCall) -> exp.Expr | None:
    """Return which rows a call counts or adds; None: all."""
    conditions = [] if call.condition is None else [call.condition]
    if call.function == "COUNT_IF":
        conditions.append(call.args[0])
    elif not any(isinstance(arg, exp.Star) for arg in call.args):
        conditions += [is_not_null(arg) for arg in call.args]
    return conjunction(conditions)


def _sum(value: exp.Expr, name: str, type_: str) -> AggregateCall:
    return replace(read_call(function_call("SUM", value), name, ""), type=type_)
