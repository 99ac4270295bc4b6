"""Bind IN and EXISTS over rows of the same window as semi and anti joins of windows."""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.binder.joins.window_join import bind_join, side_of
from planner.binder.relations import Relations, Scope
from planner.sql.build import conjunction, conjuncts, has_only, identifier

_INNER = "$inner"


def bind_semi_join(select: exp.Select, relations: Relations, scope: Scope) -> exp.Select | None:
    """Turn one IN or EXISTS in the WHERE of a SELECT into a WindowJoin.

    NOT IN keeps its NULL semantics: a row is also dropped if its comparison with any row of its
    window is neither true nor false.

    Returns:
        The SELECT, or None if WHERE has no subquery over windows.

    Raises:
        Refused: The subquery stays with Spark although both sides carry windows.
    """
    where, source = select.args.get("where"), select.args.get("from_")
    if where is None or source is None or select.args.get("joins"):
        return None
    outer_name = source.this.alias_or_name
    parts = list(conjuncts(where.this))
    for position, part in enumerate(parts):
        membership = _membership(part)
        if membership is None:
            continue
        value, query, is_anti = membership
        join = _join(value, query, is_anti, outer_name, relations, scope)
        if join is None or side_of(source.this, relations, scope) is None:
            continue
        result = select.copy()
        result.set("joins", [join])
        rest = conjunction([*parts[:position], *parts[position + 1 :]])
        result.set("where", exp.Where(this=rest) if rest is not None else None)
        return bind_join(result, relations, scope)
    return None


def _membership(part: exp.Expr) -> tuple[exp.Expr | None, exp.Select, bool] | None:
    """Return the value to look up, the query, and whether the value must be absent."""
    is_anti = isinstance(part, exp.Not)
    inner = part.this.unnest() if is_anti else part
    if isinstance(inner, exp.Exists):
        value, query = None, inner.this
    elif isinstance(inner, exp.In):
        value, query = inner.this, inner.args.get("query")
    else:
        return None
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Select):
        return None
    if not has_only(query, ("expressions", "from_", "where", "distinct")):
        return None
    if any(map(aggregates_in, query.expressions)):
        return None  # it always has one row
    return value, query, is_anti


def _join(
    value: exp.Expr | None,
    query: exp.Select,
    is_anti: bool,
    outer_name: str,
    relations: Relations,
    scope: Scope,
) -> exp.Join | None:
    """Return the join that a subquery is equivalent to, or None if its rows have no windows."""
    clause = query.args.get("from_")
    side = side_of(clause.this, relations, scope) if clause is not None else None
    if clause is None or side is None or side.name.lower() == outer_name.lower():
        return None
    source = clause.this.copy()
    name = side.name or _INNER
    if not side.name:
        source.set("alias", exp.TableAlias(this=identifier(name)))
    # Names in a subquery refer to its own columns first.
    side_columns = side.node.column_names
    on = [_qualify(part, name, side_columns) for part in conjuncts(query.args.get("where"))]
    if any(part.find(exp.Query) for part in on):
        return None
    if value is not None:
        values = value.expressions if isinstance(value, exp.Tuple) else [value.unnest()]
        items = [item.unalias() for item in query.expressions]
        if len(values) != len(items) or any(item.find(exp.Star) for item in items):
            return None
        equal = [
            exp.EQ(this=_qualify(key, outer_name), expression=_qualify(item, name, side_columns))
            for key, item in zip(values, items, strict=True)
        ]
        if is_anti:
            all_equal = exp.Paren(this=conjunction(equal))
            unknown = exp.Is(this=all_equal.copy(), expression=exp.Null())
            on.append(exp.Paren(this=exp.Or(this=all_equal, expression=unknown)))
        else:
            on += equal
    return exp.Join(
        this=source, side="LEFT", kind="ANTI" if is_anti else "SEMI", on=conjunction(on)
    )


def _qualify(expr: exp.Expr, name: str, columns: Collection[str] | None = None) -> exp.Expr:
    """Qualify unqualified columns, or only those in `columns`, with a relation's name."""
    result: exp.Expr = exp.Paren(this=expr.copy())
    for col in result.find_all(exp.Column):
        if name and not col.table and (columns is None or col.name.lower() in columns):
            col.set("table", identifier(name))
    return result.unnest()
