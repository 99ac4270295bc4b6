"""Bind RANGES: rows in the ranges of a table that contain their times.

    RANGES(TABLE t, DESCRIPTOR(ts), TABLE bounds, DESCRIPTOR(starts, ends))

Times and bounds that are all instants are compared as instants, others on the wall clock of the
session's time zone, as in other window functions.
"""

from __future__ import annotations

from sqlglot import exp

from planner.binder.window_function import (
    date_as_midnight,
    refuse_window_columns,
    time_column,
    window_of,
    with_date,
)
from planner.catalog import Catalog, Schema, column_named
from planner.nodes.logical import (
    Filter,
    NamedExpr,
    Node,
    Project,
    RangeRows,
    WindowColumns,
    plain_items,
)
from planner.sql.build import cast_as, column, is_timestamp, seconds
from planner.sql.nodes import WINDOW_COLUMNS, WindowFunctionCall, error_at, span_of
from planner.streams.tables import streams_of
from runtime.errors import ErrorKind, nearest
from runtime.shown_types import shown_type
from runtime.spec.table import Column

# Bounds that are compared as instants; the window columns are on the wall clock
_STARTS, _ENDS = "$starts", "$ends"


def bind_ranges(
    function: WindowFunctionCall,
    data: Node,
    bounds: Node,
    catalog: Catalog,
    sql: str,
) -> Node:
    """Return the rows of a table in the ranges of another one.

    Args:
        function: The call.
        data: Its data.
        bounds: Table of the ranges.
        catalog: Catalog that identifies streams.
        sql: Text of the statement, for error positions.

    Raises:
        AnalysisError: A column does not exist or has the wrong type, both tables have it, or the
            bounds are a stream.
    """
    window = window_of(function, sql)
    time = time_column(function, data.schema, sql, takes_date=True)
    date = time.name if time.type == "date" else None
    if date is not None:
        data, time = date_as_midnight(data, time)
    starts, ends = (_bound(function, n, bounds.schema, sql) for n in (0, 1))
    others = tuple(c for c in bounds.schema if c not in (starts, ends))
    refuse_window_columns(function, data.schema, sql)
    refuse_window_columns(function, others, sql, "bounds")
    _refuse_common_columns(function, data.schema, others, sql)
    if streams := streams_of(bounds, catalog):
        raise error_at(
            sql,
            f"the bounds of {function.kind} must be a bounded table, but `{streams[0].name}` is a "
            "stream: a range that arrives later could contain rows that have passed",
            function.args["bounds"],
            function.this,
            hint="use a table of files or of a database",
            subjects=(streams[0].name,),
        )
    columns = WindowColumns(*WINDOW_COLUMNS)
    has_instants = all(c.type == "timestamp" for c in (time, starts, ends))
    names = (_STARTS, _ENDS) if has_instants else (columns.start, columns.end)
    ranges = _ranges(bounds, others, (starts, ends), columns, time, has_instants=has_instants)
    hidden = (_STARTS, _ENDS)
    node = RangeRows(
        (*data.schema, *(c for c in ranges.schema if c.name not in hidden)),
        data,
        ranges,
        window,
        time.name,
        time.type,
        columns,
        *names,
        place=span_of(function.this),
        time_place=span_of(function.args["timecol"]),
    )
    return with_date(node, date)


def _bound(function: WindowFunctionCall, place: int, schema: Schema, sql: str) -> Column:
    """Return the column of the bounds with the starts or the ends."""
    name = function.args["boundcols"].expressions[place]
    found = column_named(schema, name.name)
    if found is None:
        close = nearest(name.name, [c.name for c in schema])
        times = ", ".join(f"`{c.name}`" for c in schema if is_timestamp(c.type))
        raise error_at(
            sql,
            f"column `{name.name}` does not exist in the bounds of {function.kind}",
            name,
            hint=f"did you mean `{close}`?" if close else f"time columns: {times}",
            kind=ErrorKind.UNKNOWN_INPUT_COLUMN,
            subjects=(name.name,),
        )
    if not is_timestamp(found.type) and found.type != "date":
        raise error_at(
            sql,
            f"the {('starts', 'ends')[place]} of {function.kind} must be TIMESTAMP, TIMESTAMP_LTZ "
            f"or DATE, but `{found.name}` is {shown_type(found.type)}",
            name,
            hint="convert it in a subquery: CAST(... AS TIMESTAMP)",
            subjects=(found.name,),
        )
    return found


def _refuse_common_columns(
    function: WindowFunctionCall, data: Schema, others: Schema, sql: str
) -> None:
    """Refuse bounds with a column that the data has too."""
    common = next((c.name for c in others if column_named(data, c.name)), None)
    if common is not None:
        raise error_at(
            sql,
            f"the data and the bounds of {function.kind} both have a column `{common}`",
            function.args["bounds"],
            function.this,
            hint=f"rename it in a subquery: (SELECT {common} AS range_{common}, ... FROM ...)",
            subjects=(common,),
        )


def _ranges(
    bounds: Node,
    others: Schema,
    range_columns: tuple[Column, Column],
    columns: WindowColumns,
    time: Column,
    *,
    has_instants: bool,
) -> Filter:
    """Return the ranges that are not empty, with the window columns.

    Args:
        bounds: Table of the ranges.
        others: Its columns that come along.
        range_columns: Columns with starts and ends.
        columns: Names of the window columns.
        time: Time column of the data.
        has_instants: Whether starts and ends are compared as instants.
    """
    starts, ends = (column(c.name) for c in range_columns)
    start, end = (
        value if c.type == "timestamp_ntz" else cast_as(value.copy(), "timestamp_ntz")
        for c, value in zip(range_columns, (starts, ends), strict=True)
    )
    last: exp.Expr = exp.Sub(
        this=(ends if has_instants else end).copy(), expression=seconds("0.001")
    )
    if time.type == "timestamp" and not has_instants:
        last = cast_as(last, time.type)
    made = [
        (Column(columns.start, "timestamp_ntz", False), start),
        (Column(columns.end, "timestamp_ntz", False), end),
        (Column(columns.time, time.type, False), last),
    ]
    compared = (columns.start, columns.end)
    if has_instants:
        compared = (_STARTS, _ENDS)
        made += [(Column(_STARTS, "timestamp", False), starts)]
        made += [(Column(_ENDS, "timestamp", False), ends)]
    items = (*plain_items(others), *(NamedExpr(c.name, value) for c, value in made))
    schema = (*others, *(c for c, _ in made))
    not_empty = exp.LT(this=column(compared[0]), expression=column(compared[1]))
    return Filter(schema, Project(schema, bounds, items), (not_empty,))
