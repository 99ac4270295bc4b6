"""Window join: rows of two relations in the same window, as a node.

The model is Flink's StreamPhysicalWindowJoinRule.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from planner.binder.join_sides import Side, Sides
from planner.binder.relations import Relations
from planner.catalog import Schema
from planner.nodes.logical import LeftToSpark, WindowJoin
from planner.nodes.windows import window_properties
from planner.sql.build import alias, column, conjuncts, identifier, relation, select_all_from
from planner.sql.nodes import position_of, span_of
from runtime.errors import AnalysisError, nearest

_TYPES = {
    "": "Inner",
    "INNER": "Inner",
    "LEFT": "LeftOuter",
    "LEFT OUTER": "LeftOuter",
    "RIGHT": "RightOuter",
    "RIGHT OUTER": "RightOuter",
    "FULL": "FullOuter",
    "FULL OUTER": "FullOuter",
    "SEMI": "LeftSemi",
    "LEFT SEMI": "LeftSemi",
    "ANTI": "LeftAnti",
    "LEFT ANTI": "LeftAnti",
}


def bind_join(
    select: exp.Select, relations: Relations, scope: Mapping[str, exp.CTE]
) -> exp.Select | LeftToSpark | None:
    """The SELECT with the first of its joins as a WindowJoin.

    Returns:
        The SELECT; why the join stays with Spark, if it joins windows; None if it joins none.
    """
    joins = select.args.get("joins") or []
    source = select.args.get("from_")
    extras = ("laterals", "pivots", "match", "sample")
    if source is None or not joins or any(select.args.get(key) for key in extras):
        return None
    join = joins[0]
    left = side_of(source.this, relations, scope)
    right = side_of(join.this, relations, scope)
    if left is None or right is None:
        return None
    join_type = _TYPES.get(" ".join(filter(None, (join.side, join.kind))).upper())
    if join_type is None or join.method not in ("", "NATURAL"):
        words = filter(None, (join.method, join.side, join.kind))
        return LeftToSpark(f"a {' '.join(words)} JOIN of windows")
    if _nested_queries(select, source.this, *(j.this for j in joins)):
        return LeftToSpark("a subquery stands beside a join of windows")
    if left.attached.spec != right.attached.spec:
        return LeftToSpark("the two sides of a join have different windows")
    sides = Sides(left, right, join_type, _named_columns(join, left, right))
    _check_using(join, sides, relations.sql)
    if len(joins) > 1 and sides.using and join_type in ("RightOuter", "FullOuter"):
        return LeftToSpark(
            f"USING in a {join.side} JOIN of windows with further relations behind it"
        )
    if any(other.method for other in joins[1:]):
        return LeftToSpark(f"a {joins[1].method} JOIN behind a join of windows")
    condition = join.args.get("on")
    parts = list(conjuncts(condition))
    is_comma = condition is None and not sides.using
    if is_comma and join_type == "Inner" and len(joins) == 1:
        # FROM a, b WHERE a.window_end = b.window_end
        where = select.args.get("where")
        parts = list(conjuncts(where.this if where is not None else None))
    resolved = [sides.resolve(part) for part in parts]
    if any(part is None for part in resolved):
        return LeftToSpark("ON of a join of windows reads a column that neither side has alone")
    named: list[exp.Identifier | None] = list(join.args.get("using") or [None] * len(sides.using))
    spans = [*(None if name is None else span_of(name) for name in named), *map(span_of, parts)]
    on = [part for part in resolved if part is not None]
    node = sides.join([*sides.equalities(), *on], spans)
    if isinstance(node, LeftToSpark):
        return node
    try:
        checked = relations.sql_query(select, scope).schema
    except AnalysisError:
        return None  # Spark will say what is wrong, or it reads columns of a query around it
    moved = is_comma and len(joins) == 1
    return _above(select, node, sides, relations, checked, moved)


def _check_using(join: exp.Join, sides: Sides, sql: str) -> None:
    for named in join.args.get("using") or ():
        for side, names in zip((sides.left, sides.right), sides.names, strict=True):
            if named.name.lower() not in names:
                known = [c.name for c in side.node.schema]
                close = nearest(named.name, known)
                raise AnalysisError(
                    f"USING names `{named.name}`, which `{side.name}` has not",
                    subjects=(named.name, side.name),
                    position=position_of(named, sql),
                    sql=sql,
                    hint=f"did you mean `{close}`?" if close else f"it has {', '.join(known)}",
                )


def _named_columns(join: exp.Join, left: Side, right: Side) -> tuple[str, ...]:
    """The columns that USING names, in lower case; of a NATURAL join those that both sides have."""
    if join.method == "NATURAL":
        there = {c.name.lower() for c in right.node.schema}
        return tuple(c.name.lower() for c in left.node.schema if c.name.lower() in there)
    return tuple(identifier.name.lower() for identifier in join.args.get("using") or ())


def side_of(source: exp.Expr, relations: Relations, scope: Mapping[str, exp.CTE]) -> Side | None:
    """A relation whose rows carry windows; None for every other."""
    name = source.alias_or_name
    clause = source.args.get("alias")
    extras = ("joins", "laterals", "pivots", "sample")
    if (clause is not None and clause.columns) or any(source.args.get(key) for key in extras):
        return None
    query: exp.Query
    if isinstance(source, exp.Subquery):
        query = source.this.copy()
    elif isinstance(source, exp.Table) and not source.db:
        cte = scope.get(source.name.lower())
        if cte is not None and cte.args["alias"].columns:
            return None
        query = cte.this.copy() if cte is not None else select_all_from(relation(source.name))
        if cte is None and not relations.relations_in(query):
            return None
    else:
        return None
    try:
        node = relations.whole_relation(query) or relations.sql_query(query, scope)
    except AnalysisError:
        return None
    attached = window_properties(node)
    names = {c.name.lower() for c in node.schema}
    if attached is None or len(names) != len(node.schema):
        return None
    return Side(node, name, attached)


def _nested_queries(select: exp.Select, *sources: exp.Expr) -> bool:
    """Whether queries stand in a SELECT anywhere but in its FROM, or as CTEs."""
    inside = {id(node) for source in sources for node in source.find_all(exp.Query)}
    for clause, value in select.args.items():
        if clause == "with_":
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr) and any(
                id(node) not in inside for node in part.find_all(exp.Query)
            ):
                return True
    return False


_JOINED = "$joined"


def _above(
    select: exp.Select,
    node: WindowJoin,
    sides: Sides,
    relations: Relations,
    checked: Schema,
    has_moved_where: bool,
) -> exp.Select | LeftToSpark:
    """The SELECT over the join, its columns under the names that the join gives them."""
    result = select.copy()
    rest = result.args["joins"][1:]
    # further relations may have columns of the same names
    depth = int(sides.left.name.removeprefix(_JOINED) or 0) if _is_joined(sides.left.name) else 0
    prefix = identifier(f"{_JOINED}{depth + 1}") if rest else None
    items: list[exp.Expr] = []
    for item in result.expressions:
        inner = item.unalias()
        if isinstance(inner, exp.Star) or (
            isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
        ):
            stars = _star(inner, sides)
            if stars is None:
                if rest and isinstance(inner, exp.Column):
                    items.append(item)  # the star of a relation that comes later
                    continue
                return LeftToSpark("the select list of a join of windows holds a * with more to it")
            if rest and isinstance(inner, exp.Star):
                return LeftToSpark("a * over a join of windows and further relations")
            items += [_prefixed(star, prefix) for star in stars]
        else:
            items.append(item)
    result.set("expressions", items)
    if has_moved_where:
        result.set("where", None)
    names = [c.name for c in checked]
    if all(not _is_star(item) for item in items):
        if len(names) != len(items):
            return LeftToSpark("the select list holds an expression that yields several columns")
        result.set(
            "expressions",
            [
                item if isinstance(item, exp.Alias) else alias(item, name)
                for item, name in zip(items, names, strict=True)
            ],
        )
    # what a join that comes later makes one column of
    later = {i.name.lower() for join in rest for i in join.args.get("using") or ()}
    aliases = {i.alias.lower() for i in result.expressions if isinstance(i, exp.Alias)}
    result.set("joins", rest or None)
    result.set("from_", None)
    for clause in list(result.args):
        if clause in ("with_", "hint", "limit", "offset"):
            continue
        value = result.args[clause]
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr):
                kept = later | (aliases if clause in _AFTER else set())
                _rename_columns(part, sides, prefix, kept)
    table = relation(relations.placeholder(node))
    if prefix is not None:
        table.set("alias", exp.TableAlias(this=prefix.copy()))
    result.set("from_", exp.From(this=table))
    return result


def _is_joined(name: str) -> bool:
    return name.startswith(_JOINED)


# Clauses in which a name of the select list goes before a column
_AFTER = ("order", "sort", "having", "qualify")


def _is_star(item: exp.Expr) -> bool:
    inner = item.unalias()
    return isinstance(inner, exp.Star) or (
        isinstance(inner, exp.Column) and isinstance(inner.this, exp.Star)
    )


def _prefixed(expr: exp.Expr, prefix: exp.Identifier | None) -> exp.Expr:
    """An expression over the columns of a join, under the join's name if it has one."""
    for col in expr.find_all(exp.Column):
        if prefix is not None:
            col.set("table", prefix.copy())
    return expr


def _star(star: exp.Expr, sides: Sides) -> list[exp.Expr] | None:
    """The columns that `*` or `a.*` means."""
    plain = star.this if isinstance(star, exp.Column) else star
    if any(plain.args.values()):
        return None  # EXCEPT and the like
    if isinstance(star, exp.Star):
        return sides.all_columns()
    owner = star.table.lower() if isinstance(star, exp.Column) else ""
    if owner == sides.left.name.lower():
        return [column(name) for name in sides.left_names.values()]
    if owner == sides.right.name.lower():
        return [column(name) for name in sides.right_names.values()]
    return None


def _rename_columns(
    part: exp.Expr, sides: Sides, prefix: exp.Identifier | None, kept: set[str]
) -> None:
    for col in list(part.find_all(exp.Column)):
        if isinstance(col.this, exp.Star) or (prefix is not None and col.table == prefix.name):
            continue
        if not col.table and col.name.lower() in kept:
            continue
        new = sides.column(col)
        if new is None:
            continue  # a column of a relation that comes later, or a name of the select list
        col.replace(_prefixed(new, prefix))
