"""Which streams a plan reads."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.nodes.logical import Node, SqlQuery, TableScan, WindowAggregate
from planner.nodes.physical import (
    GlobalWindowAggregate,
    ScanLocalWindowAggregate,
    with_rows_by_spark,
)
from runtime.spec.local import SplitScan


def streams_of(plan: Node, catalog: Catalog) -> tuple[StreamTable, ...]:
    """The streams that a plan reads, in the order of its leaves; none: it runs as a batch."""
    return tuple(dict.fromkeys(stream for _, stream in stream_tables(plan, catalog)))


def stream_tables(plan: Node, catalog: Catalog) -> Iterator[tuple[exp.Table, StreamTable]]:
    """Every place in a plan that names a stream, and the stream."""
    for child in plan.inputs:
        yield from stream_tables(child, catalog)
    yield from _named_by(plan, catalog)


def sources_in_order(plan: Node, catalog: Catalog) -> tuple[str, ...]:
    """The names of the streams that a plan reads, in the order in which its texts have them.

    Spark numbers the sources of a stream so, and knows them by their numbers in a checkpoint.
    """
    return tuple(dict.fromkeys(_in_order(plan, catalog)))


def _in_order(plan: Node, catalog: Catalog) -> Iterator[str]:
    if not isinstance(plan, TableScan | SqlQuery):
        for child in plan.inputs:
            yield from _in_order(child, catalog)
        return
    relations = dict(plan.relations) if isinstance(plan, SqlQuery) else {}
    for table in plan.query.find_all(exp.Table, bfs=False):
        if not table.db and table.name in relations:
            yield from _in_order(relations[table.name], catalog)
        elif (stream := stream_named(table, catalog)) is not None:
            yield stream.name


def _named_by(plan: Node, catalog: Catalog) -> Iterator[tuple[exp.Table, StreamTable]]:
    if isinstance(plan, TableScan | SqlQuery):
        placeholders = {name for name, _ in plan.relations} if isinstance(plan, SqlQuery) else ()
        for table in plan.query.find_all(exp.Table):
            stream = stream_named(table, catalog)
            if stream is not None and table.name not in placeholders:
                yield table, stream


def with_one_reading(plan: Node, catalog: Catalog) -> Node:
    """Return the plan, in which tasks and Spark do not both read an exclusive table.

    Where they do, Spark reads all tables: a checkpoint has one position in a topic.
    """
    scanned: set[str] = set()
    by_spark: set[str] = set()

    def look(node: Node) -> None:
        if isinstance(node, ScanLocalWindowAggregate):
            if isinstance(node.scan, SplitScan) and node.scan.source.is_exclusive:
                scanned.add(node.scan.source.table.name)
            return
        by_spark.update(stream.name for _, stream in _named_by(node, catalog))
        for child in node.inputs:
            look(child)

    look(plan)
    return with_rows_by_spark(plan) if scanned & by_spark else plan


def comes_whole(node: Node, catalog: Catalog) -> bool:
    """Whether all rows of a window come in one micro-batch."""
    is_windows = isinstance(node, WindowAggregate | GlobalWindowAggregate)
    if is_windows or not streams_of(node, catalog):
        return True
    if isinstance(node, SqlQuery):
        relations = {name for name, _ in node.relations}
        tables = [t for t in node.query.find_all(exp.Table) if t.name not in relations]
        if any(stream_named(table, catalog) is not None for table in tables):
            return False
    return bool(node.inputs) and all(comes_whole(child, catalog) for child in node.inputs)


def bare_table(table: exp.Table) -> exp.Table:
    """A table in a text without its alias and what is joined to it."""
    bare = table.copy()
    for key in ("alias", "joins", "laterals", "pivots", "sample"):
        bare.set(key, None)
    return bare


def stream_named(table: exp.Table, catalog: Catalog) -> StreamTable | None:
    """The stream that a table in a text is, or None."""
    return catalog.stream(tuple(part.name for part in table.parts))
