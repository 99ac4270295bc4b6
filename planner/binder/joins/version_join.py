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
from planner.binder.joins.stream_rows import (
    EXTRAS,
    JoinWords,
    Refuse,
    check_times,
    refuser,
    side_of_rows,
)
from planner.binder.joins.window_join import select_above
from planner.binder.relations import Relations, Scope
from planner.catalog import Schema, VersionedTable, column_named
from planner.nodes.logical import (
    VERSION_COLUMNS,
    Node,
    VersionJoin,
    in_windows,
)
from planner.scalars.signatures import common
from planner.scalars.types import is_integer
from planner.sql.build import (
    alias,
    case_when,
    cast_as,
    column,
    conjunction,
    conjuncts,
    is_not_null,
    star_leaves_out,
    to_sql,
    union_all,
)
from planner.sql.nodes import span_of
from planner.streams.tables import streams_of
from runtime.refusal import Refused
from runtime.spec.filling import VersionJoining
from runtime.spec.table import CHANGE_ORDER, IS_DELETED, Column
from runtime.windows.tumble import Tumble

# How long a row may wait after the watermark has passed it
_WAIT = Tumble(1_000_000)
_TIME, _IS_VERSION, _KEY = "$time", "$is_version", "$key"
_MARK = "versions_at"
_NESTED = ("array", "map", "struct")
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
    refuse = refuser(mark.at, relations.sql)
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
    keys, rest = _keys_of(resolved, sides, relations, mark, refuse)
    listed = select.copy()
    listed.set("expressions", list(_without_stars(select, left, right)))
    needed = _columns_read(listed, sides, keys, rest)
    for c in (*left.node.schema, *right.node.schema):
        if c.type.startswith(_NESTED) and (needed is None or c.name.lower() in needed):
            raise refuse(
                "a temporal join with a stream of versions cannot return column "
                f"`{c.name}` of type {c.type}",
                "select its elements or fields in a subquery on the left side",
            )
    node = _versions(sides, keys, (time, since), relations, mark, needed)
    joined = _with_condition(node, sides, rest, mark, relations)
    try:
        checked = relations.sql_query(listed, scope).schema
        result = select_above(listed, joined, sides, relations, checked, has_moved_where=False)
    except Refused as refused:
        reason = f"a temporal join with a stream of versions: {refused.refusal.reason}"
        raise refuse(reason, "list the columns") from refused
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
                    yield column(c.name, side.name)


def _columns_read(
    select: exp.Select, sides: Sides, keys: Sequence[_Key], rest: Sequence[exp.Expr]
) -> frozenset[str] | None:
    """Return the lower-case names that a SELECT reads from the join.

    Columns that only a computed key reads are not among them, because the key replaces them.

    Args:
        select: SELECT.
        sides: Sides of the join.
        keys: Its equalities with the PRIMARY KEY.
        rest: Its other conditions.

    Returns:
        The names. None if the SELECT may read all columns.
    """
    if any(item.is_star for item in select.expressions):
        return None
    around = select.copy()
    around.args["joins"][0].set("on", None)
    names = {part.name.lower() for col in around.find_all(exp.Column) for part in col.parts}
    joins = select.args["joins"]
    names.update(i.name.lower() for j in joins for i in j.args.get("using") or ())
    of_on = {col.name for part in rest for col in part.find_all(exp.Column)}
    of_on.update(key.right for key in keys)
    of_on.update(key.left.name for key in keys if isinstance(key.left, exp.Column))
    old_names = {new: old for side in sides.names for old, new in side.items()}
    return frozenset(names.union(old_names[name] for name in of_on))


@dataclass(frozen=True)
class _Key:
    """An equality with a column of the PRIMARY KEY.

    Attributes:
        left: Expression over the left side.
        right: New name of the right column.
        types: Types of both.
    """

    left: exp.Expr
    right: str
    types: tuple[str, str]


