"""Buffer the rows of a stream's sessions until the session ends."""

from __future__ import annotations

from planner.nodes.logical import Node, WindowTableFunction
from planner.optimizer import Options
from planner.streams.buffered_rows import buffered_rows
from planner.streams.tables import streams_of
from runtime.refusal import Refusal


def keep_session_rows(node: Node, options: Options) -> Node | Refusal | None:
    """Buffer session rows with all columns if the nodes above do not select columns.

    Fires on SESSION over a stream: the session of a row is only known when the session ends.
    Refused if a column cannot be a group key, because buffered rows are groups with a count; see
    `planner.streams.buffered_rows`.

    Example:
        >>> before_after(
        ...     "keep_session_rows",
        ...     "SELECT * FROM TABLE("
        ...     "SESSION(TABLE rides PARTITION BY city, DESCRIPTOR(ts), INTERVAL '1' HOUR))",
        ... )
        before:
        LogicalTableFunctionScan(window=[SESSION(time_col=[ts], gap=[1 h],
          partition keys=[city])])
        +- LogicalTableScan(table=[rides])
        after:
        LogicalWindowRows(select=[ts, city, fare, window_start, window_end, window_time],
          copies=[$copies])
        +- LogicalWindowAggregate(groupBy=[ts, city, fare], window=[SESSION(time_col=[ts],
             gap=[1 h], partition keys=[city])], select=[COUNT(*) AS $copies, start('w$)
             AS window_start, end('w$) AS window_end, time('w$) AS window_time])
           +- LogicalTableScan(table=[rides])
    """
    if not isinstance(node, WindowTableFunction) or node.window.has_slices:
        return None
    return buffered_rows(node, None) if streams_of(node, options.catalog) else None
