"""Bind joins of two streams within an interval as joins of windows.

Two streams are joined within an interval if ON bounds the distance of their times on both sides:
`a.ts BETWEEN b.ts - INTERVAL '4' HOUR AND b.ts`, or equivalent inequalities. Each row of the left
side (of the right side in a RIGHT JOIN) belongs to exactly one window, which is wide enough for all
rows that can match. These windows overlap (HOP), and a row of the other side belongs to all that
contain it. So each pair is in one window, and a row without a match is emitted once, when its
window closes.

The first side's rows are put into TUMBLE windows of one slide, on their time plus a constant, so
that a row's TUMBLE window ends with its HOP window. So a row is late, and counted, as soon as the
only window that needs it is closed.

A row without a time matches nothing. An outer or anti join keeps it if it is on the first side: its
time is replaced by UNTIMED, and it is emitted at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.binder.joins.sides import Side
from planner.binder.joins.stream_rows import (
    EXTRAS,
    JoinWords,
    check_times,
    is_plain_relation,
    refuser,
    side_of_rows,
)
from planner.binder.relations import Relations, Scope
from planner.catalog import column_named
from planner.nodes.logical import INTERVAL_COLUMNS as COLUMNS
from planner.nodes.logical import (
    Node,
    WindowTableFunction,
    in_windows,
    with_column,
)
from planner.nodes.window_columns import join_words
from planner.sql.build import (
    MIRRORED,
    alias,
    cast_as,
    column,
    conjunction,
    conjuncts,
    function_call,
    identifier,
    named_query,
    seconds,
    star_leaves_out,
)
from planner.sql.intervals import fold_interval
from planner.sql.nodes import span_of
from planner.streams.tables import stream_named, streams_of
from runtime.errors import AnalysisError
from runtime.spec.stream import UNTIMED
from runtime.spec.table import Column
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble

_SECOND_US = 1_000_000
# Windows begin this many times per length of the interval: a result waits for the end of its window
_STEPS = 4
_INNER = frozenset({"", "INNER", "CROSS"})
_LEFT = frozenset({"LEFT", "SEMI", "LEFT SEMI", "ANTI", "LEFT ANTI"})
_RIGHT = frozenset({"RIGHT"})
# Joins that keep rows of the first side without a match
_KEEPING = frozenset({"LEFT", "ANTI", "LEFT ANTI", "RIGHT"})
# The time of the core's rows, later by a constant; UNTIMED instead of NULL if they are kept
_SHIFTED = "$interval_at"
_TIMES = frozenset({"timestamp", "timestamp_ntz"})
_WORDS = JoinWords(
    "a join of two streams within an interval",
    "a join of two streams within an interval of TIMESTAMP_LTZ columns",
    "an interval of",
    "never ends",
    "compare the columns of the watermarks",
)


@dataclass(frozen=True)
class _Interval:
    """Bounds of the time of the left side minus the time of the right side, in microseconds.

    Attributes:
        left: Time column of the left side.
        right: Time column of the right side.
        low_us: Lowest difference.
        high_us: Highest difference.
        place: One of the conditions, for error positions.
    """

    left: Column
    right: Column
    low_us: int
    high_us: int
    place: exp.Expr


def bind_interval_join(
    select: exp.Select, relations: Relations, scope: Scope, time_zone: str
) -> exp.Select | None:
    """Turn the first join of a SELECT, of two streams within an interval, into a join of windows.

    Args:
        select: SELECT whose parts are bound.
        relations: Nodes of the query.
        scope: CTEs in scope.
        time_zone: The session's time zone.

    Returns:
        The SELECT over windows of both streams, or None for any other join.

    Raises:
        StreamRefusal: The join cannot be computed in windows.
    """
    joins = select.args.get("joins") or []
    source = select.args.get("from_")
    if source is None or not joins or any(select.args.get(key) for key in EXTRAS):
        return None
    join = joins[0]
    words = join_words(join)
    if join.method:
        return None
    left, right = (_side_of(part, relations, scope) for part in (source.this, join.this))
    if left is None or right is None:
        return None
    parts = list(conjuncts(join.args.get("on")))
    if words in _INNER:
        parts += conjuncts(select.args.get("where"))
    interval = _interval_of(parts, left, right)
    if interval is None:
        return None
    _check(select, interval, words, (left, right), relations, time_zone)
    is_left_core = words in _LEFT
    if words in _INNER:
        # the side whose windows close earlier
        is_left_core = -interval.low_us <= interval.high_us
    window, after_us = _window_of(interval, is_left_core=is_left_core)
    result = select.copy()
    join = result.args["joins"][0]
    using = [name.name.lower() for name in join.args.get("using") or ()]
    result.set("expressions", list(_without_windows(result, left, right, using, words)))
    for side, time, is_core in (
        (left, interval.left, is_left_core),
        (right, interval.right, not is_left_core),
    ):
        if is_core:
            node = _core_windows(
                side.node, time, window, after_us, interval.place, keeps_all=words in _KEEPING
            )
        else:
            node = in_windows(side.node, window, time, COLUMNS, span_of(interval.place))
        rows = _rows_of(node, side, relations)
        place = result.args["from_"] if side is left else join
        place.set("this", rows)
    if using:
        join.set("using", [*join.args["using"], identifier(COLUMNS.end)])
    else:
        equal = exp.EQ(
            this=column(COLUMNS.end, left.name), expression=column(COLUMNS.end, right.name)
        )
        join.set("on", conjunction([equal, *conjuncts(join.args.get("on"))]))
    if words == "CROSS":
        join.set("kind", None)
    relations.rewritten = True
    return result


def _check(
    select: exp.Select,
    interval: _Interval,
    words: str,
    sides: tuple[Side, Side],
    relations: Relations,
    time_zone: str,
) -> None:
    """Refuse an interval join that cannot be computed in windows."""
    refuse = refuser(interval.place, relations.sql)
    if words not in _INNER | _LEFT | _RIGHT:
        raise refuse(
            f"a {words} JOIN of two streams within an interval is not supported",
            "use UNION ALL of a LEFT JOIN and a LEFT ANTI JOIN from the other side",
        )
    if any(item.is_star and star_leaves_out(item) != frozenset() for item in select.expressions):
        raise refuse(
            "a join of two streams within an interval does not support * with modifiers",
            "list the columns",
        )
    times = interval.left, interval.right
    check_times(sides, times, relations.catalog, time_zone, refuse, _WORDS)


def _side_of(source: exp.Expr, relations: Relations, scope: Scope) -> Side | None:
    """Return a relation as a side if it consists of a stream's rows, else None."""
    if not is_plain_relation(source) or not _reads_stream(source, relations, scope):
        return None  # without the columns of the relation, which only Spark may know
    try:
        side = side_of_rows(source, relations, scope)
    except AnalysisError:
        return None  # Spark reports the error
    return side if side is not None and streams_of(side.node, relations.catalog) else None


