"""Calls of user-defined aggregate functions."""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog
from planner.sql.build import alias, to_sql
from planner.sql.nodes import UserAggregateCall
from runtime.spec.aggregates import filtered_name


def mark_user_aggregates(query: exp.Expr, catalog: Catalog) -> None:
    """Make calls of user-defined aggregate functions nodes of their own, in place."""
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


def with_filters_inside(query: exp.Query) -> exp.Query:
    """The query as Spark can run it: user-defined aggregates take no FILTER but as an argument.

    Returns:
        The query itself if there is nothing to change; else a copy.
    """
    if not has_user_filters(query):
        return query
    query = query.copy()
    for select in query.find_all(exp.Select):
        # a column without a name has its text for a name
        items = [
            alias(item, to_sql(item).replace("`", ""))
            if not isinstance(item, exp.Alias) and has_user_filters(item)
            else item
            for item in select.expressions
        ]
        select.set("expressions", items)
    for each in _user_filters(query):
        call = each.this
        arguments = [each.expression.this.copy(), *(arg.copy() for arg in call.expressions)]
        each.replace(exp.Anonymous(this=filtered_name(call.name), expressions=arguments))
    return query


def has_user_filters(query: exp.Expr) -> bool:
    """Whether a user-defined aggregate in it has a FILTER."""
    return bool(_user_filters(query))


def _user_filters(query: exp.Expr) -> list[exp.Filter]:
    return [f for f in query.find_all(exp.Filter) if isinstance(f.this, UserAggregateCall)]
