"""Window aggregates over the same rows: onto one local aggregate over the slices they share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from planner.aggregates.shared_partials import Columns, union_partials
from planner.catalog import Schema
from planner.nodes.logical import Filter, Node, Project, TableScan, with_needed_columns
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    SharedExchange,
    SharedSlices,
)
from planner.nodes.slice_levels import (
    FixedWindow,
    common_grid,
    grid_of,
    is_cheaper_together,
    slice_levels,
)
from planner.optimizer import Options, Refusal, Trace
from planner.sql.build import column_names, to_sql
from planner.sql.intervals import render_duration
from planner.streams.sharing import MOST_READERS, MOST_SLICES, stream_obstacle
from planner.streams.tables import streams_of
from runtime.spec.aggregates import Distinct, ListAgg, Merge, MergeMoments, Pick
from runtime.spec.table import Column
from runtime.spec.windows import Tumble

# Accumulators whose partials can be merged into wider slices before the exchange.
_ROLLED_UP = (Merge, Pick, MergeMoments, Distinct)
# ... and those that the state of a stream does not merge
_ROLLED_UP_IN_BATCH = (*_ROLLED_UP, ListAgg)


def share_window_slices(
    plans: Sequence[Node],
    traces: Sequence[Trace],
    options: Options,
    apart: Sequence[str | None] = (),
) -> list[Node]:
    """Let window aggregates over the same rows share one local aggregate.

    Unlike other rules this one looks at whole plans, at all those of a statement set together.
    Window aggregates share a local aggregate if

    - they read the same input under the same conditions; of streams, in INSERTs of one set that
      only filter and project the windows (see `planner.streams.sharing`);
    - their windows are on the same time column, and are no sessions;
    - they group by the same keys;
    - the slices that all their windows are made of are not too fine to pay;
    - partials of all their aggregates merge into wider slices.

    Args:
        plans: the physical plans, window aggregates in two phases.
        traces: for each plan, where to note what was done to it.
        options: settings.
        apart: for each plan why its stream cannot be shared; None: it can. May be empty.

    Returns:
        The plans; a shared node is one and the same object wherever it stands.

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
    found = [
        _Aggregation(node, plan_number, *_base_of(node))
        for plan_number, plan in enumerate(plans)
        for node in _window_aggregates(plan)
    ]
    statement = _StatementPlans(plans, options, apart or [None] * len(plans))
    name = share_window_slices.__name__
    groups: list[list[_Aggregation]] = []
    for over_same_rows in _classes(found, lambda a, b: a.base == b.base):
        if len(over_same_rows) == 1:
            aggregation = over_same_rows[0]
            if len(plans) > 1 and statement.reads_stream(aggregation):
                alone = "the other INSERTs read other rows"
                reason = _obstacle(aggregation, statement) or alone
                traces[aggregation.plan_number].add(name, aggregation.node, Refusal(reason))
            continue
        shared, refused = _compatible(over_same_rows, statement)
        groups += shared
        for aggregation, reason in refused:
            traces[aggregation.plan_number].add(name, aggregation.node, Refusal(reason))
    for group in groups:
        for aggregation in group:
            traces[aggregation.plan_number].add(name, aggregation.node)
    rewriting = _Rewriting(groups, statement)
    return [rewriting.of(plan) for plan in plans]


@dataclass(frozen=True)
class _Aggregation:
    """A window aggregate of some plan, and what lies below its local part.

    Attributes:
        node: the global part.
        plan_number: the position of its plan.
        base: the input without the conditions and choices of columns on top of it.
        conditions: those conditions.
    """

    node: GlobalWindowAggregate
    plan_number: int
    base: Node
    conditions: tuple[exp.Expr, ...]

    @property
    def local(self) -> LocalWindowAggregate:
        """The local part."""
        return _local_of(self.node)

    @property
    def window(self) -> FixedWindow:
        """The window, which is one of fixed widths."""
        window = self.node.window
        assert isinstance(window, FixedWindow)
        return window

    @property
    def key_texts(self) -> frozenset[str]:
        """The group keys as Spark SQL."""
        return frozenset(to_sql(key.expr) for key in self.local.keys)

    @property
    def condition_texts(self) -> frozenset[str]:
        """The conditions as Spark SQL."""
        return frozenset(map(to_sql, self.conditions))

    @property
    def time(self) -> tuple[str, str]:
        """The time column and its type."""
        return self.local.time_column.lower(), self.local.time_type


