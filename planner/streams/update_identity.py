"""Columns that identify the rows that a stream updates.

With early firing or allowed lateness, a window operator emits one row per key and window, and later
replaces it. A table that is updated by PRIMARY KEY must have a key that distinguishes these rows;
otherwise the rows of two windows would overwrite each other.
"""

from __future__ import annotations

from sqlglot import exp

from planner.nodes.logical import Filter, Node, Project, SqlQuery
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import star_leaves_out
from runtime.spec.sink import IdentityColumn
from runtime.spec.windows import CalendarCumulate, Cumulate


def update_identity(plan: Node) -> tuple[IdentityColumn, ...] | None:
    """Return the columns that identify the updated rows of a plan.

    Returns:
        One element per grouping key, and one for the window. None if the plan is not a projection
        or filter of a single window aggregation, so that the columns are unknown.
    """
    traced = _origins(plan)
    if traced is None:
        return None
    aggregate, origins = traced
    columns: list[tuple[str, tuple[str, ...]]] = [(key, (key,)) for key in aggregate.keys]
    # Growing windows share their start, so only the end distinguishes them.
    is_growing = isinstance(aggregate.window, Cumulate | CalendarCumulate)
    roles = ("end", "time") if is_growing else ("end", "start", "time")
    names = {key.role: key.name for key in aggregate.window_keys}
    window = tuple(names[role] for role in roles if role in names)
    if window:
        columns.append((window[0], window))
    return tuple(
        IdentityColumn(name, tuple(i for i, origin in enumerate(origins) if origin in equals))
        for name, equals in columns
    )


def _origins(node: Node) -> tuple[GlobalWindowAggregate, list[str | None]] | None:
    """Return the aggregation below a node, and the origin of each output column in it."""
    if isinstance(node, GlobalWindowAggregate):
        return node, [column.name for column in node.schema]
    match node:
        case Filter():
            return _origins(node.input)
        case Project():
            items = [item.expr for item in node.items]
            below = node.input
        case SqlQuery() if len(node.relations) == 1 and isinstance(node.query, exp.Select):
            items = node.query.expressions
            below = node.relations[0][1]
        case _:
            return None
    traced = _origins(below)
    if traced is None:
        return None
    aggregate, origins_below = traced
    names = [column.name.lower() for column in below.schema]
    origins: list[str | None] = []
    for item in items:
        inner = item.unalias().unnest()
        if item.is_star:
            left_out = star_leaves_out(item)
            if left_out is None:
                return None
            pairs = zip(names, origins_below, strict=True)
            origins += [origin for name, origin in pairs if name not in left_out]
        elif isinstance(inner, exp.Column) and inner.name.lower() in names:
            origins.append(origins_below[names.index(inner.name.lower())])
        else:
            origins.append(None)
    return aggregate, origins
