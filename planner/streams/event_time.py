"""Whether the windows of a stream are on the time that its watermark follows."""

from __future__ import annotations

from sqlglot import exp

from planner.catalog import Catalog, column_named
from planner.nodes.logical import Expand, Filter, Node, Project, SqlQuery, TableScan, WindowRows
from planner.nodes.physical import GlobalWindowAggregate
from planner.sql.build import bare_column, is_timestamp, select_all_from
from planner.sql.nodes import TextSpan, span_of
from planner.streams.refusals import StreamRefusal
from planner.streams.tables import stream_named, stream_tables


def check_time(
    node: Node, time_column: str, catalog: Catalog, place: TextSpan | None = None
) -> None:
    """Refuse a stream without a watermark, and windows on what no watermark follows.

    Args:
        node: what the windows are over.
        time_column: the column that they are on.
        catalog: says which tables are streams, and their watermarks.
        place: where the query names that column.

    Raises:
        StreamRefusal: a watermark is missing, or follows another column.
    """
    origin = _origin(node, time_column)
    has_operator = any(node.find_all(GlobalWindowAggregate))
    for table, stream in stream_tables(node, catalog):
        if stream.watermark is None and not has_operator:
            column = _time_column(table, time_column, catalog)
            raise StreamRefusal(
                f"`{stream.name}` has no watermark, so that no window over it would ever close",
                f"add to it: WATERMARK FOR {column} AS {column} - "
                "INTERVAL '5' SECOND; or put the windows on a column AS PROCTIME()",
                span_of(table) or place,
                subjects=(stream.name,),
            )
    if isinstance(origin, tuple) and isinstance(origin[0], TableScan):
        (table,) = origin[0].query.find_all(exp.Table)
        found = stream_named(table, catalog)
        if found is None or found.watermark is None:
            return
        if found.watermark.column.lower() != origin[1].lower():
            raise StreamRefusal(
                f"windows on `{time_column}` cannot close: the watermark of `{found.name}` "
                f"follows `{found.watermark.column}`",
                f"put the windows on DESCRIPTOR({found.watermark.column})",
                place,
                subjects=(time_column, found.name, found.watermark.column),
            )
    if isinstance(origin, tuple) and isinstance(origin[0], GlobalWindowAggregate):
        roles = {key.name.lower(): key.role for key in origin[0].window_keys}
        if roles.get(origin[1].lower()) == "start":
            raise StreamRefusal(
                f"`{time_column}` is the start of a window: when its rows are emitted it has "
                "long passed",
                "put the outer windows on window_time of the inner ones",
                place,
                subjects=(time_column,),
            )


def _time_column(table: exp.Table, name: str, catalog: Catalog) -> str:
    """The column of a table that windows on `name` seem to be on: others give it that name."""
    plain = exp.Table(this=table.this.copy(), db=table.args.get("db"))
    columns = catalog.analyze(select_all_from(plain), {})
    times = [c.name for c in columns if is_timestamp(c.type)]
    return times[0] if times and column_named(columns, name) is None else name


def _origin(node: Node, name: str) -> tuple[Node, str] | None:
    """The table or operator that a column comes from unchanged, and its name there."""
    match node:
        case TableScan() | GlobalWindowAggregate():
            return node, name
        case Filter() | WindowRows() | Expand():
            return _origin(node.input, name)
        case Project():
            for item in node.items:
                if item.name.lower() == name.lower():
                    inner = bare_column(item.expr)
                    return None if inner is None else _origin(node.input, inner)
        case SqlQuery() if len(node.relations) == 1 and isinstance(node.query, exp.Select):
            for item in node.query.expressions:
                if isinstance(item, exp.Star):
                    return _origin(node.inputs[0], name)
                if item.alias_or_name.lower() == name.lower():
                    value = item.unalias()
                    if isinstance(value, exp.Column):
                        return _origin(node.inputs[0], value.name)
    return None
