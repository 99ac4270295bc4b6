"""Buffering of window rows on a stream until their windows close.

Rows are aggregated by all columns that are read, with a count, and emitted that many times when the
window closes. Slices, state and watermarks work as in any window aggregation.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from planner.aggregates.calls import count_of_copies
from planner.aggregates.intervals import is_day_interval
from planner.catalog import Catalog
from planner.nodes.logical import (
    COPIES,
    Aggregate,
    NamedExpr,
    Node,
    Project,
    RangeRows,
    SqlQuery,
    WindowAggregate,
    WindowKey,
    WindowTableFunction,
    repeated,
)
from planner.sql.build import column, column_names, has_only, is_flat_type
from planner.sql.parts import PLAIN_SELECT, lone_source
from planner.streams.ranges import aggregate_at_end
from planner.streams.tables import arrives_at_once
from runtime.refusal import Refusal
from runtime.shown_types import shown_type
from runtime.spec.table import Column


@dataclass(frozen=True)
class NotBuffered(Refusal):
    """Window rows cannot be buffered because of the type of a column."""


def buffered_rows(
    windowed: WindowTableFunction | RangeRows, needed: frozenset[str] | None
) -> Node | Refusal:
    """Return the rows of a window function, emitted when their windows close.

    Args:
        windowed: The window function.
        needed: Lower-case names of the columns that are read above. None means all. Other columns
            are dropped unless they identify windows or sessions.
    """
    schema = windowed.schema
    if needed is not None:
        apart = {windowed.columns.start, windowed.columns.end, *windowed.window.partition}
        names = needed | {name.lower() for name in apart}
        schema = tuple(c for c in schema if c.name.lower() in names)
    for col in schema:
        if not (is_flat_type(col.type) or is_day_interval(col.type)):
            return NotBuffered(
                f"column `{col.name}` of type {shown_type(col.type)} cannot be buffered on a "
                "stream; "
                "supported types are numbers, strings, times, intervals and booleans"
            )
    roles = [(col.name, windowed.columns.role_of(col.name)) for col in schema]
    count = count_of_copies(windowed.time_column)
    result = (*schema, Column(COPIES, "bigint", False))
    if isinstance(windowed, RangeRows):
        keys = tuple(NamedExpr(name, column(name)) for name, _ in roles)
        groups = aggregate_at_end(Aggregate(result, windowed, keys, (count,)), windowed)
        return repeated(groups, windowed.place)
    aggregate = WindowAggregate(
        result,
        windowed.input,
        windowed.window.emitting_all(),
        windowed.time_column,
        windowed.time_type,
        tuple(NamedExpr(name, column(name)) for name, role in roles if role is None),
        tuple(WindowKey(name, role) for name, role in roles if role is not None),
        (count,),
        emits_untimed=windowed.emits_untimed,
        place=windowed.place,
        time_place=windowed.time_place,
    )
    return repeated(aggregate, windowed.place)


def with_buffered_rows(node: Node, catalog: Catalog) -> Node | Refusal:
    """Buffer the rows of window functions below a node, wherever rows arrive one by one."""
    if isinstance(node, WindowTableFunction | RangeRows):
        return buffered_rows(node, None)
    if arrives_at_once(node, catalog):
        return node
    if isinstance(node, Project) and isinstance(node.input, WindowTableFunction | RangeRows):
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
    """Return the column names that a query over one relation reads; None if it may read all.

    `SELECT a FROM (SELECT * FROM r WHERE b)` reads a and b.
    """
    if len(node.relations) != 1:
        return None
    query: exp.Expr = node.query
    needed: frozenset[str] | None = None
    while isinstance(query, exp.Select) and has_only(query, PLAIN_SELECT):
        stars = [item for item in query.expressions if item.is_star]
        parts = [item for item in query.expressions if not item.is_star]
        parts += filter(None, [query.args.get("where")])
        names = frozenset[str]().union(*map(column_names, parts))
        source = lone_source(query)
        if source is None or any(part.find(exp.Query) for part in parts):
            break
        # A column not read above a star is not read below it either.
        needed = names if not stars else None if needed is None else needed | names
        if not isinstance(source, exp.Subquery):
            return needed
        if source.alias_column_names:
            return None
        query = source.this
    if any(not isinstance(s.parent, exp.Anonymous | exp.Count) for s in query.find_all(exp.Star)):
        return None
    return column_names(query)
