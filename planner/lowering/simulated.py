"""Lowering of streaming queries that the simulator runs without Spark.

`lower_stream` has lowered the window operators of the plan and the steps on whole windows.
Expressions are lowered as in a batch query in this process.
"""

from __future__ import annotations

from dataclasses import replace

from planner.arrow.expressions import to_arrow_expression
from planner.arrow.scan_rows import PROCESSING_TIME, Made
from planner.catalog import Catalog
from planner.lowering.given_tables import NO_MOMENT_CALLS, GivenTablesLowering, MomentCalls
from planner.lowering.relation import Relation, refusals_in_process
from planner.lowering.stream.select import mark_of_kind
from planner.lowering.stream.steps import StreamSteps
from planner.nodes.logical import Node, ResultChanges
from planner.nodes.window_columns import gives_changes
from planner.sql.build import column
from runtime.plan.arrow_rows import (
    GivenRows,
    JoinedRows,
    RankedRows,
)
from runtime.plan.exchange import MergedWindows
from runtime.plan.simulated import (
    SimulatedOperator,
    SimulatedPart,
    SimulatedQuery,
    SimulatedWholeWindows,
)
from runtime.plan.streams import EmissionMode
from runtime.spec.expressions import ColumnRef
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import Column


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
        has_kinds=not gives_changes(plan),
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

    def emitted(self, node: Node, rows: Relation) -> Relation:
        """Add the operator of a node to the query, and return its rows in a micro-batch."""
        part: SimulatedPart
        if isinstance(rows.below, MergedWindows) and id(node) in self._steps.operators:
            part = SimulatedOperator(self._steps.operators[id(node)], rows.below)
        elif (step := self._steps.steps_on_windows.get(id(node))) is not None:
            assert isinstance(rows.below, RankedRows | JoinedRows | MergedWindows)
            part = SimulatedWholeWindows(len(self.parts), step, rows.below)
        else:
            return rows  # it reads no stream
        self.parts[part.name] = part
        more: tuple[Column, ...] = ()
        if isinstance(part, SimulatedOperator) and part.step.emission is not EmissionMode.ONCE:
            more = (Column(ROW_KIND, "string"),)
        clock = PROCESSING_TIME if self.moments.reads_clock_of_results else ""
        if clock:
            more = (*more, Column(clock, "timestamp"))
        hidden: dict[str, Made] = {c.name: ColumnRef(c.name, c.type) for c in more}
        given = GivenRows(part.name, of=part.rows, clock=clock)
        return Relation(given, replace(rows.scan, of_table={**rows.scan.of_table, **hidden}))

    def changes_here(self, node: ResultChanges) -> Relation:
        """Return the changes of results, from their kinds."""
        below = self.node(node.input)
        scan, kinds = below.scan, (Column(ROW_KIND, "string"),)
        of_kind = to_arrow_expression(mark_of_kind(node.mark, column(ROW_KIND)), kinds, self.zone)
        change = scan.over_files(of_kind)
        columns = {**scan.columns, node.mark: change}
        return replace(below, scan=replace(scan, schema=node.schema, columns=columns))
