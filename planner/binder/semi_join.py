"""IN and EXISTS over rows of the same window: as semi and anti joins of windows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from planner.binder.join import bind_join, side_of
from planner.binder.relations import Relations
from planner.nodes.logical import LeftToSpark
from planner.sql.build import conjunction, conjuncts, identifier

_INNER = "$inner"


def bind_semi_join(
    select: exp.Select, relations: Relations, scope: Mapping[str, exp.CTE]
) -> exp.Select | LeftToSpark | None:
    """The SELECT with one IN or EXISTS of its WHERE as a WindowJoin.

    NOT IN keeps its meaning where NULLs are compared: a row is dropped too where the comparison
    with any row of its window is neither true nor false.

    Returns:
        The SELECT; why the subquery stays with Spark, if both sides carry windows; None otherwise.
    """
    where, source = select.args.get("where"), select.args.get("from_")
    if where is None or source is None or select.args.get("joins"):
        return None
    outer_name = source.this.alias_or_name
    parts = list(conjuncts(where.this))
    for position, part in enumerate(parts):
        found = _membership(part)
        if found is None:
            continue
        value, query, is_anti = found
        joined = _join(value, query, is_anti, outer_name, relations, scope)
        if joined is None or side_of(source.this, relations, scope) is None:
            continue
        result = select.copy()
        result.set("joins", [joined])
        rest = conjunction([*parts[:position], *parts[position + 1 :]])
        result.set("where", exp.Where(this=rest) if rest is not None else None)
        return bind_join(result, relations, scope)
    return None


def _membership(part: exp.Expr) -> tuple[exp.Expr | None, exp.Select, bool] | None:
    """What is looked for, where, and whether it must be absent."""
    is_anti = isinstance(part, exp.Not)
    inner = part.this.unnest() if isinstance(part, exp.Not) else part
    value: exp.Expr | None = None
    query: exp.Expr | None
    if isinstance(inner, exp.Exists):
        query = inner.this
    elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
        value, query = inner.this, inner.args["query"]
    else:
        return None
    query = query.unnest() if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Select):
        return None
    known = ("expressions", "from_", "where", "distinct")
    if any(clause for key, clause in query.args.items() if key not in known):
        return None
    return value, query, is_anti


def _join(
    value: exp.Expr | None,
    query: exp.Select,
    is_anti: bool,
    outer_name: str,
    relations: Relations,
    scope: Mapping[str, exp.CTE],
) -> exp.Join | None:
    """The join that a subquery is, or None where it does not read rows with windows."""
    clause = query.args.get("from_")
    side = side_of(clause.this, relations, scope) if clause is not None else None
    if clause is None or side is None or side.name.lower() == outer_name.lower():
        return None
    source = clause.this.copy()
    name = side.name or _INNER
    if not side.name:
        source.set("alias", exp.TableAlias(this=identifier(name)))
    columns = {c.name.lower() for c in side.node.schema}

    def resolved(expr: exp.Expr) -> exp.Expr:
        """Names in a subquery mean its own columns first."""
        result: exp.Expr = exp.Paren(this=expr.copy())
        for col in result.find_all(exp.Column):
            if not col.table and col.name.lower() in columns:
                col.set("table", identifier(name))
        return result.unnest()

    where = query.args.get("where")
    on = [resolved(part) for part in conjuncts(where.this if where is not None else None)]
    if any(part.find(exp.Query) for part in on):
        return None
    if value is not None:
        equal = _equal(value, query, outer_name, resolved)
        if equal is None:
            return None
        if is_anti:
            unknown = exp.Is(this=exp.Paren(this=conjunction(equal)), expression=exp.Null())
            both = conjunction(equal)
            assert both is not None
            on.append(exp.Paren(this=exp.Or(this=exp.Paren(this=both), expression=unknown)))
        else:
            on += equal
    return exp.Join(
        this=source, side="LEFT", kind="ANTI" if is_anti else "SEMI", on=conjunction(on)
    )


def _equal(
    value: exp.Expr, query: exp.Select, outer_name: str, resolved: Callable[[exp.Expr], exp.Expr]
) -> list[exp.Expr] | None:
    """`value = item` for each item of the subquery's select list."""
    values = value.expressions if isinstance(value, exp.Tuple) else [value.unnest()]
    items = [item.unalias() for item in query.expressions]
    if len(values) != len(items) or any(item.find(exp.Star) for item in items):
        return None
    outside = []
    for each in values:
        whole: exp.Expr = exp.Paren(this=each.copy())
        for col in whole.find_all(exp.Column):
            if not col.table and outer_name:
                col.set("table", identifier(outer_name))
        outside.append(whole.unnest())
    return [
        exp.EQ(this=left, expression=resolved(item))
        for left, item in zip(outside, items, strict=True)
    ]