def _reads_stream(source: exp.Expr, relations: Relations, scope: Scope) -> bool:
    """Return whether a relation reads a stream."""
    for table in source.find_all(exp.Table):
        if any(streams_of(node, relations.catalog) for _, node in relations.relations_in(table)):
            return True
        cte = None if table.db else scope.get(table.name.lower())
        if cte is not None:
            outer = {name: other for name, other in scope.items() if other is not cte}
            if _reads_stream(cte.this, relations, outer):
                return True
        elif stream_named(table, relations.catalog) is not None:
            return True
    return False


# -- the interval ----------------------------------------------------------------------------------


def _interval_of(parts: Sequence[exp.Expr], left: Side, right: Side) -> _Interval | None:
    """Return the interval that conditions require between times of both sides, or None."""
    bounds: dict[tuple[str, str], tuple[Column, Column, list[int], list[int], exp.Expr]] = {}
    for part in parts:
        for comparison in _comparisons(part):
            bound = _bound(comparison, left, right)
            if bound is None:
                continue
            of_left, of_right, operator, distance_us = bound
            key = of_left.name.lower(), of_right.name.lower()
            *_, lows, highs, _ = bounds.setdefault(key, (of_left, of_right, [], [], part))
            if operator in (exp.GT, exp.GTE, exp.EQ):
                lows.append(distance_us)
            if operator in (exp.LT, exp.LTE, exp.EQ):
                highs.append(distance_us)
    for of_left, of_right, lows, highs, place in bounds.values():
        if lows and highs:
            low = max(lows)
            # An empty interval gets a narrow window, and the conditions of ON drop all pairs.
            return _Interval(of_left, of_right, low, max(min(highs), low), place)
    return None


