"""Move a filter below a window table function if it reads no window column."""

from __future__ import annotations

from sqlglot import exp

from planner.nodes.logical import Filter, Node, WindowTableFunction
from planner.optimizer import Options
from planner.sql.build import column_names, to_sql
from runtime.refusal import Refusal

# Such a function would be evaluated separately for each window of a row.
_NON_DETERMINISTIC = frozenset(
    "RAND RANDOM RANDN RANDSTR UNIFORM UUID SHUFFLE MONOTONICALLY_INCREASING_ID".split()
)


def push_filter_below_window(node: Node, options: Options) -> Node | Refusal | None:
    """Filter rows before they are put into windows.

    Fires on a filter above a window table function. Each condition moves separately, unless it

    - reads `window_start`, `window_end` or `window_time`;
    - calls a non-deterministic function such as RAND, which would be evaluated separately in each
      window of a row;
    - reads columns that SESSION is not partitioned by: without the dropped rows, a session could
      fall apart.

    Example:
        >>> before_after(
        ...     "push_filter_below_window",
        ...     "SELECT window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "WHERE city = 'Rome' GROUP BY window_start, window_end",
        ... )
        before:
        LogicalFilter(condition=[city = 'Rome'])
        +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
           +- LogicalTableScan(table=[trips])
        after:
        LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
        +- LogicalFilter(condition=[city = 'Rome'])
           +- LogicalTableScan(table=[trips])
    """
    if not (isinstance(node, Filter) and isinstance(node.input, WindowTableFunction)):
        return None
    windowed = node.input
    window_columns = {
        name.lower()
        for name in (windowed.columns.start, windowed.columns.end, windowed.columns.time)
    }
    partition = None
    if not windowed.window.has_slices:
        partition = {name.lower() for name in windowed.window.partition}
    movable, staying, reasons = [], [], []
    for conjunct in node.conjuncts:
        if column_names(conjunct) & window_columns:
            reasons.append(f"{to_sql(conjunct)} reads a window column")
        elif any(f.name.upper() in _NON_DETERMINISTIC for f in conjunct.find_all(exp.Anonymous)):
            reasons.append(f"{to_sql(conjunct)} is not deterministic")
        elif partition is not None and not column_names(conjunct) <= partition:
            reasons.append(f"{to_sql(conjunct)} would remove rows from sessions")
        else:
            movable.append(conjunct)
            continue
        staying.append(conjunct)
    if not movable:
        return Refusal("; ".join(reasons))
    below = windowed.with_inputs(Filter(windowed.input.schema, windowed.input, tuple(movable)))
    return Filter(node.schema, below, tuple(staying)) if staying else below
