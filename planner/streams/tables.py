"""Streams that a plan reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.nodes.logical import (
    Node,
    RangeRows,
    SqlQuery,
    TableScan,
    WindowAggregate,
    WindowTableFunction,
)
from planner.nodes.physical import (
    GlobalWindowAggregate,
    ScanLocalWindowAggregate,
    with_rows_by_spark,
)
from planner.nodes.window_columns import output_names
from planner.sql.build import identifier
from planner.sql.names import with_ctes
from planner.sql.parts import name_parts
from runtime.plan.local import SplitScan


def streams_of(plan: Node, catalog: Catalog) -> tuple[StreamTable, ...]:
    """Return the streams that a plan reads, in the order of its leaves. Empty for a batch plan."""
    return tuple(dict.fromkeys(stream for _, stream in stream_tables(plan, catalog)))


def stream_tables(plan: Node, catalog: Catalog) -> Iterator[tuple[exp.Table, StreamTable]]:
    """Yield every reference to a stream in a plan, and the stream."""
    for node in plan.walk_up():
        yield from streams_by_name(node, catalog)


def sources_in_order(plan: Node, catalog: Catalog) -> tuple[str, ...]:
    """Return the names of the streams that a plan reads, in the order of its queries.

    Spark numbers a stream's sources in this order and identifies them by number in a checkpoint.
    """
    return tuple(dict.fromkeys(_ordered_names(plan, catalog)))


def _ordered_names(plan: Node, catalog: Catalog) -> Iterator[str]:
    if not isinstance(plan, TableScan | SqlQuery):
        for child in plan.inputs:
            yield from _ordered_names(child, catalog)
        return
    relations = dict(plan.relations) if isinstance(plan, SqlQuery) else {}
    for table in plan.query.find_all(exp.Table, bfs=False):
        if not table.db and table.name in relations:
            yield from _ordered_names(relations[table.name], catalog)
        elif (stream := stream_named(table, catalog)) is not None:
            yield stream.name


def streams_by_name(plan: Node, catalog: Catalog) -> Iterator[tuple[exp.Table, StreamTable]]:
    """Yield the references to streams in the query of a node, and the streams."""
    for table in _tables_by_name(plan):
        stream = stream_named(table, catalog)
        if stream is not None:
            yield table, stream


def _tables_by_name(plan: Node) -> Iterator[exp.Table]:
    """Yield the references to tables in the query of a node."""
    if isinstance(plan, TableScan | SqlQuery):
        placeholders = {name for name, _ in plan.relations} if isinstance(plan, SqlQuery) else ()
        for table in plan.query.find_all(exp.Table):
            if table.name not in placeholders:
                yield table


def bounded_tables(plan: Node, catalog: Catalog) -> tuple[exp.Table, ...]:
    """Return the references in a plan to tables that are not streams, in order."""
    tables = (table for node in plan.walk_up() for table in _tables_by_name(node))
    return tuple(table for table in tables if stream_named(table, catalog) is None)


def read_exclusive_tables_once(plan: Node, catalog: Catalog) -> Node:
    """Rewrite a plan so that tasks and Spark never both read an exclusive table.

    Otherwise Spark would read all tables: a checkpoint has one position per topic.
    """
    scanned: set[str] = set()
    by_spark: set[str] = set()

    def look(node: Node) -> None:
        if isinstance(node, ScanLocalWindowAggregate):
            if isinstance(node.scan, SplitScan) and node.scan.source.is_exclusive:
                scanned.add(node.scan.source.table.name)
            return
        by_spark.update(stream.name for _, stream in streams_by_name(node, catalog))
        for child in node.inputs:
            look(child)

    look(plan)
    is_read_twice = bool(scanned & by_spark)
    return with_rows_by_spark(plan) if is_read_twice or _follows_all_time(plan) else plan


def _follows_all_time(plan: Node) -> bool:
    """Return whether windows follow groups or ranks without one, whose rows carry the watermark.

    Tasks that read rows without a window have none.
    """
    return any(
        not below.window.closes
        for node in plan.find_all(GlobalWindowAggregate)
        if node.window.closes
        for below in node.find_all(GlobalWindowAggregate)
    )


def arrives_at_once(node: Node, catalog: Catalog) -> bool:
    """Return whether all rows of a window arrive in one micro-batch.

    This does not hold for a window function over results of windows. Each result arrives when its
    own window ends, and a window of the function may contain several results.
    """
    is_windows = isinstance(node, WindowAggregate | GlobalWindowAggregate)
    if is_windows or not streams_of(node, catalog):
        return True
    if isinstance(node, WindowTableFunction | RangeRows):
        return False
    if any(streams_by_name(node, catalog)):
        return False
    return bool(node.inputs) and all(arrives_at_once(child, catalog) for child in node.inputs)


def stream_named(table: exp.Table, catalog: Catalog) -> StreamTable | None:
    """Return the stream that a table reference refers to, or None."""
    return catalog.stream(name_parts(table))


def column_names_of(
    query: exp.Expr,
    relations: Mapping[str, Node],
    scope: Mapping[str, exp.Expr],
    catalog: Catalog,
) -> tuple[str, ...] | None:
    """Return the column names of a query, or None for another expression.

    Args:
        query: The query.
        relations: Nodes by placeholder name.
        scope: Queries of CTEs by lower-case name.
        catalog: Catalog with the tables. It analyses a query whose text does not name its columns.
    """
    names = output_names(query, relations)
    if names is not None and all(names):
        return tuple(names)
    query = query.unnest()
    if not isinstance(query, exp.Query):
        return None
    ctes = {
        name: exp.CTE(this=text.copy(), alias=exp.TableAlias(this=identifier(name)))
        for name, text in scope.items()
    }
    schemas = {name: node.schema for name, node in relations.items()}
    return tuple(c.name for c in catalog.analyze(with_ctes(query, ctes), schemas))
