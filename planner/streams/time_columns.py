"""Kinds of time columns on streams: processing time, or event time with a watermark.

A column is traced through filters, projections, joins, unions, views and WITH to its origin.
Computed columns are not traced. PROCTIME() columns and calls are processing time, and so is
CURRENT_TIMESTAMP: Spark evaluates both to the start time of the micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlglot import exp

from planner.catalog import Catalog, Schema, column_named
from planner.nodes.joins import WindowJoin
from planner.nodes.logical import (
    INTERVAL_COLUMNS,
    Expand,
    Filter,
    Node,
    Project,
    RangeRows,
    ResultChanges,
    SqlQuery,
    TableScan,
    WindowRows,
    WindowTableFunction,
)
from planner.nodes.physical import Exchange, GlobalWindowAggregate, LocalWindowAggregate
from planner.nodes.window_columns import window_properties
from planner.sql.build import bare_column, is_timestamp, item_name, select_all_from
from planner.sql.flink_functions import is_current_time
from planner.sql.nodes import TextSpan, span_of
from planner.sql.parts import bare_table
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import column_names_of, stream_named, stream_tables

_Scope = Mapping[str, exp.Expr]
# Origin of a column: a column of a stream or of windows, or an expression; None: anything else
_Windows = GlobalWindowAggregate | WindowTableFunction | RangeRows
_Origin = tuple[exp.Table | _Windows, str] | exp.Expr | None


def is_processing_time(
    node: Node, column: str, catalog: Catalog, place: TextSpan | None = None
) -> bool:
    """Return whether a column holds the processing time of stream rows.

    Raises:
        StreamRefusal: The column is processing time for some streams only.
    """
    answers = {
        _is_processing_time(origin, catalog) for origin in _origins_in_node(node, column, catalog)
    }
    if len(answers) > 1:
        raise StreamRefusal(
            f"`{column}` is processing time in one part of this UNION ALL and event time "
            "in another",
            "use the same kind of time in all parts",
            place,
            subjects=(column,),
        )
    return answers == {True}


def is_event_time(node: Node, column: str, catalog: Catalog) -> bool:
    """Return whether the watermarks of streams follow a column of their rows."""
    streams = [
        (name, stream_named(table, catalog))
        for origin in _origins_in_node(node, column, catalog)
        for table, name in [origin if isinstance(origin, tuple) else (None, "")]
        if isinstance(table, exp.Table)
    ]
    return bool(streams) and all(
        stream is not None
        and stream.watermark is not None
        and stream.watermark.column.lower() == name.lower()
        for name, stream in streams
    )


def check_time(
    node: Node, time_column: str, catalog: Catalog, place: TextSpan | None = None
) -> None:
    """Refuse streams without a watermark, and windows on a column without a watermark.

    Args:
        node: Input of the windows.
        time_column: Time column of the windows.
        catalog: Catalog that identifies streams and their watermarks.
        place: Source position of the column.

    Raises:
        StreamRefusal: A watermark is missing, or follows another column.
    """
    for join in node.find_all(WindowJoin):
        if any(left == INTERVAL_COLUMNS.end for left, _ in join.window_keys):
            raise StreamRefusal(
                "a window over a join of two streams within an interval is not supported, because "
                "the watermark has passed the times of its rows when they arrive",
                "aggregate the rows of each stream in windows, and join the windows",
                place,
            )
    for ranges in node.find_all(RangeRows):
        check_time(ranges.data, ranges.time_column, catalog, ranges.time_place)
    has_operator = any(below.window.closes for below in node.find_all(GlobalWindowAggregate))
    for table, stream in stream_tables(node, catalog):
        if stream.watermark is None and not has_operator:
            column = _time_column(table, time_column, catalog)
            name = stream.name.removesuffix(" /*+ MESSAGES */")  # of a table given by changes
            raise StreamRefusal(
                f"`{name}` has no watermark, so windows over it would never close",
                f"add WATERMARK FOR {column} AS {column} - INTERVAL '5' SECOND to it, or "
                "use a column AS PROCTIME() for the windows",
                span_of(table) or place,
                subjects=(name,),
            )
    for origin in _origins_in_node(node, time_column, catalog):
        match origin:
            case exp.Table() as table, str(column):
                followed = stream_named(table, catalog)
                watermark = None if followed is None else followed.watermark
                if followed is None or watermark is None:
                    continue
                is_other = watermark.column.lower() != column.lower()
                if is_other and column_named(_columns(table, catalog), column) is not None:
                    hint = f"use DESCRIPTOR({watermark.column})"
                    if time_column.lower() == watermark.column.lower():
                        hint = (
                            f"`{time_column}` is column `{column}` of `{followed.name}` here; "
                            f"select its `{watermark.column}` under another name"
                        )
                    raise StreamRefusal(
                        f"windows on `{time_column}` never close, because the watermark "
                        f"of `{followed.name}` is on `{watermark.column}`",
                        hint,
                        place,
                        subjects=(time_column, followed.name, watermark.column),
                    )
            case (GlobalWindowAggregate() | WindowTableFunction() | RangeRows()) as windows, str(
                column
            ):
                if _role(windows, column) == "start":
                    raise StreamRefusal(
                        f"`{time_column}` is the start of a window: the watermark has passed it "
                        "when the window's rows arrive",
                        "use window_time of the inner windows for the outer windows",
                        place,
                        subjects=(time_column,),
                    )


def _role(windows: _Windows, column: str) -> str | None:
    """Return the role of a window column: start, end or time. None for another column."""
    attached = window_properties(windows)
    return None if attached is None else attached.role_of(column)


def _time_column(table: exp.Table, name: str, catalog: Catalog) -> str:
    """Return the table column that windows on `name` appear to use, under its own name."""
    columns = _columns(table, catalog)
    times = [c.name for c in columns if is_timestamp(c.type)]
    return times[0] if times and column_named(columns, name) is None else name


def _columns(table: exp.Table, catalog: Catalog) -> Schema:
    return catalog.analyze(select_all_from(bare_table(table)), {})


def _origins_in_node(node: Node, column: str, catalog: Catalog) -> Iterator[_Origin]:
    """Yield the origins of a node's column."""
    match node:
        case GlobalWindowAggregate() if node.window.closes:
            yield node, column
        case LocalWindowAggregate():
            for key in node.keys:
                name = bare_column(key.expr) if key.name.lower() == column.lower() else None
                if name is not None:
                    yield from _origins_in_node(node.input, name, catalog)
        case GlobalWindowAggregate() | Exchange():
            yield from _origins_in_node(node.input, column, catalog)
        case WindowTableFunction() | RangeRows() if node.columns.role_of(column) is not None:
            yield node, column
        case TableScan():
            yield from _origins_in_text(node.query, column, {}, {}, catalog)
        case RangeRows():
            yield from _origins_in_node(node.data, column, catalog)
        case Filter() | Expand() | WindowRows() | ResultChanges():
            yield from _origins_in_node(node.input, column, catalog)
        case Project():
            for item in node.items:
                if item.name.lower() == column.lower():
                    name = bare_column(item.expr)
                    if name is None:
                        yield item.expr
                    else:
                        yield from _origins_in_node(node.input, name, catalog)
        case SqlQuery():
            yield from _origins_in_text(node.query, column, dict(node.relations), {}, catalog)
        case _:
            yield None


