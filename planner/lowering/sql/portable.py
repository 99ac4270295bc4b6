"""Lowering of a plan to nodes whose tables are named, not read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from planner.arrow.scan_rows import table_rows
from planner.catalog import Catalog
from planner.lowering.given_tables import GivenTablesLowering
from planner.lowering.relation import Relation
from planner.lowering.sql.refusals import NotPortable, refuse_part
from planner.nodes.logical import Node
from planner.sql.build import select_all_from
from planner.sql.parts import bare_table, name_parts
from runtime.plan.nodes import PlanNode
from runtime.plan.rows import GivenRows
from runtime.refusal import Refusal, Refused

_BY_SPARK = re.compile(r"^(?:only )?Spark computes ")
_ONLY_SPARK = re.compile(r"which only Spark can (?:produce|group by)")

# Returns the path of files that a query names, None for a table
PathOf = Callable[[tuple[str, ...]], str | None]

# Rules that bind a plan to files, or to windows of other queries
FILE_RULES = frozenset(
    {"answer_from_slices", "push_local_aggregate_into_scan", "share_window_slices"}
)


def lower_portable(plan: Node, catalog: Catalog, zone: str, path_of: PathOf) -> PlanNode:
    """Return a query as nodes over `GivenRows`, one for each table that it reads.

    Args:
        plan: Physical plan, made without `FILE_RULES`.
        catalog: Catalog with its tables.
        zone: The session's time zone.
        path_of: Function that returns the path of files that a query names, None for a table.

    Raises:
        Refused: Only Spark can compute a part of the query.
    """
    lowering = _PortableLowering(catalog, zone, path_of)
    try:
        return lowering.project(lowering.node(plan), plan.schema)
    except NotPortable:
        raise
    except Refused as refused:
        raise NotPortable(_in_words(refused.refusal)) from refused


class _PortableLowering(GivenTablesLowering):
    """Lowering of one plan."""

    def __init__(self, catalog: Catalog, zone: str, path_of: PathOf) -> None:
        super().__init__(catalog, zone)
        self._path_of = path_of

    def node(self, node: Node) -> Relation:
        """Return the rows of a node. A refusal has the place of the lowest node with one."""
        try:
            return super().node(node)
        except NotPortable:
            raise
        except Refused as refused:
            if node.place is None:
                raise
            raise NotPortable(_in_words(refused.refusal), place=node.place) from refused

    def table(self, table: exp.Table) -> Relation:
        """Return the rows of a table, with its computed columns."""
        name = name_parts(table)
        if (path := self._path_of(name)) is not None:
            refuse_part(
                "files by path are not compiled",
                f"'{path}'",
                "CREATE TABLE name WITH ('connector' = 'filesystem', 'path' = ...), and a table "
                "or view of that name on the engine",
            )
        schema = self.catalog.analyze(select_all_from(bare_table(table)), {})
        scan = table_rows(name, schema, self.catalog, self.zone)
        computed = self.catalog.computed_columns(name)
        stored = tuple(c for c in schema if c.name.lower() not in computed)
        return Relation(GivenRows(".".join(name), stored), replace(scan, table=()))


def _in_words(refusal: Refusal) -> Refusal:
    """Return a refusal in words that do not offer Spark as a way out."""
    reason = refusal.reason.replace(" by the scan", "").replace(" in this process", "")
    reason = _ONLY_SPARK.sub("which is not compiled", reason)
    return Refusal(_BY_SPARK.sub("not compiled: ", reason))
