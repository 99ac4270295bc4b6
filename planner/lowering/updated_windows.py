"""CUMULATE windows that have rows in their own step, for EMITONLYONUPDATE where rows are copied."""

from __future__ import annotations

from sqlglot import exp

from planner.sql.build import cast_as, column, function_call, literal
from runtime.windows import AlignedWindow, Window


def is_updated(window: Window, time_column: str, start: str, end: str) -> exp.Expr | None:
    """Return a condition on groups of rows copied into their windows. None: keep all groups.

    Args:
        window: Windows of the rows.
        time_column: Time column of the rows. Windows are on its wall clock.
        start: Column with the start of the window.
        end: Column with the end of the window.
    """
    if not window.has_slices or not window.emit_only_on_update:
        return None
    time = cast_as(column(time_column), "TIMESTAMP_NTZ")
    own_start = _step_start(window, column(start), column(end))
    return function_call("BOOL_OR", exp.GTE(this=time, expression=own_start))


def _step_start(window: AlignedWindow, start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """Return the start of the last step of a window."""
    step = window.stride
    if not window.is_calendar:
        return exp.Sub(this=end, expression=_seconds(literal(step.us)))
    if step.months:
        # steps are counted in whole months, before the offset
        offset = _seconds(literal(window.offset_us))
        months = function_call("MAKE_YM_INTERVAL", literal(0), literal(step.months))
        month = exp.Sub(this=exp.Sub(this=end, expression=offset), expression=months)
        return exp.Add(this=exp.Paren(this=month), expression=offset.copy())
    # TIMESTAMPDIFF would move ends that the session's time zone skips
    length = exp.Paren(this=exp.Sub(this=end, expression=start))
    before = exp.Paren(this=exp.Sub(this=length, expression=_seconds(literal(1))))
    n_steps = exp.IntDiv(this=before, expression=_seconds(literal(step.us)))
    elapsed = exp.Mul(this=exp.Paren(this=n_steps), expression=literal(step.us))
    return exp.Add(this=start.copy(), expression=_seconds(elapsed))


def _seconds(us: exp.Expr) -> exp.Expr:
    """Return an interval of microseconds."""
    seconds = exp.Div(this=us, expression=exp.Literal.number("1000000.000000"))
    zero = literal(0)
    return function_call(
        "MAKE_DT_INTERVAL", zero, zero.copy(), zero.copy(), cast_as(seconds, "DECIMAL(18, 6)")
    )
