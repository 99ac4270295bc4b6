"""Buffer fewer rows for a Top-N over a stream's windows."""

from __future__ import annotations

from dataclasses import replace

from planner.nodes.logical import Node, WindowDeduplicate, WindowRank
from planner.optimizer import Options
from planner.streams.ranked_rows import first_rows_of, path_to_rows
from runtime.refusal import Refusal


def push_rank_into_local_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Buffer only the rows of a slice that can be among the first N of a window.

    Fires on Top-N and deduplication over rows that a stream buffers until their windows close,
    unless

    - ranking or partition columns are computed after buffering;
    - the window is SESSION: the length of a session depends on all of its rows.

    A row ranks no better in a window than among the rows of its slice in one task and micro-batch.
    Rows after the N-th are neither exchanged nor buffered. Flink's window Top-N also keeps N
    rows per window (TopNBuffer).

    Example:
        >>> before_after(
        ...     "push_rank_into_local_aggregate",
        ...     "SELECT city FROM ("
        ...     "SELECT *, ROW_NUMBER() OVER ("
        ...     "PARTITION BY window_start, window_end ORDER BY fare DESC) AS r "
        ...     "FROM TABLE(TUMBLE(TABLE rides, DESCRIPTOR(ts), INTERVAL '1' HOUR))) "
        ...     "WHERE r <= 3",
        ... )
        before:
        LocalWindowAggregate(groupBy=[city, fare], window=[TUMBLE(time_col=[ts], size=[1 h])],
          select=[city, fare, COUNT(*) AS $copies$0, slice_end('w$) AS $slice_end])
        +- TableSourceScan(table=[rides], connector=[filesystem], fields=[ts, city, fare])
        after:
        LocalWindowAggregate(groupBy=[city, fare], window=[TUMBLE(time_col=[ts], size=[1 h])],
          keeps=[ROW_NUMBER() OVER (PARTITION BY $slice_end ORDER BY fare DESC) <= 3],
          select=[city, fare, COUNT(*) AS $copies$0, slice_end('w$) AS $slice_end])
        +- TableSourceScan(table=[rides], connector=[filesystem], fields=[ts, city, fare])
    """
    if not isinstance(node, WindowRank | WindowDeduplicate) or not node.window_columns:
        return None
    path = path_to_rows(node.input)
    if path is None or path.has_changes or path.local.first is not None:
        return None
    if not path.local.window.has_slices:
        return Refusal("the length of a session depends on all of its rows")
    first = first_rows_of(node, path)
    if isinstance(first, Refusal):
        return first
    return node.with_inputs(path.over(replace(path.local, first=first)))
