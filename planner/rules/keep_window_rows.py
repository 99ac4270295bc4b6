"""Buffer the rows of a stream's windows where the nodes above need whole windows."""

from __future__ import annotations

from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    Aggregate,
    GapFill,
    Node,
    Project,
    VersionJoin,
    WindowDeduplicate,
    WindowRank,
    WindowTableFunction,
)
from planner.optimizer import Options
from planner.streams.buffered_rows import with_buffered_rows
from planner.streams.tables import arrives_at_once
from runtime.refusal import Refusal


def keep_window_rows(node: Node, options: Options) -> Node | Refusal | None:
    """Buffer rows until their window closes, for operators that need all rows of a window.

    Fires over streams, on

    - a window Top-N, deduplication, join or aggregation whose input emits rows one by one;
    - a temporal join with the versions of a stream, whose rows wait for the watermark;
    - GAP_FILL, which adds a window once the watermark has passed it;
    - a projection of sessions: the session of a row is only known when the session ends.

    Refused if a column cannot be a group key, because buffered rows are groups with a count; see
    `planner.streams.buffered_rows`.

    Example:
        >>> before_after(
        ...     "keep_window_rows",
        ...     "SELECT city FROM ("
        ...     "SELECT *, ROW_NUMBER() OVER ("
        ...     "PARTITION BY window_start, window_end ORDER BY fare DESC) AS r "
        ...     "FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR))) "
        ...     "WHERE r <= 3",
        ... )
        before:
        LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
        +- LogicalTableScan(table=[rides])
        after:
        LogicalWindowRows(select=[city, fare, window_start, window_end], copies=[$copies])
        +- LogicalWindowAggregate(groupBy=[city, fare], window=[TUMBLE(time_col=[ts],
             size=[1 h])], select=[COUNT(*) AS $copies, start('w$) AS window_start, end('w$)
             AS window_end])
           +- LogicalTableScan(table=[rides])
    """
    catalog = options.catalog
    if isinstance(node, Project):
        below = node.input
        if not isinstance(below, WindowTableFunction) or arrives_at_once(node, catalog):
            return None
        return None if below.window.has_slices else with_buffered_rows(node, catalog)
    kinds = WindowRank | WindowDeduplicate | WindowJoin | Aggregate | VersionJoin | GapFill
    if not isinstance(node, kinds):
        return None
    if arrives_at_once(node, catalog):
        return None
    inputs = []
    for child in node.inputs:
        rows = child if arrives_at_once(child, catalog) else with_buffered_rows(child, catalog)
        if isinstance(rows, Refusal):
            return rows
        if not arrives_at_once(rows, catalog):
            return None  # for example, rows of windows that are joined to a stream
        inputs.append(rows)
    return node.with_inputs(*inputs)
