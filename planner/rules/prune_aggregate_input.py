"""Drop columns that a window aggregate does not read from its input."""

from __future__ import annotations

from planner.nodes.logical import Node, Project, WindowAggregate, with_needed_columns
from planner.optimizer import Options
from planner.sql.build import column_names


def prune_aggregate_input(node: Node, options: Options) -> Node | None:
    """Read only the columns that keys, arguments, filters and the window need.

    Fires on a window aggregate whose input has other columns too and is not a projection.

    Example:
        >>> before_after(
        ...     "prune_aggregate_input",
        ...     "SELECT window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY window_start, window_end",
        ... )
        before:
        LogicalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])], select=[COUNT(*)
          AS n, start('w$) AS window_start, end('w$) AS window_end])
        +- LogicalTableScan(table=[trips])
        after:
        LogicalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])], select=[COUNT(*)
          AS n, start('w$) AS window_start, end('w$) AS window_end])
        +- LogicalProject(select=[ts])
           +- LogicalTableScan(table=[trips])
    """
    if not isinstance(node, WindowAggregate) or isinstance(node.input, Project):
        return None
    needed = {name.lower() for name in (node.time_column, *node.window.partition)}
    if node.window.row_length is not None:
        needed.add(node.window.row_length)
    for key in node.keys:
        needed |= column_names(key.expr)
    for call in node.calls:
        needed |= column_names(call.expr)
    below = with_needed_columns(node.input, needed)
    return None if below is node.input else node.with_inputs(below)
