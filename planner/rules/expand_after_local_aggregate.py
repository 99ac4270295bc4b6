"""Aggregate rows locally before grouping sets are expanded."""

from __future__ import annotations

from dataclasses import replace

from planner.aggregates.intervals import is_day_interval, to_microseconds
from planner.nodes.logical import Expand, Filter, NamedExpr, Node, below_choices
from planner.nodes.physical import Exchange, LocalWindowAggregate, SharedExchange
from planner.optimizer import Options
from planner.sql.build import column
from planner.streams.tables import streams_of
from runtime.refusal import Refusal


def expand_after_local_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Aggregate by all keys first, then copy partials instead of rows for each grouping set.

    Fires on an exchange of a local aggregate over grouping sets, unless

    - an aggregate is user-defined, because it has no partials in Spark;
    - the input is a stream, whose local stage sends partials without further processing.

    Partials of one key and slice merge regardless of the rows they come from, so the global stage
    returns the same result. Flink expands the rows themselves.

    Example:
        >>> before_after(
        ...     "expand_after_local_aggregate",
        ...     "SELECT city, window_end, SUM(fare) AS s "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY window_start, window_end, ROLLUP(city)",
        ... )
        before:
        LocalWindowAggregate(groupBy=[city, $e], window=[TUMBLE(time_col=[ts], size=[1 h])],
          select=[city, $e, SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
        +- Expand(projects=[{city, 0 AS $e}, {null AS city, 1 AS $e}])
           +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city, fare])
        after:
        Expand(projects=[{city, 0 AS $e}, {null AS city, 1 AS $e}])
        +- LocalWindowAggregate(groupBy=[city], window=[TUMBLE(time_col=[ts], size=[1 h])],
             select=[city, SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
           +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city, fare])
    """
    if not isinstance(node, Exchange | SharedExchange):
        return None
    if not isinstance(node.input, LocalWindowAggregate):
        return None
    local = node.input
    if any(plan.call.user is not None for plan in local.plans):
        return Refusal("Spark has no partials for a user-defined aggregate")
    below, conditions = below_choices(local.input)
    if not isinstance(below, Expand):
        return None
    if streams_of(below, options.catalog):
        return Refusal("the input is a stream")
    expand, rows = below, below.input
    if conditions:
        rows = Filter(rows.schema, rows, conditions)
    schema = tuple(c for c in local.schema if c.name != expand.id_column)
    types = {c.name: c.type for c in expand.schema}
    # local keys are intervals as microseconds, see `two_phases`
    local_keys = tuple(
        NamedExpr(key.name, to_microseconds(key.expr)) if is_day_interval(types[key.name]) else key
        for key in expand.keys
    )
    aggregated = replace(local, schema=schema, input=rows, keys=local_keys)
    keys = tuple(NamedExpr(key.name, column(key.name)) for key in expand.keys)
    return node.with_inputs(replace(expand, schema=local.schema, input=aggregated, keys=keys))
