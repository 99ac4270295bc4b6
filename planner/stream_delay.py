"""How far the watermark of a table is behind its rows, where that is plain."""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from planner.catalog import Catalog
from planner.intervals import fold_interval
from planner.logical import Filter, Node, Project, TableScan
from planner.physical import LocalWindowAggregate
from planner.rendering import SparkSql
from planner.streams import stream_named
from runtime.errors import AnalysisError


def wall_clock_delay_us(local: LocalWindowAggregate, catalog: Catalog) -> int | None:
    """How far the watermark of each row is before the time that it is windowed by, `delay_us`.

    None for instants too, whose windows are on another clock than their watermarks.
    """
    return delay_us(local, catalog) if local.time_type == "timestamp_ntz" else None


def delay_us(local: LocalWindowAggregate, catalog: Catalog) -> int | None:
    """How far the watermark of each row of a window is before its time.

    Known where windows are on the very column that the table's watermark follows, and the watermark
    is that column, or the column less a number of days, hours, minutes or seconds. Then it need not
    come with each row.

    Returns:
        Microseconds; None if it is not known.
    """
    watermark = _watermark_of(local.input, local.time_column, catalog)
    if watermark is None:
        return None
    expression = sqlglot.parse_one(watermark, dialect=SparkSql)
    delay = 0
    if isinstance(expression, exp.Sub):
        length = _length_us(expression.expression)
        if length is None:
            return None
        expression, delay = expression.this, length
    is_plain = isinstance(expression, exp.Column) and not expression.table
    return delay if is_plain and expression.name.lower() == local.time_column.lower() else None


def _watermark_of(node: Node, name: str, catalog: Catalog) -> str | None:
    """The watermark of the table that a column of a node is the very time column of."""
    match node:
        case TableScan():
            (table,) = node.query.find_all(exp.Table)
            stream = stream_named(table, catalog)
            watermark = None if stream is None else stream.watermark
            if watermark is None or watermark.column.lower() != name.lower():
                return None
            return watermark.expression
        case Filter():
            return _watermark_of(node.input, name, catalog)
        case Project():
            for item in node.items:
                if item.name.lower() == name.lower():
                    is_same = isinstance(item.expr, exp.Column) and (
                        item.expr.name.lower() == name.lower()
                    )
                    return _watermark_of(node.input, name, catalog) if is_same else None
    return None


def _length_us(interval: exp.Expr) -> int | None:
    try:
        length = fold_interval(interval)
    except AnalysisError:
        return None
    return None if length.months else length.us
