"""Aggregates in WHERE, and HAVING without aggregates.

Spark refuses both, but without a position, and calls the second one a missing GROUP BY.
"""

from __future__ import annotations

from sqlglot import exp

from planner.aggregates.functions import is_aggregate
from planner.sql.build import to_sql
from planner.sql.nodes import error_at


def check_filters(query: exp.Query, sql: str) -> None:
    """Refuse aggregates in WHERE, and HAVING without groups or aggregates.

    Args:
        query: Query whose user-defined aggregates are marked.
        sql: Text of the query, for positions.

    Raises:
        AnalysisError: The query has one of them.
    """
    for select in query.find_all(exp.Select):
        where = select.args.get("where")
        for call in where.find_all(exp.Func) if where is not None else ():
            is_own = call.find_ancestor(exp.Window, exp.Select) is select
            if is_own and is_aggregate(call):
                message = f"{to_sql(call)} is not allowed in WHERE"
                raise error_at(sql, message, call, hint="use HAVING to filter after aggregation")
        having = select.args.get("having")
        if having is not None and select.args.get("group") is None and _has_plain_rows(select):
            raise error_at(
                sql,
                "HAVING without GROUP BY needs an aggregate in the select list",
                having.this,
                hint="WHERE filters rows",
            )


def _has_plain_rows(select: exp.Select) -> bool:
    """Return whether a SELECT with HAVING reads columns and calls no aggregate."""
    parts = [*select.expressions, select.args["having"]]
    has_aggregate = any(is_aggregate(call) for part in parts for call in part.find_all(exp.Func))
    return not has_aggregate and any(part.find(exp.Column) for part in select.expressions)
