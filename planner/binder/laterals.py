"""Rewrite LATERAL subqueries that only filter by outer columns as joins.

Streams cannot evaluate a subquery per row of a table, but they can join the table with the
subquery's rows.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.binder.joins.as_of import SchemaOf
from planner.sql.build import bare_column, column, conjunction, conjuncts, has_only
from planner.sql.nodes import WindowFunctionCall, name_of_columns
from planner.sql.parts import PLAIN_SELECT, lone_source, makes_rows, select_from_same


def join_laterals(
    query: exp.Select, schema_of: SchemaOf, is_stream: Callable[[exp.Table], bool]
) -> bool:
    """Rewrite, in place, LATERAL over streams as joins; return whether there were any.

    `u, LATERAL (SELECT * FROM s WHERE a = k) AS h` becomes `u JOIN (SELECT * FROM s) AS h ON h.a =
    k`.

    Args:
        query: A SELECT.
        schema_of: Function that returns the columns of a SELECT without conditions.
        is_stream: Whether a table is a stream. Other LATERAL subqueries are left to Spark.
    """
    changed = False
    for join in query.args.get("joins") or ():
        lateral = join.this
        inner = lateral.this.this if isinstance(lateral, exp.Lateral) else None
        if (
            isinstance(inner, exp.Select)
            and lateral.alias
            and not lateral.alias_column_names
            and any(map(is_stream, inner.find_all(exp.Table)))
        ):
            conditions = _without_correlation(inner, lateral.alias, schema_of)
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
            changed = True
    return changed


def _without_correlation(
    inner: exp.Select, name: str, schema_of: SchemaOf
) -> list[exp.Expr] | None:
    """Remove, in place, the conditions of a SELECT that read outer columns.

    Returns:
        The conditions over the SELECT's result called `name`, or None if the SELECT does more than
        filter.
    """
    source = lone_source(inner)
    if source is None or not has_only(inner, PLAIN_SELECT):
        return None
    own_names = {source.alias_or_name.lower()} - {""}
    if isinstance(source, WindowFunctionCall) and not source.alias:
        data = source.args["data"]
        own_names = {name_of_columns(data).lower()} if isinstance(data, exp.Table) else set()
    schema = schema_of(select_from_same(inner, [exp.Star()], ["from_"]))
    if schema is None:
        return None
    names = frozenset(c.name.lower() for c in schema)

    def is_own(col: exp.Column) -> bool:
        # The name before the point is a table or a struct.
        first = col.parts[0].name.lower()
        return first in names or (len(col.parts) > 1 and first in own_names)

    outputs = _outputs(inner, names)
    if outputs is None or not all(map(is_own, _columns(inner.expressions))):
        return None
    local: list[exp.Expr] = []
    correlated: list[exp.Expr] = []
    for condition in conjuncts(inner.args.get("where")):
        columns = _columns([condition])
        inner_columns = [col for col in columns if is_own(col)]
        if len(inner_columns) == len(columns):
            local.append(condition)
            continue
        if condition.find(exp.Query) or any(
            col.name.lower() not in outputs for col in inner_columns
        ):
            return None
        inner_ids = {id(col) for col in inner_columns}

        def rename(node: exp.Expr, inner_ids: set[int] = inner_ids) -> exp.Expr:
            if id(node) not in inner_ids:
                return node
            output = column(outputs[node.name.lower()])
            output.set("table", exp.to_identifier(name))
            return output

        if any(len(col.parts) > 2 for col in inner_columns):
            return None
        correlated.append(condition.transform(rename, copy=False))
    inner.set("where", exp.Where(this=where) if (where := conjunction(local)) is not None else None)
    return correlated


def _outputs(inner: exp.Select, names: frozenset[str]) -> dict[str, str] | None:
    """Map columns to their names in the result; None if it does not project row by row."""
    outputs: dict[str, str] = {}
    for item in inner.expressions:
        if item.is_star:
            outputs |= {name: name for name in names}
            continue
        value = item.unalias()
        if makes_rows(value) or aggregates_in(value) or any(value.find_all(exp.Window, exp.Query)):
            return None
        plain = bare_column(value)
        if plain is not None:
            outputs[plain.lower()] = item.alias_or_name
    return outputs


def _columns(parts: list[exp.Expr]) -> list[exp.Column]:
    return [col for part in parts for col in part.find_all(exp.Column) if not col.is_star]
