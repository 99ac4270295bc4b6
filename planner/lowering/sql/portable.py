"""A plan as SQL text of another engine, which reads tables by their names."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from planner.arrow.scan_rows import table_rows
from planner.catalog import Catalog
from planner.lowering.clauses import Item
from planner.lowering.given_tables import GivenTablesLowering
from planner.lowering.neighbours import neighbours
from planner.lowering.relation import QueryScope, Relation
from planner.lowering.sql.dialects import DIALECTS
from planner.lowering.sql.refusals import NotPortable
from planner.lowering.sql.selects import write_query
from planner.lowering.sql.targets import TARGETS
from planner.lowering.table_joins import joined_rows
from planner.nodes.logical import Node
from planner.sql.build import select_all_from
from planner.sql.nodes import TextSpan
from planner.sql.parts import bare_table, name_parts
from runtime.plan.arrow_rows import GivenRows
from runtime.plan.nodes import PlanNode
from runtime.refusal import Refusal, Refused

_BY_SPARK = re.compile(r"^(?:only )?Spark computes ")
_CALL = re.compile(r"([A-Z]\w+) (?:of|to|with) ")
_ONLY_SPARK = re.compile(r"which only Spark can (?:produce|group by)")

# Raises `NotPortable` if a text cannot read the table of a name
CheckTable = Callable[[tuple[str, ...]], None]

# Rules that bind a plan to files, or to windows of other queries
FILE_RULES = frozenset(
    {"answer_from_slices", "push_local_aggregate_into_scan", "share_window_slices"}
)


def compile_plan(
    plan: Node, catalog: Catalog, zone: str, target: str, check_table: CheckTable
) -> str:
    """Return a query as SQL of an engine: one SELECT with the rows of the plan.

    Args:
        plan: Physical plan, made without `FILE_RULES`.
        catalog: Catalog with its tables.
        zone: The session's time zone.
        target: Name of the engine, one of `TARGETS`.
        check_table: As in `lower_portable`.

    Raises:
        Refused: The engine might compute other rows; `NotPortable` with the part of the query.
    """
    engine = TARGETS[target]
    query = write_query(lower_portable(plan, catalog, zone, check_table), engine)
    engine.check(query)
    engine.finish(query)
    return query.sql(dialect=DIALECTS[engine.name], pretty=True, max_text_width=100)


def lower_portable(plan: Node, catalog: Catalog, zone: str, check_table: CheckTable) -> PlanNode:
    """Return a query as nodes over `GivenRows`, one for each table that it reads.

    Args:
        plan: Physical plan, made without `FILE_RULES`.
        catalog: Catalog with its tables.
        zone: The session's time zone.
        check_table: Function that raises `NotPortable` if a text cannot read the table of a name.

    Raises:
        Refused: Only Spark can compute a part of the query.
    """
    lowering = _PortableLowering(catalog, zone, check_table)
    try:
        return lowering.project(lowering.node(plan), plan.schema)
    except NotPortable:
        raise
    except Refused as refused:
        raise _not_portable(refused) from refused


class _PortableLowering(GivenTablesLowering):
    """Lowering of one plan."""

    def __init__(self, catalog: Catalog, zone: str, check_table: CheckTable) -> None:
        super().__init__(catalog, zone)
        self._check_table = check_table

    def node(self, node: Node) -> Relation:
        """Return the rows of a node. A refusal has the place of the lowest node with one."""
        try:
            return super().node(node)
        except NotPortable:
            raise
        except Refused as refused:
            if node.place is None:
                raise
            raise _not_portable(refused, node.place) from refused

    def joined(self, query: exp.Select, scope: QueryScope) -> tuple[exp.Select, Relation]:
        """Return a SELECT over the join of its relations, and the rows of the join."""
        return joined_rows(query, self, lambda source: self.source(source, scope))

    def with_neighbours(
        self, below: Relation, items: list[Item], orders: list[exp.Expr]
    ) -> tuple[Relation, list[Item], list[exp.Expr]]:
        """Return rows with the results of LAG and LEAD, and the clauses that read them."""
        return neighbours(self, below, items, orders)

    def table(self, table: exp.Table) -> Relation:
        """Return the rows of a table, with its computed columns."""
        name = name_parts(table)
        self._check_table(name)
        schema = self.catalog.analyze(select_all_from(bare_table(table)), {})
        scan = table_rows(name, schema, self.catalog, self.zone)
        computed = self.catalog.computed_columns(name)
        stored = tuple(c for c in schema if c.name.lower() not in computed)
        return Relation(GivenRows(".".join(name), stored), replace(scan, table=()))


def _not_portable(refused: Refused, place: TextSpan | None = None) -> NotPortable:
    """Return a refusal of a node at a place, or at the call that the reason names."""
    call = _CALL.match(refused.refusal.reason)
    part = f"{call[1]}(" if call is not None else ""
    return NotPortable(_in_words(refused.refusal), part, place=place)


def _in_words(refusal: Refusal) -> Refusal:
    """Return a refusal in words that do not offer Spark as a way out."""
    reason = refusal.reason.replace(" by the scan", "").replace(" in this process", "")
    reason = _ONLY_SPARK.sub("which is not compiled", reason)
    return Refusal(_BY_SPARK.sub("not compiled: ", reason))