def _keys_of(
    parts: Sequence[exp.Expr], sides: Sides, relations: Relations, mark: _Mark, refuse: Refuse
) -> tuple[list[_Key], list[exp.Expr]]:
    """Split ON into the equalities with the PRIMARY KEY and the other conditions."""
    of_right = {c.name.lower(): c for c in sides.right.node.schema}
    old_names = {new.lower(): old for old, new in sides.right_names.items()}
    of_key = {key.lower() for key in mark.versioned.key}
    keys, rest = [], []
    for part in parts:
        compared = _compared(part, sides)
        if compared is None or old_names[compared[1].lower()] not in of_key:
            rest.append(part)
            continue
        value, name = compared
        computed = relations.select([alias(value, _KEY)], sides.left.node)
        types = (
            relations.sql_query(computed, {}).schema[0].type,
            of_right[old_names[name.lower()]].type,
        )
        if types[0] != types[1] and not all(map(is_integer, types)):
            raise refuse(
                f"ON compares {types[0]} with {types[1]}",
                "CAST one side to the type of the other in a subquery",
            )
        keys.append(_Key(value, name, types))
    missing = of_key - {old_names[key.right.lower()] for key in keys}
    if missing:
        raise refuse(
            f"ON does not compare `{min(missing)}` of the PRIMARY KEY of `{sides.right.name}` with "
            f"a value of `{sides.left.name}`",
            f"add {sides.right.name}.{min(missing)} = ... to ON",
        )
    return keys, rest


def _compared(part: exp.Expr, sides: Sides) -> tuple[exp.Expr, str] | None:
    """Return the sides of `left expression = right column`, in any order.

    None for any other condition.
    """
    inner = part.unnest()
    if not isinstance(inner, exp.EQ) or inner.find(exp.Query):
        return None
    left_names, right_names = sides.left_names.values(), sides.right_names.values()
    values = inner.this.unnest(), inner.expression.unnest()
    for value, col in (values, values[::-1]):
        read = {column.name for column in value.find_all(exp.Column)}
        is_right = isinstance(col, exp.Column) and not col.table and col.name in right_names
        if is_right and read and read.issubset(left_names):
            return value, col.name
    return None


def _versions(
    sides: Sides,
    keys: Sequence[_Key],
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
    key_columns = tuple(Column(f"{_KEY}{n}", common([*key.types])) for n, key in enumerate(keys))

    def side(time: Column, own_keys: Sequence[exp.Expr], *, is_version: bool) -> Iterator[exp.Expr]:
        of_changes = mark.of_changes if is_version else None
        at: exp.Expr = column(time.name)
        if of_changes is not None:
            at = time_of_change(of_changes, mark.versioned)
        yield alias(at, _TIME)
        yield alias(exp.true() if is_version else exp.false(), _IS_VERSION)
        for key, own, value in zip(key_columns, keys, own_keys, strict=True):
            is_typed = own.types[is_version] == key.type
            yield alias(value if is_typed else cast_as(value, key.type), key.name)
        for c in left_columns:
            nothing = cast_as(exp.Null(), c.type)
            yield alias(nothing if is_version else column(c.name), c.name)
        for c in right_columns:
            nothing = cast_as(exp.Null(), c.type)
            yield alias(column(old_names[c.name]) if is_version else nothing, c.name)

    right_keys = [column(old_names[key.right]) for key in keys]
    has_key = conjunction(map(is_not_null, right_keys))
    rows = relations.select(
        side(times[0], [key.left.copy() for key in keys], is_version=False), left.node
    )
    versions = relations.select(
        side(times[1], right_keys, is_version=True),
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
    place = span_of(mark.at)
    waiting = in_windows(united, _WAIT, schema[0], VERSION_COLUMNS, place)
    joining = VersionJoining(
        tuple(key.name for key in key_columns),
        _TIME,
        _IS_VERSION,
        tuple(c.name for c in right_columns),
        _is_deleted(sides, mark),
    )
    texts = tuple(f"{_shown(key.left)} = {key.right}" for key in keys)
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
            value = case_when(condition.copy(), value)
        items.append(alias(value, c.name))
    where = exp.Where(this=condition) if is_inner else None
    return relations.sql_query(relations.select(items, node, where=where), {}, schema)


def _is_deleted(sides: Sides, mark: _Mark) -> str | None:
    """Return the column that marks deletions among the versions. None if rows do not change."""
    return None if mark.of_changes is None else sides.right_names[IS_DELETED]


def _shown(key: exp.Expr) -> str:
    """Return a key of the row's side as EXPLAIN prints it."""
    return key.name if isinstance(key, exp.Column) else to_sql(key)
