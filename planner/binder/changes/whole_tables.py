"""Queries that select the rows of a table of changes, without a window, a group or a rank.

A rank over all time keeps the row that remains of each key, and its changes are the changes of the
result. It ranks what the query selects, so that state holds no other columns and rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from planner.binder.all_time.ranks import rank_over_all_time
from planner.binder.changes.net_rows import signed_rows
from planner.binder.changes.remaining_rows import check_kept_columns
from planner.binder.relations import Relations
from planner.nodes.logical import (
    ChangelogTable,
    Filter,
    NamedExpr,
    Node,
    Project,
    SqlQuery,
    columns_of,
)
from planner.sql.build import bare_column, column, item_name, star_leaves_out

_RANK = "$rank"
# Columns that hold a PRIMARY KEY, in its order
_Keys = tuple[str, ...]


def with_rows_of_keys(plan: Node, query: exp.Query, relations: Relations) -> Node:
    """Return a plan that reads a table of changes as the row that remains of each key.

    A plan that does not select the whole PRIMARY KEY of such a table is left as it is.

    Args:
        plan: The plan of a whole query.
        query: The query.
        relations: Relations of the query.

    Raises:
        StreamRefusal: State cannot keep a column.
    """
    table = next(plan.find_all(ChangelogTable), None)
    keys = _keys_of(plan) if table is not None else None
    signed = signed_rows(plan) if keys else None
    if table is None or not keys or signed is None:
        return plan
    check_kept_columns(signed, plan.schema, "rows", table.place, relations.sql)
    ranked = rank_over_all_time(
        plan,
        signed,
        "ROW_NUMBER",
        (1, 1),
        keys,
        tuple(exp.Ordered(this=column(key)) for key in keys),
        _RANK,
        relations.catalog,
        "",
        table.place,
        relations.ttl_us_of(query),
    )
    assert ranked is not None, "tables of changes are streams"
    return columns_of(ranked, plan.schema)


def _keys_of(node: Node) -> _Keys | None:
    """Return the columns of a node that hold the PRIMARY KEY of its only table, else None."""
    match node:
        case ChangelogTable():
            return node.keys or None
        case Filter():
            return _keys_of(node.input)
        case Project():
            return _selected(_keys_of(node.input), node.items)
        case SqlQuery(relations=((name, below),)):
            return _keys_in(node.query, {name.lower(): _keys_of(below)})
    return None


def _selected(keys: _Keys | None, items: Iterable[NamedExpr]) -> _Keys | None:
    """Return the items that select keys as they are, or None if one is not selected."""
    names: dict[str, str] = {}
    for item in items:
        names.setdefault((bare_column(item.expr) or "").lower(), item.name)
    found = [names[key.lower()] for key in keys or () if key.lower() in names]
    return tuple(found) if keys and len(found) == len(keys) else None


def _keys_in(query: exp.Expr, tables: Mapping[str, _Keys | None]) -> _Keys | None:
    """Return the columns of a query that hold a PRIMARY KEY, else None.

    Args:
        query: A SELECT from one relation.
        tables: Columns with the key, by the lower-case names of relations and CTEs.
    """
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Select) or not query.args.get("from_") or query.args.get("joins"):
        return None
    tables = {**tables}
    for cte in query.ctes:
        tables[cte.alias.lower()] = _keys_in(cte.this, tables)
    source = query.args["from_"].this
    name = source.alias_or_name.lower()
    if isinstance(source, exp.Table):
        keys = tables.get(source.name.lower())
    else:
        keys = _keys_in(source, tables)
    items: list[NamedExpr] = []
    for item in query.expressions:
        if item.is_star:
            left_out = star_leaves_out(item)
            shown = [] if left_out is None else [k for k in keys or () if k.lower() not in left_out]
            items += (NamedExpr(key, column(key)) for key in shown)
        else:
            value = item.unalias().unnest()
            if isinstance(value, exp.Column) and value.table.lower() == name:
                value = column(value.name)
            items.append(NamedExpr(item_name(item), value))
    return _selected(keys, items)
