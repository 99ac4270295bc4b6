"""LISTAGG and COLLECT_LIST: values of a window in order of time, from the lists of its slices."""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.recipes import with_filter
from planner.nodes.aggregate_plans import AggregatePlan, Partial
from planner.nodes.logical import AggregateCall
from planner.sql.build import (
    case_when,
    cast_as,
    column,
    conjunction,
    function_call,
    is_flat_type,
    is_not_null,
    literal,
    named_struct,
)
from runtime.functions.aggregates.function import Texts
from runtime.refusal import refuse
from runtime.spec.aggregates import ListAgg
from runtime.spec.table import Column

_NOT_COMPARED = ("float", "double")  # NaN and -0.0 are equal or not, depending on the function


def values_by_time(call: AggregateCall, form: Texts) -> AggregatePlan:
    """Plan LISTAGG([DISTINCT] x [, separator]) or COLLECT_LIST([DISTINCT] x). They skip NULLs."""
    return _listagg(call) if form.is_joined else _collect_list(call)


def _collect_list(call: AggregateCall) -> AggregatePlan:
    item = call.type.removeprefix("array<").removesuffix(">")
    is_ordered = len(call.args) == 1 and call.order is not None
    is_ordered = is_ordered and call.expr.find(exp.RespectNulls) is None
    if not is_ordered or not is_flat_type(item) or (call.distinct and item in _NOT_COMPARED):
        refuse(f"{call.text} cannot be merged from partials")
    partial = Partial(f"{call.name}$rows", _rows(call, is_text=False))
    output = Column(f"{call.name}$list", call.type, False)
    accumulator = ListAgg((partial.name,), output, None, call.distinct)
    return AggregatePlan(call, (partial,), (accumulator,), column(output.name))


def _listagg(call: AggregateCall) -> AggregatePlan:
    separator = _separator(call)
    if call.type != "string" or call.order is None:
        refuse(f"{call.text} cannot be merged from partials")
    if separator is None:
        refuse(f"{call.text} can only be merged with a string constant as separator")
    partial = Partial(f"{call.name}$rows", _rows(call, is_text=True))
    output = Column(f"{call.name}$text", "string")
    accumulator = ListAgg((partial.name,), output, separator, call.distinct)
    return AggregatePlan(call, (partial,), (accumulator,), column(output.name))


def texts_by_time(call: AggregateCall) -> exp.Expr:
    """Return the call as Spark SQL over rows, ordered by time.

    Avoids WITHIN GROUP: combined with DISTINCT aggregates, ListAgg in Spark 4.3 fails with a
    ClassCastException.
    """
    rows = exp.Paren(this=_rows(call, is_text=True))
    ordered = function_call("SORT_ARRAY", rows)
    texts: exp.Expr = exp.Dot(this=ordered, expression=exp.to_identifier("v"))
    if call.distinct:
        # keeps the first of equal texts
        texts = function_call("ARRAY_DISTINCT", texts)
    separator = call.args[1] if len(call.args) > 1 else literal("")
    has_rows = exp.GT(this=function_call("SIZE", rows), expression=literal(0))
    text = function_call("ARRAY_JOIN", texts, separator)
    return case_when(has_rows, text)


def _rows(call: AggregateCall, is_text: bool) -> exp.Expr:
    """Return a list of times and values of the aggregated rows."""
    assert call.order is not None
    value = call.args[0].copy()
    row = named_struct(o=column(call.order), v=cast_as(value, "string") if is_text else value)
    present = is_not_null(exp.Paren(this=call.args[0].copy()))
    condition = conjunction([present, call.condition])
    return with_filter(function_call("COLLECT_LIST", row), condition)


def _separator(call: AggregateCall) -> str | None:
    if len(call.args) == 1:
        return ""
    separator = call.args[1]
    is_text = isinstance(separator, exp.Literal) and separator.is_string
    return separator.name if is_text and len(call.args) == 2 else None
