"""A window aggregate in two phases: local stage, exchange, global stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from planner.aggregates.intervals import from_microseconds, is_day_interval, to_microseconds
from planner.catalog import Schema, type_named
from planner.nodes.aggregate_plans import (
    SLICE_END,
    AggregatePlan,
    partial_schema,
    sums_changes,
)
from planner.nodes.logical import NamedExpr, Node, Project
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
)
from planner.sql.build import column
from runtime.spec.table import Column
from runtime.windows.times import FIRST_TIME, LAST_TIME

# Class of a merge of partials, perhaps with values for its own attributes
MakeWindows = Callable[..., GlobalWindowAggregate]

# Keys of the local stage: the time, and the gap, of a row that may be deleted from a session
_AT, _GAP = "$at", "$row_gap"


def two_phases(
    node: OnePhaseWindowAggregate,
    keys: tuple[str, ...],
    plans: tuple[AggregatePlan, ...],
    by: tuple[str, ...] | None = None,
    merged: MakeWindows = GlobalWindowAggregate,
) -> Node:
    """Return a window aggregate as local stage, exchange, global stage and final expressions.

    Args:
        node: The aggregate in one phase.
        keys: Names of its keys.
        plans: Plans of its calls, with shared partials.
        by: Keys whose rows one task needs. None: all keys.
        merged: Makes the node that merges the partials.
    """
    intervals = {c.name: c.type for c in node.schema if is_day_interval(c.type) and c.name in keys}
    local_keys = tuple(
        NamedExpr(key.name, to_microseconds(key.expr)) if key.name in intervals else key
        for key in node.keys
    )
    if node.window.row_length is not None:
        local_keys += (NamedExpr(node.window.row_length, column(node.window.row_length)),)
    is_of_changes = not node.window.has_slices and any(map(sums_changes, plans))
    if is_of_changes:
        # the times of a session's rows say how it splits when a row is deleted
        local_keys += (NamedExpr(_AT, column(node.time_column)),)
        if node.window.row_length is not None:
            local_keys += (NamedExpr(_GAP, column(node.window.row_length)),)
    key_columns = tuple(
        replace(c, type="bigint") if c.name in intervals else c
        for c in node.schema
        if c.name in keys
    )
    carried: Schema = (*key_columns, Column(SLICE_END, "bigint", False), *partial_schema(plans))
    exchange_keys = keys if by is None else by
    if not node.window.has_slices:
        if is_of_changes:
            carried = (*key_columns, Column(_AT, node.time_type, False), *carried[len(keys) :])
            if node.window.row_length is not None:
                gap = Column(_GAP, "bigint", False)
                carried = (*carried[: len(keys) + 1], gap, *carried[len(keys) + 1 :])
        # Sessions span all rows of a partition, regardless of other keys.
        exchange_keys = node.window.partition
        carried += (Column(FIRST_TIME, "bigint", False), Column(LAST_TIME, "bigint", False))
    local = LocalWindowAggregate(
        carried,
        node.input,
        node.window,
        node.time_column,
        node.time_type,
        local_keys,
        plans,
        SLICE_END,
        by=by,
        emits_untimed=node.emits_untimed,
        place=node.place,
        time_place=node.time_place,
    )
    exchange = Exchange(carried, local, exchange_keys)
    window_columns = tuple(
        Column(key.name, type_named(node.schema, key.name), False) for key in node.window_keys
    )
    outputs = [name for plan in plans for part in plan.accumulators for name in part.output_columns]
    outputs += [average.output.name for plan in plans for average in plan.averages]
    global_node = merged(
        (*key_columns, *window_columns, *(Column(name, "partial") for name in outputs)),
        exchange,
        node.window,
        node.time_type,
        keys,
        node.window_keys,
        plans,
        SLICE_END,
        place=node.place,
    )
    finishes = {plan.call.name: plan.finish for plan in plans}
    finishes |= {name: from_microseconds(column(name), type_) for name, type_ in intervals.items()}
    items = tuple(NamedExpr(c.name, finishes.get(c.name, column(c.name))) for c in node.schema)
    return Project(node.schema, global_node, items)
