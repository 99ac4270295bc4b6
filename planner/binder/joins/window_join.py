"""Bind window joins: rows of two relations in the same window.

Modelled on Flink's StreamPhysicalWindowJoinRule.
"""

from __future__ import annotations

from sqlglot import exp

from planner.binder.joins.sides import Side, Sides
from planner.binder.joins.stream_rows import EXTRAS
from planner.binder.relations import Relations, Scope
from planner.catalog import Schema
from planner.nodes.logical import INTERVAL_COLUMNS, Node
from planner.nodes.window_columns import JOIN_TYPES, join_words, window_properties
from planner.sql.build import (
    alias,
    column,
    conjuncts,
    identifier,
    relation,
    select_all_from,
    star_leaves_out,
)
from planner.sql.nodes import error_at, span_of
from planner.sql.parts import has_other_parts
from runtime.errors import AnalysisError, nearest
from runtime.refusal import refuse


def bind_join(select: exp.Select, relations: Relations, scope: Scope) -> exp.Select | None:
    """Turn the first join of a SELECT into a WindowJoin.

    Returns:
        The new SELECT, or None if it does not join windows.

    Raises:
        Refused: The join of windows stays with Spark.
    """
    joins = select.args.get("joins") or []
    source = select.args.get("from_")
    if source is None or not joins or any(select.args.get(key) for key in EXTRAS):
        return None
    join = joins[0]
    left = side_of(source.this, relations, scope)
    right = side_of(join.this, relations, scope)
    if left is None or right is None:
        return None
    join_type = JOIN_TYPES.get(join_words(join))
    if join_type is None or join.method not in ("", "NATURAL"):
        words = filter(None, (join.method, join.side, join.kind))
        refuse(f"a {' '.join(words)} JOIN of windows is not supported")
    if _has_nested_queries(select, source.this, *(j.this for j in joins)):
        refuse("a join of windows contains a subquery")
    assert left.attached is not None and right.attached is not None
    if left.attached.spec != right.attached.spec and not _are_within_interval(left, right):
        refuse("the sides of the join have different windows")
    sides = Sides(left, right, join_type, _named_columns(join, left, right))
    _check_using(join, sides, relations.sql)
    if len(joins) > 1 and sides.using and join_type in ("RightOuter", "FullOuter"):
        refuse(f"USING in a {join.side} JOIN of windows is followed by other joins")
    methods = [other.method for other in joins[1:] if other.method]
    if methods:
        refuse(f"a join of windows is followed by a {methods[0]} JOIN")
    condition = join.args.get("on")
    parts = list(conjuncts(condition))
    is_comma = condition is None and not sides.using
    if is_comma and join_type == "Inner" and len(joins) == 1:
        # FROM a, b WHERE a.window_end = b.window_end
        parts = list(conjuncts(select.args.get("where")))
    on = [resolved for part in parts if (resolved := sides.resolve(part)) is not None]
    if len(on) < len(parts):
        refuse("ON of a join of windows reads a column that neither side has alone")
    named: list[exp.Identifier | None] = list(join.args.get("using") or [None] * len(sides.using))
    spans = [*map(span_of, named), *map(span_of, parts)]
    node = sides.join([*sides.equalities(), *on], spans)
    try:
        checked = relations.sql_query(select, scope).schema
    except AnalysisError:
        return None  # Spark reports the error, or it reads columns of an outer query
    moved = is_comma and len(joins) == 1
    return select_above(select, node, sides, relations, checked, has_moved_where=moved)


def _are_within_interval(left: Side, right: Side) -> bool:
    """Return whether the windows belong to a join within an interval, so that they end together."""
    ends = {None if side.attached is None else side.attached.end for side in (left, right)}
    return ends == {INTERVAL_COLUMNS.end}


def _check_using(join: exp.Join, sides: Sides, sql: str) -> None:
    for named in join.args.get("using") or ():
        for side, names in zip((sides.left, sides.right), sides.names, strict=True):
            if named.name.lower() not in names:
                side_names = [c.name for c in side.node.schema]
                close = nearest(named.name, side_names)
                hint = (
                    f"did you mean `{close}`?"
                    if close
                    else f"available columns: {', '.join(side_names)}"
                )
                message = f"column `{named.name}` in USING does not exist in `{side.name}`"
                raise error_at(sql, message, named, hint=hint, subjects=(named.name, side.name))


def _named_columns(join: exp.Join, left: Side, right: Side) -> tuple[str, ...]:
    """Return the lower-case column names of USING, or the common columns of a NATURAL join."""
    if join.method == "NATURAL":
        right_names = {c.name.lower() for c in right.node.schema}
        return tuple(c.name.lower() for c in left.node.schema if c.name.lower() in right_names)
    return tuple(identifier.name.lower() for identifier in join.args.get("using") or ())


