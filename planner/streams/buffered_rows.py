"""Rows of windows on a stream, buffered until their windows close.

They are aggregated by all columns that are read, with a count, and emitted when the window closes,
each as often as it was counted: with the slices, state and watermarks of any window aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.calls import read_call
from planner.aggregates.intervals import is_day_interval
from planner.catalog import Catalog
from planner.nodes.logical import (
    NamedExpr,
    Node,
    Project,
    SqlQuery,
    WindowAggregate,
    WindowKey,
    WindowRows,
    WindowTableFunction,
)
from planner.optimizer import Refusal
from planner.sql.build import column, column_names, function_call, is_flat_type
from planner.streams.tables import comes_whole
from runtime.spec.table import Column
from runtime.spec.windows import CalendarCumulate, Cumulate, SessionWindow, Window

_COPIES = "$copies"


@dataclass(frozen=True)
class NotBuffered(Refusal):
    """Rows of windows have a column that they cannot be buffered with."""


def buffered_rows(windowed: WindowTableFunction, needed: frozenset[str] | None) -> Node | Refusal:
    """The rows of a window function, emitted when their windows close.

    Args:
        windowed: the function.
        needed: the columns that are read above, in lower case; None: all. The others are no
            columns of the result, but for those that identify windows and sessions.
    """
    schema = windowed.schema
    if needed is not None:
        window = windowed.window
        partition = window.partition if isinstance(window, SessionWindow) else ()
        apart = {windowed.columns.start, windowed.columns.end, *partition}
        wanted = needed | {name.lower() for name in apart}
        schema = tuple(c for c in schema if c.name.lower() in wanted)
    for each in schema:
        if not (is_flat_type(each.type) or is_day_interval(each.type)):
            return NotBuffered(
                "rows of a stream's windows are buffered by numbers, strings, times, intervals and "
                "booleans; "
                f"`{each.name}` is {each.type}"
            )
    roles = [(each.name, windowed.columns.role_of(each.name)) for each in schema]
    count = function_call("COUNT", exp.Star())
    call = replace(read_call(count, _COPIES, windowed.time_column), type="bigint")
    counted = WindowAggregate(
        (*schema, Column(_COPIES, "bigint", False)),
        windowed.input,
        _of_all_rows(windowed.window),
        windowed.time_column,
        windowed.time_type,
        tuple(NamedExpr(name, column(name)) for name, role in roles if role is None),
        tuple(WindowKey(name, role) for name, role in roles if role is not None),
        (call,),
        place=windowed.place,
        time_place=windowed.time_place,
    )
    return WindowRows(schema, counted, _COPIES, place=windowed.place)


def with_buffered_rows(node: Node, catalog: Catalog) -> Node | Refusal:
    """The node over buffered rows, wherever rows come one after the other below it."""
    if isinstance(node, WindowTableFunction):
        return buffered_rows(node, None)
    if comes_whole(node, catalog):
        return node
    if isinstance(node, Project) and isinstance(node.input, WindowTableFunction):
        read = frozenset().union(*(column_names(item.expr) for item in node.items))
        rows = buffered_rows(node.input, read)
        return rows if isinstance(rows, Refusal) else node.with_inputs(rows)
    inputs = []
    for child in node.inputs:
        rows = with_buffered_rows(child, catalog)
        if isinstance(rows, Refusal):
            return rows
        inputs.append(rows)
    return node.with_inputs(*inputs) if inputs else node


def columns_read(node: SqlQuery) -> frozenset[str] | None:
    """The names that a text over one relation reads; None if it may read all columns."""
    if len(node.relations) != 1:
        return None
    stars = list(node.query.find_all(exp.Star))
    if any(not isinstance(star.parent, exp.Anonymous | exp.Count) for star in stars):
        return None
    return column_names(node.query)


def _of_all_rows(window: Window) -> Window:
    """The window that is emitted in every step that its rows are in, as rows are."""
    if isinstance(window, Cumulate | CalendarCumulate):
        return replace(window, emit_only_on_update=False)
    return window
