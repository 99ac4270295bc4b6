"""Spark SQL for nodes around windows: grouping sets, Top-N, deduplication, joins."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.catalog import type_named
from planner.nodes.joins import AsOfJoin, WindowJoin
from planner.nodes.logical import (
    COPIES,
    Expand,
    RangeRows,
    WindowDeduplicate,
    WindowRank,
    WindowRows,
)
from planner.sql.build import (
    COMPARISONS,
    alias,
    case_when,
    cast_as,
    column,
    conjunction,
    function_call,
    identifier,
    is_not_null,
    literal,
    named_query,
    named_struct,
    select_items,
    union_all,
)
from planner.streams.ranked_rows import ranking
from runtime.spec.filling import AsOfMatching

_JOINS = {
    "Inner": ("", "INNER"),
    "LeftOuter": ("LEFT", "OUTER"),
    "RightOuter": ("RIGHT", "OUTER"),
    "FullOuter": ("FULL", "OUTER"),
    "LeftSemi": ("LEFT", "SEMI"),
    "LeftAnti": ("LEFT", "ANTI"),
}

# Columns of an as-of join: the row of the right side, the time, the place within equal times
_RIGHT, _TIME, _SIDE = "$right", "$time", "$side"


def select_from(query: exp.Query, *items: exp.Expr, **clauses: exp.Expr | None) -> exp.Select:
    """Build `SELECT items FROM (query)`, with all columns by default, and further clauses."""
    return select_items(items or [exp.Star()], exp.Subquery(this=query), **clauses)


def expand_query(node: Expand, source: exp.Subquery, control: Sequence[str] = ()) -> exp.Select:
    """Return Spark SQL for grouping sets: each row once per set id, with keys by CASE on the id.

    Args:
        node: The grouping sets.
        source: The input rows.
        control: Control columns to pass through.
    """
    source.set("alias", exp.TableAlias(this=identifier("$input")))
    source.set(
        "laterals",
        [
            exp.Lateral(
                this=exp.Anonymous(this="EXPLODE", expressions=[_array_of_ids(node)]),
                view=True,
                alias=exp.TableAlias(
                    this=identifier("sqlwin_sets"), columns=[identifier(node.id_column)]
                ),
            )
        ],
    )
    keys = {key.name: _grouping_key(position, node) for position, key in enumerate(node.keys)}
    items: list[exp.Expr] = [alias(keys.get(c.name, column(c.name)), c.name) for c in node.schema]
    items += [column(name) for name in control]
    return select_items(items, source)


def _array_of_ids(node: Expand) -> exp.Expr:
    if sorted(node.ids) == list(range(len(node.ids))):  # a CUBE may have thousands
        bounds = (0, len(node.ids) - 1)
        return function_call("SEQUENCE", *(cast_as(literal(bound), "bigint") for bound in bounds))
    return function_call("ARRAY", *(cast_as(literal(id_), "bigint") for id_ in node.ids))


def _grouping_key(position: int, node: Expand) -> exp.Expr:
    """Return the key at a position if the row's grouping set contains it, else NULL."""
    key = node.keys[position]
    n_kept = sum(key.name in names for names in node.key_names)
    if n_kept == len(node.ids):
        return key.expr
    if not n_kept:
        return cast_as(exp.Null(), type_named(node.schema, key.name))
    mask = literal(1 << (len(node.keys) - 1 - position))
    bit = exp.BitwiseAnd(this=column(node.id_column), expression=mask)
    is_kept = exp.EQ(this=exp.Paren(this=bit), expression=literal(0))
    return case_when(is_kept, key.expr.copy())


def repeat_rows(rows: exp.Query, node: WindowRows, control: Sequence[str] = ()) -> exp.Select:
    """Repeat each row as often as its count. Rows without a count occur once."""
    copies = column(COPIES)
    several = exp.GT(this=copies, expression=literal(1))
    times = cast_as(copies.copy(), "int")
    array = exp.Anonymous(this="ARRAY_REPEAT", expressions=[literal(0), times])
    one_each = exp.Anonymous(this="EXPLODE_OUTER", expressions=[case_when(several, array)])
    items: list[exp.Expr] = [column(name) for name in (*(c.name for c in node.schema), *control)]
    repeated = select_from(rows, *items, alias(one_each, "$copy"))
    return select_from(repeated, *(item.copy() for item in items))


def rank_query(node: WindowRank | WindowDeduplicate, rows: exp.Query) -> exp.Select:
    """Return Spark SQL for Top-N and deduplication.

    Spark keeps N rows per key before it sorts.
    """
    function, first, last, order = ranking(node)
    over = exp.Window(
        this=exp.Anonymous(this=function),
        partition_by=[column(name) for name in (*node.window_columns, *node.partition_by)],
        order=exp.Order(expressions=[ordered.copy() for ordered in order]),
        over="OVER",
    )
    ranked = select_from(rows, exp.Star(), alias(over, node.rank_column))
    rank = column(node.rank_column)
    condition: exp.Expr = exp.LTE(this=rank, expression=literal(last))
    if first > 1:
        condition = exp.Between(this=rank, low=literal(first), high=literal(last))
    return select_from(ranked, where=exp.Where(this=condition))


