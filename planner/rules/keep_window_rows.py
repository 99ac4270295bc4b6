"""Rows of windows on a stream: kept until their windows close."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregate_calls import read_call
from planner.catalog import Schema
from planner.logical import (
    Aggregate,
    Filter,
    NamedExpr,
    Node,
    Project,
    SqlQuery,
    WindowAggregate,
    WindowDeduplicate,
    WindowJoin,
    WindowKey,
    WindowRank,
    WindowRows,
    WindowTableFunction,
)
from planner.optimizer import Options, Refusal
from planner.sql import column, column_names, is_flat_type
from planner.streams import comes_whole, streams_of
from runtime.spec import Column, Session

_COPIES = "$copies"


def keep_window_rows(node: Node, options: Options) -> Node | Refusal | None:
    """Keep the rows of windows where what is above needs all rows of a window at once.

    On a stream rows come one after the other. Top-N, deduplication, joins and groupings of windows
    take whole ones; and what session a row is in is known when the session is over. So the rows are
    aggregated by all columns that are read, with a count, and come out when the window closes, each
    as often as it was counted: with the slices, state and watermarks of any window aggregation.

    Refused where a column cannot be grouped by.
    """
    catalog = options.catalog
    if catalog is None:
        return None
    if isinstance(node, WindowTableFunction):
        if not isinstance(node.window, Session) or not streams_of(node, catalog):
            return None
        return _kept(node, None, options)
    if not isinstance(node, WindowRank | WindowDeduplicate | WindowJoin | Aggregate):
        return None
    if comes_whole(node, catalog):
        return None
    inputs = []
    for child in node.inputs:
        kept = child if comes_whole(child, catalog) else _rows_kept(child, None, options)
        if isinstance(kept, Refusal):
            return kept
        inputs.append(kept)
    if all(new is old for new, old in zip(inputs, node.inputs, strict=True)):
        return None
    return node.with_inputs(*inputs)


def _rows_kept(node: Node, needed: frozenset[str] | None, options: Options) -> Node | Refusal:
    """The node over rows that are kept.

    Args:
        node: a node over windows of a stream.
        needed: the columns that are read above, in lower case; None: all. What is left out below
            is no column of the result.
        options: settings.
    """
    assert options.catalog is not None
    if isinstance(node, WindowTableFunction):
        return _kept(node, needed, options)
    if comes_whole(node, options.catalog):
        return node
    match node:
        case Filter():
            read = [column_names(conjunct) for conjunct in node.conjuncts]
            below = None if needed is None else needed.union(*read)
            inner = _rows_kept(node.input, below, options)
            if isinstance(inner, Refusal):
                return inner
            return replace(node, schema=inner.schema, input=inner)
        case Project():
            below = frozenset[str]().union(*(column_names(item.expr) for item in node.items))
            inner = _rows_kept(node.input, below, options)
            return inner if isinstance(inner, Refusal) else node.with_inputs(inner)
    reads = _columns_read(node)
    inputs = []
    for child in node.inputs:
        kept = _rows_kept(child, reads, options)
        if isinstance(kept, Refusal):
            return kept
        inputs.append(kept)
    return node.with_inputs(*inputs) if inputs else node


def _columns_read(node: Node) -> frozenset[str] | None:
    """The names that a text reads; None if it may read all columns."""
    if not isinstance(node, SqlQuery) or len(node.relations) != 1:
        return None
    stars = list(node.query.find_all(exp.Star))
    if any(not isinstance(star.parent, exp.Anonymous) for star in stars):
        return None
    # a name before a dot may be a column's too
    return frozenset(
        part.name.lower() for col in node.query.find_all(exp.Column) for part in col.parts
    )


def _kept(
    windowed: WindowTableFunction, needed: frozenset[str] | None, options: Options
) -> Node | Refusal:
    """The rows of a window function, out when their windows close."""
    schema = _schema(windowed, needed)
    for each in schema:
        if not is_flat_type(each.type):
            return Refusal(
                f"`{each.name}` is {each.type}: rows of a stream's windows are kept by numbers, "
                "strings, times and booleans alone"
            )
    roles = [(each.name, windowed.columns.role_of(each.name)) for each in schema]
    count = exp.Anonymous(this="COUNT", expressions=[exp.Star()])
    call = replace(read_call(count, _COPIES, windowed.time_column), type="bigint")
    counted = WindowAggregate(
        (*schema, Column(_COPIES, "bigint", False)),
        windowed.input,
        windowed.window,
        windowed.time_column,
        windowed.time_type,
        tuple(NamedExpr(name, column(name)) for name, role in roles if role is None),
        tuple(WindowKey(name, role) for name, role in roles if role is not None),
        (call,),
    )
    return WindowRows(schema, counted, _COPIES)


def _schema(windowed: WindowTableFunction, needed: frozenset[str] | None) -> Schema:
    """The columns that are read, and those that tell windows and sessions apart."""
    if needed is None:
        return windowed.schema
    window = windowed.window
    partition = window.partition if isinstance(window, Session) else ()
    apart = {windowed.columns.start, windowed.columns.end, *partition}
    wanted = needed | {name.lower() for name in apart}
    return tuple(c for c in windowed.schema if c.name.lower() in wanted)
