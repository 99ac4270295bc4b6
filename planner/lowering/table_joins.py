"""Lowering of joins without windows, by equal columns, to a SELECT over one relation.

FROM a JOIN b ON a.k = b.k WHERE b.ts > a.ts      columns of a: k, ts; of b: k0, ts0
FROM joined WHERE ts0 > ts
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.arrow.expressions import to_arrow_expression
from planner.catalog import Schema
from planner.lowering.relation import Relation, RelationLowering, renamed
from planner.nodes.window_columns import JOIN_TYPES, join_words
from planner.sql.build import (
    alias,
    bare_column,
    column,
    conjunction,
    conjuncts,
    function_call,
    has_only,
    star_leaves_out,
)
from runtime.plan.arrow_rows import JoinedRows
from runtime.refusal import refuse
from runtime.spec.table import Column

_TYPES = {**JOIN_TYPES, "CROSS": "Inner"}
_JOIN = frozenset({"this", "side", "kind", "on", "using"})
# Clauses in which a name of the select list takes precedence over a column
_AFTER = ("order", "having")
_LEFT_ALONE = ("LeftSemi", "LeftAnti")

# Function that returns the rows of a relation in FROM and their name in lower case
SourceOf = Callable[[exp.Expr], tuple[Relation, str]]


@dataclass(frozen=True)
class _Shown:
    """A column of a relation in FROM.

    Attributes:
        owner: Name of the relation in lower case.
        name: Name of the column.
        joined: The column of the join, whose name is unique.
    """

    owner: str
    name: str
    joined: Column


@dataclass(frozen=True)
class _Joined:
    """Relations that are joined so far.

    Attributes:
        rows: Rows with the joined columns.
        shown: Their columns.
        merged: Columns that USING makes of both sides, by name in lower case.
    """

    rows: Relation
    shown: tuple[_Shown, ...]
    merged: dict[str, exp.Expr]

    @property
    def schema(self) -> Schema:
        """Columns of the join."""
        return tuple(part.joined for part in self.shown)

    def meant(self, col: exp.Column) -> exp.Expr:
        """Return a column of a relation as one of the join.

        Raises:
            Refused: No relation has it, or several.
        """
        first, *fields = col.parts
        owners = [part for part in self.shown if fields and part.owner == first.name.lower()]
        if owners:
            first, *fields = fields
        name = first.name.lower()
        if not owners and name in self.merged:
            return self.merged[name].copy()
        found = [part for part in owners or self.shown if part.name.lower() == name]
        if len(found) != 1 or fields:
            refuse(f"{col.sql()} is not the name of one column of the joined relations")
        return column(found[0].joined.name)

    def over(self, expr: exp.Expr, *, but: frozenset[str] = frozenset()) -> exp.Expr:
        """Return an expression over the columns of the join, except for names without a table."""
        root = exp.Paren(this=expr.copy())
        for col in list(root.find_all(exp.Column)):
            if not col.is_star and (col.table or col.name.lower() not in but):
                col.replace(self.meant(col))
        over: exp.Expr = root.this
        return over

    def items(self, star: exp.Expr) -> list[exp.Expr]:
        """Return the columns of `*` or `a.*`, with the columns of USING first."""
        if star_leaves_out(star) != frozenset():
            refuse("* with modifiers over a join is not compiled")
        table = star.table.lower() if isinstance(star, exp.Column) else None
        merged = {} if table is not None else self.merged
        items: list[exp.Expr] = [alias(value.copy(), name) for name, value in merged.items()]
        parts = [part for part in self.shown if table in (None, part.owner)]
        if table is not None:
            places = {name: place for place, name in enumerate(self.merged)}
            parts.sort(key=lambda part: places.get(part.name.lower(), len(places)))
        for part in parts:
            if part.name.lower() not in merged:
                items.append(alias(column(part.joined.name), part.name))
        return items


def joined_rows(
    query: exp.Select, lowering: RelationLowering, source_of: SourceOf
) -> tuple[exp.Select, Relation]:
    """Return a SELECT over joined relations as one over their join, and the rows of the join.

    Args:
        query: SELECT with joins.
        lowering: Lowering of the plan.
        source_of: Function that returns the rows of a relation in FROM.

    Raises:
        Refused: A join is of another kind, or compares no columns.
    """
    first, owner = source_of(query.args["from_"].this)
    shown = tuple(_Shown(owner, c.name, c) for c in first.scan.schema)
    joined = _Joined(first, shown, {})
    for join in query.args["joins"]:
        joined = _join(joined, join, lowering, source_of)
    result = query.copy()
    result.set("joins", None)
    result.set("from_", None)
    items: list[exp.Expr] = []
    for item in result.expressions:
        if item.is_star and not isinstance(item.unalias(), exp.Anonymous):
            items += joined.items(item)
            continue
        name = item.alias or (item.name if isinstance(item, exp.Column) else "")
        value = joined.over(item.unalias())
        items.append(alias(value, name) if name else value)
    result.set("expressions", items)
    names = frozenset(item.alias.lower() for item in items if item.alias)
    for part in list(result.iter_expressions()):
        if part.arg_key not in ("expressions", "with_", "limit", "offset"):
            but = names if part.arg_key in _AFTER else frozenset()
            part.replace(joined.over(part, but=but))
    return result, joined.rows


def _join(
    left: _Joined, join: exp.Join, lowering: RelationLowering, source_of: SourceOf
) -> _Joined:
    """Return the rows of a join."""
    join_type = _TYPES.get(join_words(join))
    if join_type is None or not has_only(join, _JOIN):
        words = " ".join(filter(None, (join.method, join.side, join.kind)))
        refuse(f"a {words} JOIN without windows is not compiled")
    rows, owner = source_of(join.this)
    if owner in {part.owner for part in left.shown}:
        refuse(f"two joined relations have the name {owner}")
    right = tuple(_Shown(owner, c.name, c) for c in _apart(rows.scan.schema, left.schema))
    right = tuple(
        replace(part, name=c.name) for part, c in zip(right, rows.scan.schema, strict=True)
    )
    of_right = _Joined(renamed(rows, tuple(part.joined for part in right)), right, {})
    both = _Joined(rows, (*left.shown, *right), left.merged)
    using = [name.name.lower() for name in join.args.get("using") or ()]
    pairs = [(left.meant(exp.column(n)), of_right.meant(exp.column(n))) for n in using]
    parts: list[exp.Expr] = [
        exp.EQ(this=one.copy(), expression=other.copy()) for one, other in pairs
    ]
    parts += [both.over(part) for part in conjuncts(join.args.get("on"))]
    keys, rest = [], []
    for part in parts:
        key = _key(part, left.schema, of_right.schema)
        rest.append(part) if key is None else keys.append(key)
    if not keys:
        refuse("joins without equal columns of both sides are not compiled")
    whole = conjunction(rest)
    condition = None
    if whole is not None:
        condition = to_arrow_expression(whole, both.schema, lowering.zone)
    below, other = (lowering.project(side.rows, side.schema) for side in (left, of_right))
    joined = JoinedRows(below, other, join_type, tuple(keys), condition)
    if join_type in _LEFT_ALONE:
        return replace(left, rows=lowering.relation_of(joined, left.schema))
    merged = dict(zip(using, (_merged(pair, join_type) for pair in pairs), strict=True))
    shown = (
        *_nullable(left.shown, join_type in ("RightOuter", "FullOuter")),
        *_nullable(right, join_type in ("LeftOuter", "FullOuter")),
    )
    schema = tuple(part.joined for part in shown)
    return replace(
        both,
        rows=lowering.relation_of(joined, schema),
        shown=shown,
        merged={**merged, **{n: v for n, v in left.merged.items() if n not in merged}},
    )


def _apart(schema: Schema, others: Schema) -> Schema:
    """Return columns with names that others do not have."""
    taken = {c.name.lower() for c in others}
    own = {c.name.lower() for c in schema}
    columns = []
    for c in schema:
        name, number = c.name, 0
        while name.lower() in taken or (number and name.lower() in own):
            name, number = f"{c.name}{number}", number + 1
        taken.add(name.lower())
        columns.append(replace(c, name=name))
    return tuple(columns)


def _nullable(shown: Iterable[_Shown], is_optional: bool) -> Iterator[_Shown]:
    """Yield the columns of a side, which is NULL in rows without a match if it is optional."""
    for part in shown:
        joined = replace(part.joined, nullable=part.joined.nullable or is_optional)
        yield replace(part, joined=joined)


def _key(part: exp.Expr, left: Schema, right: Schema) -> tuple[str, str] | None:
    """Return the names of the columns of `l = r` or `r = l` that have one type, left first."""
    if not isinstance(part, exp.EQ):
        return None
    names = [bare_column(side.unnest()) for side in (part.this, part.expression)]
    types = [{c.name: c.type for c in schema} for schema in (left, right)]
    for one, other in (names, names[::-1]):
        if one in types[0] and other in types[1] and types[0][one] == types[1][other]:
            return one, other
    return None


def _merged(pair: tuple[exp.Expr, exp.Expr], join_type: str) -> exp.Expr:
    """Return the column that USING makes of both sides."""
    left, right = pair
    if join_type == "FullOuter":
        return function_call("COALESCE", left, right)
    return right if join_type == "RightOuter" else left
