"""Bind GAP_FILL: rows of a table, and a row for every window of the grid without one.

    GAP_FILL(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' MINUTES, FILL => (v = LOCF))

Rows that already carry windows keep them, and only missing windows are added. Other rows are put
into TUMBLE windows with the size of the step. The time of an added row is the start of its window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from planner.binder.fill.bounds import (
    bounds_us,
    check_filled_types,
    with_declared_keys,
)
from planner.binder.fill.clause import FillOptions, is_of_instants
from planner.binder.fill.fillers import fillers_of
from planner.binder.fill.on_stream import check_stream_fill
from planner.binder.relations import Relations, Scope
from planner.binder.window_function import (
    date_as_midnight,
    partition_by_columns,
    time_column,
    window_of,
)
from planner.catalog import Schema
from planner.nodes.logical import (
    AttachedWindow,
    GapFill,
    NamedExpr,
    Node,
    Project,
    WindowColumns,
    columns_of,
    in_windows,
    with_column,
)
from planner.nodes.window_columns import window_properties
from planner.sql.build import cast_as, column, function_call, last_time_before, seconds
from planner.sql.nodes import WindowFunctionCall, error_at, span_of
from planner.streams.tables import streams_of
from runtime.spec.filling import GapFilling
from runtime.spec.table import Column
from runtime.windows import Window

_START, _END, _TIME = "$gap_start", "$gap_end", "$gap_time"


def bind_gap_fill(
    function: WindowFunctionCall,
    source: Node,
    relations: Relations,
    scope: Scope,
    bind: Callable[[exp.Query, Scope], Node],
    options: FillOptions,
) -> Node:
    """Return the rows of `source` with the added rows.

    Args:
        function: The call.
        source: Its data.
        relations: Placeholders of the query.
        scope: CTEs in scope.
        bind: Binds a query to a node.
        options: Settings.

    Raises:
        AnalysisError: An argument is invalid.
        StreamRefusal: The data is a stream, which does not support an argument.
    """
    sql = relations.sql
    step = window_of(function, sql)
    time = time_column(function, source.schema, sql, takes_date=True)
    keys = partition_by_columns(function, source.schema, sql)
    if time.name in keys:
        raise error_at(
            sql, f"`{time.name}` is both the time and a key", *function.args["partition"]
        )
    check_filled_types(
        keys, source.schema, function.args["partition"][0] if keys else function, sql
    )
    before = source.schema
    attached = window_properties(source)
    role = None if attached is None else attached.role_of(time.name)
    if attached is not None and role is not None and attached.end is None:
        source, attached = _with_end(source, attached, role)
        if attached.end is None and (not attached.spec.has_slices or attached.spec.tiles):
            # the start of a TUMBLE is a time in its own window
            _check_step(function, step, attached.spec, sql)
            step = attached.spec
    if attached is not None and role is not None and attached.end is not None:
        _check_step(function, step, attached.spec, sql)
        start, end, order = attached.start, attached.end, None
        window, has_instants = attached.spec, is_of_instants(source)
        computed = _other_bounds(attached, source.schema)
    else:
        if time.type == "date":
            source, time = date_as_midnight(source, time)
        start, end, order, window = _START, _END, time.name, step
        has_instants = time.type == "timestamp" or (role is not None and is_of_instants(source))
        source = _in_windows(source, time, step, function)
        filled_time = function_call("COALESCE", column(time.name), _as_time(time.type))
        is_date = next(c.type for c in before if c.name == time.name) == "date"
        computed = {time.name: cast_as(filled_time, "date") if is_date else filled_time}
    items = function.args.get("fill")
    listed = [] if items is None else items.expressions
    declared = function.args.get("keys")
    if streams_of(source, relations.catalog):
        check_stream_fill("GAP_FILL", listed, declared, window, function.this, sql)
    bounds = {start, end, *computed}
    values = tuple(c for c in source.schema if c.name not in bounds and c.name not in keys)
    not_filled = dict.fromkeys(map(str.lower, keys), "it is a key")
    times = (name.lower() for name in (*bounds, time.name) if name)
    not_filled |= dict.fromkeys(times, "it is a time of the windows")
    fillers, texts = fillers_of(listed, values, not_filled, sql, options.zone)
    others = tuple(c for c in source.schema if c.name in computed and c.name not in (start, end))
    nulls, _ = fillers_of([], others, {}, sql, options.zone)
    between = (function.args.get("from"), function.args.get("to"))
    from_us, to_us = bounds_us(between, sql, options.zone)
    filling = GapFilling(
        window,  # type: ignore[arg-type]  # SESSION is refused
        keys,
        start,
        end,
        (*fillers, *nulls),
        order,
        from_us,
        to_us,
        has_instants,
        options.max_windows,
        options.keep_us,
    )
    below = with_declared_keys(source, filling, declared, relations, scope, bind)
    fixed = {*keys, start, end}
    schema = tuple(replace(c, nullable=c.nullable or c.name not in fixed) for c in source.schema)
    node = GapFill(schema, below, filling, texts, place=span_of(function.this))
    return _project(node, before, computed)


def _with_end(source: Node, attached: AttachedWindow, role: str) -> tuple[Node, AttachedWindow]:
    """Return rows in windows with the end of their window, computed from another bound.

    Windows of CUMULATE share their start, so it tells no end. The start of a TUMBLE of months is a
    time in that window, from which the end follows without arithmetic on months.

    Args:
        source: Rows.
        attached: Their windows, whose end is not a column.
        role: Role of the column that is a bound.
    """
    end = _end_of(attached, role)
    if end is None:
        return source, attached
    whole = with_column(source, Column(_END, "timestamp_ntz", False), end)
    return whole, replace(attached, end=_END)


def _end_of(attached: AttachedWindow, role: str) -> exp.Expr | None:
    """Return the end of a window as an expression of its start or its time, None if it is neither.

    The start comes first: a time as an instant is another one where the clock skips the end.
    """
    start = None if attached.start is None else column(attached.start)
    spec = attached.spec
    if spec.has_slices and spec.tiles and spec.is_calendar and role == "start":
        return None
    if start is not None and spec.has_slices and spec.length is not None:
        if not spec.is_calendar:
            return exp.Add(this=start, expression=_seconds(spec.length.us))
        size = exp.Literal.string(str(spec.length.months))
        months = exp.Interval(this=size, unit=exp.var("MONTH"))
        offset = _seconds(spec.offset_us)
        first = exp.Paren(this=exp.Sub(this=start, expression=offset))
        last = exp.Paren(this=exp.Add(this=first, expression=months))
        return exp.Add(this=last, expression=offset.copy())
    if attached.time is None:
        return None
    time = cast_as(column(attached.time), "timestamp_ntz")
    return exp.Add(this=time, expression=seconds("0.001"))


def _seconds(us: int) -> exp.Interval:
    return seconds(f"{us // 1_000_000}.{us % 1_000_000:06}")


def _in_windows(source: Node, time: Column, step: Window, function: WindowFunctionCall) -> Node:
    """Return the rows with the bounds of TUMBLE windows as wide as the step."""
    places = (span_of(function.this), span_of(function.args["timecol"]))
    windowed = in_windows(source, step, time, WindowColumns(_START, _END, _TIME), *places)
    return columns_of(windowed, windowed.schema[:-1])


def _as_time(type_: str) -> exp.Expr:
    start = column(_START)
    return start if type_ == "timestamp_ntz" else cast_as(start, type_)


def _other_bounds(attached: AttachedWindow, schema: Schema) -> dict[str, exp.Expr]:
    """Return window columns other than start and end, computed from these two."""
    computed: dict[str, exp.Expr] = {}
    end = attached.end
    assert end is not None
    types = {c.name: c.type for c in schema}
    for role, name in attached.roles:
        if name in (attached.start, end):
            continue
        if role == "time":
            time = last_time_before(end)
            computed[name] = function_call(
                "COALESCE", column(name), cast_as(exp.Paren(this=time), types[name])
            )
        else:
            bound = attached.start if role == "start" else end
            computed[name] = column(bound or end)
    return computed


def _project(node: GapFill, schema: Schema, computed: dict[str, exp.Expr]) -> Node:
    """Return the columns of the data."""
    items = tuple(NamedExpr(c.name, computed.get(c.name, column(c.name))) for c in schema)
    may_be_null = {c.name for c in node.schema if c.nullable} - computed.keys()
    columns = tuple(replace(c, nullable=c.nullable or c.name in may_be_null) for c in schema)
    return Project(columns, node, items)


def _check_step(function: WindowFunctionCall, step: Window, window: Window, sql: str) -> None:
    """Check that the step equals the distance between the windows of the rows.

    Raises:
        AnalysisError: The step differs, or the windows cannot be filled.
    """
    if window.why_not_filled is not None:
        raise error_at(
            sql,
            f"GAP_FILL cannot be combined with {window.function}: {window.why_not_filled}",
            function.args["timecol"],
            hint="use TUMBLE, HOP or CUMULATE",
        )
    if step.has_slices and step.stride == window.stride:
        return
    raise error_at(
        sql,
        f"the step of GAP_FILL must be {window.stride.text}, the distance between the windows of "
        "the rows",
        function.args["step"],
        function.this,
    )
