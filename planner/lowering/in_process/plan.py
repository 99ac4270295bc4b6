"""Lowering of plans that run in this process because they read little."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.shared_partials import share_partials
from planner.arrow.expressions import to_arrow_expression
from planner.arrow.partials import arrow_partials
from planner.arrow.scan_rows import (
    Made,
    filter_rows,
    make_column,
    merged_windows,
    only_spark_produces,
)
from planner.catalog import Catalog, Schema
from planner.lowering.in_process.relation import (
    SLICE_END,
    QueryScope,
    Relation,
    refusals_in_process,
    renamed_as,
)
from planner.lowering.in_process.select import SelectLowering
from planner.lowering.in_process.target import Target, write_columns
from planner.lowering.windows import END, START, TIME, Slicing, sets_of
from planner.materialized.windows import merged_types
from planner.nodes.aggregate_plans import AggregatePlan, merge_windows
from planner.nodes.logical import (
    Expand,
    Filter,
    GapFill,
    NamedExpr,
    Node,
    Project,
    Sink,
    SqlQuery,
    TableScan,
    WindowDeduplicate,
    WindowJoin,
    WindowRank,
    WindowTableFunction,
)
from planner.nodes.physical import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    OnePhaseWindowAggregate,
    ScanLocalWindowAggregate,
)
from planner.nodes.sql_words import sql_words
from planner.sql.build import column, is_flat_type
from planner.streams.ranked_rows import rank_order, ranking
from runtime.plan.exchange import (
    ExchangeStep,
    ExpandedPartials,
    MergedWindows,
    Partials,
    SharedSlicesStep,
)
from runtime.plan.in_process import InProcessStep
from runtime.plan.local import ArrowBuffer, FileScan, LocalStep, SliceRows, SplitScan, is_local
from runtime.plan.rows import (
    FilledRows,
    JoinedRows,
    LocalRows,
    RankedRows,
    RowScan,
    WindowedRows,
    grouping_sets,
    local_rows,
)
from runtime.refusal import refuse
from runtime.shown_types import shown_type
from runtime.spec.table import Column
from runtime.spec.windows import SessionWindow


def lower_in_process(
    plan: Node,
    zone: str,
    catalog: Catalog,
    target: Target | None = None,
) -> InProcessStep:
    """Return the step that computes a plan in this process.

    Args:
        plan: A physical plan.
        zone: The session's time zone.
        catalog: Catalog with the tables.
        target: Columns of the table that the rows are written to. None: the columns of the query.

    Raises:
        Refused: Spark has to compute it.
        SqlwinError: `target` refuses the columns of the query.
    """
    lowering = PlanLowering(catalog, zone)
    with refusals_in_process():
        relation, schema = lowering.node(plan), plan.schema
        if target is not None:
            relation, schema = write_columns(relation, schema, target, zone)
        return InProcessStep(lowering.project(relation, schema), schema)


class PlanLowering(SelectLowering):
    """Lowering of one plan."""

    def node(self, node: Node) -> Relation:
        """Return the rows of a node of the plan. See `SelectLowering`."""
        match node:
            case Filter():
                below = self.node(node.input)
                return replace(below, scan=filter_rows(below.scan, node.conjuncts))
            case Project():
                below = self.node(node.input)
                made: dict[str, Made] = {
                    item.name.lower(): make_column(item.expr, below.scan) for item in node.items
                }
                return replace(below, scan=replace(below.scan, schema=node.schema, columns=made))
            case Sink():
                return self.node(node.input)
            case SqlQuery():
                whole = self.select(node.query, QueryScope(dict(node.relations)))
                return renamed_as(whole, node.schema)
            case TableScan():
                return self.select(node.query, QueryScope())
            case GlobalWindowAggregate():
                return self._windows(node)
            case OnePhaseWindowAggregate():
                return self._one_phase(node)
            case WindowTableFunction():
                return self._window_rows(node)
            case GapFill():
                rows = self.project(self.node(node.input), node.input.schema)
                return self.relation_of(FilledRows(rows, node.filling, self.zone), node.schema)
            case WindowRank() | WindowDeduplicate():
                return self._ranks(node)
            case WindowJoin():
                return self._join(node)
        refuse(f"Spark computes {sql_words(node)}")

    # -- windows -------------------------------------------------------------------------------

    def _windows(self, node: GlobalWindowAggregate) -> Relation:
        """Return merged windows."""
        rows = self.merged_windows(node)
        if any(key.role == "time" for key in node.window_keys):
            rows = replace(rows, window_time=TIME)
        types = dict(self._types(local_rows(rows), rows.aggregation.results))
        if isinstance(rows.input, SharedSlicesStep):
            types |= {
                local_name: types[name] for name, local_name in rows.input.columns if name in types
            }
        types |= {START: "timestamp_ntz", END: "timestamp_ntz"}
        if (sets := grouping_sets(rows)) is not None:
            types[sets.id_column] = "bigint"
        bounds = {"start": START, "end": END, "time": TIME}
        return Relation(rows, merged_windows(node, self.zone, bounds, types))

    def _one_phase(self, node: OnePhaseWindowAggregate) -> Relation:
        """Return windows of a one-phase aggregate, which need no exchange in one process."""
        if node.time_type == "proctime":
            refuse("Spark computes its windows")
        plans = share_partials(tuple(map(plan_aggregate, node.calls)))
        below = self.node(node.input)
        window = (node.window, node.time_column, node.time_type, SLICE_END)
        local = self._local_of(below, node.keys, plans, (*window, ""))
        names = tuple(key.name for key in node.keys)
        aggregation = merge_windows(plans, node.window, names, SLICE_END, (START, END))
        types = self.catalog.types_of_windows(local, aggregation.results)
        outputs = (*names, *aggregation.output_columns)
        columns = [Column(name, types.get(name, "")) for name in outputs]
        bounds = {"start": START, "end": END, "time": TIME}
        columns += [Column(bounds[key.role], "timestamp_ntz") for key in node.window_keys]
        rows = MergedWindows(ExchangeStep(local, names), aggregation, window_time=TIME)
        windows = self.relation_of(rows, tuple(columns)).scan
        finishes = {plan.call.name: plan.finish for plan in plans}
        finishes |= {key.name: column(bounds[key.role]) for key in node.window_keys}
        made: dict[str, Made] = {}
        for part in node.schema:
            is_bound = any(key.name == part.name for key in node.window_keys)
            if is_bound and part.type != "timestamp_ntz":
                made[part.name.lower()] = only_spark_produces(part.name)
            else:
                expr = finishes.get(part.name, column(part.name))
                made[part.name.lower()] = make_column(expr, windows)
        return Relation(rows, replace(windows, schema=node.schema, columns=made))

    def _window_rows(self, node: WindowTableFunction) -> Relation:
        """Return rows copied into their windows."""
        if node.time_type == "proctime":
            refuse("Spark computes windows of processing time")
        if isinstance(node.window, SessionWindow):
            partition = {name.lower() for name in node.window.partition}
            for part in node.input.schema:
                if part.name.lower() in partition and not is_flat_type(part.type):
                    refuse(f"only Spark can partition by {part.name}, {shown_type(part.type)}")
        below = self.project(self.node(node.input), node.input.schema)
        names = (node.columns.start, node.columns.end, node.columns.time)
        rows = WindowedRows(below, node.window, node.time_column, node.time_type, self.zone, names)
        whole = self.relation_of(rows, node.schema)
        if node.time_type == "timestamp_ntz":
            return whole
        columns = {**whole.scan.columns, names[2].lower(): only_spark_produces(names[2])}
        return replace(whole, scan=replace(whole.scan, columns=columns))

    def _types(self, local: LocalRows, results: Schema) -> Mapping[str, str]:
        if is_local(local, SliceRows, ArrowBuffer):
            return merged_types(local.source, results)
        return self.catalog.types_of_windows(local, results)

    def rows_stage(self, node: LocalWindowAggregate, slicing: Slicing) -> LocalRows:
        """Return the local stage over the rows of a node."""
        return self._local_of(self.node(node.input), node.keys, node.plans, slicing)

    def scan_stage(self, node: ScanLocalWindowAggregate, slicing: Slicing) -> LocalRows:
        """Return the local stage over a table that this process reads."""
        if isinstance(node.scan, FileScan):
            return LocalStep(node.scan, ArrowBuffer(), *slicing)
        if not (isinstance(node.scan, SplitScan) and node.scan.source.is_read_in_process):
            refuse(f"Spark reads {node.table}")
        return self.rows_stage(node, slicing)

    def expanded(self, node: Expand, partials: Partials) -> Partials:
        """Return partials once per grouping set."""
        if not all(key.is_plain_column for key in node.keys):
            refuse("Spark computes grouping sets of expressions")
        assert is_local(partials, FileScan, ArrowBuffer) or is_local(partials, RowScan, ArrowBuffer)
        return ExpandedPartials(partials, sets_of(node))

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

    # -- ranks and joins -----------------------------------------------------------------------

    def _ranks(self, node: WindowRank | WindowDeduplicate) -> Relation:
        """Return the rows of a Top-N or a deduplication."""
        below = self.project(self.node(node.input), node.input.schema)
        function, first, last, order = ranking(node)
        names = {part.name.lower(): part.name for part in node.input.schema}
        orders = []
        for ordered in order:
            by = ordered.this
            if not isinstance(by, exp.Column) or by.name.lower() not in names:
                refuse("Spark ranks by an expression")
            orders.append(rank_order(names[by.name.lower()], ordered))
        by_columns = tuple(names[n.lower()] for n in (*node.window_columns, *node.partition_by))
        rows = RankedRows(
            below, function, (first, last), by_columns, tuple(orders), node.rank_column
        )
        return self.relation_of(rows, node.schema)

    def _join(self, node: WindowJoin) -> Relation:
        """Return the rows of a join of windows."""
        left = self.project(self.node(node.left), node.left.schema)
        right = self.project(self.node(node.right), node.right.schema)
        types = {c.name: c.type for c in (*node.left.schema, *node.right.schema)}
        keys = (*node.window_keys, *node.keys)
        if any(types[a] != types[b] for a, b in keys):
            refuse("Spark compares columns of different types")
        condition = None
        if node.condition is not None:
            sides: tuple[Column, ...] = (*node.left.schema, *node.right.schema)
            condition = to_arrow_expression(node.condition, sides, self.zone)
        rows = JoinedRows(left, right, node.join_type, keys, condition)
        return self.relation_of(rows, node.schema)