@dataclass(frozen=True)
class _StatementPlans:
    """The plans of a statement, and what is asked about all of them."""

    plans: Sequence[Node]
    options: Options
    apart: Sequence[str | None]

    def reads_stream(self, aggregation: _Aggregation) -> bool:
        """Whether it is computed on a stream."""
        catalog = self.options.catalog
        return catalog is not None and bool(streams_of(aggregation.base, catalog))

    def stream_obstacle(self, aggregation: _Aggregation) -> str | None:
        """Why a stream of it cannot be another's too."""
        catalog = self.options.catalog
        if catalog is None or not self.reads_stream(aggregation):
            return None
        node, number = aggregation.node, aggregation.plan_number
        return stream_obstacle(node, aggregation.local, number, self.plans, self.apart, catalog)


_Refusals = list[tuple[_Aggregation, str]]


def _window_aggregates(node: Node) -> Iterator[GlobalWindowAggregate]:
    for child in node.inputs:
        yield from _window_aggregates(child)
    if isinstance(node, GlobalWindowAggregate) and isinstance(node.input, Exchange):
        if isinstance(node.input.input, LocalWindowAggregate):
            yield node


def _local_of(node: GlobalWindowAggregate) -> LocalWindowAggregate:
    local = node.input.inputs[0]
    assert isinstance(local, LocalWindowAggregate)
    return local


def _base_of(node: GlobalWindowAggregate) -> tuple[Node, tuple[exp.Expr, ...]]:
    """The input below conditions and choices of columns, and the conditions."""
    conditions: tuple[exp.Expr, ...] = ()
    base = _local_of(node).input
    while True:
        if isinstance(base, Filter):
            conditions = (*base.conjuncts, *conditions)
        elif not (isinstance(base, Project) and all(i.is_plain_column for i in base.items)):
            return base, conditions
        base = base.inputs[0]


def _classes(
    among: Sequence[_Aggregation], is_alike: Callable[[_Aggregation, _Aggregation], bool]
) -> list[list[_Aggregation]]:
    classes: list[list[_Aggregation]] = []
    for aggregation in among:
        known = next((c for c in classes if is_alike(c[0], aggregation)), None)
        if known is None:
            classes.append([aggregation])
        else:
            known.append(aggregation)
    return classes


# -- which ones share --------------------------------------------------------------------------


def _compatible(
    over_same_rows: Sequence[_Aggregation], statement: _StatementPlans
) -> tuple[list[list[_Aggregation]], _Refusals]:
    """(groups that share a local aggregate, which ones do not and why)."""
    refused: _Refusals = []
    able = []
    for aggregation in over_same_rows:
        reason = _obstacle(aggregation, statement)
        if reason is None:
            able.append(aggregation)
        else:
            refused.append((aggregation, reason))
    groups = []
    for alike in _classes(able, lambda a, b: _difference(a, b) is None):
        if len(alike) > 1:
            clusters = _clusters(alike, statement.reads_stream(alike[0]))
            groups += [cluster for cluster in clusters if len(cluster) > 1]
            refused += [
                (cluster[0], _too_fine(cluster[0], alike))
                for cluster in clusters
                if len(cluster) == 1
            ]
        elif len(able) > 1:
            refused.append((alike[0], _least_difference(alike[0], able)))
    return groups, refused


def _obstacle(aggregation: _Aggregation, statement: _StatementPlans) -> str | None:
    """Why an aggregation can share with no other one."""
    if not isinstance(aggregation.node.window, FixedWindow):
        return "its slices are not all of the same width"
    rolled_up = _ROLLED_UP if statement.reads_stream(aggregation) else _ROLLED_UP_IN_BATCH
    for plan in aggregation.local.plans:
        for accumulator in plan.accumulators:
            if not isinstance(accumulator, rolled_up):
                return f"partials of {plan.call.text} are not merged before the exchange"
    return statement.stream_obstacle(aggregation)


# What can keep two aggregations over one input from sharing, the most telling first
_DIFFERENCES: tuple[tuple[Callable[[_Aggregation], object], str], ...] = (
    (lambda aggregation: aggregation.time, "are on another time column"),
    (lambda aggregation: aggregation.condition_texts, "have other conditions"),
    (lambda aggregation: aggregation.key_texts, "group by other keys"),
)


def _difference(left: _Aggregation, right: _Aggregation) -> int | None:
    """The position in `_DIFFERENCES` of what two aggregations differ in; None if in nothing."""
    return next((i for i, (of, _) in enumerate(_DIFFERENCES) if of(left) != of(right)), None)


def _least_difference(aggregation: _Aggregation, among: Sequence[_Aggregation]) -> str:
    """What keeps an aggregation from the one that is most like it."""
    others = [other for other in among if other is not aggregation]
    least = max(_difference(aggregation, other) or 0 for other in others)
    base = aggregation.base
    over = base.table if isinstance(base, TableScan) else "this input"
    return f"the other windows over {over} {_DIFFERENCES[least][1]}"


