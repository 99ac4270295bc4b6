"""Use conditions on windows to read fewer stored slices."""

from __future__ import annotations

from dataclasses import replace

from planner.arrow.scan_rows import rows_of_windows
from planner.materialized.slice_conditions import (
    conditions_on_slices,
    merged_types,
    over_keys,
    range_of_slices,
    slice_end_conditions,
)
from planner.nodes.aggregate_plans import merge_windows
from planner.nodes.logical import Filter, Node, Project, SqlQuery
from planner.nodes.physical import Exchange, GlobalWindowAggregate, SliceScan
from planner.optimizer import Options
from runtime.refusal import Refusal, Refused


def narrow_slices(node: Node, options: Options) -> Node | Refusal | None:
    """Skip stored slices that a condition on windows or keys excludes.

    Fires on a condition above window aggregates that are answered from slices, if it

    - only reads group keys: slices of other keys are skipped;
    - bounds `window_start`, `window_end` or `window_time`: slices outside that time are skipped.

    The condition stays. Windows at the edges of the range may lack slices, and it drops them.

    Example:
        >>> before_after(
        ...     "narrow_slices",
        ...     "SELECT city, window_end, SUM(fare) AS s "
        ...     "FROM TABLE(HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '1' DAY)) "
        ...     "WHERE window_end > TIMESTAMP_NTZ '2026-03-01' "
        ...     "GROUP BY city, window_start, window_end",
        ... )
        before:
        SliceScan(table=[hourly], version=[7], slices=[1 h], rows=[1,000], groupBy=[city],
          window=[HOP(time_col=[ts], size=[1 d], slide=[1 h])], select=[city, SUM(fare) AS s$0,
          slice_end('w$) AS $slice_end])
        after:
        SliceScan(table=[hourly], version=[7], slices=[1 h], rows=[1,000], after=[2026-02-28
          00:00:00], groupBy=[city], window=[HOP(time_col=[ts], size=[1 d], slide=[1 h])],
          select=[city, SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
    """
    windows = _windows_below(node) if isinstance(node, Filter | SqlQuery) else None
    if windows is None:
        return None
    (scan,) = windows.input.inputs
    assert isinstance(scan, SliceScan)
    merged = merge_windows(windows.plans, windows.window, windows.keys, windows.slice_end)
    types = merged_types(scan.rows, merged.results)
    try:
        window_rows = rows_of_windows(node, options.time_zone, types)
    except Refused:
        return None
    conditions, bounds = conditions_on_slices(window_rows.filters, windows.window, windows.keys)
    keys = dict(scan.rows.keys)
    on_keys = [over_keys(item, keys) for item in conditions]
    existing = scan.rows.filters
    more = [item for item in (*on_keys, *slice_end_conditions(bounds)) if item not in existing]
    if not more:
        return None
    filters = (*existing, *more)
    range_us = range_of_slices(filters)
    try:
        files = options.catalog.slice_files(scan.table, range_us, None)
    except Refused:
        return None
    source = replace(scan.rows.files, files=files.files, n_rows=files.n_rows)
    tail = scan.rows.tail
    if tail is not None:
        of_rows = dict(tail.keys)
        on_rows = (over_keys(item, of_rows) for item in conditions)
        tail = replace(tail, filters=(*tail.filters, *on_rows))
    rows = replace(scan.rows, files=source, filters=filters, tail=tail)
    narrowed = replace(scan, rows=rows)

    def replace_child(child: Node) -> Node:
        return narrowed if child is scan else child.with_each_input(replace_child)

    return node.with_each_input(replace_child)


def _windows_below(node: Node) -> GlobalWindowAggregate | None:
    """Return the windows merged from slices that a node filters and projects.

    None for grouping sets: the keys outside a set are NULL regardless of the slices.
    """
    while isinstance(node, Filter | SqlQuery | Project) and len(node.inputs) == 1:
        (node,) = node.inputs
    if not isinstance(node, GlobalWindowAggregate) or not isinstance(node.input, Exchange):
        return None
    return node if isinstance(node.input.input, SliceScan) else None
