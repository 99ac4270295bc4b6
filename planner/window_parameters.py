"""Sizes, slides, steps and offsets of a window function: from expressions to microseconds."""

from __future__ import annotations

from sqlglot import exp

from planner.ast import WindowFunction, position_of
from planner.intervals import fold_interval, render_duration
from runtime.errors import AnalysisError
from runtime.spec import Cumulate, Hop, Session, Tumble, Window

# More windows a row than this is a typing error, not a query: a year by the second has 31 million.
MAX_WINDOWS_PER_ROW = 10_000_000


def window_of(function: WindowFunction, sql: str) -> Window:
    """The window that a function's arguments describe.

    Raises:
        AnalysisError: an argument is no constant interval, or the sizes make no sense.
    """
    if function.kind == "TUMBLE":
        return Tumble(_positive(function, "size", sql), _offset(function, sql))
    if function.kind == "HOP":
        return _hop(function, sql)
    if function.kind == "CUMULATE":
        return _cumulate(function, sql)
    return Session(_positive(function, "gap", sql))


def _hop(function: WindowFunction, sql: str) -> Hop:
    hop = Hop(
        _positive(function, "slide", sql),
        _positive(function, "size", sql),
        _offset(function, sql),
    )
    windows = -(-hop.size_us // hop.slide_us)
    if windows > MAX_WINDOWS_PER_ROW:
        raise _error(
            function,
            "slide",
            sql,
            f"HOP would put every row into {windows:,} windows: size "
            f"{render_duration(hop.size_us)}, slide {render_duration(hop.slide_us)}",
            f"a row may be in {MAX_WINDOWS_PER_ROW:,} windows at most: take a longer slide",
        )
    return hop


def _cumulate(function: WindowFunction, sql: str) -> Cumulate:
    step, size = _positive(function, "step", sql), _positive(function, "size", sql)
    if size % step:
        given = f"step {render_duration(step)}, size {render_duration(size)}"
        hint = "CUMULATE takes the step first and then the largest size, a multiple of the step"
        if step > size and step % size == 0:
            hint += "; here they look swapped"
        raise _error(
            function, "step", sql, f"CUMULATE needs a size that is a multiple of the step: {given}",
            hint,
        )  # fmt: skip
    if size // step > MAX_WINDOWS_PER_ROW:
        raise _error(
            function,
            "step",
            sql,
            f"CUMULATE would put a row into {size // step:,} windows",
            f"a row may be in {MAX_WINDOWS_PER_ROW:,} windows at most: take a longer step",
        )
    return Cumulate(step, size, _offset(function, sql), _emit_only_on_update(function, sql))


def _interval_us(function: WindowFunction, parameter: str, sql: str) -> int:
    expr = function.args[parameter]
    try:
        value = fold_interval(expr)
    except AnalysisError as error:
        error.position = error.position or position_of(expr, sql)
        error.sql = sql
        raise
    if value.months:
        raise _error(
            function,
            parameter,
            sql,
            f"{function.kind} cannot use months, quarters or years as its {parameter} yet",
            "give the interval in weeks, days, hours, minutes or seconds",
        )
    return value.us


def _positive(function: WindowFunction, parameter: str, sql: str) -> int:
    value = _interval_us(function, parameter, sql)
    if value <= 0:
        raise _error(
            function,
            parameter,
            sql,
            f"{function.kind} needs a {parameter} above zero, but got {render_duration(value)}",
            f"for example INTERVAL '10' MINUTE as the {parameter}",
        )
    return value


def _offset(function: WindowFunction, sql: str) -> int:
    return _interval_us(function, "offset", sql) if function.args.get("offset") else 0


def _emit_only_on_update(function: WindowFunction, sql: str) -> bool:
    flag = function.args.get("emitonlyonupdate")
    if flag is None:
        return False
    if not isinstance(flag, exp.Boolean):
        raise _error(
            function,
            "emitonlyonupdate",
            sql,
            "EMITONLYONUPDATE takes TRUE or FALSE",
            "write EMITONLYONUPDATE => true",
        )
    return bool(flag.this)


def _error(
    function: WindowFunction, parameter: str, sql: str, message: str, hint: str
) -> AnalysisError:
    return AnalysisError(
        message, position=position_of(function.args[parameter], sql), sql=sql, hint=hint
    )
