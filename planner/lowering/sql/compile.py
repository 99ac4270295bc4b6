"""A plan as SQL text of another engine."""

from __future__ import annotations

from planner.catalog import Catalog
from planner.lowering.sql.dialects import DIALECTS
from planner.lowering.sql.portable import CheckTable, lower_portable
from planner.lowering.sql.rows import write_query
from planner.lowering.sql.targets import TARGETS
from planner.nodes.logical import Node


def compile_plan(
    plan: Node, catalog: Catalog, zone: str, target: str, check_table: CheckTable
) -> str:
    """Return a query as SQL of an engine: one SELECT with the rows of the plan.

    Args:
        plan: Physical plan, made without `planner.lowering.sql.portable.FILE_RULES`.
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
    return query.sql(dialect=DIALECTS[engine.name], pretty=True, max_text_width=100)
