"""Local window aggregate over grouping sets: rows are aggregated once, partials are expanded."""

from __future__ import annotations

from dataclasses import replace

from planner.nodes.logical import Expand, Filter, NamedExpr, Node, Project
from planner.nodes.physical import Exchange, LocalWindowAggregate, SharedExchange
from planner.optimizer import Options, Refusal
from planner.sql.build import column
from planner.streams.tables import streams_of


def expand_after_local_aggregate(node: Node, options: Options) -> Node | Refusal | None:
    """Aggregate by all keys first; only the partials are copied for each grouping set.

    Fires on an exchange of a local aggregate over grouping sets, unless

    - an aggregate is user-defined: it has no partials in Spark;
    - the input is a stream, whose local stage sends its partials on as they are.

    Partials of one key and slice merge whatever they are partials of, so the global stage gives the
    same. Flink expands the rows themselves.

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
        return Refusal("a user-defined aggregate has no partials in Spark")
    filters: list[Filter] = []
    below: Node = local.input
    while not isinstance(below, Expand):
        if isinstance(below, Filter):
            filters.append(below)
        elif not (isinstance(below, Project) and all(i.is_plain_column for i in below.items)):
            return None
        below = below.inputs[0]
    if streams_of(below, options.catalog):
        return Refusal("the input is a stream")
    expand, rows = below, below.input
    for filter_ in reversed(filters):
        rows = Filter(rows.schema, rows, filter_.conjuncts)
    schema = tuple(c for c in local.schema if c.name != expand.id_column)
    aggregated = replace(local, schema=schema, input=rows, keys=expand.keys)
    keys = tuple(NamedExpr(key.name, column(key.name)) for key in expand.keys)
    return node.with_inputs(replace(expand, schema=local.schema, input=aggregated, keys=keys))
