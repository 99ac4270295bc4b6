"""Move a filter on window columns above the aggregate that groups by them."""

from __future__ import annotations

from planner.nodes.logical import Aggregate, Filter, Node, WindowTableFunction
from planner.optimizer import Options
from planner.sql.build import bare_column, column_names, to_sql
from runtime.refusal import Refusal


def pull_window_filter_above_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Filter windows after they are aggregated, so that their slices stay shared.

    Fires on an aggregate over a filter above a window table function. Each condition moves
    separately if it only reads window columns that are group keys: it then keeps or drops whole
    groups. Below the aggregate it would prevent folding the window table function into the
    aggregate, and every row would be copied into its windows.

    Example:
        >>> before_after(
        ...     "pull_window_filter_above_aggregate",
        ...     "SELECT window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "WHERE window_end > TIMESTAMP_NTZ '2026-01-01' GROUP BY window_start, window_end",
        ... )
        before:
        LogicalAggregate(groupBy=[window_start, window_end], select=[COUNT(*) AS n])
        +- LogicalFilter(condition=[window_end > TIMESTAMP_NTZ '2026-01-01'])
           +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
              +- LogicalTableScan(table=[trips])
        after:
        LogicalFilter(condition=[window_end > TIMESTAMP_NTZ '2026-01-01'])
        +- LogicalAggregate(groupBy=[window_start, window_end], select=[COUNT(*) AS n])
           +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
              +- LogicalTableScan(table=[trips])
    """
    if not (isinstance(node, Aggregate) and isinstance(node.input, Filter)):
        return None
    filter_, windowed = node.input, node.input.input
    if not isinstance(windowed, WindowTableFunction):
        return None
    grouped = {
        key.name.lower()
        for key in node.keys
        if windowed.columns.role_of(bare_column(key.expr) or "") is not None
    }
    movable = tuple(c for c in filter_.conjuncts if column_names(c) <= grouped)
    staying = tuple(c for c in filter_.conjuncts if c not in movable)
    if not movable:
        text = ", ".join(to_sql(conjunct) for conjunct in staying)
        return Refusal(f"{text} reads columns other than grouped window columns")
    below: Node = Filter(filter_.schema, windowed, staying) if staying else windowed
    return Filter(node.schema, node.with_inputs(below), movable)
