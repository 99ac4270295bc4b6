"""Bind LATERAL subqueries that pick the last row before a time to an as-of join.

    l LEFT JOIN LATERAL (SELECT v FROM r WHERE r.k = l.k AND r.ts <= l.ts
                         ORDER BY r.ts DESC LIMIT 1) AS x ON TRUE

Spark would join each row of `l` with all earlier rows of `r` and rank them. The node reads each
side once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.calls import aggregates_in
from planner.binder.joins.as_of_chain import nest_first
from planner.binder.joins.sides import Side, Sides
from planner.catalog import Schema
from planner.nodes.joins import AsOfJoin
from planner.nodes.logical import Node, with_needed_columns
from planner.sql.build import (
    MIRRORED,
    alias,
    column,
    column_names,
    conjunction,
    conjuncts,
    has_only,
    select_all_from,
    select_items,
    star_leaves_out,
)
from planner.sql.nodes import TextSpan, WindowFunctionCall, span_of
from planner.sql.parts import has_other_parts, own_clauses
from runtime.spec.filling import AsOfMatching

# Function that returns the columns of a query, or None if they are unknown
SchemaOf = Callable[[exp.Query], Schema | None]
# Function that returns the node of a query, or None if it cannot be bound alone
NodeOf = Callable[[exp.Query], Node | None]

_INNER = frozenset({"expressions", "from_", "where", "order", "limit"})
# Comparison of the inner with the outer time, by sort direction: whether the end is included
_COMPARISONS = {
    True: {exp.LTE: True, exp.LT: False},
    False: {exp.GTE: True, exp.GT: False},
}
# Clauses in which a name of the select list takes precedence over a column
_AFTER = ("order", "having", "qualify")


@dataclass(frozen=True)
class _Side:
    """A side of the join.

    Attributes:
        source: Relation in FROM.
        name: Name before its columns, in lower case.
        schema: Its columns.
    """

    source: exp.Expr
    name: str
    schema: Schema

    def has(self, col: exp.Column) -> bool:
        """Return whether a column belongs to this side, by its own or its table's name."""
        if len(col.parts) > 2:
            return False
        if col.table:
            return col.table.lower() == self.name
        return any(part.name.lower() == col.name.lower() for part in self.schema)


@dataclass(frozen=True)
class _Match:
    """Conditions under which rows of the two sides match.

    Attributes:
        keys: Pairs of equal expressions, left and right.
        left_time: Time of a left row.
        right_time: Time of a right row.
        is_before: Whether the last right row before is picked, rather than the first one after.
        is_inclusive: Whether a right row at the same time matches.
        limits: Farthest times of the right row, over the left side, each with whether that time
            itself matches.
        filters: Conditions on right rows.
    """

    keys: tuple[tuple[exp.Expr, exp.Expr], ...]
    left_time: exp.Expr
    right_time: exp.Expr
    is_before: bool
    is_inclusive: bool
    limits: tuple[tuple[exp.Expr, bool], ...]
    filters: tuple[exp.Expr, ...]

    @property
    def of_left(self) -> list[exp.Expr]:
        """Expressions over the left side: keys, time, limits."""
        return [
            *(left for left, _ in self.keys),
            self.left_time,
            *(expr for expr, _ in self.limits),
        ]

    @property
    def of_right(self) -> list[exp.Expr]:
        """Expressions over the right side: keys, time."""
        return [*(right for _, right in self.keys), self.right_time]


