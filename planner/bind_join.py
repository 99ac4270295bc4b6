"""Window join: rows of two relations in the same window, as a node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.ast import Span, joined, span_of
from planner.catalog import Schema
from planner.logical import AttachedWindow, NamedExpr, Node, Project, WindowJoin
from planner.relations import Relations
from planner.sql import alias, column, conjunction, conjuncts, identifier, relation, select_all_from
from planner.window_properties import window_properties
from runtime.errors import AnalysisError
from runtime.spec import Column

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


@dataclass(frozen=True)
class Side:
    """A relation of a FROM clause: the node behind it and what it is called."""

    node: Node
    name: str
    attached: AttachedWindow


def bind_join(
    select: exp.Select, relations: Relations, scope: Mapping[str, exp.CTE]
) -> exp.Select | str | None:
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
    if join_type is None or join.args.get("method"):
        return f"a {join.side} {join.kind} {join.method} JOIN of windows".replace("  ", " ")
    if join.args.get("using"):
        return "USING joins windows by name: write ON with both sides for a window join"
    if _nested_queries(select, source.this, *(j.this for j in joins)):
        return "a subquery stands beside a join of windows"
    if left.attached.spec != right.attached.spec:
        return "the two sides of a join have different windows"
    sides = Sides(left, right, join_type)
    condition = join.args.get("on")
    parts = list(conjuncts(condition))
    if condition is None and join_type == "Inner" and len(joins) == 1:
        # FROM a, b WHERE a.window_end = b.window_end
        where = select.args.get("where")
        parts = list(conjuncts(where.this if where is not None else None))
    resolved = [sides.resolve(part) for part in parts]
    if any(part is None for part in resolved):
        return "ON of a join of windows reads a column that neither side has alone"
    spans = [span_of(part) for part in parts]
    node = sides.join([part for part in resolved if part is not None], spans)
    if isinstance(node, str):
        return node
    try:
        checked = relations.sql_query(select, scope).schema
    except AnalysisError:
        return None  # Spark will say what is wrong, or it reads columns of a query around it
    moved = condition is None and len(joins) == 1
    return _above(select, node, sides, relations, checked, moved)


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


class Sides:
    """The two sides of a join under names that are all different."""

    def __init__(self, left: Side, right: Side, join_type: str) -> None:
        self.left, self.right, self.join_type = left, right, join_type
        self.left_names = {c.name.lower(): c.name for c in left.node.schema}
        taken = set(self.left_names)
        self.right_names: dict[str, str] = {}
        for c in right.node.schema:
            name, number = c.name, 0
            others = {other.name.lower() for other in right.node.schema} - {c.name.lower()}
            while name.lower() in taken or (name != c.name and name.lower() in others):
                name, number = f"{c.name}{number}", number + 1
            taken.add(name.lower())
            self.right_names[c.name.lower()] = name

    def resolve(self, expr: exp.Expr) -> exp.Expr | None:
        """The expression over the names of both sides; None if a column is not theirs alone."""
        result: exp.Expr = exp.Paren(this=expr.copy())
        for col in list(result.find_all(exp.Column)):
            if isinstance(col.this, exp.Star):
                return None
            new = self.column(col)
            if new is None:
                return None
            col.replace(new)
        return result.unnest()

    def column(self, col: exp.Column) -> exp.Expr | None:
        """A column under its new name; fields of a struct stay fields."""
        parts = list(col.parts)
        owners = [
            names
            for side, names in ((self.left, self.left_names), (self.right, self.right_names))
            if len(parts) > 1 and parts[0].name.lower() == side.name.lower()
        ]
        if owners:
            parts = parts[1:]
        else:
            owners = [
                names
                for names in (self.left_names, self.right_names)
                if parts[0].name.lower() in names
            ]
        if len(owners) != 1 or parts[0].name.lower() not in owners[0]:
            return None
        new: exp.Expr = column(owners[0][parts[0].name.lower()])
        new.this.meta.update(parts[-1].meta)
        return exp.Dot.build([new, *(p.copy() for p in parts[1:])]) if len(parts) > 1 else new

    def join(self, parts: list[exp.Expr], spans: list[Span | None]) -> WindowJoin | str:
        """The node of a join on these conditions, or why it is none of windows.

        `spans` tells where each of the conditions stands.
        """
        left_window, right_window = self.left.attached, _renamed_window(self)
        windows, keys, key_places, rest = [], [], [], []
        for part, span in zip(parts, spans, strict=True):
            pair = self._pair(part)
            if pair is None:
                rest.append(part)
                continue
            roles = left_window.role_of(pair[0]), right_window.role_of(pair[1])
            if roles[0] is not None and roles[0] == roles[1]:
                windows.append((roles[0], pair))
            else:
                keys.append(pair)
                key_places.append(span)
        if not left_window.identified_by(frozenset(role for role, _ in windows)):
            ends = left_window.end or left_window.start or "window_end"
            return f"ON does not say that {ends} of both sides is equal: Spark joins all rows"
        left, right = self.left.node, self._renamed_right()
        semi = self.join_type in ("LeftSemi", "LeftAnti")
        outer_left = self.join_type in ("RightOuter", "FullOuter")
        outer_right = self.join_type in ("LeftOuter", "FullOuter")
        schema = tuple(replace(c, nullable=c.nullable or outer_left) for c in left.schema)
        if not semi:
            schema += tuple(replace(c, nullable=c.nullable or outer_right) for c in right.schema)
        return WindowJoin(
            schema,
            left,
            right,
            self.join_type,
            left_window,
            right_window,
            tuple(pair for _, pair in windows),
            tuple(keys),
            conjunction(rest),
            key_places=tuple(key_places),
            place=joined(spans),
        )

    def _pair(self, part: exp.Expr) -> tuple[str, str] | None:
        """`l = r` or `r = l` as names of the two sides."""
        if not isinstance(part, exp.EQ):
            return None
        names = [
            side.name if isinstance(side, exp.Column) and not side.table else None
            for side in (part.this.unnest(), part.expression.unnest())
        ]
        lefts, rights = set(self.left_names.values()), set(self.right_names.values())
        for a, b in (names, names[::-1]):
            if a in lefts and b in rights and a is not None and b is not None:
                return a, b
        return None

    def _renamed_right(self) -> Node:
        node = self.right.node
        new = tuple(
            Column(self.right_names[c.name.lower()], c.type, c.nullable) for c in node.schema
        )
        if new == node.schema:
            return node
        items = tuple(
            NamedExpr(to.name, column(c.name)) for to, c in zip(new, node.schema, strict=True)
        )
        return Project(new, node, items)


def _renamed_window(sides: Sides) -> AttachedWindow:
    window, names = sides.right.attached, sides.right_names

    def new(name: str | None) -> str | None:
        return None if name is None else names[name.lower()]

    return AttachedWindow(
        window.spec,
        new(window.start),
        new(window.end),
        new(window.time),
        tuple(names[name.lower()] for name in window.times),
    )


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
) -> exp.Select | str:
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
            stars = _star(inner, sides, node)
            if stars is None:
                if rest and isinstance(inner, exp.Column):
                    items.append(item)  # the star of a relation that comes later
                    continue
                return "the select list of a join of windows holds a * with more to it"
            if rest and isinstance(inner, exp.Star):
                return "a * over a join of windows and further relations"
            items += [exp.Column(this=identifier(name), table=prefix) for name in stars]
        else:
            items.append(item)
    result.set("expressions", items)
    if has_moved_where:
        result.set("where", None)
    names = [c.name for c in checked]
    if all(not _is_star(item) for item in items):
        if len(names) != len(items):
            return "the select list holds an expression that yields several columns"
        result.set(
            "expressions",
            [
                item if isinstance(item, exp.Alias) else alias(item, name)
                for item, name in zip(items, names, strict=True)
            ],
        )
    aliases = {i.alias.lower() for i in result.expressions if isinstance(i, exp.Alias)}
    result.set("joins", rest or None)
    result.set("from_", None)
    for clause in list(result.args):
        if clause in ("with_", "hint", "limit", "offset"):
            continue
        value = result.args[clause]
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, exp.Expr):
                _rename_columns(part, sides, prefix, aliases if clause in _AFTER else set())
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


def _star(star: exp.Expr, sides: Sides, node: WindowJoin) -> list[str] | None:
    """The columns that `*` or `a.*` means."""
    plain = star.this if isinstance(star, exp.Column) else star
    if any(plain.args.values()):
        return None  # EXCEPT and the like
    if isinstance(star, exp.Star):
        return [c.name for c in node.schema]
    owner = star.table.lower() if isinstance(star, exp.Column) else ""
    if owner == sides.left.name.lower():
        return list(sides.left_names.values())
    if owner == sides.right.name.lower():
        return list(sides.right_names.values())
    return None


def _rename_columns(
    part: exp.Expr, sides: Sides, prefix: exp.Identifier | None, aliases: set[str]
) -> None:
    for col in list(part.find_all(exp.Column)):
        if isinstance(col.this, exp.Star) or (prefix is not None and col.table == prefix.name):
            continue
        if not col.table and col.name.lower() in aliases:
            continue
        new = sides.column(col)
        if new is None:
            continue  # a column of a relation that comes later, or a name of the select list
        if prefix is not None:
            first = new.find(exp.Column)
            if first is not None:
                first.set("table", prefix.copy())
        col.replace(new)