def join_query(node: WindowJoin, left: exp.Query, right: exp.Query) -> exp.Select:
    """Return Spark SQL for a join of windows."""
    side, kind = _JOINS[node.join_type]
    equal: list[exp.Expr] = [
        exp.EQ(this=column(a), expression=column(b)) for a, b in (*node.window_keys, *node.keys)
    ]
    rest = [node.condition] if node.condition is not None else []
    join = exp.Join(
        this=named_query(right, "$right"), side=side, kind=kind, on=conjunction([*equal, *rest])
    )
    items = (alias(column(c.name), c.name) for c in node.schema)
    joined = select_items(items, named_query(left, "$left"))
    joined.set("joins", [join])
    return joined


def as_of_query(node: AsOfJoin, left: exp.Query, right: exp.Query) -> exp.Select:
    """Return Spark SQL for an as-of join: both sides sorted together, in one exchange.

    Each row of the left side takes the last row of the right side before it, as a struct.
    """
    matching = node.matching
    names = [[column(c.name) for c in side.schema] for side in node.inputs]
    keys = [f"$key{number}" for number in range(len(matching.keys))]

    def rows(query: exp.Query, number: int, order: int) -> exp.Select:
        compared = [column(pair[number]) for pair in (*matching.keys, matching.times)]
        nothing = [alias(exp.Null(), part.name) for part in names[0]]
        whole = named_struct(**{part.name: part for part in names[1]})
        return select_from(
            query,
            *(nothing if number else names[0]),
            alias(whole if number else exp.Null(), _RIGHT),
            *(alias(part, name) for part, name in zip(compared, (*keys, _TIME), strict=True)),
            alias(literal(order), _SIDE),
            where=exp.Where(this=conjunction(map(is_not_null, compared))) if number else None,
        )

    both = union_all([rows(left, 0, 1), rows(right, 1, matching.place_of_right)])
    ordered = [
        exp.Ordered(this=column(_TIME), desc=not matching.is_before, nulls_first=True),
        exp.Ordered(this=column(_SIDE), desc=False, nulls_first=True),
    ]
    last = exp.Window(
        this=function_call("LAST", column(_RIGHT), exp.true()),
        partition_by=[column(key) for key in keys],
        order=exp.Order(expressions=ordered),
        spec=exp.WindowSpec(
            kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW"
        ),
        over="OVER",
    )
    picked = select_from(both, *names[0], alias(last, _RIGHT), column(_SIDE))
    is_left = exp.EQ(this=column(_SIDE), expression=literal(1))
    matched = select_from(
        picked,
        *names[0],
        alias(_within_limits(matching), _RIGHT),
        where=exp.Where(this=is_left),
    )
    has_match = exp.Where(this=is_not_null(column(_RIGHT)))
    items = [alias(column(part.name, _RIGHT), part.name) for part in names[1]]
    return select_from(
        matched, *names[0], *items, where=has_match if node.join_type == "Inner" else None
    )


def _within_limits(matching: AsOfMatching) -> exp.Expr:
    """Return the picked row, NULL if its time is beyond a limit."""
    _, *limits = matching.comparisons
    parts = [
        COMPARISONS[sign](this=column(limit), expression=column(time, _RIGHT))
        for limit, sign, time in limits
    ]
    within = conjunction(parts)
    return column(_RIGHT) if within is None else case_when(within, column(_RIGHT))


def ranges_query(
    node: RangeRows, data: exp.Query, bounds: exp.Query, control: Sequence[str] = ()
) -> exp.Select:
    """Return Spark SQL for rows in ranges.

    Args:
        node: Rows and ranges.
        data: Query of the rows.
        bounds: Query of the ranges.
        control: Control columns to pass through. The first one says whether a row is kept; a row
            in no range is not.
    """
    time: exp.Expr = column(node.time_column)
    if node.is_on_wall_clock:
        time = cast_as(time, "timestamp_ntz")
    parts = [
        *map(column, control[:1]),
        exp.GTE(this=time, expression=column(node.starts)),
        exp.LT(this=time.copy(), expression=column(node.ends)),
    ]
    items: list[exp.Expr] = [column(c.name) for c in node.schema]
    if control:
        items.append(alias(is_not_null(column(node.starts)), control[0]))
        items += map(column, control[1:])
    join = exp.Join(
        this=named_query(bounds, "$bounds"),
        side="LEFT" if control else "",
        kind="OUTER" if control else "INNER",
        on=conjunction(parts),
    )
    joined = select_items(items, named_query(data, "$data"))
    joined.set("joins", [join])
    return joined
