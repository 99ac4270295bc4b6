"""Window Top-N that keeps one row by time: a window deduplication."""

from __future__ import annotations

from planner.nodes.logical import Node, WindowDeduplicate, WindowRank
from planner.optimizer import Options, Refusal


def convert_rank_to_deduplicate(node: Node, options: Options) -> Node | Refusal | None:
    """Keep the first or the last row of each window and key instead of ranking all of them.

    For ROW_NUMBER up to 1 that is ordered by one time column: the column that windows were put on,
    or window_time. Any other order is a Top-1, with the same result. The model is Flink's
    StreamPhysicalWindowDeduplicateRule.
    """
    if not isinstance(node, WindowRank) or (node.rank_start, node.rank_end) != (1, 1):
        return None
    if node.rank_type != "ROW_NUMBER":
        return Refusal(f"{node.rank_type} keeps all rows that tie for the first place")
    if len(node.order_by) != 1:
        return Refusal("rows are ordered by more than their time")
    (ordered,) = node.order_by
    key = ordered.this.name
    if key.lower() not in {name.lower() for name in node.attached.times}:
        return Refusal(f"{key} is no time column of the window")
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
    )
