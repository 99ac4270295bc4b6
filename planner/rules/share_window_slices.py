"""Let window aggregates over the same rows share one local aggregate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeGuard

from sqlglot import exp

from planner.aggregates.shared_partials import union_partials
from planner.catalog import Catalog
from planner.nodes.aggregate_plans import partial_schema
from planner.nodes.logical import Filter, Node, TableScan, below_choices, with_needed_columns
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.nodes.slice_levels import Grid, common_grid, grid_of, is_cheaper_together, slice_levels
from planner.optimizer import Options, Trace
from planner.sql.build import column_names, to_sql
from planner.streams.sharing import MAX_READERS, MAX_SLICES, stream_obstacle
from planner.streams.tables import streams_of
from runtime.refusal import Refusal
from runtime.spec.aggregates import Distinct, ListAgg, Merge, MergeMoments, Pick
from runtime.windows import FixedWindow
from runtime.windows.intervals import render_duration
from runtime.windows.tumble import Tumble

# Accumulators whose partials can be merged into wider slices before the exchange.
_ROLLED_UP = (Merge, Pick, MergeMoments, Distinct)
# Also accumulators that stream state does not merge
_ROLLED_UP_IN_BATCH = (*_ROLLED_UP, ListAgg)


def share_window_slices(
    plans: Sequence[Node],
    traces: Sequence[Trace],
    options: Options,
    apart: Sequence[str | None] = (),
) -> list[Node]:
    """Let window aggregates over the same rows share one local aggregate.

    Unlike other rules, this one processes whole plans, and all plans of a statement set together.
    Window aggregates share a local aggregate if

    - they read the same input under the same conditions; on streams, in INSERTs of one set that
      only filter and project the windows (see `planner.streams.sharing`);
    - their windows use the same time column and are not sessions;
    - they group by the same keys;
    - the common slices of their windows are coarse enough to save work;
    - partials of all their aggregates merge into wider slices.

    Args:
        plans: Physical plans with two-phase window aggregates.
        traces: Trace of each plan.
        options: Planner settings.
        apart: For each plan, the reason why its stream cannot be shared, or None. May be empty.

    Returns:
        The plans. A shared node is the same object in all of them.

    Example:
        >>> before_after(
        ...     "share_window_slices",
        ...     "SELECT window_end, COUNT(*) AS n "
        ...     "FROM TABLE(TUMBLE(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR)) "
        ...     "GROUP BY window_start, window_end",
        ...     "SELECT window_end, SUM(fare) AS s "
        ...     "FROM TABLE("
        ...     "HOP(TABLE trips, DESCRIPTOR(ts), INTERVAL '1' HOUR, INTERVAL '2' HOUR)) "
        ...     "GROUP BY window_start, window_end",
        ... )
        before:
        Exchange(distribution=[single], carries=[Arrow blobs])
        +- LocalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])], select=[COUNT(*)
             AS n$0, slice_end('w$) AS $slice_end])
           +- Calc(select=[ts])
              +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city, fare])
        Exchange(distribution=[single], carries=[Arrow blobs])
        +- LocalWindowAggregate(window=[HOP(time_col=[ts], size=[2 h], slide=[1 h])],
             select=[SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
           +- Calc(select=[ts, fare])
              +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city, fare])
        after:
        SharedSlices(width=[1 h], select=[$slice_end, n$0])
        +- Exchange(distribution=[single], carries=[Arrow blobs], slices=[1 h], reuse_id=[1])
           +- LocalWindowAggregate(window=[TUMBLE(time_col=[ts], size=[1 h])], select=[COUNT(*)
                AS n$0, SUM(fare) AS s$0, slice_end('w$) AS $slice_end])
              +- Calc(select=[ts, fare])
                 +- TableSourceScan(table=[trips], connector=[filesystem], fields=[ts, city,
                      fare])
        SharedSlices(width=[1 h], select=[$slice_end, s$0])
        +- Reused(reference_id=[1])
    """
    apart = apart or [None] * len(plans)

    def obstacle(aggregation: _Aggregation) -> str | None:
        """Return why an aggregation cannot share with any other, or None."""
        reason = _obstacle(aggregation)
        if reason is not None or not aggregation.is_stream:
            return reason
        node, local, number = aggregation.node, aggregation.local, aggregation.plan_number
        return stream_obstacle(node, local, number, plans, apart, options.catalog)

    aggregations = [
        _aggregation(node, plan_number, options.catalog)
        for plan_number, plan in enumerate(plans)
        for node in plan.walk_up()
        if _is_two_phase(node)
    ]
    groups: list[list[_Aggregation]] = []
    refused: _Refusals = []
    for over_same_rows in _classes(aggregations, lambda a, b: a.base == b.base):
        first = over_same_rows[0]
        if len(over_same_rows) > 1:
            groups += _groups(over_same_rows, obstacle, refused)
        elif len(plans) > 1 and first.is_stream:
            refused.append((first, obstacle(first) or "the other INSERTs read different rows"))
    name = share_window_slices.__name__
    for aggregation, reason in refused:
        traces[aggregation.plan_number].add(name, aggregation.node, Refusal(reason))
    for aggregation in chain(*groups):
        traces[aggregation.plan_number].add(name, aggregation.node)
    return _rewrite(plans, groups)


@dataclass(frozen=True)
class _Aggregation:
    """A window aggregate of a plan, with the input of its local stage.

    Attributes:
        node: Global stage.
        local: Local stage.
        plan_number: Position of its plan.
        base: Input below the topmost filters and column selections.
        conditions: Conditions of those filters.
        is_stream: Whether it runs on a stream.
    """

    node: GlobalWindowAggregate
    local: LocalWindowAggregate
    plan_number: int
    base: Node
    conditions: tuple[exp.Expr, ...]
    is_stream: bool

    @property
    def window(self) -> FixedWindow:
        """The window, which has a fixed width."""
        window = self.node.window
        assert window.has_slices and not window.is_calendar
        return window


_Refusals = list[tuple[_Aggregation, str]]


def _is_two_phase(node: Node) -> TypeGuard[GlobalWindowAggregate]:
    """Return whether a node is a window aggregate over its own exchange."""
    if not isinstance(node, GlobalWindowAggregate) or not isinstance(node.input, Exchange):
        return False
    return isinstance(node.input.input, LocalWindowAggregate)


def _aggregation(node: GlobalWindowAggregate, plan_number: int, catalog: Catalog) -> _Aggregation:
    (local,) = node.input.inputs
    assert isinstance(local, LocalWindowAggregate)
    base, conditions = below_choices(local.input)
    is_stream = bool(streams_of(base, catalog))
    return _Aggregation(node, local, plan_number, base, conditions, is_stream)


def _classes(
    among: Sequence[_Aggregation], is_alike: Callable[[_Aggregation, _Aggregation], bool]
) -> list[list[_Aggregation]]:
    classes: list[list[_Aggregation]] = []
    for aggregation in among:
        match = next((c for c in classes if is_alike(c[0], aggregation)), None)
        if match is None:
            classes.append([aggregation])
        else:
            match.append(aggregation)
    return classes


# -- grouping -------------------------------------------------------------------------------


def _groups(
    over_same_rows: Sequence[_Aggregation],
    obstacle: Callable[[_Aggregation], str | None],
    refused: _Refusals,
) -> list[list[_Aggregation]]:
    """Return groups that share a local aggregate, and add the other aggregations to `refused`."""
    able = []
    for aggregation in over_same_rows:
        reason = obstacle(aggregation)
        if reason is None:
            able.append(aggregation)
        else:
            refused.append((aggregation, reason))
    groups = []
    for alike in _classes(able, lambda a, b: _difference(a, b) is None):
        if len(alike) > 1:
            for cluster in _clusters(alike):
                if len(cluster) > 1:
                    groups.append(cluster)
                else:
                    refused.append((cluster[0], _too_fine(cluster[0], alike)))
        elif len(able) > 1:
            refused.append((alike[0], _least_difference(alike[0], able)))
    return groups


def _obstacle(aggregation: _Aggregation) -> str | None:
    """Return why partials of an aggregation cannot be rolled up to wider slices, or None."""
    window = aggregation.node.window
    if not window.has_slices or window.is_calendar:
        return "its slices have different widths"
    rolled_up = _ROLLED_UP if aggregation.is_stream else _ROLLED_UP_IN_BATCH
    for plan in aggregation.local.plans:
        if not all(isinstance(accumulator, rolled_up) for accumulator in plan.accumulators):
            return f"partials of {plan.call.text} are not merged before the exchange"
    return None


# Differences that prevent sharing over one input, the most informative first
_DIFFERENCES: tuple[tuple[Callable[[_Aggregation], object], str], ...] = (
    (lambda a: (a.local.time_column.lower(), a.local.time_type), "have another time column"),
    (lambda a: frozenset(map(to_sql, a.conditions)), "have other conditions"),
    (lambda a: frozenset(to_sql(key.expr) for key in a.local.keys), "have other keys"),
)


def _difference(left: _Aggregation, right: _Aggregation) -> int | None:
    """Return the position in `_DIFFERENCES` of the first difference, or None."""
    return next((i for i, (of, _) in enumerate(_DIFFERENCES) if of(left) != of(right)), None)


def _least_difference(aggregation: _Aggregation, among: Sequence[_Aggregation]) -> str:
    """Return the difference between an aggregation and the most similar one."""
    others = [other for other in among if other is not aggregation]
    least = max(_difference(aggregation, other) or 0 for other in others)
    base = aggregation.base
    over = base.table if isinstance(base, TableScan) else "this input"
    return f"the other windows over {over} {_DIFFERENCES[least][1]}"


def _clusters(alike: Sequence[_Aggregation]) -> list[list[_Aggregation]]:
    """Form clusters, finest slices first, adding each aggregation to the first suitable one."""
    is_stream = alike[0].is_stream
    most = MAX_SLICES if is_stream else None
    clusters: list[list[_Aggregation]] = []
    for aggregation in sorted(alike, key=lambda a: grid_of(a.window)):
        for cluster in clusters:
            windows = [a.window for a in (*cluster, aggregation)]
            is_full = is_stream and len(windows) > MAX_READERS
            if not is_full and is_cheaper_together(windows, most):
                cluster.append(aggregation)
                break
        else:
            clusters.append([aggregation])
    return clusters


def _too_fine(aggregation: _Aggregation, alike: Sequence[_Aggregation]) -> str:
    other = next(a for a in alike if a is not aggregation)
    width = common_grid([grid_of(aggregation.window), grid_of(other.window)]).width_us
    return f"the slices shared with the other windows would be {render_duration(width)} wide"


# -- new plans ------------------------------------------------------------------------------


def _rewrite(plans: Sequence[Node], groups: Sequence[Sequence[_Aggregation]]) -> list[Node]:
    """Replace exchanges by shared nodes, each built once."""
    places = {
        id(aggregation.node): (number, position)
        for number, group in enumerate(groups)
        for position, aggregation in enumerate(group)
    }
    readers: dict[int, list[SharedSlices]] = {}

    def rewritten(node: Node) -> Node:
        if id(node) not in places:
            return node.with_each_input(rewritten)
        number, position = places[id(node)]
        if number not in readers:
            group = groups[number]
            readers[number] = _readers(number + 1, group, rewritten(group[0].base))
        return node.with_inputs(readers[number][position])

    return [rewritten(plan) for plan in plans]


def _readers(number: int, group: Sequence[_Aggregation], base: Node) -> list[SharedSlices]:
    """Return the levels and columns of the shared exchange that each aggregate of a group reads."""
    first = group[0].local
    grids = [grid_of(aggregation.window) for aggregation in group]
    if group[0].is_stream:
        # On a stream, slices are merged into wider ones in state, not before the exchange.
        grids = [common_grid(grids)] * len(grids)
    levels = slice_levels(grids)
    places = {Grid(level.width_us, level.offset_us): i for i, level in enumerate(levels)}
    read_on = [places[grid] for grid in grids]
    plans, columns = union_partials([aggregation.local.plans for aggregation in group])
    keys = tuple(key.name for key in first.keys)
    types = {c.name: c for c in first.schema}
    schema = tuple(types[name] for name in (*keys, first.slice_end)) + partial_schema(plans)
    local = replace(
        first,
        schema=schema,
        input=_rows(group, base),
        window=Tumble(levels[0].width_us, levels[0].offset_us),
        plans=plans,
        place=None,
        time_place=None,
    )
    read: list[set[str]] = [set() for _ in levels]
    for level, pairs in zip(read_on, columns, strict=True):
        read[level].update(name for name, _ in pairs)
    shared = SharedExchange(
        schema,
        local,
        number,
        keys,
        first.slice_end,
        tuple(accumulator for plan in plans for accumulator in plan.accumulators),
        tuple(
            replace(level, columns=tuple(c.name for c in schema if c.name in names))
            for level, names in zip(levels, read, strict=True)
        ),
        tuple(aggregation.window for aggregation in group),
    )
    key_of = {to_sql(key.expr): key.name for key in first.keys}
    return [
        SharedSlices(
            aggregation.local.schema,
            shared,
            level,
            (
                *((key_of[to_sql(key.expr)], key.name) for key in aggregation.local.keys),
                (first.slice_end, aggregation.local.slice_end),
                *pairs,
            ),
        )
        for aggregation, level, pairs in zip(group, read_on, columns, strict=True)
    ]


def _rows(group: Sequence[_Aggregation], base: Node) -> Node:
    """Return the rows that the whole group reads, with the columns that any member needs."""
    first = group[0]
    rows = Filter(base.schema, base, first.conditions) if first.conditions else base
    read = [key.expr for key in first.local.keys]
    read += [partial.expr for a in group for plan in a.local.plans for partial in plan.partials]
    needed = {first.local.time_column.lower()}.union(*map(column_names, read))
    return with_needed_columns(rows, needed)
