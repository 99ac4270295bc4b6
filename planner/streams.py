"""Which streams a plan reads."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.logical import Node, SqlQuery, TableScan


def streams_of(plan: Node, catalog: Catalog) -> tuple[StreamTable, ...]:
    """The streams that a plan reads, in the order of its leaves; none: it runs as a batch."""
    return tuple(dict.fromkeys(stream for _, stream in stream_tables(plan, catalog)))


def stream_tables(plan: Node, catalog: Catalog) -> Iterator[tuple[exp.Table, StreamTable]]:
    """Every place in a plan that names a stream, and the stream."""
    for child in plan.inputs:
        yield from stream_tables(child, catalog)
    if isinstance(plan, TableScan | SqlQuery):
        placeholders = {name for name, _ in plan.relations} if isinstance(plan, SqlQuery) else ()
        for table in plan.query.find_all(exp.Table):
            stream = stream_named(table, catalog)
            if stream is not None and table.name not in placeholders:
                yield table, stream


def stream_named(table: exp.Table, catalog: Catalog) -> StreamTable | None:
    """The stream that a table in a text is, or None."""
    return catalog.stream(tuple(part.name for part in table.parts))
