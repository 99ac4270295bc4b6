"""Names in a query's text: definitions that nothing uses, names that are used too early."""

from __future__ import annotations

from sqlglot import exp

from planner.ast import position_of
from runtime.errors import AnalysisError


def with_late_name(error: AnalysisError, query: exp.Query, sql: str) -> AnalysisError:
    """An error about a name in WHERE that the same SELECT gives to a function with OVER."""
    for select in query.find_all(exp.Select):
        where = select.args.get("where")
        late = {i.alias.lower() for i in select.expressions if i.find(exp.Window)} - {""}
        for col in where.find_all(exp.Column) if where is not None else ():
            name = col.name.lower()
            if (
                name in late
                and not col.table
                and error.message == (f"column `{col.name}` does not exist")
            ):
                return AnalysisError(
                    f"`{col.name}` is not known yet in WHERE: it is computed from the rows left",
                    position=position_of(col, sql),
                    sql=sql,
                    hint=f"put the condition around the query, or write QUALIFY {col.name} ...",
                )
    return error


def without_idle_ctes(query: exp.Select) -> exp.Select:
    """The query without definitions that nothing names any more."""
    clause = query.args.get("with_")
    if clause is None or clause.args.get("recursive"):
        return query
    kept: list[exp.Expr] = []
    for cte in reversed(clause.expressions):
        readers = [*(query.args[key] for key in query.args if key != "with_"), *kept]
        parts = [p for r in readers for p in (r if isinstance(r, list) else [r])]
        if any(
            not table.db and table.name.lower() == cte.alias.lower()
            for part in parts
            if isinstance(part, exp.Expr)
            for table in part.find_all(exp.Table)
        ):
            kept.insert(0, cte)
    query = query.copy()
    query.set("with_", exp.With(expressions=[cte.copy() for cte in kept]) if kept else None)
    return query
