"""A window table function on its own: each row once for every window it belongs to."""

from __future__ import annotations

from runtime.compute.windows.aligned import slice_assigner
from runtime.compute.windows.session import session_bounds_sql
from runtime.frames.wall_clock import timestamp_ntz_sql, wall_clock_us_sql
from runtime.names import quoted
from runtime.spec.steps import ExpandStep
from runtime.spec.windows import CalendarTumble, SessionWindow, Tumble


def expand_sql(step: ExpandStep, source: str) -> str:
    """Spark SQL that adds the window columns to the relation `source`."""
    time_us = wall_clock_us_sql(step.time_column, step.time_type)
    end = quoted("$window_end_us")
    rows = f"SELECT *, {time_us} AS {quoted('$time_us')} FROM {source}"
    rows += f" WHERE {quoted(step.time_column)} IS NOT NULL"
    start = quoted("$window_start_us")
    added = [quoted("$time_us"), end]
    if isinstance(step.window, SessionWindow):
        expanded = session_bounds_sql(step.window, f"({rows})", quoted("$time_us"), start, end)
        added.append(start)
    elif isinstance(step.window, Tumble | CalendarTumble):
        assigner = slice_assigner(step.window)
        start = f"({assigner.window_start_sql(end)})"
        expanded = f"SELECT *, {assigner.slice_end_sql(quoted('$time_us'))} AS {end} FROM ({rows})"
    else:
        assigner = slice_assigner(step.window)
        start = f"({assigner.window_start_sql(end)})"
        ends = assigner.window_ends_sql(quoted("$time_us"))
        expanded = f"SELECT *, EXPLODE({ends}) AS {end} FROM ({rows})"
    window_end = timestamp_ntz_sql(end)
    window_time = f"{window_end} - INTERVAL '0.001' SECOND"
    return (
        f"SELECT * EXCEPT ({', '.join(added)}), "
        f"{timestamp_ntz_sql(f'({start})')} AS {quoted(step.window_start)}, "
        f"{window_end} AS {quoted(step.window_end)}, "
        f"CAST({window_time} AS {step.time_type}) AS {quoted(step.window_time)} FROM ({expanded})"
    )
