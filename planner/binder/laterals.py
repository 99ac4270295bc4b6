"""LATERAL subqueries that only filter rows by columns from outside: as the joins that they are.

A stream cannot compute a subquery for each row of a table. A join of the table with the rows of
the subquery it can.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.sql.build import bare_column, column, conjunction, conjuncts, has_only
from planner.sql.nodes import WindowFunctionCall, name_of_columns
from planner.sql.parts import GENERATORS, PLAIN_SELECT, lone_source

# The names of the columns that a SELECT gives, in lower case; None if they are not known
NamesOf = Callable[[exp.Select], frozenset[str] | None]


def join_laterals(
    query: exp.Select, names_of: NamesOf, is_stream: Callable[[exp.Table], bool]
) -> bool:
    """Write LATERAL over streams as joins, in the tree itself; True if there were any.

    `u, LATERAL (SELECT * FROM s WHERE a = k) AS h` is `u JOIN (SELECT * FROM s) AS h ON h.a = k`.

    Args:
        query: a SELECT.
        names_of: gives the columns of a SELECT without conditions.
        is_stream: whether a table is a stream. Other LATERAL subqueries stay Spark's.
    """
    found = False
    for join in query.args.get("joins") or ():
        lateral = join.this
        inner = lateral.this.this if isinstance(lateral, exp.Lateral) else None
        if (
            isinstance(inner, exp.Select)
            and lateral.alias
            and not lateral.alias_column_names
            and any(map(is_stream, inner.find_all(exp.Table)))
        ):
            conditions = _without_correlation(inner, lateral.alias, names_of)
            if conditions is None:
                continue
            on = join.args.get("on")
            if on is not None and not (isinstance(on, exp.Boolean) and on.this):
                conditions.append(on)
            subquery = exp.Subquery(this=inner.copy(), alias=lateral.args["alias"].copy())
            join.set("this", subquery)
            join.set("on", conjunction(conditions))
            if conditions and join.args.get("kind") == "CROSS":
                join.set("kind", None)
            found = True
    return found


def _without_correlation(inner: exp.Select, name: str, names_of: NamesOf) -> list[exp.Expr] | None:
    """Take the conditions that read columns from outside out of a SELECT, in the tree itself.

    Returns:
        The conditions, over the SELECT's result under `name`; None if it is more than a filter.
    """
    source = lone_source(inner)
    if source is None or not has_only(inner, PLAIN_SELECT):
        return None
    own_names = {source.alias_or_name.lower()} - {""}
    if isinstance(source, WindowFunctionCall) and not source.alias:
        data = source.args["data"]
        own_names = {name_of_columns(data).lower()} if isinstance(data, exp.Table) else set()
    read = exp.Select(expressions=[exp.Star()], from_=inner.args["from_"].copy())
    names = names_of(read)
    if names is None:
        return None

    def is_own(col: exp.Column) -> bool:
        # a table, or a struct, before the point
        first = col.parts[0].name.lower()
        return first in names or (len(col.parts) > 1 and first in own_names)

    outputs = _outputs(inner, names)
    if outputs is None or not all(map(is_own, _columns(inner.expressions))):
        return None
    local: list[exp.Expr] = []
    correlated: list[exp.Expr] = []
    for condition in conjuncts(inner.args.get("where")):
        columns = _columns([condition])
        own = [col for col in columns if is_own(col)]
        if len(own) == len(columns):
            local.append(condition)
            continue
        if condition.find(exp.Query) or any(col.name.lower() not in outputs for col in own):
            return None
        ours = {id(col) for col in own}

        def renamed(node: exp.Expr, ours: set[int] = ours) -> exp.Expr:
            if id(node) not in ours:
                return node
            found = column(outputs[node.name.lower()])
            found.set("table", exp.to_identifier(name))
            return found

        if any(len(col.parts) > 2 for col in own):
            return None
        correlated.append(condition.transform(renamed, copy=False))
    inner.set("where", exp.Where(this=where) if (where := conjunction(local)) is not None else None)
    return correlated


def _outputs(inner: exp.Select, names: frozenset[str]) -> dict[str, str] | None:
    """What columns are called in the result; None if it is not made of columns row by row."""
    found: dict[str, str] = {}
    for item in inner.expressions:
        if item.is_star:
            found |= {name: name for name in names}
            continue
        value = item.unalias()
        makes_rows = any(c.name.upper() in GENERATORS for c in value.find_all(exp.Anonymous))
        if makes_rows or aggregates_in(value) or any(value.find_all(exp.Window, exp.Query)):
            return None
        plain = bare_column(value)
        if plain is not None:
            found[plain.lower()] = item.alias_or_name
    return found


def _columns(parts: list[exp.Expr]) -> list[exp.Column]:
    return [col for part in parts for col in part.find_all(exp.Column) if not col.is_star]
