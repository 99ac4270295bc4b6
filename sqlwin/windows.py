"""Windows of DataFrames; custom triggers, evictors and functions for `Session.windows`.

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
    w.tumble(df, "ts", "5 minutes").group_by("k").agg(n="COUNT(*)")  # a DataFrame of results
    ```

Durations are strings such as `10 minutes` or `1 month`, or a `timedelta`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, overload

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

# Workers import this module for functions of users, and have neither sqlglot nor the planner
from runtime.windows.intervals import length_us as us

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sqlwin.windowed import WindowedDataFrame

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


@overload
def tumble(size: Length, offset: Length | None = None) -> Assigner: ...


@overload
def tumble(
    data: DataFrame,
    time: str,
    size: Length,
    offset: Length | None = None,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame: ...


def tumble(*args: Any, **options: Any) -> Assigner | WindowedDataFrame:
    """Return an assigner for TUMBLE windows or, with a DataFrame, its rows in TUMBLE windows.

    Raises:
        AnalysisError: A duration cannot be parsed or makes no valid window. The functions below
            raise it too.
    """
    return _assigner_or_rows("TUMBLE", _tumble, args, options)


@overload
def hop(slide: Length, size: Length, offset: Length | None = None) -> Assigner: ...


@overload
def hop(
    data: DataFrame,
    time: str,
    slide: Length,
    size: Length,
    offset: Length | None = None,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame: ...


def hop(*args: Any, **options: Any) -> Assigner | WindowedDataFrame:
    """Return an assigner for HOP windows, or the rows of a DataFrame in them."""
    return _assigner_or_rows("HOP", _hop, args, options)


@overload
def cumulate(step: Length, size: Length, offset: Length | None = None) -> Assigner: ...


@overload
def cumulate(
    data: DataFrame,
    time: str,
    step: Length,
    size: Length,
    offset: Length | None = None,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame: ...


def cumulate(*args: Any, **options: Any) -> Assigner | WindowedDataFrame:
    """Return an assigner for CUMULATE windows, or the rows of a DataFrame in them.

    The assigner emits no windows without rows.
    """
    return _assigner_or_rows("CUMULATE", _cumulate, args, options)


@overload
def session(gap: Length | Callable[[Any], Length]) -> Assigner: ...


@overload
def session(
    data: DataFrame,
    time: str,
    gap: Length,
    *,
    watermark: str | None = None,
) -> WindowedDataFrame: ...


def session(*args: Any, **options: Any) -> Assigner | WindowedDataFrame:
    """Return an assigner for SESSION windows, or the rows of a DataFrame in them.

    The assigner's `gap` may be a function of the row.
    """
    return _assigner_or_rows("SESSION", _session, args, options)


def everything() -> Assigner:
    """Return an assigner for one window per key. Without a trigger it is emitted at the end."""
    return GlobalAssigner()


def _assigner_or_rows(
    kind: str,
    assigner: Callable[..., Assigner],
    args: tuple[Any, ...],
    options: dict[str, Any],
) -> Assigner | WindowedDataFrame:
    """Return the assigner of the arguments, or the rows if they have a time column."""
    is_over_rows = (
        len(args) > 3 or "data" in options or (bool(args) and hasattr(args[0], "sparkSession"))
    )
    if not is_over_rows:
        return assigner(*args, **options)
    from inspect import signature

    from sqlwin.windowed import windowed_rows

    return windowed_rows(kind, signature(assigner), *args, **options)


def _tumble(size: Length, offset: Length | None = None) -> Assigner:
    return AlignedAssigner(_window("TUMBLE", size=size, offset=offset))


def _hop(slide: Length, size: Length, offset: Length | None = None) -> Assigner:
    return AlignedAssigner(_window("HOP", slide=slide, size=size, offset=offset))


def _cumulate(step: Length, size: Length, offset: Length | None = None) -> Assigner:
    return AlignedAssigner(_window("CUMULATE", step=step, size=size, offset=offset))


def _session(gap: Length | Callable[[Any], Length]) -> Assigner:
    if callable(gap):
        of_row = gap
        return SessionAssigner(lambda row: us(of_row(row)))
    return SessionAssigner(_window("SESSION", gap=gap).gap_us)


def _window(kind: str, **lengths: Length | None) -> Any:
    from sqlglot import exp

    from planner.binder.window_function import window_of
    from planner.sql.nodes import WindowFunctionCall

    def interval(length: Length) -> exp.Interval:
        text = f"{us(length)} microseconds" if isinstance(length, timedelta) else length
        return exp.Interval(this=exp.Literal.string(text))

    intervals = {name: interval(length) for name, length in lengths.items() if length is not None}
    return window_of(WindowFunctionCall(this=exp.Var(this=kind), **intervals), "")
