"""Lowering of streaming queries that the simulator runs without Spark.

`lower_stream` has lowered the window operators of the plan. Expressions and whole windows are
lowered as in a batch query in this process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from planner.aggregates.functions import plan_aggregate
from planner.aggregates.recipes import NotMergeable
from planner.aggregates.shared_partials import share_partials
from planner.arrow.calls import NotEvaluated, refuse
from planner.arrow.scan_rows import Made, make_column
from planner.catalog import Catalog, column_named
from planner.lowering.in_process.plan import PlanLowering
from planner.lowering.in_process.relation import Relation, TypesOfLocal
from planner.lowering.stream.steps import StreamSteps
from planner.nodes.logical import Aggregate, Expand, Node, WindowRows
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import column, select_all_from
from planner.streams.delay import plain_delay_us
from planner.streams.tables import stream_named
from runtime.spec.expressions import Constant
from runtime.spec.in_process.relations import GivenRows, MergedWindows, RepeatedRows, UnitedRows
from runtime.spec.in_process.simulated import (
    SimulatedOperator,
    SimulatedQuery,
    SimulatedTable,
    windows_of_operator,
)
from runtime.spec.stream_steps import StreamWindowStep


def lower_simulated(
    steps: StreamSteps, catalog: Catalog, zone: str, types_of_local: TypesOfLocal
) -> SimulatedQuery | str:
    """Return a streaming query for the simulator, or the reason why only Spark can compute it.

    Args:
        steps: The lowered query.
        catalog: Catalog with its tables.
        zone: The session's time zone.
        types_of_local: Types of windows merged from the partials of rows.
    """
    assert steps.plan is not None, "only whole queries are simulated"
    if steps.limit is not None:
        return "LIMIT ends the stream after that many rows, whichever they are"
    lowering = _SimulatedLowering(catalog, zone, types_of_local, steps.operators)
    plan = steps.plan
    try:
        rows = lowering.project(lowering.node(plan), plan.schema)
    except NotEvaluated as reason:
        return str(reason).replace("by the scan", "in this process")
    operators = [lowering.operators[number] for number in sorted(lowering.operators)]
    return SimulatedQuery(rows, plan.schema, tuple(lowering.tables.values()), tuple(operators))


class _SimulatedLowering(PlanLowering):
    """Lowering of one plan.

    Args:
        catalog: Catalog with the tables.
        zone: The session's time zone.
        types_of_local: Types of windows merged from the partials of rows.
        steps: Window operators by the `id` of their nodes.

    Attributes:
        tables: Streams by name.
        operators: Window operators by number.
    """

    def __init__(
        self,
        catalog: Catalog,
        zone: str,
        types_of_local: TypesOfLocal,
        steps: Mapping[int, StreamWindowStep],
    ) -> None:
        super().__init__(catalog, zone, types_of_local, None)
        self._steps = steps
        self.tables: dict[str, SimulatedTable] = {}
        self.operators: dict[int, SimulatedOperator] = {}

    def node(self, node: Node) -> Relation:
        """Return the rows of a node of the plan. See `SelectLowering`."""
        match node:
            case GlobalWindowAggregate():
                return self._operator(node)
            case Aggregate():
                return self._regroup(node)
            case WindowRows():
                return self._repeat(node)
            case Expand():
                return self._expand(node)
        return super().node(node)

    def table(self, table: exp.Table) -> Relation:
        """Return the rows of a stream in a micro-batch."""
        stream = stream_named(table, self.catalog)
        name = tuple(part.name for part in table.parts)
        if stream is None:
            refuse(f"Spark reads {'.'.join(name)}, which is not a stream")
        if stream.proctime:
            refuse(f"{stream.name} has PROCTIME(), which depends on the clock")
        plain = exp.Table(**{key: table.args.get(key) for key in ("this", "db", "catalog")})
        schema = self.catalog.analyze(select_all_from(plain), {})
        time, delay_us, time_type = None, 0, ""
        if stream.watermark is not None:
            delay = plain_delay_us(stream.watermark, self.catalog)
            if delay is None:
                refuse(
                    f"the watermark of {stream.name} is not its column minus a constant interval"
                )
            time_column = column_named(schema, stream.watermark.column)
            assert time_column is not None, "lower_stream has checked it"
            time, delay_us, time_type = time_column.name, delay, time_column.type
        # rows have the values of computed columns, too
        self.tables[stream.name] = SimulatedTable(stream.name, schema, time, delay_us, time_type)
        return self.relation_of(GivenRows(stream.name, schema), schema)

    def _operator(self, node: GlobalWindowAggregate) -> Relation:
        """Return the windows that an operator emits in a micro-batch."""
        below = self._windows(node)
        assert isinstance(below.below, MergedWindows)
        step = self._steps[id(node)]
        self.operators[step.number] = SimulatedOperator(step, below.below)
        return replace(below, below=GivenRows(windows_of_operator(step.number), of=below.below))

    def _regroup(self, node: Aggregate) -> Relation:
        """Return windows that are grouped again."""
        below = self.node(node.input)
        try:
            plans = share_partials(tuple(map(plan_aggregate, node.calls)))
        except NotMergeable as reason:
            refuse(str(reason))
        keys = tuple((key.name, below.scan.expression(key.expr)) for key in node.keys)
        groups = self.grouped(below, keys, plans)
        finishes = {plan.call.name: plan.finish for plan in plans}
        made: dict[str, Made] = {
            c.name.lower(): make_column(finishes.get(c.name, column(c.name)), groups.scan)
            for c in node.schema
        }
        return replace(groups, scan=replace(groups.scan, schema=node.schema, columns=made))

    def _repeat(self, node: WindowRows) -> Relation:
        """Return rows of windows as often as they occur."""
        below = self.project(self.node(node.input), node.input.schema)
        return self.relation_of(RepeatedRows(below, node.copies), node.schema)

    def _expand(self, node: Expand) -> Relation:
        """Return rows once per grouping set."""
        below = self.node(node.input)
        own = {c.name.lower(): c for c in node.input.schema}
        parts = []
        for set_id, names in zip(node.ids, node.key_names, strict=True):
            columns: dict[str, Made] = {name: below.scan.columns[name] for name in own}
            types = {c.name.lower(): c.type for c in node.schema}
            for key in node.keys:
                columns[key.name.lower()] = (
                    make_column(key.expr, below.scan)
                    if key.name in names
                    else Constant(None, types[key.name.lower()])
                )
            columns[node.id_column.lower()] = Constant(set_id, types[node.id_column.lower()])
            scan = replace(below.scan, schema=node.schema, columns=columns)
            parts.append(self.project(replace(below, scan=scan), node.schema))
        return self.relation_of(UnitedRows(tuple(parts)), node.schema)
