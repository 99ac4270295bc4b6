"""`sqlwin.strict-flink`: reject SQL that Flink 2.3 rejects, with a hint at the alternative."""

from __future__ import annotations

import re

from sqlglot import exp

from planner.nodes.logical import Node, WindowAggregate, WindowRank, WindowTableFunction
from planner.sql.build import to_sql
from planner.sql.nodes import (
    BEHIND,
    LENIENCIES,
    FillClause,
    Leniency,
    WindowFunctionCall,
    error_at,
    path_of_files,
    position_of,
)
from runtime.errors import AnalysisError, Position
from runtime.windows import Window
from runtime.windows.intervals import render_duration

_PARAMETERS = ("size", "slide", "step", "gap", "offset")
_UNITS = frozenset("SECOND MINUTE HOUR DAY WEEK".split())
_CALENDAR = frozenset("MONTH QUARTER YEAR".split())
_FIELDS = re.compile(r"^\s*[+-]?\s*(\d+)")
_PRECISION = re.compile(r"\(\s*(\d+)")

# Digits of an interval's first field by default
_DEFAULT_PRECISION = 2


def check_query(query: exp.Query, sql: str) -> None:
    """Reject clauses of a query that Flink cannot parse.

    Raises:
        AnalysisError: Flink rejects the query. Has a source position.
    """
    fill = query.find(FillClause)
    if fill is not None:
        raise strict_error("FILL is not supported", fill, sql, "remove it")
    behind = query.meta.get(BEHIND)
    if isinstance(behind, Leniency):
        raise _lenient(behind, sql)


def check_table(table: exp.Table, sql: str) -> None:
    """Reject file paths as tables.

    Raises:
        AnalysisError: Flink rejects the table. Has a source position.
    """
    if path_of_files(table.name) is not None:
        hint = "use CREATE TABLE ... WITH ('connector' = 'filesystem', 'path' = ...)"
        raise strict_error("a path cannot be used as a table", table.this, sql, hint)


def check_function(function: WindowFunctionCall, window: Window, sql: str) -> None:
    """Reject a call that Flink cannot parse or does not accept.

    Args:
        function: The call as written.
        window: The window it describes.
        sql: Text of the statement.

    Raises:
        AnalysisError: Flink rejects the call. Has a source position and the form that Flink
            accepts.
    """
    check_spellings(function, sql)
    flag = function.args.get("emitonlyonupdate")
    if flag is not None:
        raise strict_error("CUMULATE does not support EMITONLYONUPDATE", flag, sql, "remove it")
    for parameter in _PARAMETERS:
        if function.args.get(parameter) is not None:
            _check_interval(function.args[parameter], sql)
    if not window.has_slices or window.is_calendar or not window.tiles:
        return
    if abs(window.offset_us) >= window.stride.us:
        rest = render_duration(window.offset_us % window.stride.us)
        message = f"the offset of TUMBLE must be shorter than its size, {window.stride.text}"
        hint = f"use the offset {rest} for the same windows"
        raise strict_error(message, function.args["offset"], sql, hint)


def check_spellings(function: WindowFunctionCall, sql: str) -> None:
    """Reject spellings of a call that Flink rejects.

    Raises:
        AnalysisError: There is one. Has a source position and the spelling that Flink accepts.
    """
    for lenient in function.meta.get(LENIENCIES, ()):
        raise _lenient(lenient, sql, has_place=position_of(function.this, sql) is not None)


def _lenient(lenient: Leniency, sql: str, *, has_place: bool = True) -> AnalysisError:
    """Return the error for a lenient spelling. Text of a view has no position in `sql`."""
    place = Position.at(sql, lenient.start, lenient.end - lenient.start + 1) if has_place else None
    return AnalysisError(_flink_error(lenient.message), position=place, sql=sql, hint=lenient.hint)


def strict_error(message: str, node: exp.Expr, sql: str, hint: str) -> AnalysisError:
    """Return the error for syntax that Flink rejects, at a node of the statement."""
    return error_at(sql, _flink_error(message), node, hint=hint)


def _flink_error(message: str) -> str:
    return f"{message} in Flink (sqlwin.strict-flink is on)"


