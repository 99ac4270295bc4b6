"""Which columns are processing time: PROCTIME() columns of tables, and calls of it in queries.

A call of CURRENT_TIMESTAMP is the same: Spark evaluates both to the time at which a micro-batch
began. A column is followed through filters, projections, joins, unions, views and WITH to where it
comes from; one that an expression makes of others is none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from planner.catalog import Catalog
from planner.nodes.logical import Expand, Filter, Node, Project, SqlQuery, TableScan
from planner.sql.build import bare_column
from planner.sql.nodes import TextSpan
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import stream_named

# PROCTIME() has become the first of these by the time a query is bound
_CALLS = ("CURRENT_TIMESTAMP", "PROCTIME", "NOW", "CURRENT_ROW_TIMESTAMP")

_Scope = Mapping[str, exp.Expr]


def is_processing_time(
    node: Node, column: str, catalog: Catalog, place: TextSpan | None = None
) -> bool:
    """Whether the values of a column are the time at which rows of streams are processed.

    Args:
        node: what has the column.
        column: its name.
        catalog: says which tables are streams.
        place: where the query names it.

    Raises:
        StreamRefusal: those of some streams are, and those of others are not.
    """
    found = set(_of_node(node, column, catalog))
    if len(found) > 1:
        raise StreamRefusal(
            f"`{column}` is processing time in one part of this UNION ALL and event time in "
            "another, so that no watermark says when a window is complete",
            "take the same kind of time from all of them",
            place,
            subjects=(column,),
        )
    return found == {True}


def _of_node(node: Node, column: str, catalog: Catalog) -> Iterator[bool]:
    """Whether it is processing time, for each origin that a column has."""
    match node:
        case TableScan():
            yield from _of_text(node.query, column, {}, {}, catalog)
        case Filter() | Expand():
            yield from _of_node(node.input, column, catalog)
        case Project():
            for item in node.items:
                if item.name.lower() == column.lower():
                    name = bare_column(item.expr)
                    if name is None:
                        yield _is_call(item.expr)
                    else:
                        yield from _of_node(node.input, name, catalog)
        case SqlQuery():
            yield from _of_text(node.query, column, dict(node.relations), {}, catalog)
        case _:
            # rows of windows and what is made of them come when their windows close
            yield False


def _of_text(
    query: exp.Expr, column: str, relations: Mapping[str, Node], scope: _Scope, catalog: Catalog
) -> Iterator[bool]:
    query = query.unnest()
    if isinstance(query, exp.Query):
        scope = {**scope, **{cte.alias.lower(): cte.this for cte in query.ctes}}
    if isinstance(query, exp.Union):
        # columns of a union are put together by position, under the names of the first
        position = _position(query, column)
        for side in _sides(query):
            name = column
            if position is not None and isinstance(side, exp.Select):
                if position >= len(side.expressions):
                    continue
                item = side.expressions[position]
                name = item.alias_or_name
                if not name:
                    yield _is_call(item.unalias())
                    continue
            yield from _of_text(side, name, relations, scope, catalog)
        return
    if not isinstance(query, exp.Select):
        yield False
        return
    named = [item for item in query.expressions if item.alias_or_name.lower() == column.lower()]
    for item in named or query.expressions:
        value = item.unalias()
        if isinstance(value, exp.Star):
            yield from _of_sources(query, None, column, relations, scope, catalog)
        elif isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            yield from _of_sources(query, value.table, column, relations, scope, catalog)
        elif not named:
            continue
        elif isinstance(value, exp.Column):
            yield from _of_sources(query, value.table, value.name, relations, scope, catalog)
        else:
            yield _is_call(value)


def _of_sources(
    select: exp.Select,
    table: str | None,
    column: str,
    relations: Mapping[str, Node],
    scope: _Scope,
    catalog: Catalog,
) -> Iterator[bool]:
    """The same of a column of what stands in FROM; without `table`, of any that has it."""
    first = select.args.get("from_")
    joins = select.args.get("joins") or []
    for source in [*([] if first is None else [first.this]), *(join.this for join in joins)]:
        if table and source.alias_or_name.lower() != table.lower():
            continue
        if isinstance(source, exp.Subquery):
            yield from _of_text(source, column, relations, scope, catalog)
        if not isinstance(source, exp.Table):
            continue
        name = source.name
        if not source.db and name in relations:
            yield from _of_node(relations[name], column, catalog)
        elif not source.db and name.lower() in scope:
            outer = {key: text for key, text in scope.items() if key != name.lower()}
            yield from _of_text(scope[name.lower()], column, relations, outer, catalog)
        elif (stream := stream_named(source, catalog)) is not None:
            yield column.lower() in stream.proctime


def _sides(query: exp.Union) -> Iterator[exp.Expr]:
    for side in (query.this.unnest(), query.expression.unnest()):
        if isinstance(side, exp.Union):
            yield from _sides(side)
        else:
            yield side


def _position(query: exp.Union, column: str) -> int | None:
    """Where a column stands in the select lists; None if they are not written out."""
    first = next(_sides(query))
    if not isinstance(first, exp.Select) or first.is_star:
        return None
    names = [item.alias_or_name.lower() for item in first.expressions]
    return names.index(column.lower()) if column.lower() in names else None


def _is_call(value: exp.Expr) -> bool:
    value = value.unnest()
    if isinstance(value, exp.CurrentTimestamp):
        return True
    return isinstance(value, exp.Anonymous) and value.name.upper() in _CALLS
