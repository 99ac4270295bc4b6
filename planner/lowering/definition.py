"""Lowering of queries to relations that are computed by definition, for the simulator.

It starts from the bound plan, so that the result does not depend on optimizer rules or two-phase
forms.
"""

from __future__ import annotations

from dataclasses import replace

from planner.catalog import Catalog
from planner.lowering.given_tables import NO_MOMENT_CALLS, GivenTablesLowering, MomentCalls
from planner.lowering.relation import Relation, refusals_in_process
from planner.nodes.logical import (
    CHANGE_KIND,
    Aggregate,
    AggregateCall,
    GapFill,
    Node,
    ResultChanges,
    VersionJoin,
    WindowTableFunction,
)
from planner.sql.build import column
from runtime.functions.aggregates import AGGREGATES
from runtime.plan.arrow_rows import (
    AsOfRows,
    FilledRows,
    GivenRows,
    InlineRows,
    JoinedRows,
    ProjectedRows,
    RangedRows,
    RankedRows,
    UnitedRows,
    WindowedRows,
)
from runtime.plan.definition import (
    DefinedCall,
    DefinedGroups,
    DefinedVersions,
)
from runtime.plan.exchange import WindowProjection
from runtime.plan.nodes import PlanNode
from runtime.refusal import refuse
from runtime.spec.expressions import Constant, Expression
from runtime.spec.filling import FillLinear
from runtime.spec.table import Column

_DEFINED = (
    AsOfRows
    | DefinedGroups
    | DefinedVersions
    | FilledRows
    | GivenRows
    | InlineRows
    | JoinedRows
    | ProjectedRows
    | RangedRows
    | RankedRows
    | WindowedRows
    | UnitedRows
)


def lower_definition(
    bound: Node,
    catalog: Catalog,
    zone: str,
    moments: MomentCalls = NO_MOMENT_CALLS,
) -> PlanNode:
    """Return a query as a relation with a definition, or refuse a query without one.

    Args:
        bound: Plan before all rules.
        catalog: Catalog with its tables.
        zone: The session's time zone.
        moments: Calls in the query that depend on the micro-batch.
    """
    lowering = _DefinitionLowering(catalog, zone, moments)
    with refusals_in_process():
        rows = lowering.project(lowering.node(bound), bound.schema)
    if any(not isinstance(below, _DEFINED) for below in rows.walk()):
        refuse("it sorts, groups or limits rows without windows")
    return rows


class _DefinitionLowering(GivenTablesLowering):
    """Lowering of a bound plan."""

    def node(self, node: Node) -> Relation:
        """Return the rows of a node of the plan. See `SelectLowering`."""
        if not isinstance(node, VersionJoin):
            return super().node(node)
        below = self.project(self.node(node.input), node.input.schema)
        rows = DefinedVersions(below, node.versions, tuple(c.name for c in node.schema))
        return self.relation_of(rows, node.schema)

    def filled_here(self, node: GapFill) -> Relation:
        """Return rows with the windows that FILL adds."""
        if any(isinstance(filler, FillLinear) for _, filler in node.filling.fillers):
            refuse("LINEAR has no definition row by row")
        return super().filled_here(node)

    def changes_here(self, node: ResultChanges) -> Relation:
        """Return the results, each inserted once."""
        below = self.node(node.input)
        is_kind = node.mark == CHANGE_KIND
        mark = Constant("+I", "string") if is_kind else Constant(1, "bigint")
        columns = {**below.scan.columns, node.mark: mark}
        scan = replace(below.scan, schema=node.schema, columns=columns)
        return replace(below, scan=scan)

    def window_rows_here(self, node: WindowTableFunction) -> Relation:
        """Return rows copied into their windows."""
        if node.window.emit_only_on_update:
            refuse("EMITONLYONUPDATE leaves windows out")
        return self.windowed_here(node)

    def groups_here(self, node: Aggregate) -> Relation:
        """Return the groups of rows."""
        below = self.node(node.input)
        columns: list[tuple[str, Expression]] = [
            (key.name, below.scan.expression(key.expr)) for key in node.keys
        ]
        calls = [self._call(call, number, below, columns) for number, call in enumerate(node.calls)]
        assert below.below is not None, "streams have no files"
        projection = WindowProjection(tuple(columns), below.scan.filters)
        rows = ProjectedRows(below.below, projection)
        keys = tuple(key.name for key in node.keys)
        return self.relation_of(DefinedGroups(rows, keys, tuple(calls)), node.schema)

    def _call(
        self,
        call: AggregateCall,
        number: int,
        below: Relation,
        columns: list[tuple[str, Expression]],
    ) -> DefinedCall:
        """Return a call, and add the columns that it reads."""
        function = AGGREGATES.get(call.function)
        if call.user is not None or function is None or not function.is_exact:
            refuse(f"{call.function} has no definition here")
        if call.is_descending:
            refuse(f"{call.text} has no definition in descending order")
        args = () if any(arg.is_star for arg in call.args) else call.args
        names = tuple(f"$arg{number}_{place}" for place in range(len(args)))
        columns += [
            (name, below.scan.expression(arg)) for name, arg in zip(names, args, strict=True)
        ]
        condition = order = None
        if call.condition is not None:
            condition = f"$if{number}"
            columns.append((condition, below.scan.expression(call.condition)))
        if call.order is not None:
            order = f"$at{number}"
            columns.append((order, below.scan.expression(column(call.order))))
        result = Column(call.name, call.type)
        return DefinedCall(result, call.function, names, condition, order, call.distinct)
