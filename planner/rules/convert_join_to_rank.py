"""Rewrite the join of a stream's windows with their own extreme value as a window Top-1."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.catalog import column_named
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    AggregateCall,
    Node,
    WindowAggregate,
    WindowRank,
    columns_of,
)
from planner.nodes.properties import selection_below
from planner.optimizer import Options
from planner.sql.build import MIRRORED, bare_column, column, conjuncts
from planner.streams.tables import streams_of
from runtime.refusal import Refusal
from runtime.spec.table import Column

_RANK = "$rank"
# By function: the comparisons that only the extreme itself satisfies
_PASSES: dict[str, tuple[type[exp.Expr], ...]] = {
    "MAX": (exp.GTE, exp.EQ),
    "MIN": (exp.LTE, exp.EQ),
}


def convert_join_to_rank(node: Node, options: Options) -> Node | Refusal | None:
    """Replace a join of windows with their own MAX or MIN by a Top-1.

    Fires on an inner window join over streams, if

    - both sides are the same window aggregation, and the right one is MAX or MIN of one of its
      columns per window;
    - ON only compares that column with its extreme, by a comparison that only the extreme
      satisfies: `=`, `>=` for MAX, `<=` for MIN;
    - the column is never NULL, such as COUNT: ranks include NULL, comparisons do not;
    - the columns read from the right side are the extreme or window columns.

    The rows that match are those with RANK 1. The stream reads its input and keeps its state once
    instead of twice.

    Example:
        >>> before_after(
        ...     "convert_join_to_rank",
        ...     "WITH counts AS ("
        ...     "SELECT city, window_start, window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY city, window_start, window_end) "
        ...     "SELECT counts.city, most FROM counts JOIN ("
        ...     "SELECT window_start, window_end, MAX(n) AS most FROM counts "
        ...     "GROUP BY window_start, window_end) AS m "
        ...     "ON counts.window_start = m.window_start "
        ...     "AND counts.window_end = m.window_end AND n = most",
        ... )
        before:
        LogicalWindowJoin(leftWindow=[TUMBLE(win_start=[window_start], win_end=[window_end],
          size=[1 h])], rightWindow=[TUMBLE(win_start=[window_start0], win_end=[window_end0],
          size=[1 h])], joinType=[Inner], where=[n = most], select=[city, window_start,
          window_end, n, window_start0, window_end0, most])
        :- LogicalProject(select=[city, window_start, window_end, n])
        :  +- LogicalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[ts], size=[1 h])],
                select=[COUNT(*) AS n, start('w$) AS window_start, end('w$) AS window_end])
        :     +- LogicalTableScan(table=[rides])
        +- LogicalProject(select=[window_start AS window_start0, window_end AS window_end0,
             most])
           +- LogicalProject(select=[window_start, window_end, most])
              +- LogicalAggregate(groupBy=[window_start, window_end], select=[MAX(n) AS most])
                 +- LogicalProject(select=[city, window_start, window_end, n])
                    +- LogicalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[ts],
                         size=[1 h])], select=[COUNT(*) AS n, start('w$) AS window_start,
                         end('w$) AS window_end])
                       +- LogicalTableScan(table=[rides])
        after:
        LogicalProject(select=[city, window_start, window_end, n, window_start AS window_start0,
          window_end AS window_end0, n AS most])
        +- LogicalWindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end],
             size=[1 h])], rankType=[RANK], rankRange=[rankStart=1, rankEnd=1],
             orderBy=[n DESC], select=[city, window_start, window_end, n, $rank])
           +- LogicalProject(select=[city, window_start, window_end, n])
              +- LogicalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[ts],
                   size=[1 h])], select=[COUNT(*) AS n, start('w$) AS window_start, end('w$)
                   AS window_end])
                 +- LogicalTableScan(table=[rides])
    """
    if not isinstance(node, WindowJoin) or node.join_type != "Inner":
        return None
    if not streams_of(node, options.catalog):
        return None
    extreme = _extreme(node.right)
    compared = _comparison(node)
    if extreme is None or compared is None:
        return None
    call, others, read_there = extreme
    value, passed, comparison = compared
    origin = _windows_below(node.left, value)
    aggregated = _source_of(node.right, passed)
    if origin is None or aggregated is None or aggregated[1] != call.name:
        return None
    windows, read = origin
    if comparison not in _PASSES[call.function] or _shape(windows) != _shape(others):
        return None
    if _outputs(others, windows)[read_there] != read:
        return None
    types = {c.name: c.type for c in (*node.left.schema, *node.right.schema)}
    if types[value] != types[passed]:
        return None
    if not _is_never_null(windows, read):
        return Refusal(f"{value} may be NULL")
    # The columns of the right side: the value itself, or window columns that the left side has too.
    equal = {right: left for left, right in (*node.window_keys, (value, passed))}
    if any(c.name not in equal for c in node.right.schema):
        return None
    order = exp.Ordered(this=column(value), desc=call.function == "MAX")
    ranked = WindowRank(
        (*node.left.schema, Column(_RANK, "int", False)),
        node.left,
        node.left_window,
        "RANK",
        1,
        1,
        tuple(left for left, _ in node.window_keys),
        (),
        (order,),
        _RANK,
        place=node.place,
    )
    return columns_of(ranked, node.schema, (equal.get(c.name, c.name) for c in node.schema))


def _extreme(node: Node) -> tuple[AggregateCall, WindowAggregate, str] | None:
    """Return the MAX or MIN per window of a column of windows, if a join side is one.

    Returns:
        (the call, the window aggregation below, its column).
    """
    while (below := selection_below(node)) is not None:
        node = below[0]
    if not isinstance(node, Aggregate) or len(node.calls) != 1:
        return None
    (call,) = node.calls
    if call.function not in _PASSES or call.condition is not None or len(call.args) != 1:
        return None
    argument = bare_column(call.args[0])
    origin = None if argument is None else _windows_below(node.input, argument)
    if origin is None:
        return None
    windows, read = origin
    window_columns = {key.name for key in windows.window_keys}
    for key in node.keys:
        name = bare_column(key.expr)
        by = None if name is None else _source_of(node.input, name)
        if by is None or by[1] not in window_columns:
            return None
    return call, windows, read


def _comparison(node: WindowJoin) -> tuple[str, str, type[exp.Expr]] | None:
    """Return (left column, right column, comparison) if ON is a single comparison."""
    if node.condition is None:
        return (*node.keys[0], exp.EQ) if len(node.keys) == 1 else None
    parts = list(conjuncts(node.condition))
    if node.keys or len(parts) != 1 or type(parts[0]) not in MIRRORED:
        return None
    kind = type(parts[0])
    first, second = bare_column(parts[0].this), bare_column(parts[0].expression)
    if first is None or second is None:
        return None
    if _spelling(node.left, first) is None:
        first, second, kind = second, first, MIRRORED[kind]
    left, right = _spelling(node.left, first), _spelling(node.right, second)
    return None if left is None or right is None else (left, right, kind)


def _spelling(node: Node, name: str) -> str | None:
    """Return a column's name as spelled in the node's schema."""
    column = column_named(node.schema, name)
    return None if column is None else column.name


def _source_of(node: Node, name: str) -> tuple[Node, str] | None:
    """Return the node below selections, and its column that is passed on under this name."""
    while (selection := selection_below(node)) is not None:
        node, columns = selection
        if name.lower() not in columns:
            return None
        name = columns[name.lower()]
    spelled = _spelling(node, name)
    return None if spelled is None else (node, spelled)


def _windows_below(node: Node, name: str) -> tuple[WindowAggregate, str] | None:
    match _source_of(node, name):
        case WindowAggregate() as windows, spelled:
            return windows, spelled
    return None


def _shape(node: WindowAggregate) -> WindowAggregate:
    """Return a form that is equal for window aggregations with equal rows.

    Column names do not matter.
    """
    keys = tuple(replace(key, name="") for key in node.keys)
    return replace(node, schema=(), keys=keys, window_keys=(), calls=())


def _outputs(node: WindowAggregate, other: WindowAggregate) -> dict[str, str | None]:
    """Map each column of a window aggregation to the equal column of the other."""
    keys = {k.name: o.name for k, o in zip(node.keys, other.keys, strict=True)}
    by_role = {key.role: key.name for key in other.window_keys}
    by_call = {_nameless(call): call.name for call in other.calls}
    return {
        **keys,
        **{key.name: by_role.get(key.role) for key in node.window_keys},
        **{call.name: by_call.get(_nameless(call)) for call in node.calls},
    }


def _nameless(call: AggregateCall) -> AggregateCall:
    return replace(call, name="", text="")


def _is_never_null(windows: WindowAggregate, name: str) -> bool:
    call = next((call for call in windows.calls if call.name == name), None)
    return call is not None and call.function == "COUNT"
