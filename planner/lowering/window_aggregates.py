"""Lowering of window aggregates: local stage, exchange, global stage.

The tree is the same for Spark and for this process, except for a local stage over rows of other
nodes: Spark computes these rows with SQL, and this process with Arrow.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.partial_calls import row_partials
from planner.aggregates.shared_partials import share_partials
from planner.arrow.partials import arrow_partials
from planner.arrow.scan_rows import Made, instant_of_bound, make_column, merged_windows
from planner.catalog import Schema
from planner.lowering.relation import Relation, Slicing
from planner.lowering.select import SelectLowering
from planner.lowering.spark_sql import expand_query
from planner.materialized.slice_conditions import merged_types
from planner.nodes.aggregate_plans import (
    BOUNDS,
    END,
    SLICE_END,
    START,
    TIME,
    AggregatePlan,
    merge_windows,
)
from planner.nodes.logical import Expand, NamedExpr, Node, WindowTableFunction
from planner.nodes.physical import (
    Exchange,
    GlobalWindowAggregate,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
    SharedExchange,
    SharedSlices,
    SliceScan,
)
from planner.sql.build import column, is_flat_type, relation, select_all_from, to_sql
from runtime.plan.arrow_rows import LocalRows, RowScan, WindowedRows, grouping_sets, local_rows
from runtime.plan.exchange import (
    ExchangeStep,
    ExpandedPartials,
    MergedWindows,
    Partials,
    SharedExchangeStep,
    SharedSlicesStep,
)
from runtime.plan.local import (
    ArrowBuffer,
    Catalyst,
    FileScan,
    GroupingSets,
    LocalStep,
    SliceRows,
    SplitScan,
    SqlPartial,
    SqlRows,
    is_local,
)
from runtime.plan.nodes import MeasuredStep, SqlStep
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.table import Column

# Function that returns the local stage over rows of other nodes
RowsStage = Callable[[LocalWindowAggregate, Slicing], Partials]


class WindowsLowering(SelectLowering):
    """Lowering of the windows of one plan."""

    _shared: dict[tuple[int, RowsStage], SharedExchangeStep]

    @abstractmethod
    def step_below(self, node: Node) -> SqlStep:
        """Return the input of a step as Spark computes it."""

    @abstractmethod
    def label(self, node: Node, position: int = 0) -> str:
        """Return the label of the node's operator at `position` from the top.

        Empty if nothing is counted.
        """

    # -- two phases ----------------------------------------------------------------------------

    def merged_windows(self, node: GlobalWindowAggregate, rows_stage: RowsStage) -> MergedWindows:
        """Return the windows of an aggregate.

        `rows_stage` is `rows_on_spark` or `rows_here`.
        """
        exchange = self._exchange(node.input, rows_stage)
        has_time = any(key.role == "time" for key in node.window_keys)
        time = TIME if has_time else None
        return MergedWindows(exchange, window_aggregation(node), self.label(node), time)

    def rows_on_spark(self, node: LocalWindowAggregate, slicing: Slicing) -> Partials:
        """Return the local stage over rows of Spark, or over splits that tasks read themselves."""
        if isinstance(node, ScanLocalWindowAggregate):
            return LocalStep(node.scan, ArrowBuffer(), *slicing)
        below = self.step_below(node.input)
        keys = tuple((key.name, to_sql(key.expr)) for key in node.keys)
        if any(plan.call.user is not None for plan in node.plans):
            rows = SqlRows(keys, row_partials(node.plans), below)
            return LocalStep(rows, ArrowBuffer(), *slicing)
        partials = (partial for plan in node.plans for partial in plan.partials)
        sql = (SqlPartial(part.name, to_sql(part.expr), part.struct_fields) for part in partials)
        return LocalStep(SqlRows(keys, (), below), Catalyst(tuple(sql)), *slicing)

    def rows_here(self, node: LocalWindowAggregate, slicing: Slicing) -> LocalRows:
        """Return the local stage over rows that Arrow evaluates."""
        if isinstance(node, ScanLocalWindowAggregate) and not (
            isinstance(node.scan, SplitScan) and node.scan.source.is_read_in_process
        ):
            refuse(f"Spark reads {node.table}")
        return self._local_of(self.node(node.input), node.keys, node.plans, slicing)

    def _exchange(self, exchange: Node, rows_stage: RowsStage) -> ExchangeStep | SharedSlicesStep:
        if isinstance(exchange, SharedSlices):
            shared = exchange.input
            assert isinstance(shared, SharedExchange)
            # Lower it once for all readers.
            key = id(shared), rows_stage
            if key not in self._shared:
                self._shared[key] = self._shared_exchange(shared, rows_stage)
            return SharedSlicesStep(self._shared[key], exchange.level, exchange.columns)
        assert isinstance(exchange, Exchange)
        return ExchangeStep(
            self._partials(exchange.input, rows_stage),
            exchange.keys,
            self.label(exchange),
            exchange.partitions,
            exchange.buckets,
        )

    def _shared_exchange(self, shared: SharedExchange, rows_stage: RowsStage) -> SharedExchangeStep:
        return SharedExchangeStep(
            self._partials(shared.input, rows_stage),
            shared.keys,
            shared.slice_end,
            shared.accumulators,
            shared.levels,
            self.label(shared),
            shared.partitions,
            shared.buckets,
        )

    def _partials(self, node: Node, rows_stage: RowsStage) -> Partials:
        if isinstance(node, Expand):
            return self._expanded(node, self._partials(node.input, rows_stage))
        assert isinstance(node, LocalWindowAggregate)
        label = self.label(node)
        slicing = (node.window, node.time_column, node.time_type, node.slice_end, label)
        if isinstance(node, SliceScan):
            return LocalStep(node.rows, ArrowBuffer(), *slicing)
        if isinstance(node, ScanLocalWindowAggregate) and isinstance(node.scan, FileScan):
            return LocalStep(node.scan, ArrowBuffer(), *slicing)
        return rows_stage(node, slicing)

    def _expanded(self, node: Expand, partials: Partials) -> Partials:
        """Return partials once per grouping set."""
        if is_local(partials, SliceRows, ArrowBuffer):
            return replace(partials, source=replace(partials.source, sets=sets_of(node)))
        if is_local(partials, FileScan, ArrowBuffer) or is_local(partials, RowScan, ArrowBuffer):
            if not all(key.is_plain_column for key in node.keys):
                refuse("Spark computes grouping sets of expressions")
            return ExpandedPartials(partials, sets_of(node))
        assert is_local(partials, SqlRows, Catalyst)  # other partials are blobs, not rows
        name = "__sqlwin_partials__"
        query = expand_query(node, exp.Subquery(this=select_all_from(relation(name))))
        step = SqlStep(to_sql(query), ((name, partials),))
        label = self.label(node)
        return MeasuredStep(step, label) if label else step

    # -- windows of this process ---------------------------------------------------------------

    def windows_here(self, node: GlobalWindowAggregate) -> Relation:
        """Return merged windows."""
        rows = self.merged_windows(node, self.rows_here)
        types = dict(self._types(local_rows(rows), rows.aggregation.results))
        if isinstance(rows.input, SharedSlicesStep):
            types |= {
                local_name: types[name] for name, local_name in rows.input.columns if name in types
            }
        types |= {START: "timestamp_ntz", END: "timestamp_ntz"}
        if (sets := grouping_sets(rows)) is not None:
            types[sets.id_column] = "bigint"
        return self.emitted(node, Relation(rows, merged_windows(node, self.zone, types)))

    def one_phase_here(self, node: OnePhaseWindowAggregate) -> Relation:
        """Return windows of a one-phase aggregate, which need no exchange in one process."""
        if node.time_type == "proctime":
            refuse("Spark computes its windows")
        plans = share_partials(tuple(map(plan_aggregate, node.calls)))
        below = self.node(node.input)
        window = (node.window, node.time_column, node.time_type, SLICE_END)
        hidden = node.window.row_length
        lengths = () if hidden is None else (NamedExpr(hidden, column(hidden)),)
        local = self._local_of(below, (*node.keys, *lengths), plans, (*window, ""))
        names = tuple(key.name for key in node.keys)
        aggregation = merge_windows(plans, node.window, names)
        types = self.catalog.types_of_windows(local, aggregation.results)
        outputs = (*names, *aggregation.output_columns)
        columns = [Column(name, types.get(name, "")) for name in outputs]
        columns += [Column(BOUNDS[key.role], "timestamp_ntz") for key in node.window_keys]
        rows = MergedWindows(ExchangeStep(local, names), aggregation, window_time=TIME)
        windows = self.relation_of(rows, tuple(columns)).scan
        finishes = {plan.call.name: plan.finish for plan in plans}
        bounds = {key.name: BOUNDS[key.role] for key in node.window_keys}
        finishes |= {name: column(bound) for name, bound in bounds.items()}
        made: dict[str, Made] = {}
        for part in node.schema:
            bound = bounds.get(part.name)
            if bound is not None and part.type != "timestamp_ntz":
                made[part.name.lower()] = instant_of_bound(part.name, bound, self.zone)
            else:
                expr = finishes.get(part.name, column(part.name))
                made[part.name.lower()] = make_column(expr, windows)
        return Relation(rows, replace(windows, schema=node.schema, columns=made))

    def window_rows_here(self, node: WindowTableFunction) -> Relation:
        """Return rows copied into their windows."""
        if node.time_type == "proctime":
            refuse("Spark computes windows of processing time")
        partition = {name.lower() for name in node.window.partition}
        for part in node.input.schema:
            if part.name.lower() in partition and not is_flat_type(part.type):
                refuse(f"only Spark can partition by {part.name}, {shown_type(part.type)}")
        return self.windowed_here(node)

    def windowed_here(self, node: WindowTableFunction) -> Relation:
        """Return rows copied into their windows."""
        below = self.project(self.node(node.input), node.input.schema)
        names = (node.columns.start, node.columns.end, node.columns.time)
        rows = WindowedRows(below, node.window, node.time_column, node.time_type, self.zone, names)
        whole = self.relation_of(rows, node.schema)
        if node.time_type == "timestamp_ntz":
            return whole
        instant = instant_of_bound(names[2], names[2], self.zone)
        columns = {**whole.scan.columns, names[2].lower(): instant}
        return replace(whole, scan=replace(whole.scan, columns=columns))

    def _types(self, local: LocalRows, results: Schema) -> Mapping[str, str]:
        if is_local(local, SliceRows, ArrowBuffer):
            return merged_types(local.source, results)
        return self.catalog.types_of_windows(local, results)

    def _local_of(
        self,
        below: Relation,
        keys: Sequence[NamedExpr],
        plans: tuple[AggregatePlan, ...],
        slicing: Slicing,
    ) -> LocalRows:
        """Return the local stage of a window aggregate over rows; see `local`."""
        made = tuple((key.name, below.scan.expression(key.expr)) for key in keys)
        time = below.scan.expression(column(slicing[1]))
        return self.local(below, made, arrow_partials(plans, below.scan), time, slicing)


def sets_of(node: Expand) -> GroupingSets:
    """Return the grouping sets of a node."""
    return GroupingSets(node.id_column, tuple(zip(node.ids, node.key_names, strict=True)))


def window_aggregation(node: GlobalWindowAggregate) -> WindowAggregation:
    """Return the merge of a window aggregate, with the plan's names for the window bounds."""
    return merge_windows(node.plans, node.window, node.keys, node.slice_end)