def _clusters(alike: Sequence[_Aggregation], is_stream: bool) -> list[list[_Aggregation]]:
    """Aggregations with the finest slices first, each put to the first ones it goes well with."""
    most = MOST_SLICES if is_stream else None
    clusters: list[list[_Aggregation]] = []
    for aggregation in sorted(alike, key=lambda a: grid_of(a.window)):
        for cluster in clusters:
            windows = [a.window for a in (*cluster, aggregation)]
            if is_stream and len(windows) > MOST_READERS:
                continue
            if is_cheaper_together(windows, most):
                cluster.append(aggregation)
                break
        else:
            clusters.append([aggregation])
    return clusters


def _too_fine(aggregation: _Aggregation, alike: Sequence[_Aggregation]) -> str:
    other = next(a for a in alike if a is not aggregation)
    width = common_grid([grid_of(aggregation.window), grid_of(other.window)]).width_us
    return f"slices common to it and the other windows would be {render_duration(width)} wide"


# -- the plans that they make ------------------------------------------------------------------


class _Rewriting:
    """Puts shared nodes in the place of exchanges, each made once.

    Args:
        groups: the window aggregates that share.
        statement: says which of them read streams.
    """

    def __init__(
        self, groups: Sequence[Sequence[_Aggregation]], statement: _StatementPlans
    ) -> None:
        self._groups = groups
        self._statement = statement
        self._place = {
            id(aggregation.node): (number, position)
            for number, group in enumerate(groups)
            for position, aggregation in enumerate(group)
        }
        self._shared: dict[int, tuple[SharedExchange, list[SharedSlices]]] = {}

    def of(self, node: Node) -> Node:
        """The node with shared nodes below it."""
        place = self._place.get(id(node))
        if place is None:
            return node.with_each_input(self.of)
        number, position = place
        if number not in self._shared:
            self._shared[number] = self._share(number, self._groups[number])
        return node.with_inputs(self._shared[number][1][position])

    def _share(
        self, number: int, group: Sequence[_Aggregation]
    ) -> tuple[SharedExchange, list[SharedSlices]]:
        first = group[0]
        grids = [grid_of(aggregation.window) for aggregation in group]
        if self._statement.reads_stream(first):
            # slices are merged into wider ones in the state, and not before the exchange
            grids = [common_grid(grids)] * len(grids)
        levels = slice_levels(grids)
        plans, columns = union_partials([aggregation.local.plans for aggregation in group])
        keys = tuple(key.name for key in first.local.keys)
        slice_end = first.local.slice_end
        types = {c.name: c for c in first.local.schema}
        schema = (
            *(types[key] for key in keys),
            types[slice_end],
            *(
                Column(name, "partial")
                for plan in plans
                for partial in plan.partials
                for name in partial.columns
            ),
        )
        local = LocalWindowAggregate(
            schema,
            self._input(group),
            Tumble(levels[0].width_us, levels[0].offset_us),
            first.local.time_column,
            first.local.time_type,
            first.local.keys,
            plans,
            slice_end,
        )
        accumulators = tuple(a for plan in plans for a in plan.accumulators)
        place = {(level.width_us, level.offset_us): i for i, level in enumerate(levels)}
        read_on = [place[grid.width_us, grid.offset_us] for grid in grids]
        levels = tuple(
            replace(level, columns=_read(schema, columns, [on == i for on in read_on]))
            for i, level in enumerate(levels)
        )
        windows = tuple(aggregation.window for aggregation in group)
        shared = SharedExchange(
            schema, local, number + 1, keys, slice_end, accumulators, levels, windows
        )
        key_of = {to_sql(key.expr): key.name for key in first.local.keys}
        readers = []
        for aggregation, level_number, own in zip(group, read_on, columns, strict=True):
            names = (
                *((key_of[to_sql(key.expr)], key.name) for key in aggregation.local.keys),
                (slice_end, aggregation.local.slice_end),
                *own,
            )
            readers.append(SharedSlices(aggregation.local.schema, shared, level_number, names))
        return shared, readers

    def _input(self, group: Sequence[_Aggregation]) -> Node:
        """The rows that all of a group read, with the columns that any of them needs."""
        first = group[0]
        rows = self.of(first.base)
        if first.conditions:
            rows = Filter(rows.schema, rows, first.conditions)
        needed = {first.local.time_column.lower()}
        for key in first.local.keys:
            needed |= column_names(key.expr)
        for aggregation in group:
            for plan in aggregation.local.plans:
                for partial in plan.partials:
                    needed |= column_names(partial.expr)
        return with_needed_columns(rows, needed)


def _read(schema: Schema, columns: Sequence[Columns], is_reader: Sequence[bool]) -> tuple[str, ...]:
    """The columns that any of the readers among some aggregates reads."""
    read = {name for own, reads in zip(columns, is_reader, strict=True) if reads for name, _ in own}
    return tuple(c.name for c in schema if c.name in read)
