"""Lowering of streaming queries that the simulator runs without Spark.

`lower_stream` has lowered the window operators of the plan and the steps on whole windows.
Expressions are lowered as in a batch query in this process.
"""

from __future__ import annotations

from dataclasses import replace

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.shared_partials import share_partials
from planner.arrow.scan_rows import (
    PROCESSING_TIME,
    Made,
    filter_rows,
    make_column,
    result_columns,
)
from planner.catalog import Catalog
from planner.lowering.given_tables import NO_MOMENT_CALLS, GivenTablesLowering, MomentCalls
from planner.lowering.relation import Relation, refusals_in_process
from planner.lowering.stream.steps import StreamSteps
from planner.lowering.stream.whole_windows import push_one_sided_conditions
from planner.nodes.logical import (
    Aggregate,
    Node,
    WindowDeduplicate,
    WindowJoin,
    WindowRank,
)
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import bare_column, column
from planner.streams.ranked_rows import rank_order, ranking
from runtime.plan.exchange import MergedWindows, WindowProjection
from runtime.plan.rows import (
    GivenRows,
    JoinedRows,
    ProjectedRows,
    RankedRows,
)
from runtime.plan.simulated import (
    SimulatedOperator,
    SimulatedPart,
    SimulatedQuery,
    SimulatedWholeWindows,
)
from runtime.plan.streams import WholeWindowsStep
from runtime.spec.expressions import ColumnRef


def lower_simulated(
    steps: StreamSteps,
    catalog: Catalog,
    zone: str,
    moments: MomentCalls = NO_MOMENT_CALLS,
) -> SimulatedQuery:
    """Return a streaming query for the simulator, or refuse what only Spark computes.

    Args:
        steps: The lowered query.
        catalog: Catalog with its tables.
        zone: The session's time zone.
        moments: Calls in the query that depend on the micro-batch.
    """
    assert steps.plan is not None, "only whole queries are simulated"
    lowering = _SimulatedLowering(catalog, zone, steps, moments)
    plan = steps.plan
    with refusals_in_process():
        rows = lowering.project(lowering.node(plan), plan.schema)
    tables, parts = lowering.tables.values(), lowering.parts.values()
    return SimulatedQuery(
        rows,
        plan.schema,
        tuple(tables),
        tuple(parts),
        steps.limit,
        steps.order,
        PROCESSING_TIME if moments.reads_clock_of_results else "",
    )


class _SimulatedLowering(GivenTablesLowering):
    """Lowering of one plan.

    Args:
        catalog: Catalog with the tables.
        zone: The session's time zone.
        steps: The lowered query.
        moments: Calls in the query that depend on the micro-batch.

    Attributes:
        parts: Window operators and steps on whole windows by name. Each reads parts before it.
    """

    def __init__(
        self,
        catalog: Catalog,
        zone: str,
        steps: StreamSteps,
        moments: MomentCalls,
    ) -> None:
        super().__init__(catalog, zone, moments)
        self._steps = steps
        self.parts: dict[str, SimulatedPart] = {}

    def windows_here(self, node: GlobalWindowAggregate) -> Relation:
        """Return the windows that an operator emits in a micro-batch."""
        below = super().windows_here(node)
        assert isinstance(below.below, MergedWindows)
        part = SimulatedOperator(self._steps.operators[id(node)], below.below)
        return self._rows_of(part, below)

    def _rows_of(self, part: SimulatedPart, relation: Relation) -> Relation:
        """Add a part to the query, and return its rows in a micro-batch.

        Args:
            part: Part.
            relation: The rows of the part as a relation.
        """
        self.parts[part.name] = part
        if not self.moments.reads_clock_of_results:
            return replace(relation, below=GivenRows(part.name, of=part.rows))
        clock: Made = ColumnRef(PROCESSING_TIME, "timestamp")
        of_table = {**relation.scan.of_table, PROCESSING_TIME: clock}
        rows = GivenRows(part.name, of=part.rows, clock=PROCESSING_TIME)
        return Relation(rows, replace(relation.scan, of_table=of_table))

    def _step_of(self, node: Node) -> WholeWindowsStep | None:
        """Return the step of a node over whole windows, or None if the node reads no stream."""
        return self._steps.steps_on_windows.get(id(node))

    def ranks_here(self, node: WindowRank | WindowDeduplicate) -> Relation:
        """Return the rows of a Top-N or a deduplication in a micro-batch."""
        step = self._step_of(node)
        if step is None:
            return super().ranks_here(node)
        assert isinstance(step, RankedRows)
        below = self.node(node.input)
        assert below.below is not None, "streams have no files"
        columns = list(result_columns(below.scan, node.input.schema))
        function, first, last, order = ranking(node)
        orders = []
        for key, ordered in zip(step.order, order, strict=True):
            orders.append(rank_order(key.column, ordered))
            if bare_column(ordered.this) is None:
                columns.append((key.column, below.scan.expression(ordered.this)))
        projection = WindowProjection(tuple(columns), below.scan.filters)
        ranked = RankedRows(
            ProjectedRows(below.below, projection),
            function,
            (first, last),
            (*node.window_columns, *node.partition_by),
            tuple(orders),
            node.rank_column,
        )
        return self._whole_windows(step, ranked, self.relation_of(ranked, node.schema))

    def join_here(self, node: WindowJoin) -> Relation:
        """Return the rows of a join of windows in a micro-batch."""
        step = self._step_of(node)
        if step is None:
            return super().join_here(node)
        assert isinstance(step, JoinedRows)
        node = push_one_sided_conditions(node)
        joined = super().join_here(node).below
        assert isinstance(joined, JoinedRows)
        is_inner = step.join_type == "Inner"
        joined = replace(joined, condition=None) if is_inner else joined
        rows = self._whole_windows(step, joined, self.relation_of(joined, node.schema))
        if not is_inner or node.condition is None:
            return rows
        return replace(rows, scan=filter_rows(rows.scan, (node.condition,)))

    def _whole_windows(
        self,
        step: WholeWindowsStep,
        rows: RankedRows | JoinedRows | MergedWindows,
        relation: Relation,
    ) -> Relation:
        """Add a step on whole windows to the query, and return its rows in a micro-batch.

        Args:
            step: Step.
            rows: Its rows, over the parts before it.
            relation: The same rows as a relation.
        """
        return self._rows_of(SimulatedWholeWindows(len(self.parts), step, rows), relation)

    def groups_here(self, node: Aggregate) -> Relation:
        """Return windows that are grouped again."""
        below = self.node(node.input)
        plans = share_partials(tuple(map(plan_aggregate, node.calls)))
        keys = tuple((key.name, below.scan.expression(key.expr)) for key in node.keys)
        groups = self.grouped(below, keys, plans)
        step = self._step_of(node)
        if step is not None:
            assert isinstance(groups.below, MergedWindows)
            groups = self._whole_windows(step, groups.below, groups)
        finishes = {plan.call.name: plan.finish for plan in plans}
        made: dict[str, Made] = {
            c.name.lower(): make_column(finishes.get(c.name, column(c.name)), groups.scan)
            for c in node.schema
        }
        return replace(groups, scan=replace(groups.scan, schema=node.schema, columns=made))
