"""Separate a SELECT with a LATERAL subquery and its relations, so that Spark analyses each alone.

Spark renames the columns of a table that a query reads twice. It fails if the part in which it
renames them contains a LATERAL subquery that it has not analysed yet.
"""

from __future__ import annotations

from contextlib import suppress

from sqlglot import exp

from planner.binder.relations import Relations, Scope
from planner.sql.build import relation, select_all_from
from planner.sql.names import without_unused_ctes
from planner.sql.parts import FROM_CLAUSES, lateral_queries, replace_relation, sources_of
from runtime.errors import AnalysisError


def analyse_apart(query: exp.Select, relations: Relations, scope: Scope) -> exp.Select:
    """Return a SELECT whose relations are nodes, and which is a node, if it has a LATERAL subquery.

    Args:
        query: SELECT whose parts are bound. Its relations are replaced in place.
        relations: Nodes of the query.
        scope: CTEs in scope, including the ones of the SELECT.
    """
    laterals = lateral_queries(query)
    if not laterals:
        return query
    inner = [part.this.this for part in laterals if isinstance(part.this.this, exp.Select)]
    for select in (query, *inner):
        for source in sources_of(select):
            is_cte = (
                isinstance(source, exp.Table) and not source.db and source.name.lower() in scope
            )
            if is_cte or isinstance(source, exp.Subquery):
                _replace(source, relations, scope)
    if query.find_ancestor(exp.Query) is None:
        return query
    with suppress(AnalysisError):  # it reads columns of an outer query, or Spark reports the error
        node = relations.sql_query(query, scope)
        outer = relations.select([exp.Star()], node)
        outer.set("with_", query.args.get("with_"))
        return without_unused_ctes(outer)
    return query


def _replace(source: exp.Expr, relations: Relations, scope: Scope) -> None:
    """Replace a relation by a node, unless it reads columns of an outer query."""
    plain = source.copy()
    for key in FROM_CLAUSES:
        plain.set(key, None)
    with suppress(AnalysisError):
        table = relation(relations.placeholder(relations.sql_query(select_all_from(plain), scope)))
        name = source.alias_or_name
        if name:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
        replace_relation(source, table)
