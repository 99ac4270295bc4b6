"""Physical plans over streams to the steps that the runtime carries out."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.logical import Node, SqlQuery, TableScan
from planner.lower import lower
from runtime.spec import Step


def streams_of(plan: Node, catalog: Catalog) -> tuple[StreamTable, ...]:
    """The streams that a plan reads, in the order of its leaves; none: it runs as a batch."""
    found = dict.fromkeys(_streams(plan, catalog))
    return tuple(found)


def lower_stream(plan: Node, catalog: Catalog, time_zone: str) -> Step:
    """The steps that compute `plan` over streams.

    Args:
        plan: the physical plan.
        catalog: tells which tables are streams, and their watermarks.
        time_zone: the session's.

    Raises:
        AnalysisError: something in the plan cannot be computed on a stream, or a watermark is
            missing.
    """
    return lower(plan)


def _streams(node: Node, catalog: Catalog) -> Iterator[StreamTable]:
    for child in node.inputs:
        yield from _streams(child, catalog)
    if not isinstance(node, TableScan | SqlQuery):
        return
    placeholders = {name for name, _ in node.relations} if isinstance(node, SqlQuery) else set()
    for table in node.query.find_all(exp.Table):
        if table.name not in placeholders:
            stream = catalog.stream(tuple(part.name for part in table.parts))
            if stream is not None:
                yield stream
