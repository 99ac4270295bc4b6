"""Windows with custom triggers, evictors and functions, for `Session.windows`.

Example:
    ```python
    from sqlwin import windows as w

    session.windows(
        "bids",
        keys=["auction"],
        time="ts",
        window=w.session("30 minutes"),
        trigger=w.EarlyAndLateTrigger(early=w.CountTrigger(100)),
        function=w.WholeWindowFunction(lambda key, window, rows: [median(rows)]),
        output="median double",
    )
    ```

Durations are strings such as `10 minutes` or `1 month`, or a `timedelta`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

# Workers import this module for functions of users, and have neither sqlglot nor the planner
from runtime.spec.intervals import length_us as us
from runtime.streaming.general.assigners import (
    AlignedAssigner,
    Assigner,
    GlobalAssigner,
    SessionAssigner,
)
from runtime.streaming.general.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from runtime.streaming.general.functions import (
    AggregateFunction,
    ReduceFunction,
    WholeWindowFunction,
    WindowFunction,
)
from runtime.streaming.general.triggers import (
    ContinuousTrigger,
    CountTrigger,
    DeltaTrigger,
    EarlyAndLateTrigger,
    EventTimeTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
)
from runtime.streaming.general.windows import TimeWindow, Verdict

__all__ = [
    "AggregateFunction",
    "Assigner",
    "ContinuousTrigger",
    "CountEvictor",
    "CountTrigger",
    "DeltaEvictor",
    "DeltaTrigger",
    "EarlyAndLateTrigger",
    "EventTimeTrigger",
    "Evictor",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "ReduceFunction",
    "TimeEvictor",
    "TimeWindow",
    "Trigger",
    "Verdict",
    "WholeWindowFunction",
    "WindowFunction",
    "cumulate",
    "everything",
    "hop",
    "session",
    "tumble",
    "us",
]

Length = str | timedelta


def tumble(size: Length, offset: Length | None = None) -> Assigner:
    """Return an assigner for TUMBLE windows.

    Raises:
        AnalysisError: A duration cannot be parsed or makes no valid window. The functions below
            raise it too.
    """
    return AlignedAssigner(_window("TUMBLE", size=size, offset=offset))


def hop(slide: Length, size: Length, offset: Length | None = None) -> Assigner:
    """Return an assigner for HOP windows."""
    return AlignedAssigner(_window("HOP", slide=slide, size=size, offset=offset))


def cumulate(step: Length, size: Length, offset: Length | None = None) -> Assigner:
    """Return an assigner for CUMULATE windows. Windows without rows are not emitted."""
    return AlignedAssigner(_window("CUMULATE", step=step, size=size, offset=offset))


def session(gap: Length | Callable[[Any], Length]) -> Assigner:
    """Return an assigner for SESSION windows. `gap` may be a function of the row."""
    if callable(gap):
        of_row = gap
        return SessionAssigner(lambda row: us(of_row(row)))
    return SessionAssigner(_window("SESSION", gap=gap).gap_us)


def everything() -> Assigner:
    """Return an assigner for one window per key. Without a trigger it is emitted at the end."""
    return GlobalAssigner()


def _window(kind: str, **lengths: Length | None) -> Any:
    from sqlglot import exp

    from planner.binder.window_function import window_of
    from planner.sql.nodes import WindowFunctionCall

    def interval(length: Length) -> exp.Interval:
        text = f"{us(length)} microseconds" if isinstance(length, timedelta) else length
        return exp.Interval(this=exp.Literal.string(text))

    intervals = {name: interval(length) for name, length in lengths.items() if length is not None}
    return window_of(WindowFunctionCall(this=exp.Var(this=kind), **intervals), "")
