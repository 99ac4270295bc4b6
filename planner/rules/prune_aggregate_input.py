"""Drop columns that a window aggregate does not read from its input."""

from __future__ import annotations

from dataclasses import replace

from planner.nodes.logical import (
    Aggregate,
    Filter,
    Node,
    Project,
    RangeRows,
    WindowAggregate,
    with_needed_columns,
)
from planner.optimizer import Options
from planner.sql.build import column_names


def prune_aggregate_input(node: Node, options: Options) -> Node | None:
    """Read only the columns that keys, arguments, filters and the window need.

    Fires on a window aggregate whose input has other columns too and is not a projection, and on an
    aggregate of rows in RANGES whose data has other columns.

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
    if isinstance(node, Aggregate):
        below = _narrow_ranges(node.input, _columns_read(node))
        return None if below is None else node.with_inputs(below)
    if not isinstance(node, WindowAggregate) or isinstance(node.input, Project):
        return None
    needed = _columns_read(node)
    needed |= {name.lower() for name in (node.time_column, *node.window.partition)}
    if node.window.row_length is not None:
        needed.add(node.window.row_length)
    below = with_needed_columns(node.input, needed)
    return None if below is node.input else node.with_inputs(below)


def _columns_read(node: Aggregate | WindowAggregate) -> set[str]:
    """Return the columns that keys and calls read, in lower case."""
    read = [*(key.expr for key in node.keys), *(call.expr for call in node.calls)]
    return set[str]().union(*map(column_names, read))


def _narrow_ranges(node: Node, needed: set[str]) -> Node | None:
    """Return rows in ranges, possibly filtered, over data with the needed columns only.

    None if the data has no others, or for any other node.
    """
    if isinstance(node, Filter):
        below = _narrow_ranges(node.input, needed.union(*map(column_names, node.conjuncts)))
        return None if below is None else replace(node, schema=below.schema, input=below)
    if not isinstance(node, RangeRows):
        return None
    data = with_needed_columns(node.data, {*needed, node.time_column.lower()})
    return None if data is node.data else node.with_inputs(data, node.bounds)