def _origins_in_text(
    query: exp.Expr, column: str, relations: Mapping[str, Node], scope: _Scope, catalog: Catalog
) -> Iterator[_Origin]:
    query = query.unnest()
    if isinstance(query, exp.Query):
        scope = {**scope, **{cte.alias.lower(): cte.this for cte in query.ctes}}
    if isinstance(query, exp.Union):
        # UNION matches columns by position and takes the names of the first side.
        position = _position(query, column)
        for side in _sides(query):
            name = column
            if position is not None and isinstance(side, exp.Select):
                if position >= len(side.expressions):
                    continue
                item = side.expressions[position]
                name = item_name(item)
                if not name:
                    yield item.unalias()
                    continue
            yield from _origins_in_text(side, name, relations, scope, catalog)
        return
    if not isinstance(query, exp.Select):
        yield None
        return
    named = [item for item in query.expressions if item_name(item).lower() == column.lower()]
    for item in named or query.expressions:
        value = item.unalias()
        if isinstance(value, exp.Star):
            yield from _origins_in_sources(query, None, column, relations, scope, catalog)
        elif isinstance(value, exp.Column) and isinstance(value.this, exp.Star):
            yield from _origins_in_sources(query, value.table, column, relations, scope, catalog)
        elif not named:
            continue
        elif isinstance(value, exp.Column):
            yield from _origins_in_sources(
                query, value.table, value.name, relations, scope, catalog
            )
        else:
            yield value


def _origins_in_sources(
    select: exp.Select,
    table: str | None,
    column: str,
    relations: Mapping[str, Node],
    scope: _Scope,
    catalog: Catalog,
) -> Iterator[_Origin]:
    """Yield the origins of a column of the relations in FROM; without `table`, of any with it."""
    first = select.args.get("from_")
    joins = select.args.get("joins") or []
    for source in [*([] if first is None else [first.this]), *(join.this for join in joins)]:
        if table and source.alias_or_name.lower() != table.lower():
            continue
        renamed = [name.lower() for name in source.alias_column_names]
        named = column
        if renamed:
            plain = select_all_from(source.copy())
            plain.args["from_"].this.args["alias"].set("columns", None)
            below = column_names_of(plain, relations, scope, catalog)
            if below is None or column.lower() not in renamed:
                continue
            named = below[renamed.index(column.lower())]
        if isinstance(source, exp.Subquery):
            yield from _origins_in_text(source, named, relations, scope, catalog)
        if not isinstance(source, exp.Table):
            continue
        name = source.name
        if not source.db and name in relations:
            yield from _origins_in_node(relations[name], named, catalog)
        elif not source.db and name.lower() in scope:
            outer = {key: text for key, text in scope.items() if key != name.lower()}
            yield from _origins_in_text(scope[name.lower()], named, relations, outer, catalog)
        elif stream_named(source, catalog) is not None:
            yield source, named


def _sides(query: exp.Union) -> Iterator[exp.Expr]:
    for side in (query.this.unnest(), query.expression.unnest()):
        if isinstance(side, exp.Union):
            yield from _sides(side)
        else:
            yield side


def _position(query: exp.Union, column: str) -> int | None:
    """Return a column's position in the select lists, or None if they contain a star."""
    first = next(_sides(query))
    if not isinstance(first, exp.Select) or first.is_star:
        return None
    names = [item_name(item).lower() for item in first.expressions]
    return names.index(column.lower()) if column.lower() in names else None


def _is_processing_time(origin: _Origin, catalog: Catalog) -> bool:
    match origin:
        case exp.Table() as table, str(column):
            stream = stream_named(table, catalog)
            return stream is not None and column.lower() in stream.proctime
        case exp.Expr():
            return is_current_time(origin.unnest())
    return False