def _check_interval(expr: exp.Expr, sql: str) -> None:
    """Require a single literal with a quoted value and one of Flink's units."""
    if not isinstance(expr, exp.Interval):
        hint = "use one literal, such as INTERVAL '10' MINUTE"
        raise strict_error(
            f"windows require INTERVAL literals, not {to_sql(expr)},", expr, sql, hint
        )
    value, unit = expr.this, expr.args.get("unit")
    value = value.this if isinstance(value, exp.Neg) else value
    if unit is None:
        raise strict_error("the unit must follow the quotes", expr, sql, "use INTERVAL '10' MINUTE")
    first = unit.this.name if isinstance(unit, exp.IntervalSpan) else unit.name
    name = first.upper().removesuffix("S")
    if not (isinstance(value, exp.Literal) and value.is_string):
        hint = f"use INTERVAL '{to_sql(value)}' {name}"
        raise strict_error("the value of an INTERVAL must be quoted", expr, sql, hint)
    if name in _CALENDAR:
        message = "windows of months or years are not supported"
        raise strict_error(message, expr, sql, "use days, or SET 'sqlwin.strict-flink' = 'false'")
    if name not in _UNITS:
        part = "'0.25' SECOND for 250 milliseconds"
        raise strict_error(
            f"the unit {first.upper()} does not exist", expr, sql, f"use INTERVAL {part}"
        )
    _check_precision(expr, value.name, name, sql)


def _check_precision(expr: exp.Expr, value: str, unit: str, sql: str) -> None:
    fields = _FIELDS.match(value)
    place = position_of(expr, sql)
    if fields is None or place is None:
        return
    digits = len(fields[1])
    text = sql[place.offset : place.offset + place.length]
    # The precision follows the last quote, which may be past the recorded position.
    precision_clause = _PRECISION.search(
        text[text.rfind("'") :] + sql[place.offset + place.length :][:6]
    )
    precision = int(precision_clause[1]) if precision_clause else _DEFAULT_PRECISION
    if digits > precision:
        message = (
            f"INTERVAL '{value}' {unit} has more than {precision} digits, which is not supported"
        )
        raise strict_error(message, expr, sql, f"use INTERVAL '{value}' {unit}({digits})")


def check_plan(plan: Node, is_stream: bool) -> None:
    """Reject windows that Flink supports only in the other mode, or not at all.

    Args:
        plan: Optimised logical plan.
        is_stream: Whether the plan reads a stream.

    Raises:
        AnalysisError: Flink rejects a window. Has no position, which plans do not record.
    """
    window: Window | None = getattr(plan, "window", None)
    if window is not None and not window.has_slices and not is_stream:
        raise AnalysisError(
            _flink_error("SESSION windows are supported on streams only"),
            hint="SET 'sqlwin.strict-flink' = 'false'",
        )
    if isinstance(plan, WindowAggregate):
        _check_aggregate(plan, is_stream)
    if isinstance(plan, WindowRank) and is_stream and plan.rank_type != "ROW_NUMBER":
        raise AnalysisError(
            _flink_error(f"{plan.rank_type} is not supported for windows of a stream"),
            hint="use ROW_NUMBER",
        )
    for child in plan.inputs:
        check_plan(child, is_stream)


def _check_aggregate(node: WindowAggregate, is_stream: bool) -> None:
    window = node.window
    if is_stream and window.has_slices and window.length and len(window.slice_widths_us) > 1:
        raise AnalysisError(
            _flink_error(
                f"the size of HOP, {window.length.text}, must be a multiple "
                f"of its slide, {window.stride.text},"
            ),
            hint="use a slide that divides the size, or SET 'sqlwin.strict-flink' = 'false'",
        )
    below = node.input
    while len(below.inputs) == 1 and not isinstance(below, WindowTableFunction | WindowAggregate):
        below = below.inputs[0]
    if isinstance(below, WindowTableFunction):
        raise AnalysisError(
            _flink_error("a window over rows of another window cannot be aggregated"),
            hint="aggregate the inner windows first, and use their window_time",
        )
