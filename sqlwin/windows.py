"""Windows with triggers, evictors and functions of your own, for `Session.windows`.

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

Lengths of time are texts such as `10 minutes` or `1 month`, or a `timedelta`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

# Functions of users name this module in the workers, which have neither sqlglot nor the planner
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
    """TUMBLE.

    Raises:
        AnalysisError: a length is none, or makes no window; likewise below.
    """
    return AlignedAssigner(_window("TUMBLE", size=size, offset=offset))


def hop(slide: Length, size: Length, offset: Length | None = None) -> Assigner:
    """HOP."""
    return AlignedAssigner(_window("HOP", slide=slide, size=size, offset=offset))


def cumulate(step: Length, size: Length, offset: Length | None = None) -> Assigner:
    """CUMULATE; only windows with rows in them are emitted."""
    return AlignedAssigner(_window("CUMULATE", step=step, size=size, offset=offset))


def session(gap: Length | Callable[[Any], Length]) -> Assigner:
    """SESSION; the gap may be a function of the row."""
    if callable(gap):
        of_row = gap
        return SessionAssigner(lambda row: us(of_row(row)))
    return SessionAssigner(_window("SESSION", gap=gap).gap_us)


def everything() -> Assigner:
    """One window for all rows of a key, which needs a trigger to be emitted before the end."""
    return GlobalAssigner()


def _window(kind: str, **lengths: Length | None) -> Any:
    from sqlglot import exp

    from planner.binder.window_function import window_of
    from planner.sql.nodes import WindowFunctionCall

    def interval(length: Length) -> exp.Interval:
        text = f"{us(length)} microseconds" if isinstance(length, timedelta) else length
        return exp.Interval(this=exp.Literal.string(text))

    given = {name: interval(length) for name, length in lengths.items() if length is not None}
    return window_of(WindowFunctionCall(this=exp.Var(this=kind), **given), "")
