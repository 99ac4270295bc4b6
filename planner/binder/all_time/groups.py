"""Bind GROUP BY without a window, and SELECT DISTINCT, over rows of a stream.

They are window aggregations whose only window holds all rows and never closes. In batch, Spark or
this process groups such rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from planner.aggregates.functions import texts_of
from planner.binder.changes.net_rows import net_rows, signed_rows
from planner.binder.relations import Relations, Scope
from planner.binder.window_block import (
    bind_block,
    is_aggregation,
    over_joined_rows,
)
from planner.nodes.logical import (
    Aggregate,
    Node,
    SqlQuery,
    TableScan,
    WindowColumns,
    WindowTableFunction,
    in_windows,
    with_column,
)
from planner.sql.build import (
    cast_as,
    column,
    function_call,
    is_timestamp,
    is_whole_star,
    literal,
    select_all_from,
)
from planner.sql.nodes import TextSpan, span_of
from planner.sql.parts import lone_source, name_parts
from planner.streams.refusals import BATCH, StreamRefusal
from planner.streams.tables import stream_named, streams_of
from planner.streams.time_columns import is_event_time
from runtime.spec.table import Column
from runtime.windows.all_time import AllTime

_TIME = Column("$all", "timestamp_ntz", False)
# Time of a row, which orders its values
_ORDER = "$order"
_COLUMNS = WindowColumns("$all_start", "$all_end", "$all_time")
# Clauses that a SELECT DISTINCT must not have to be rewritten as a grouping
_NOT_DISTINCT = ("group", "having", "qualify", "windows", "order", "limit", "offset")


def bind_grouping_of_stream(select: exp.Select, relations: Relations, scope: Scope) -> Node | None:
    """Bind a SELECT that groups rows of a stream without a window.

    Returns:
        The nodes, or None if the SELECT does not group rows, or reads no stream.

    Raises:
        Refused: The block stays with Spark.
        AnalysisError: Spark's analyser rejects the block.
        StreamRefusal: An aggregate depends on the order of the rows.
    """
    if not (is_aggregation(select) or select.args.get("distinct")):
        return None
    if select.find_ancestor(exp.In, exp.Exists):
        return None  # a lookup subquery is not a set of results, and may read outer columns
    grouping = select if is_aggregation(select) else _distinct_as_grouping(select)
    if grouping is not None and lone_source(grouping) is None:
        grouping = over_joined_rows(grouping, relations, scope)
    source = lone_source(grouping or select)
    if source is None or source.alias_column_names:
        return None
    node = _rows_of(source, relations, scope)
    grouping = grouping or _distinct_rows_as_grouping(select, node)
    if grouping is None or not streams_of(node, relations.catalog):
        return None
    place = span_of(grouping.args.get("group") or select)
    changes = signed_rows(node, windows_change=relations.windows_change(node))
    order = _TIME.name
    if changes is None and any(_is_joined(c.name) for c in grouping.find_all(exp.Anonymous)):
        node, order = _with_order(node, relations)
    windowed: Node = in_all_time(changes or node, place, relations.ttl_us_of(select))
    if changes is not None:
        windowed = net_rows(windowed, place)
    bound = bind_block(grouping, windowed, source.alias_or_name or None, order, relations, scope)
    for aggregate in bound.find_all(Aggregate):
        if aggregate.input is windowed or windowed in aggregate.input.inputs:
            _refuse_order(aggregate, order, relations.sql)
    return bound


def in_all_time(rows: Node, place: TextSpan | None, ttl_us: int | None) -> WindowTableFunction:
    """Return rows in the window that holds all rows.

    Args:
        rows: Rows.
        place: Source position of the window.
        ttl_us: Time-to-live of the state of unchanged keys. None: forever.
    """
    epoch = cast_as(literal("1970-01-01 00:00:00"), _TIME.type)
    return in_windows(
        with_column(rows, _TIME, epoch), AllTime(ttl_us=ttl_us), _TIME, _COLUMNS, place
    )


def _rows_of(source: exp.Expr, relations: Relations, scope: Scope) -> Node:
    """Return the rows of a relation."""
    rows = source.copy()
    rows.set("alias", None)
    if isinstance(rows, exp.Subquery):
        return relations.node_of(rows.this, scope)
    node = relations.node_of(select_all_from(rows), scope)
    if not isinstance(rows, exp.Table) or not isinstance(node, SqlQuery) or node.relations:
        return node
    stream = stream_named(rows, relations.catalog)
    if stream is None:
        return node
    connector = relations.catalog.connector(name_parts(rows))
    return TableScan(node.schema, stream.name, node.query, connector)


def _distinct_as_grouping(select: exp.Select) -> exp.Select | None:
    """Return a SELECT DISTINCT of expressions as GROUP BY these, or None for another SELECT."""
    items = [item.unalias() for item in select.expressions]
    if any(item.find(exp.Star, exp.Window, exp.Query) for item in items):
        return None
    return _grouped(select, items)


def _distinct_rows_as_grouping(select: exp.Select, rows: Node) -> exp.Select | None:
    """Return a SELECT DISTINCT * over some rows as GROUP BY their columns, or None."""
    if len(select.expressions) != 1 or not is_whole_star(select.expressions[0]):
        return None
    columns = [column(c.name) for c in rows.schema]
    grouped = _grouped(select, columns)
    if grouped is not None:
        grouped.set("expressions", columns)
    return grouped


def _grouped(select: exp.Select, items: Sequence[exp.Expr]) -> exp.Select | None:
    """Return a SELECT DISTINCT as GROUP BY its items, or None if it has other clauses."""
    distinct = select.args["distinct"]
    if distinct.args.get("on") or any(map(select.args.get, _NOT_DISTINCT)):
        return None
    # constants do not distinguish rows, and a number would be read as an ordinal
    keys = [item.copy() for item in items if item.find(exp.Column)]
    if not keys:
        return None
    grouped = select.copy()
    grouped.set("distinct", None)
    grouped.set("group", exp.Group(expressions=keys))
    return grouped


def _with_order(rows: Node, relations: Relations) -> tuple[Node, str]:
    """Return rows with a column that orders them: their event time, or 1970 if it is NULL.

    Without an event time, they are unchanged, and have no order.
    """
    for col in rows.schema:
        if is_timestamp(col.type) and is_event_time(rows, col.name, relations.catalog):
            epoch = cast_as(literal("1970-01-01 00:00:00"), col.type)
            time = function_call("COALESCE", column(col.name), epoch)
            return with_column(rows, Column(_ORDER, col.type, False), time), _ORDER
    return rows, _TIME.name


def _is_joined(function: str) -> bool:
    """Return whether a function joins texts in order of time, as LISTAGG does."""
    texts = texts_of(function)
    return texts is not None and texts.is_joined


def _refuse_order(aggregate: Aggregate, order: str, sql: str) -> None:
    """Refuse aggregates by time, except for texts of rows with an `order`."""
    for call in aggregate.calls:
        if call.order is None or (_is_joined(call.function) and order == _ORDER):
            continue
        reason = "depends on the order of the rows"
        hint = "use MIN_BY(value, time) or MAX_BY(value, time)"
        if _is_joined(call.function):
            reason = "needs rows that stay, with the time of the watermark"
            hint = "select the column of the watermark below GROUP BY, or group by a window"
        raise StreamRefusal(
            f"without a window, {call.text} on a stream {reason}",
            f"{hint}; {BATCH}",
            span_of(call.expr),
        ).place_in(sql)
