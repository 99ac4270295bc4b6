"""Take deleted rows back from aggregates instead of counting the changes of whole rows."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from planner.aggregates.changes import call_of_changes
from planner.nodes.logical import (
    Aggregate,
    Expand,
    Filter,
    NamedExpr,
    NetRows,
    Node,
    Project,
    WindowAggregate,
    WindowKey,
    is_identified,
)
from planner.optimizer import Options
from planner.sql.build import bare_column, column, column_names
from runtime.refusal import Refusal, Refused, refuse
from runtime.spec.table import Column


def subtract_changes(node: Node, options: Options) -> Node | Refusal | None:
    """Compute aggregates of rows that remain by subtracting deleted rows.

    Fires on an aggregate of windows over changes, if each of its functions can take a row back
    exactly: from a sum, or from the counts of its values. MIN, MAX and DISTINCT need the counts,
    and a sum of doubles that were added and subtracted depends on their order. State then has one
    row per group. Otherwise, all functions are computed from the rows that remain, which state
    keeps by group and columns.

    Example:
        >>> before_after(
        ...     "subtract_changes",
        ...     "SELECT window_end, SUM(fare) AS s FROM TABLE(TUMBLE(("
        ...     "SELECT * FROM FROM_CHANGELOG(input => TABLE rides, op => DESCRIPTOR(city), "
        ...     "op_mapping => MAP['i', 'INSERT', 'd', 'DELETE'], error_handling => 'SKIP')), "
        ...     "DESCRIPTOR(ts), INTERVAL '1' HOUR)) GROUP BY window_start, window_end",
        ... )
        before:
        LogicalAggregate(groupBy=[window_start, window_end], select=[SUM(fare) AS s])
        +- LogicalNetRows(select=[ts, fare, window_start, window_end, window_time],
             copies=[$copies])
           +- LogicalFilter(condition=[$copies > 0])
              +- LogicalWindowAggregate(groupBy=[ts, fare], window=[TUMBLE(time_col=[ts], size=[1
                   h])], select=[SUM(`$change`) AS $copies, start('w$) AS window_start, end('w$) AS
                   window_end, time('w$) AS window_time])
                 +- LogicalProject(select=[ts, fare, CASE WHEN city IN ('i') THEN CAST(1 AS BIGINT)
                      WHEN city IN ('d') THEN CAST(-1 AS BIGINT) END AS $change])
                    +- LogicalFilter(condition=[city IN ('i', 'd')])
                       +- LogicalTableScan(table=[rides])
        after:
        LogicalProject(select=[window_start, window_end, CASE WHEN s$count > 0 THEN s$sum END AS s])
        +- LogicalFilter(condition=[$copies > 0])
           +- LogicalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])],
                select=[SUM(`$change`) AS $copies, SUM(CASE WHEN `$change` > 0 THEN CAST(fare AS
                BIGINT) ELSE -CAST(fare AS BIGINT) END) AS s$sum, SUM(CASE WHEN NOT fare IS NULL
                THEN `$change` ELSE 0 END) AS s$count, start('w$) AS window_start, end('w$) AS
                window_end])
              +- LogicalProject(select=[ts, fare, CASE WHEN city IN ('i') THEN CAST(1 AS BIGINT)
                   WHEN city IN ('d') THEN CAST(-1 AS BIGINT) END AS $change])
                 +- LogicalFilter(condition=[city IN ('i', 'd')])
                    +- LogicalTableScan(table=[rides])
    """
    if not isinstance(node, Aggregate):
        return None
    conditions: tuple[exp.Expr, ...] = ()
    expand = node.input if isinstance(node.input, Expand) else None
    rows = node.input if expand is None else expand.input
    if isinstance(rows, Filter):
        conditions, rows = rows.conjuncts, rows.input
    if not isinstance(rows, NetRows) or not isinstance(rows.input, Filter):
        return None
    windows = rows.input.input
    if not isinstance(windows, WindowAggregate):
        return None
    try:
        return _subtracted(node, rows.input, windows, conditions, expand)
    except Refused as reason:
        return reason.refusal


def _subtracted(
    node: Aggregate,
    remaining: Filter,
    windows: WindowAggregate,
    conditions: tuple[exp.Expr, ...],
    expand: Expand | None,
) -> Node:
    roles = {key.name.lower(): key.role for key in windows.window_keys}
    named = [(key, roles.get((bare_column(key.expr) or "").lower())) for key in node.keys]
    window_keys = tuple(WindowKey(key.name, role) for key, role in named if role is not None)
    keys = tuple(key for key, role in named if role is None)
    if not is_identified(windows.window, {key.role for key in window_keys}):
        refuse("the keys do not identify a window")
    grouped = {bare_column(key.expr) for key in keys}
    if not windows.window.has_slices and not grouped.issuperset(windows.window.partition):
        refuse("sessions of several partitions are one group")
    read = [*(key.expr for key in keys), *(call.expr for call in node.calls), *conditions]
    read += [] if expand is None else [key.expr for key in expand.keys]
    if any(column_names(part) & roles.keys() for part in read):
        refuse("an expression reads a window column")
    below = windows.input
    if conditions:
        below = Filter(below.schema, below, conditions)
    if expand is not None:
        new = {c.name: c for c in expand.schema if c.name.lower() not in roles}
        schema = tuple(new.pop(c.name, c) for c in below.schema)
        below = replace(expand, schema=(*schema, *new.values()), input=below)
    signed = [call_of_changes(call, below.schema) for call in node.calls]
    calls = (*windows.calls, *(call for one in signed for call in one.calls))
    columns = tuple(c for c in node.schema if c.name not in {call.name for call in node.calls})
    schema = (*columns, *(Column(call.name, call.type, True) for call in calls))
    groups = replace(
        windows, schema=schema, input=below, keys=keys, window_keys=window_keys, calls=calls
    )
    results = (NamedExpr(one.name, one.result) for one in signed)
    items = (*(NamedExpr(c.name, column(c.name)) for c in columns), *results)
    return Project(node.schema, Filter(schema, groups, remaining.conjuncts), items)
