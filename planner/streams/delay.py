"""Delay of a table's watermark behind its rows, where it is constant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlglot import exp

from planner.catalog import Catalog
from planner.nodes.logical import Filter, Node, Project, SqlQuery, TableScan
from planner.nodes.physical import LocalWindowAggregate
from planner.sql.build import (
    bare_column,
    item_name,
    star_leaves_out,
)
from planner.sql.intervals import fold_interval
from planner.sql.parts import only_source, sources_of
from planner.streams.tables import stream_named
from runtime.errors import AnalysisError
from runtime.spec.table import Watermark


def wall_clock_delay_us(local: LocalWindowAggregate, catalog: Catalog) -> int | None:
    """Return by how much each row's watermark precedes the row's window time.

    Known if the windows use the column that the table's watermark follows, and the watermark is
    that column, or the column minus a number of days, hours, minutes or seconds. The watermark then
    need not come with each row.

    Returns:
        Microseconds. None if unknown, and for instants: their windows are on the wall clock, their
        watermarks are not.
    """
    if local.time_type != "timestamp_ntz":
        return None
    watermark = _watermark_of(local.input, local.time_column, catalog)
    return None if watermark is None else plain_delay_us(watermark, catalog)


def plain_delay_us(watermark: Watermark, catalog: Catalog) -> int | None:
    """Return a watermark's delay in microseconds, or None if it is not a constant delay."""
    expression = catalog.expression(watermark.expression)
    delay = 0
    if isinstance(expression, exp.Sub):
        length = _length_us(expression.expression)
        if length is None:
            return None
        expression, delay = expression.this, length
    is_plain = isinstance(expression, exp.Column) and not expression.table
    return delay if is_plain and expression.name.lower() == watermark.column.lower() else None


def followed_watermark(
    column: exp.Column, relations: Mapping[str, Node], catalog: Catalog
) -> Watermark | None:
    """Return the watermark of the table whose time column a query's column is, or None.

    Args:
        column: The column, in the tree of its query.
        relations: Nodes that the query reads, by name.
        catalog: Catalog that identifies streams and their watermarks.

    Returns:
        None if it is another column, or if the query does more than filter, project and join.
    """
    select = column.find_ancestor(exp.Select)
    for source in () if select is None else sources_of(select):
        if column.table and column.table.lower() != source.alias_or_name.lower():
            continue
        query: exp.Expr | None = source.this if isinstance(source, exp.Subquery) else None
        if isinstance(source, exp.Table) and not source.db:
            query = _cte_named(source)
            if query is None and source.name in relations:
                watermark = _watermark_of(relations[source.name], column.name, catalog)
                if watermark is not None:
                    return watermark
                continue
        if query is not None:
            watermark = _watermark_of_text(query, relations, column.name, catalog)
        elif isinstance(source, exp.Table):
            watermark = _watermark_of_table(source, column.name, catalog)
        else:
            watermark = None
        if watermark is not None:
            return watermark
    return None


def _cte_named(table: exp.Table) -> exp.Expr | None:
    """Return the query that a table reference names as a CTE."""
    around = table.parent
    while around is not None:
        for cte in around.ctes if isinstance(around, exp.Query) else ():
            if cte.alias.lower() == table.name.lower() and not cte.args["alias"].columns:
                query: exp.Expr = cte.this
                return query
        around = around.parent
    return None


def _watermark_of(node: Node, name: str, catalog: Catalog) -> Watermark | None:
    """Return the watermark of the table whose time column a node passes on, or None."""
    match node:
        case TableScan():
            (table,) = node.query.find_all(exp.Table)
            return _watermark_of_table(table, name, catalog)
        case Filter():
            return _watermark_of(node.input, name, catalog)
        case Project():
            for item in node.items:
                if item.name.lower() == name.lower():
                    inner = bare_column(item.expr)
                    return None if inner is None else _watermark_of(node.input, inner, catalog)
        case SqlQuery():
            return _watermark_of_text(node.query, dict(node.relations), name, catalog)
    return None


def _watermark_of_text(
    query: exp.Expr, relations: Mapping[str, Node], name: str, catalog: Catalog
) -> Watermark | None:
    """Return the same for a query that only filters and projects one table."""
    source = only_source(query)
    if source is None:
        return None
    items = query.unnest().expressions
    inner = _origin(items, source.alias_or_name.lower(), name)
    if inner is None:
        return None
    if isinstance(source, exp.Subquery):
        return _watermark_of_text(source.this, relations, inner, catalog)
    if not isinstance(source, exp.Table):
        return None
    if not source.db and source.name in relations:
        return _watermark_of(relations[source.name], inner, catalog)
    return _watermark_of_table(source, inner, catalog)


def _origin(items: Iterable[exp.Expr], source: str, name: str) -> str | None:
    """Return the source column that a column of a query is a copy of.

    `source` is the alias of the source in lower case.
    """
    for item in items:
        inner = item.unalias()
        is_of_source = not isinstance(inner, exp.Column) or inner.table.lower() in ("", source)
        if item.is_star:
            left_out = star_leaves_out(inner) if is_of_source else None
            if left_out is None:
                return None
            if name.lower() not in left_out:
                return name
        elif item_name(item).lower() == name.lower():
            return inner.name if isinstance(inner, exp.Column) and is_of_source else None
    return None


def _watermark_of_table(table: exp.Table, name: str, catalog: Catalog) -> Watermark | None:
    stream = stream_named(table, catalog)
    watermark = None if stream is None else stream.watermark
    is_its_column = watermark is not None and watermark.column.lower() == name.lower()
    return watermark if is_its_column else None


def _length_us(interval: exp.Expr) -> int | None:
    try:
        length = fold_interval(interval)
    except AnalysisError:
        return None
    return None if length.months else length.us