def join_as_of(
    query: exp.Select, node_of: NodeOf, relation_of: Callable[[Node], exp.Table]
) -> bool:
    """Replace, in place, the joins of a SELECT by a node if each picks the nearest row.

    Args:
        query: A SELECT over bounded tables.
        node_of: Function that binds a query.
        relation_of: Function that returns the placeholder of a node.

    Returns:
        Whether the joins were replaced.
    """
    clause, joins = query.args.get("from_"), query.args.get("joins") or []
    if clause is None or not joins or query.args.get("laterals"):
        return False
    if len(joins) > 1:
        return _join_chain(query, node_of, relation_of)
    (join,) = joins
    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or has_other_parts(clause.this):
        return False
    inner = lateral.this.this if isinstance(lateral.this, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or not _is_plain_join(join):
        return False
    name, left_name = lateral.alias, clause.this.alias_or_name
    if not (name and left_name) or lateral.alias_column_names:
        return False
    left, right = _side(clause.this, node_of), _inner_side(inner, node_of)
    if left is None or right is None or left.name in (right.name, name.lower()):
        return False
    match = _match(inner, left, right)
    if match is None or not all(_reads_only(i, right) or i.is_star for i in inner.expressions):
        return False
    clauses = {"where": _where(match.filters)}
    of_left = _with_compared(left, match.of_left, [exp.Star()], left.source.copy(), "$left")
    of_right = _with_compared(
        right, match.of_right, inner.expressions, right.source.copy(), "$right", **clauses
    )
    left_node, right_node = (node_of(rows) for rows, _ in (of_left, of_right))
    if left_node is None or right_node is None or not _has_unique_names(right_node):
        return False
    join_type = "LeftOuter" if join.side else "Inner"
    sides = Sides(Side(left_node, left_name), Side(right_node, name), join_type)
    matching = _matching(sides, match, of_left[1], of_right[1])
    items = None if matching is None else _renamed(query, sides)
    if matching is None or items is None:
        return False
    query.set("expressions", items)
    query.set("joins", None)
    node = _node(sides, matching, query, span_of(join))
    query.set("from_", exp.From(this=relation_of(node)))
    return True


def _join_chain(
    query: exp.Select, node_of: NodeOf, relation_of: Callable[[Node], exp.Table]
) -> bool:
    """Replace several joins. Arguments and result are as in `join_as_of`."""

    def schema_of(rows: exp.Query) -> Schema | None:
        node = node_of(rows)
        return None if node is None else node.schema

    joins = query.args["joins"]
    if not any(isinstance(join.this, exp.Lateral) for join in joins):
        return False
    if not all(_is_lateral_select(join) or _is_join_of_relation(join) for join in joins):
        return False
    nested = nest_first(query, schema_of)
    if nested is None:
        return False
    # an as-of join that was the first one is bound with the subquery that it is in now
    has_more = any(isinstance(join.this, exp.Lateral) for join in nested.args["joins"])
    if has_more and not join_as_of(nested, node_of, relation_of):
        return False
    query.set("joins", None)
    for key, value in nested.args.items():
        query.set(key, value)
    return True


def _is_lateral_select(join: exp.Join) -> bool:
    """Return whether a join adds columns of a LATERAL subquery without a condition."""
    subquery = join.this.this if isinstance(join.this, exp.Lateral) else None
    inner = subquery.this if isinstance(subquery, exp.Subquery) else None
    is_select = isinstance(inner, exp.Select) and inner.args.get("from_") is not None
    return is_select and not join.this.alias_column_names and _is_plain_join(join)


def _is_join_of_relation(join: exp.Join) -> bool:
    """Return whether a join adds the columns of a relation."""
    is_relation = isinstance(join.this, exp.Table | exp.Subquery | WindowFunctionCall)
    is_kind = join.kind in ("", "CROSS", "INNER", "OUTER")
    return is_relation and is_kind and not (join.method or join.args.get("using"))


def _is_plain_join(join: exp.Join) -> bool:
    on = join.args.get("on")
    is_true = on is None or (isinstance(on, exp.Boolean) and bool(on.this))
    others = (join.method, join.args.get("using"), join.args.get("pivots"))
    is_kind = join.side in ("", "LEFT") and join.kind in ("", "CROSS", "INNER", "OUTER")
    return is_true and is_kind and not any(others)


def _side(source: exp.Expr, node_of: NodeOf) -> _Side | None:
    if not isinstance(source, exp.Table | exp.Subquery | WindowFunctionCall):
        return None
    node = node_of(select_all_from(source.copy()))
    if node is None or not _has_unique_names(node):
        return None
    return _Side(source, source.alias_or_name.lower(), node.schema)


def _has_unique_names(node: Node) -> bool:
    return len({c.name.lower() for c in node.schema}) == len(node.schema)


def _inner_side(inner: exp.Select, node_of: NodeOf) -> _Side | None:
    """Return the rows that a subquery reads, if it only filters, orders and picks one."""
    clause, limit = inner.args.get("from_"), inner.args.get("limit")
    if clause is None or has_other_parts(clause.this) or not has_only(inner, _INNER):
        return None
    count = limit.expression if isinstance(limit, exp.Limit) else None
    if not isinstance(count, exp.Literal) or count.name != "1":
        return None
    items = inner.expressions
    if any(aggregates_in(item) or item.find(exp.Window, exp.Query) for item in items):
        return None
    return _side(clause.this, node_of) if clause.this.alias_or_name else None


def _match(inner: exp.Select, left: _Side, right: _Side) -> _Match | None:
    """Return how the rows match, or None if a condition has another form."""
    order = inner.args.get("order")
    if order is None or len(order.expressions) != 1:
        return None
    (ordered,) = order.expressions
    time = ordered.this
    if not isinstance(time, exp.Column) or not right.has(time):
        return None
    aliases = {i.alias.lower() for i in inner.expressions if isinstance(i, exp.Alias)}
    if not time.table and time.name.lower() in aliases:
        return None  # it is the alias
    is_before = bool(ordered.args.get("desc"))
    keys: list[tuple[exp.Expr, exp.Expr]] = []
    filters: list[exp.Expr] = []
    times: list[tuple[exp.Expr, bool]] = []
    limits: list[tuple[exp.Expr, bool]] = []
    for condition in conjuncts(inner.args.get("where")):
        if condition.find(exp.Query):
            return None
        if _reads_only(condition, right):
            filters.append(condition)
            continue
        pair = _sides_of(condition, left, right)
        if pair is None:
            return None
        of_right, of_left, kind = pair
        if kind is exp.EQ:
            keys.append((of_left, of_right))
        elif kind in _COMPARISONS[is_before] and _is_same(of_right, time):
            times.append((of_left, _COMPARISONS[is_before][kind]))
        elif kind in _COMPARISONS[not is_before] and _is_same(of_right, time):
            limits.append((of_left, _COMPARISONS[not is_before][kind]))
        else:
            return None
    if len(times) != 1:
        return None
    (left_time, is_inclusive), *_ = times
    compared = (tuple(keys), left_time, time)
    return _Match(*compared, is_before, is_inclusive, tuple(limits), tuple(filters))


def _sides_of(
    condition: exp.Expr, left: _Side, right: _Side
) -> tuple[exp.Expr, exp.Expr, type[exp.Expr]] | None:
    """Return the right expression, the left one, and the comparison from right to left."""
    kind = type(condition)
    if kind not in MIRRORED:
        return None
    first, second = condition.this, condition.expression
    if _reads_only(first, right) and _reads_only(second, left, but=right):
        return first, second, kind
    if _reads_only(second, right) and _reads_only(first, left, but=right):
        return second, first, MIRRORED[kind]
    return None


def _reads_only(expr: exp.Expr, side: _Side, but: _Side | None = None) -> bool:
    """Return whether an expression reads columns of one side only. Names in `but` go first."""
    columns = list(expr.find_all(exp.Column))
    is_hidden = but is not None and any(but.has(col) for col in columns)
    return not is_hidden and all(side.has(col) for col in columns)


def _is_same(one: exp.Expr, other: exp.Expr) -> bool:
    both = (one.unnest(), other.unnest())
    if not all(isinstance(part, exp.Column) for part in both):
        return False
    return both[0].name.lower() == both[1].name.lower()


def _where(conditions: tuple[exp.Expr, ...]) -> exp.Where | None:
    whole = conjunction(conditions)
    return None if whole is None else exp.Where(this=whole)


def _with_compared(
    side: _Side,
    compared: list[exp.Expr],
    items: list[exp.Expr],
    source: exp.Expr,
    prefix: str,
    **clauses: exp.Expr | None,
) -> tuple[exp.Select, list[str]]:
    """Return a SELECT with expressions as further columns, and the columns that hold them.

    Args:
        side: Side that the expressions read.
        compared: Expressions. One that is an item of the SELECT is not added.
        items: Items of the SELECT.
        source: Its relation.
        prefix: Start of the names of added columns.
        **clauses: Its other clauses.
    """
    shown: dict[str, str] = {}
    for item in items:
        if item.is_star:
            left_out = star_leaves_out(item)
            names = () if left_out is None else (c.name for c in side.schema)
            shown |= {n.lower(): n for n in names if n.lower() not in (left_out or ())}
        elif isinstance(item.unalias(), exp.Column):
            shown.setdefault(item.unalias().name.lower(), item.alias_or_name)
    columns, added = [], []
    for number, expr in enumerate(compared):
        plain = expr.unnest()
        name = shown.get(plain.name.lower()) if isinstance(plain, exp.Column) else None
        if name is None:
            name = f"{prefix}{number}"
            added.append(alias(expr, name))
        columns.append(name)
    # the only relation has all columns of `t.*`
    shown_items = [
        exp.Star() if item.is_star and star_leaves_out(item) == frozenset() else item.copy()
        for item in items
    ]
    return select_items([*shown_items, *added], source, **clauses), columns


def _matching(
    sides: Sides, match: _Match, of_left: list[str], of_right: list[str]
) -> AsOfMatching | None:
    """Return how rows match by columns of both sides, None if their types differ."""
    types = [{c.name: c.type for c in side.node.schema} for side in (sides.left, sides.right)]
    n_keys = len(match.keys)
    *_, time = of_right
    pairs = [*zip(of_left, of_right, strict=False), *((limit, time) for limit in of_left[n_keys:])]
    if any(types[0][left] != types[1][right] for left, right in pairs):
        return None
    renamed = [sides.right_names[name.lower()] for name in of_right]
    return AsOfMatching(
        tuple(zip(of_left[:n_keys], renamed[:n_keys], strict=True)),
        (of_left[n_keys], renamed[n_keys]),
        match.is_before,
        match.is_inclusive,
        tuple(
            (name, has_end)
            for name, (_, has_end) in zip(of_left[n_keys + 1 :], match.limits, strict=True)
        ),
    )


def _node(
    sides: Sides, matching: AsOfMatching, query: exp.Select, place: TextSpan | None
) -> AsOfJoin:
    """Return the join with the columns that it compares and that a SELECT reads."""
    read = frozenset().union(*map(column_names, own_clauses(query)))
    read |= {name.lower() for pair in matching.keys for name in pair}
    read |= {name.lower() for name in (*matching.times, *(name for name, _ in matching.limits))}
    left = with_needed_columns(sides.left.node, read)
    right = with_needed_columns(sides.renamed_right(), read)
    of_right = right.schema
    if sides.join_type == "LeftOuter":
        of_right = tuple(replace(c, nullable=True) for c in of_right)
    schema = (*left.schema, *of_right)
    return AsOfJoin(schema, left, right, matching, sides.join_type, place=place)


def _renamed(query: exp.Select, sides: Sides) -> list[exp.Expr] | None:
    """Rename, in place, the columns that the clauses of a SELECT read from both sides.

    Returns:
        The items of the SELECT. None, and no change, if a column or the name of an item is unknown:
        Spark computes the query or reports its error.
    """
    if any(part.find(exp.Query) for part in _parts(query)):
        return None
    aliases = {item.alias.lower() for item in query.expressions if isinstance(item, exp.Alias)}
    changes: dict[int, tuple[exp.Column, exp.Expr]] = {}
    for part in _parts(query):
        for col in part.find_all(exp.Column):
            is_alias = not col.table and part.arg_key in _AFTER and col.name.lower() in aliases
            if is_alias or (col is part and col.is_star):
                continue
            new = sides.column(col)
            if new is None:
                return None
            if new.name.lower() == col.name.lower() and len(col.parts) <= 2:
                new = exp.Column(this=col.this.copy())
            changes[id(col)] = (col, new)
    items: list[exp.Expr] = []
    for item in query.expressions:
        if item.is_star:
            columns = _columns_of_star(item, sides)
            if columns is None:
                return None
            items += columns
        elif isinstance(item, exp.Column):
            items.append(alias(changes.pop(id(item))[1], item.name))
        elif not isinstance(item, exp.Alias) and any(
            changes[id(col)][1].name.lower() != col.name.lower()
            for col in item.find_all(exp.Column)
        ):
            return None  # Spark names an expression by its text
        else:
            items.append(item)
    for col, new in changes.values():
        col.replace(new)
    return items


def _columns_of_star(star: exp.Expr, sides: Sides) -> list[exp.Expr] | None:
    """Return the columns of `*` or `t.*` under their names, None for a star with modifiers."""
    if star_leaves_out(star) is None:
        return None
    modifiers = star.this if isinstance(star, exp.Column) else star
    left_out = [
        (col.table.lower() if isinstance(col, exp.Column) else "", col.name.lower())
        for col in modifiers.args.get("except_") or ()
    ]
    table = star.table.lower() if isinstance(star, exp.Column) else ""
    items: list[exp.Expr] = []
    for side, names in zip((sides.left, sides.right), sides.names, strict=True):
        owner = side.name.lower()
        if table not in ("", owner):
            continue
        for shown in (c.name for c in side.node.schema if not c.name.startswith("$")):
            name = shown.lower()
            if ("", name) not in left_out and (owner, name) not in left_out:
                items.append(alias(column(names[name]), shown))
    return items


def _parts(query: exp.Select) -> list[exp.Expr]:
    """Return the clauses of a SELECT except its relations."""
    return [part for part in own_clauses(query) if part.arg_key != "joins"]
