"""Rewrite a window Top-N that keeps one row by time as a window deduplication."""

from __future__ import annotations

from planner.nodes.logical import Node, WindowDeduplicate, WindowRank
from planner.optimizer import Options
from runtime.refusal import Refusal


def convert_rank_to_deduplicate(node: Node, options: Options) -> Node | Refusal | None:
    """Keep the first or the last row of each window and key instead of ranking all rows.

    Fires on a window Top-N that keeps rank 1, if

    - the function is ROW_NUMBER: RANK and DENSE_RANK keep all rows that tie for first place;
    - rows are ordered by one column, which is a time of the window: the windows' time column or
      `window_time`. Any other order is a Top-1, with the same result.

    Modelled on Flink's StreamPhysicalWindowDeduplicateRule.

    Example:
        >>> before_after(
        ...     "convert_rank_to_deduplicate",
        ...     "SELECT city, fare FROM ("
        ...     "SELECT *, ROW_NUMBER() OVER ("
        ...     "PARTITION BY window_start, window_end, city ORDER BY ts) AS r "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR))) "
        ...     "WHERE r = 1",
        ... )
        before:
        LogicalWindowRank(window=[TUMBLE(win_start=[window_start], win_end=[window_end],
          size=[1 h])], rankType=[ROW_NUMBER], rankRange=[rankStart=1, rankEnd=1],
          partitionBy=[city], orderBy=[ts], select=[ts, city, fare, window_start, window_end,
          window_time, r])
        +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
           +- LogicalTableScan(table=[trips])
        after:
        LogicalWindowDeduplicate(window=[TUMBLE(win_start=[window_start], win_end=[window_end],
          size=[1 h])], keep=[FirstRow], partitionKeys=[city], orderKey=[ts], order=[ROWTIME])
        +- LogicalTableFunctionScan(window=[TUMBLE(time_col=[ts], size=[1 h])])
           +- LogicalTableScan(table=[trips])
    """
    if not isinstance(node, WindowRank) or (node.rank_start, node.rank_end) != (1, 1):
        return None
    if node.rank_type != "ROW_NUMBER":
        return Refusal(f"{node.rank_type} keeps all rows that tie for first place")
    if len(node.order_by) != 1:
        return Refusal("rows are ordered by more than their time")
    (ordered,) = node.order_by
    key = ordered.this.name
    if key.lower() not in {name.lower() for name in node.attached.times}:
        return Refusal(f"{key} is not a time column of the window")
    return WindowDeduplicate(
        node.schema,
        node.input,
        node.attached,
        node.window_columns,
        node.partition_by,
        key,
        "LastRow" if ordered.args.get("desc") else "FirstRow",
        node.rank_column,
        place=node.place,
        ttl_us=node.ttl_us,
    )