def _comparisons(part: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the comparisons of a condition. BETWEEN has two."""
    inner = part.unnest()
    if isinstance(inner, exp.Between) and not inner.args.get("symmetric"):
        yield exp.GTE(this=inner.this, expression=inner.args["low"])
        yield exp.LTE(this=inner.this, expression=inner.args["high"])
    elif type(inner) in MIRRORED:
        yield inner


def _bound(
    comparison: exp.Expr, left: Side, right: Side
) -> tuple[Column, Column, type[exp.Expr], int] | None:
    """Return the bound that a comparison sets: `left - right OPERATOR distance`, or None.

    Returns:
        Time column of each side, the operator, and the distance in microseconds.
    """
    operator = type(comparison)
    times = []
    for expr in (comparison.this, comparison.expression):
        shifted = _shifted_column(expr)
        owner = None if shifted is None else _owner(shifted[0], left, right)
        if shifted is None or owner is None:
            return None
        times.append((*owner, shifted[1]))
    (first, first_column, first_us), (second, second_column, second_us) = times
    if first is second or {first_column.type, second_column.type} - _TIMES:
        return None
    distance_us = second_us - first_us
    if first is left:
        return first_column, second_column, operator, distance_us
    return second_column, first_column, MIRRORED[operator], -distance_us


def _shifted_column(expr: exp.Expr) -> tuple[exp.Column, int] | None:
    """Return the column and the offset in microseconds of `column ± constant`, or None."""
    inner = expr.unnest()
    if isinstance(inner, exp.Column):
        return inner, 0
    if not isinstance(inner, exp.Add | exp.Sub):
        return None
    base, shift = inner.this, inner.expression
    if isinstance(inner, exp.Add) and isinstance(base.unnest(), exp.Interval):
        base, shift = shift, base
    below = _shifted_column(base)
    if below is None or not shift.find(exp.Interval):
        return None
    try:
        interval = fold_interval(shift)
    except AnalysisError:
        return None
    if interval.months:
        return None
    return below[0], below[1] + (interval.us if isinstance(inner, exp.Add) else -interval.us)


def _owner(col: exp.Column, left: Side, right: Side) -> tuple[Side, Column] | None:
    """Return the side that a column belongs to and the column, or None."""
    owners = []
    for side in (left, right):
        of_side = column_named(side.node.schema, col.name)
        is_named = not col.table or col.table.lower() == side.name.lower()
        if of_side is not None and is_named and not col.args.get("db"):
            owners.append((side, of_side))
    return owners[0] if len(owners) == 1 else None


# -- the windows -----------------------------------------------------------------------------------


def _window_of(interval: _Interval, *, is_left_core: bool) -> tuple[Hop, int]:
    """Return the windows of the join.

    Returns:
        The windows, and the microseconds from the end of a window's core to the end of the window.
        The core is as long as the slide.
    """
    low_us, high_us = interval.low_us, interval.high_us
    if not is_left_core:
        low_us, high_us = -high_us, -low_us
    # The other side's time is between `time - high` and `time - low`.
    before_us, after_us = max(high_us, 0), max(-low_us, 0)
    step_us = _round_up(max(before_us + after_us, 1), _STEPS * _SECOND_US) // _STEPS
    before_us, after_us = _round_up(before_us, step_us), _round_up(after_us, step_us)
    return Hop(step_us, before_us + step_us + after_us), after_us


def _round_up(length_us: int, unit_us: int) -> int:
    """Return the smallest multiple of a unit that is at least `length_us`."""
    return -(-length_us // unit_us) * unit_us


def _core_windows(
    node: Node, time: Column, window: Hop, after_us: int, place: exp.Expr, *, keeps_all: bool
) -> WindowTableFunction:
    """Return the rows of a side, each in the one window whose core contains it.

    With `keeps_all`, also rows without a time, at UNTIMED.
    """
    keeps_untimed = keeps_all and time.nullable
    if after_us or keeps_untimed:
        at: exp.Expr = column(time.name)
        if after_us:
            at = exp.Add(this=at, expression=seconds(str(after_us // _SECOND_US)))
        if keeps_untimed:
            untimed = cast_as(exp.Literal.string(UNTIMED), time.type)
            at = function_call("COALESCE", at, untimed)
        shifted = Column(_SHIFTED, time.type, time.nullable and not keeps_untimed)
        node, time = with_column(node, shifted, at), shifted
    windows = in_windows(node, Tumble(window.slide_us), time, COLUMNS, span_of(place))
    return replace(windows, emits_untimed=keeps_untimed)


def _rows_of(node: WindowTableFunction, side: Side, relations: Relations) -> exp.Subquery:
    """Return the rows of a side and the ends of their windows as a subquery."""
    items = [column(name) for name in (*(c.name for c in side.node.schema), COLUMNS.end)]
    rows = relations.select(items, node)
    return named_query(rows, side.name)


# -- the select list -------------------------------------------------------------------------------


def _without_windows(
    select: exp.Select, left: Side, right: Side, using: Sequence[str], words: str
) -> Iterator[exp.Expr]:
    """Yield the items of a SELECT, replacing `*` by the columns of both sides."""
    is_left_alone = words in ("SEMI", "LEFT SEMI", "ANTI", "LEFT ANTI")
    for item in select.expressions:
        if not item.is_star:
            yield item
            continue
        of = item.table.lower() if isinstance(item, exp.Column) else None
        if of is None and using:
            for name in using:
                side = right if words in _RIGHT else left
                yield alias(column(name, side.name), name)
        for side in (left,) if is_left_alone else (left, right):
            if of not in (None, side.name.lower()):
                continue
            for c in side.node.schema:
                if of is not None or c.name.lower() not in using:
                    yield column(c.name, side.name)
