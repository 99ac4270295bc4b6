"""Calls of aggregate functions that people wrote in Python."""

from __future__ import annotations

from sqlglot import exp

from planner.ast import UserAggregateCall
from planner.catalog import Catalog


def mark_user_aggregates(query: exp.Expr, catalog: Catalog) -> None:
    """Make calls that the catalog knows as people's aggregates nodes of their own, in place."""
    for call in list(query.find_all(exp.Anonymous)):
        if isinstance(call, UserAggregateCall) or not isinstance(call.this, str):
            continue
        aggregate = catalog.user_aggregate(call.name)
        if aggregate is None:
            continue
        marked = UserAggregateCall(
            this=aggregate.name, expressions=call.expressions, aggregate=aggregate
        )
        marked.meta.update(call.meta)
        call.replace(marked)


def without_user_filters(query: exp.Query) -> exp.Query:
    """The query as Spark can analyse it: its Python aggregates take no FILTER.

    Types and names are the same where the condition stands in the first argument instead.
    """
    filters = [f for f in query.find_all(exp.Filter) if isinstance(f.this, UserAggregateCall)]
    for filter_ in filters:
        call = filter_.this.copy()
        if call.expressions:
            first = exp.Case(ifs=[exp.If(this=filter_.expression.this, true=call.expressions[0])])
            call.set("expressions", [first, *call.expressions[1:]])
        filter_.replace(call)
    return query
