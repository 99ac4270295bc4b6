"""Columns that identify the rows that a stream updates.

With early firing or allowed lateness, a window operator emits one row per key and window, and later
replaces it. A table that is updated by PRIMARY KEY must have a key that distinguishes these rows;
otherwise the rows of two windows would overwrite each other.
"""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

from planner.nodes.logical import (
    Filter,
    Node,
    Project,
    SqlQuery,
    WindowDeduplicate,
    WindowRank,
)
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import star_leaves_out
from planner.streams.ranked_rows import ranking
from runtime.spec.sink import IdentityColumn
from runtime.spec.windows import CalendarCumulate, Cumulate


def update_identity(plan: Node) -> tuple[IdentityColumn, ...] | None:
    """Return the columns that identify the updated rows of a plan.

    Returns:
        One element per grouping key, and one for the window; for a Top-N, these of its
        rows. None if the plan is not a projection or filter of a single window aggregation or of a
        Top-N over it, so that the columns are unknown.
    """
    traced = _origins(plan)
    if traced is None:
        return None
    base, origins = traced
    if not isinstance(base, GlobalWindowAggregate):
        return _identity_of_rank(base, origins)
    aggregate = base
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


def updated_aggregate(node: Node) -> GlobalWindowAggregate | None:
    """Return the aggregation that a node filters and projects. None if it does more."""
    traced = _origins(node)
    base = None if traced is None else traced[0]
    return base if isinstance(base, GlobalWindowAggregate) else None


def ranked_keys(node: WindowRank | WindowDeduplicate) -> tuple[str, ...]:
    """Return the grouping keys that are among the keys of a rank; empty if one is computed.

    Rows that are ranked together have equal values of these keys.
    """
    traced = _origins(node.input)
    if traced is None or not isinstance(traced[0], GlobalWindowAggregate):
        return ()
    names = [column.name for column in node.input.schema]
    origins = dict(zip(names, traced[1], strict=True))
    keys = (origins.get(name) for name in node.partition_by)
    return tuple(key for key in keys if key in traced[0].keys)


def _identity_of_rank(
    node: WindowRank | WindowDeduplicate, origins: list[str | None]
) -> tuple[IdentityColumn, ...] | None:
    """Return the columns that identify the rows of a Top-N.

    These are the window, the keys of PARTITION BY and the other grouping keys. ROW_NUMBER can take
    the place of the latter, and a single row needs neither.
    """
    aggregate = updated_aggregate(node.input)
    traced = _origins(node.input)
    if aggregate is None or traced is None:
        return None
    below = dict(zip((column.name for column in node.input.schema), traced[1], strict=True))
    roles = {key.name: key.role for key in aggregate.window_keys}
    is_growing = isinstance(aggregate.window, Cumulate | CalendarCumulate)
    window = tuple(
        name
        for name in node.window_columns
        if not (is_growing and roles.get(below.get(name) or "") == "start")
    )
    columns: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in node.partition_by]
    columns.append((window[-1], window))
    function, first, last, _ = ranking(node)
    if function != "ROW_NUMBER" or first < last:
        by_rank = (node.rank_column,) if function == "ROW_NUMBER" else ()
        partition = {below.get(name) for name in node.partition_by}
        for key in aggregate.keys:
            if key not in partition:
                same = tuple(name for name, origin in below.items() if origin == key)
                columns.append((same[0] if same else key, (*same, *by_rank)))
    return tuple(
        IdentityColumn(name, tuple(i for i, origin in enumerate(origins) if origin in equals))
        for name, equals in columns
    )


_Base: TypeAlias = GlobalWindowAggregate | WindowRank | WindowDeduplicate


def _origins(node: Node) -> tuple[_Base, list[str | None]] | None:
    """Return the aggregation or Top-N below a node, and the origin of each output column in it."""
    if isinstance(node, _Base):
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
