"""CURRENT_WATERMARK over a stream: the queries that support it, and the watermark they use."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from planner.catalog import Catalog, StreamTable
from planner.nodes.logical import Node, SqlQuery, TableScan
from planner.sql.flink_functions import current_watermarks
from planner.sql.nodes import TextSpan, span_of
from planner.streams.delay import followed_watermark
from planner.streams.refusals import BATCH, StreamRefusal
from planner.streams.tables import stream_tables
from runtime.spec.table import LATE_ROWS

_CALL = "CURRENT_WATERMARK"
_HINT = f"{BATCH}, where it is NULL"


def asks_watermark(plan: Node) -> bool:
    """Return whether Spark SQL in a plan calls CURRENT_WATERMARK."""
    return next(_calls(plan), None) is not None


def watermarked_stream(plan: Node, catalog: Catalog, span: TextSpan | None = None) -> StreamTable:
    """Return the stream whose watermark the calls of CURRENT_WATERMARK in a plan return.

    Args:
        plan: Logical or physical plan over streams with such calls.
        catalog: Catalog that identifies streams and their watermarks.
        span: Position of the first call, for errors. None if it is in a view.

    Raises:
        StreamRefusal: Spark tracks no watermark for the calls, because the plan has windows, reads
            several streams, or the argument is not the time column of a watermark.
    """
    if not all(isinstance(node, SqlQuery | TableScan) for node in plan.walk()):
        raise StreamRefusal(
            f"{_CALL} is not supported in a query with windows, which have their own watermarks",
            f"write late rows to a table with the option '{LATE_ROWS}' = '...'; {_HINT}",
            span,
        )
    tables = [stream for _, stream in stream_tables(plan, catalog)]
    if len(tables) > 1:
        names = ", ".join(f"`{stream.name}`" for stream in tables)
        raise StreamRefusal(
            f"{_CALL} requires a query that reads one stream once, but this query reads {names}",
            f"use a separate query for each; {_HINT}",
            span,
        )
    (stream,) = tables
    if stream.watermark is None:
        raise StreamRefusal(
            f"{_CALL} requires a watermark, but `{stream.name}` has none",
            "declare one: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND",
            span,
            subjects=(stream.name,),
        )
    if stream.split is not None or stream.has_splits:
        raise StreamRefusal(
            f"{_CALL} is not supported for `{stream.name}`, where each partition has a watermark",
            "SET 'sqlwin.watermark.per-split' = 'false'",
            span,
            subjects=(stream.name,),
        )
    if stream.is_read_by_tasks:
        raise StreamRefusal(
            f"{_CALL} is not supported for `{stream.name}`, whose watermark waits for the history "
            "that is still to be read",
            f"use it in a query of the table that continues the history; {_HINT}",
            span,
            subjects=(stream.name,),
        )
    for query, argument in _calls(plan):
        watermark = None
        if isinstance(argument, exp.Column):
            watermark = followed_watermark(argument, dict(query.relations), catalog)
        if watermark != stream.watermark:
            raise StreamRefusal(
                f"the argument of {_CALL} must be `{stream.watermark.column}` of "
                f"`{stream.name}`, the column of its watermark",
                f"use {_CALL}({stream.watermark.column}) where the table is read",
                span_of(argument) or span,
                subjects=(stream.name, stream.watermark.column),
            )
    return stream


def _calls(plan: Node) -> Iterator[tuple[SqlQuery, exp.Expr]]:
    """Yield the queries of a plan with the arguments of their calls."""
    for node in plan.walk():
        if isinstance(node, SqlQuery):
            for _, argument in current_watermarks(node.query):
                yield node, argument
