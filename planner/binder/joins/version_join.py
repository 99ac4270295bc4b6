"""Bind temporal joins with a stream of versions: `JOIN r FOR SYSTEM_TIME AS OF o.ts`.

Rows and versions are united in one relation, in short windows in which they wait for the watermark
of both streams. A node above joins each row with the version that holds at its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlglot import exp

from planner.binder.joins.changes import is_change_column, time_of_change
from planner.binder.joins.sides import Side, Sides
from planner.binder.joins.stream_rows import EXTRAS, JoinWords, Refuse, check_times, side_of_rows
from planner.binder.joins.window_join import select_above
from planner.binder.relations import NotBound, Relations, Scope
from planner.catalog import Schema, VersionedTable, column_named
from planner.nodes.logical import (
    VERSION_COLUMNS,
    Node,
    VersionJoin,
    WindowTableFunction,
)
from planner.sql.build import (
    alias,
    cast_as,
    column,
    conjunction,
    conjuncts,
    identifier,
    is_flat_type,
    star_leaves_out,
    to_sql,
    union_all,
)
from planner.sql.nodes import span_of
from planner.streams.refusals import BATCH, StreamRefusal
from planner.streams.tables import streams_of
from runtime.spec.steps import VersionJoining
from runtime.spec.table import CHANGE_ORDER, IS_DELETED, Column
from runtime.spec.windows import Tumble

# How long a row may wait after the watermark has passed it
_WAIT = Tumble(1_000_000)
_TIME, _IS_VERSION, _KEY = "$time", "$is_version", "$key"
_MARK = "versions_at"
_INTEGERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_WORDS = JoinWords(
    "a temporal join",
    "a temporal join with a stream of versions by TIMESTAMP_LTZ columns",
    "a temporal join by",
    "never emits rows",
    "use the columns of the watermarks",
)


@dataclass(frozen=True)
class _Mark:
    """Time at which the versions of a join are read.

    Attributes:
        at: Time of the rows.
        versioned: Key and time of the versions.
        join_type: Inner or LeftOuter.
        of_changes: Table whose changes the versions are. None if all versions are rows of a table.
    """

    at: exp.Expr
    versioned: VersionedTable
    join_type: str
    of_changes: str | None = None


def mark_version_join(
    join: exp.Join,
    at: exp.Expr,
    versioned: VersionedTable,
    join_type: str,
    of_changes: str | None = None,
) -> None:
    """Mark a join with a stream of versions, for `bind_version_join`.

    Args:
        join: Join.
        at: Time of the rows.
        versioned: Key and time of the versions.
        join_type: Inner or LeftOuter.
        of_changes: Table whose changes the versions are. None if all versions are rows of a table.
    """
    join.meta[_MARK] = _Mark(at, versioned, join_type, of_changes)


def bind_version_join(
    select: exp.Select, relations: Relations, scope: Scope, time_zone: str
) -> exp.Select | None:
    """Turn a marked join of a SELECT into a VersionJoin.

    Args:
        select: SELECT whose parts are bound.
        relations: Nodes of the query.
        scope: CTEs in scope.
        time_zone: The session's time zone.

    Returns:
        The SELECT over the join, or None if no join is marked.

    Raises:
        StreamRefusal: The join is not supported.
    """
    joins = select.args.get("joins") or []
    marks: list[_Mark] = [join.meta[_MARK] for join in joins if _MARK in join.meta]
    if not marks:
        return None
    join, mark = joins[0], marks[0]

    def refuse(message: str, hint: str) -> StreamRefusal:
        refusal = StreamRefusal(message, f"{hint}; {BATCH}", span_of(mark.at))
        return refusal.place_in(relations.sql)

    source = select.args.get("from_")
    if len(marks) > 1 or _MARK not in join.meta or source is None:
        raise refuse(
            "a temporal join with a stream of versions must be the first join of its SELECT",
            "write it first, and put a second one into a view or a table of its own",
        )
    if any(select.args.get(key) for key in EXTRAS):
        raise refuse(
            "a SELECT with a temporal join with a stream of versions does not support LATERAL, "
            "PIVOT or TABLESAMPLE",
            "put it around the join",
        )
    left, right = (side_of_rows(part, relations, scope) for part in (source.this, join.this))
    if left is None or right is None or not streams_of(left.node, relations.catalog):
        raise refuse(
            "a temporal join with a stream of versions joins the rows of a stream, without windows "
            "or joins below it",
            "read a table or a subquery of it on the left side, and compute windows after the join",
        )
    time = None
    if isinstance(mark.at, exp.Column) and mark.at.table.lower() in ("", left.name.lower()):
        time = column_named(left.node.schema, mark.at.name)
    since = column_named(right.node.schema, mark.versioned.time or "")
    if time is None:
        raise refuse(
            f"`{to_sql(mark.at)}` is not a column of `{left.name}`",
            f"use the column of the watermark of `{left.name}`",
        )
    assert since is not None, "the catalog has declared it"
    check_times((left, right), (time, since), relations.catalog, time_zone, refuse, _WORDS)
    sides = Sides(left, right, mark.join_type)
    parts = [sides.resolve(part) for part in conjuncts(join.args.get("on"))]
    resolved = [part for part in parts if part is not None]
    if len(resolved) < len(parts):
        raise refuse("ON reads a column that neither side has alone", "qualify the column")
    keys, rest = _keys_of(resolved, sides, mark, refuse)
    listed = select.copy()
    listed.set("expressions", list(_without_stars(select, left, right)))
    node = _versions(sides, keys, (time, since), relations, mark, _columns_read(listed))
    joined = _with_condition(node, sides, rest, mark, relations)
    try:
        checked = relations.sql_query(listed, scope).schema
        result = select_above(listed, joined, sides, relations, checked, has_moved_where=False)
    except NotBound as reason:
        raise refuse(
            f"a temporal join with a stream of versions: {reason.note.reason}", "list the columns"
        ) from reason
    relations.rewritten = True
    return result


def _without_stars(select: exp.Select, left: Side, right: Side) -> Iterator[exp.Expr]:
    """Yield the items of a SELECT, replacing `*` of both sides by their columns."""
    is_alone = len(select.args["joins"]) == 1
    for item in select.expressions:
        is_star = item.is_star and star_leaves_out(item) == frozenset()
        of = item.table.lower() if isinstance(item, exp.Column) else None
        sides = [side for side in (left, right) if of in (None, side.name.lower())]
        if not is_star or not sides or (of is None and not is_alone):
            yield item
            continue
        for side in sides:
            for c in side.node.schema:
                if not is_change_column(c.name):
                    yield exp.Column(this=identifier(c.name), table=identifier(side.name))


def _columns_read(select: exp.Select) -> frozenset[str] | None:
    """Return the lower-case names that a SELECT reads; None if it may read all columns."""
    if any(item.is_star for item in select.expressions):
        return None
    names = {part.name.lower() for col in select.find_all(exp.Column) for part in col.parts}
    joins = select.args["joins"]
    return frozenset(names.union(i.name.lower() for j in joins for i in j.args.get("using") or ()))


def _keys_of(
    parts: Sequence[exp.Expr], sides: Sides, mark: _Mark, refuse: Refuse
) -> tuple[list[tuple[str, str]], list[exp.Expr]]:
    """Split ON into the equalities with the PRIMARY KEY and the other conditions.

    Returns:
        Pairs of columns, left and right, and the other conditions.
    """
    schemas = [{c.name.lower(): c for c in side.node.schema} for side in (sides.left, sides.right)]
    old_names = {new.lower(): old for old, new in sides.right_names.items()}
    of_key = {key.lower() for key in mark.versioned.key}
    pairs, rest = [], []
    for part in parts:
        names = _compared(part, sides)
        if names is None or old_names[names[1].lower()] not in of_key:
            rest.append(part)
            continue
        types = schemas[0][names[0].lower()].type, schemas[1][old_names[names[1].lower()]].type
        if types[0] != types[1] and not set(types) <= _INTEGERS:
            raise refuse(
                f"ON compares {types[0]} with {types[1]}",
                "CAST one side to the type of the other in a subquery",
            )
        pairs.append(names)
    missing = of_key - {old_names[right.lower()] for _, right in pairs}
    if missing:
        raise refuse(
            f"ON does not compare `{min(missing)}` of the PRIMARY KEY of `{sides.right.name}` with "
            f"a column of `{sides.left.name}`",
            "compute the expression in a subquery",
        )
    return pairs, rest


def _compared(part: exp.Expr, sides: Sides) -> tuple[str, str] | None:
    """Return the columns of `left = right` or `right = left`, or None for any other condition."""
    inner = part.unnest()
    if not isinstance(inner, exp.EQ):
        return None
    names = [
        side.name if isinstance(side, exp.Column) and not side.table else None
        for side in (inner.this.unnest(), inner.expression.unnest())
    ]
    for a, b in (names, names[::-1]):
        if a in sides.left_names.values() and b in sides.right_names.values():
            return str(a), str(b)
    return None


def _versions(
    sides: Sides,
    keys: Sequence[tuple[str, str]],
    times: tuple[Column, Column],
    relations: Relations,
    mark: _Mark,
    needed: frozenset[str] | None,
) -> VersionJoin:
    """Return the node that joins the rows of the left side with the versions of the right side.

    Columns whose lower-case names are not in `needed` are dropped. None: no column is dropped.
    """
    left, right = sides.left, sides.right

    def schema_of(side: Side) -> Schema:
        columns = (c for c in side.node.schema if not is_change_column(c.name))
        return tuple(c for c in columns if needed is None or c.name.lower() in needed)

    about_change = () if mark.of_changes is None else (CHANGE_ORDER, IS_DELETED)

    left_columns = tuple(Column(c.name, c.type) for c in schema_of(left))
    changes = (column_named(right.node.schema, name) for name in about_change)
    right_columns = tuple(
        Column(sides.right_names[c.name.lower()], c.type)
        # of versions with the same time, the one with the highest values holds: the last change
        for c in (*filter(None, changes), *schema_of(right))
    )
    old_names = {sides.right_names[c.name.lower()]: c.name for c in right.node.schema}
    left_types = {c.name: c.type for c in left.node.schema}
    right_types = {sides.right_names[c.name.lower()]: c.type for c in right.node.schema}
    key_columns = tuple(
        Column(f"{_KEY}{n}", _wider(left_types[one], right_types[other]))
        for n, (one, other) in enumerate(keys)
    )

    def side(
        of: Side, time: Column, own_keys: Sequence[str], *, is_version: bool
    ) -> Iterator[exp.Expr]:
        of_changes = mark.of_changes if is_version else None
        at: exp.Expr = column(time.name)
        if of_changes is not None:
            at = time_of_change(of_changes, mark.versioned)
        yield alias(at, _TIME)
        yield alias(exp.true() if is_version else exp.false(), _IS_VERSION)
        for key, name in zip(key_columns, own_keys, strict=True):
            types = {c.name: c.type for c in of.node.schema}
            value: exp.Expr = column(name)
            yield alias(value if types[name] == key.type else _typed(value, key.type), key.name)
        for c in left_columns:
            nothing = _typed(exp.Null(), c.type)
            yield alias(nothing if is_version else column(c.name), c.name)
        for c in right_columns:
            nothing = _typed(exp.Null(), c.type)
            yield alias(column(old_names[c.name]) if is_version else nothing, c.name)

    right_keys = [old_names[other] for _, other in keys]
    has_key = conjunction(
        [exp.Not(this=exp.Is(this=column(name), expression=exp.Null())) for name in right_keys]
    )
    rows = relations.select(
        side(left, times[0], [one for one, _ in keys], is_version=False), left.node
    )
    versions = relations.select(
        side(right, times[1], right_keys, is_version=True),
        right.node,
        where=exp.Where(this=has_key),
    )
    schema: Schema = (
        Column(_TIME, times[0].type),
        Column(_IS_VERSION, "boolean", False),
        *key_columns,
        *left_columns,
        *right_columns,
    )
    united = relations.sql_query(union_all([rows, versions]), {}, schema)
    waits = (
        Column(VERSION_COLUMNS.start, "timestamp_ntz", False),
        Column(VERSION_COLUMNS.end, "timestamp_ntz", False),
        Column(VERSION_COLUMNS.time, times[0].type, False),
    )
    place = span_of(mark.at)
    waiting = WindowTableFunction(
        schema + waits,
        united,
        _WAIT,
        _TIME,
        times[0].type,
        VERSION_COLUMNS,
        place=place,
        time_place=place,
    )
    joining = VersionJoining(
        tuple(key.name for key in key_columns),
        _TIME,
        _IS_VERSION,
        tuple(c.name for c in right_columns),
        _is_deleted(sides, mark),
    )
    texts = tuple(f"{one} = {other}" for one, other in keys)
    result = (*schema[1 + 1 + len(keys) :], schema[1])
    return VersionJoin(result, waiting, joining, texts, place=place)


def _with_condition(
    node: VersionJoin, sides: Sides, rest: Sequence[exp.Expr], mark: _Mark, relations: Relations
) -> Node:
    """Return the rows of the join, with the other conditions of ON."""
    is_deleted = _is_deleted(sides, mark)
    holds: list[exp.Expr] = [column(_IS_VERSION)]
    if is_deleted is not None:
        holds.append(exp.Not(this=column(is_deleted)))
    condition = conjunction([*holds, *rest])
    assert condition is not None
    right_names = set(sides.right_names.values())
    hidden = {_IS_VERSION, is_deleted, sides.right_names.get(CHANGE_ORDER)}
    schema = tuple(c for c in node.schema if c.name not in hidden)
    is_inner = mark.join_type == "Inner"
    may_be_other = bool(rest) or is_deleted is not None
    items: list[exp.Expr] = []
    for c in schema:
        value: exp.Expr = column(c.name)
        if not is_inner and may_be_other and c.name in right_names:
            value = exp.Case(ifs=[exp.If(this=condition.copy(), true=value)])
        items.append(alias(value, c.name))
    where = exp.Where(this=condition) if is_inner else None
    return relations.sql_query(relations.select(items, node, where=where), {}, schema)


def _is_deleted(sides: Sides, mark: _Mark) -> str | None:
    """Return the column that marks deletions among the versions. None if rows do not change."""
    return None if mark.of_changes is None else sides.right_names[IS_DELETED]


def _typed(value: exp.Expr, type_: str) -> exp.Expr:
    """Build CAST(value AS type)."""
    if not is_flat_type(type_):
        return cast_as(value, type_)
    return exp.Cast(this=value, to=exp.DataType.build(type_, dialect="spark"))


def _wider(left: str, right: str) -> str:
    """Return the type of both sides of an equality: the wider one of two integer types."""
    order = ("tinyint", "smallint", "int", "bigint")
    return left if left == right else max(left, right, key=order.index)