def side_of(source: exp.Expr, relations: Relations, scope: Scope) -> Side | None:
    """Return a relation as a side if its rows carry windows, else None."""
    if source.alias_column_names or has_other_parts(source):
        return None
    query: exp.Query | None = None
    if isinstance(source, exp.Subquery):
        query = source.this.copy()
    elif isinstance(source, exp.Table) and not source.db:
        cte = scope.get(source.name.lower())
        if cte is not None:
            query = None if cte.alias_column_names else cte.this.copy()
        elif relations.is_placeholder(source.name):
            query = select_all_from(relation(source.name))
    if query is None:
        return None
    try:
        node = relations.node_of(query, scope)
    except AnalysisError:
        return None
    attached = window_properties(node)
    names = {c.name.lower() for c in node.schema}
    if attached is None or len(names) != len(node.schema):
        return None
    return Side(node, source.alias_or_name, attached)


def _has_nested_queries(select: exp.Select, *sources: exp.Expr) -> bool:
    """Return whether a SELECT has subqueries outside its FROM, or CTEs."""
    inside = {id(node) for source in sources for node in source.find_all(exp.Query)}
    parts = (part for part in select.iter_expressions() if part.arg_key != "with_")
    return any(id(node) not in inside for part in parts for node in part.find_all(exp.Query))


_JOINED = "$joined"


def select_above(
    select: exp.Select,
    node: Node,
    sides: Sides,
    relations: Relations,
    checked: Schema,
    *,
    has_moved_where: bool,
) -> exp.Select:
    """Return a SELECT over its first join, with the column names of the join.

    Args:
        select: SELECT with the join.
        node: The join.
        sides: Its sides.
        relations: Nodes of the query.
        checked: Columns of the SELECT.
        has_moved_where: Whether WHERE is part of the join.

    Raises:
        Refused: The select list contains an unsupported `*`.
    """
    result = select.copy()
    rest = result.args["joins"][1:]
    # Further relations may have columns of the same names.
    left = sides.left.name
    depth = int(left.removeprefix(_JOINED)) if left.startswith(_JOINED) else 0
    prefix = identifier(f"{_JOINED}{depth + 1}") if rest else None
    items: list[exp.Expr] = []
    for item in result.expressions:
        columns = _star(item, sides) if item.is_star else None
        if columns is not None:
            if rest and isinstance(item, exp.Star):
                refuse("* over a join of windows and other tables")
            items += [_prefix(column, prefix) for column in columns]
        elif item.is_star and not (rest and isinstance(item, exp.Column)):
            refuse("the select list of a join of windows contains * with modifiers")
        else:
            items.append(item)  # the star of a later relation
    result.set("expressions", items)
    if has_moved_where:
        result.set("where", None)
    names = [c.name for c in checked]
    if not any(item.is_star for item in items):
        if len(names) != len(items):
            refuse("the select list contains an expression that produces several columns")
        result.set(
            "expressions",
            [
                item if isinstance(item, exp.Alias) else alias(item, name)
                for item, name in zip(items, names, strict=True)
            ],
        )
    # columns that a later join merges with USING
    later = {i.name.lower() for join in rest for i in join.args.get("using") or ()}
    aliases = {i.alias.lower() for i in result.expressions if isinstance(i, exp.Alias)}
    result.set("joins", rest or None)
    result.set("from_", None)
    for part in list(result.iter_expressions()):
        if part.arg_key not in ("with_", "hint", "limit", "offset"):
            protected = later | (aliases if part.arg_key in _AFTER else set())
            _rename_columns(part, sides, prefix, protected)
    table = relation(relations.placeholder(node))
    if prefix is not None:
        table.set("alias", exp.TableAlias(this=prefix.copy()))
    result.set("from_", exp.From(this=table))
    return result


# Clauses in which a name of the select list takes precedence over a column
_AFTER = ("order", "sort", "having", "qualify")


def _prefix(expr: exp.Expr, prefix: exp.Identifier | None) -> exp.Expr:
    """Qualify an expression over a join's columns with the join's name, if it has one."""
    for col in expr.find_all(exp.Column):
        if prefix is not None:
            col.set("table", prefix.copy())
    return expr


def _star(star: exp.Expr, sides: Sides) -> list[exp.Expr] | None:
    """Return the columns that `*` or `a.*` expands to."""
    if star_leaves_out(star) != frozenset():
        return None  # EXCEPT and the like
    if not isinstance(star, exp.Column):
        return sides.all_columns()
    for side, names in zip((sides.left, sides.right), sides.names, strict=True):
        if star.table.lower() == side.name.lower():
            return [column(name) for name in names.values()]
    return None


def _rename_columns(
    part: exp.Expr, sides: Sides, prefix: exp.Identifier | None, protected: set[str]
) -> None:
    for col in list(part.find_all(exp.Column)):
        if isinstance(col.this, exp.Star) or (prefix is not None and col.table == prefix.name):
            continue
        if not col.table and col.name.lower() in protected:
            continue
        new = sides.column(col)
        if new is None:
            continue  # a column of a later relation, or a name of the select list
        col.replace(_prefix(new, prefix))
