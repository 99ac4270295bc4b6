"""Split a one-phase window aggregate into local stage, exchange and global stage."""

from __future__ import annotations

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.intervals import is_day_interval
from planner.aggregates.phases import two_phases
from planner.aggregates.shared_partials import share_partials
from planner.catalog import type_named
from planner.nodes.logical import Node
from planner.nodes.physical import (
    OnePhaseWindowAggregate,
)
from planner.nodes.properties import distribution
from planner.optimizer import Options
from planner.sql.build import is_flat_type, to_sql
from planner.streams.tables import streams_of
from runtime.refusal import Refusal, Refused


def split_window_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Aggregate rows into slices before the exchange, so that only partials are exchanged.

    Fires on a one-phase window aggregate, under the conditions of Flink's
    TwoStageOptimizedWindowAggregateRule:

    - `table.optimizer.agg-phase-strategy` is not ONE_PHASE (ignored on a stream, which keeps slices
      between micro-batches);
    - the window is on event time;
    - every aggregate and every key can be merged from partials;
    - the input is not already distributed by the keys. This is ignored for overlapping windows:
      without slices, each row would be copied into all of its windows.

    Example:
        >>> before_after(
        ...     "split_window_aggregate",
        ...     "SELECT window_end, SUM(fare) AS s "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY window_start, window_end",
        ... )
        before:
        WindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])], select=[SUM(fare) AS s,
          start('w$) AS window_start, end('w$) AS window_end])
        +- Exchange(distribution=[hash[window_start, window_end]])
           +- WindowTableFunction(window=[TUMBLE(time_col=[ts], size=[1 h])])
              +- Calc(select=[ts, fare])
                 +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city,
                      fare])
        after:
        Calc(select=[window_start, window_end, s$0 AS s])
        +- GlobalWindowAggregate(window=[TUMBLE(slice_end=[$slice_end], size=[1 h])],
             select=[SUM(s$0), start('w$) AS window_start, end('w$) AS window_end])
           +- Exchange(distribution=[single], carries=[Arrow blobs])
              +- LocalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])],
                   select=[SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
                 +- Calc(select=[ts, fare])
                    +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city,
                         fare])
    """
    if not isinstance(node, OnePhaseWindowAggregate):
        return None
    # A stream keeps slices between micro-batches and has no other way to compute windows.
    is_stream = bool(streams_of(node, options.catalog))
    if options.agg_phase_strategy == "ONE_PHASE" and not is_stream:
        return Refusal("table.optimizer.agg-phase-strategy is ONE_PHASE")
    if node.time_type == "proctime":
        return Refusal("the window uses processing time")
    for key in node.keys:
        type_ = type_named(node.schema, key.name)
        if not (is_flat_type(type_) or is_day_interval(type_)):
            text = to_sql(key.expr)
            return Refusal(f"the key {text} is {type_}, which the exchange does not support")
    try:
        plans = tuple(map(plan_aggregate, node.calls))
    except Refused as refused:
        return refused.refusal
    if is_stream and options.max_values:
        plans = tuple(plan.bounded(options.max_values) for plan in plans)
    keys = tuple(key.name for key in node.keys)
    distributed_by = distribution(node.input)
    if distributed_by is not None and node.window.tiles and not is_stream:
        read = {k.name.lower() for k in node.keys if k.is_plain_column}
        if distributed_by <= read:
            by = f"by {', '.join(sorted(distributed_by))}" if distributed_by else "to one task"
            return Refusal(f"the input is already distributed {by}")
    return two_phases(node, keys, share_partials(plans))
