"""Triggers: when a window emits, and when its contents are purged.

A trigger is called for every row and for the timers it has set, and returns a Verdict. One trigger
serves all windows, so it must keep its state of a window in `context.memory`, a dictionary that
belongs to the window, and never in the trigger itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.errors import AnalysisError
from runtime.streaming.general.timers import Owner, Timers
from runtime.streaming.general.windows import (
    CONTINUE,
    FIRE,
    FOREVER_US,
    PURGE,
    TimeWindow,
    Verdict,
)


@dataclass
class TriggerContext:
    """State and timers of a window, as passed to a trigger.

    Attributes:
        memory: Dictionary for the trigger's own state of this window. It is checkpointed.
        watermark_us: Watermark.
        processing_time_us: Processing time.
        owner: Key and window.
        event_timers: Timers in event time.
        clock_timers: Timers in processing time.
    """

    memory: dict[str, Any]
    watermark_us: int
    processing_time_us: int
    owner: Owner
    event_timers: Timers
    clock_timers: Timers

    def at_event_time(self, time_us: int) -> None:
        """Call `on_event_time` once the watermark reaches this time."""
        self.event_timers.set(time_us, self.owner)

    def at_processing_time(self, time_us: int) -> None:
        """Call `on_processing_time` once processing time reaches this time."""
        self.clock_timers.set(time_us, self.owner)

    def forget_event_time(self, time_us: int) -> None:
        """Cancel `at_event_time`."""
        self.event_timers.forget(time_us, self.owner)

    def forget_processing_time(self, time_us: int) -> None:
        """Cancel `at_processing_time`."""
        self.clock_timers.forget(time_us, self.owner)


class Trigger(ABC):
    """Rule that decides when a window emits.

    Subclasses override `on_row` and, as needed, the other methods. By default `on_event_time` and
    `on_processing_time` do nothing, `on_merge` refuses sessions, and `clear` clears the memory.
    """

    @property
    def needs_processing_time(self) -> bool:
        """Whether the trigger sets timers in processing time."""
        return type(self).on_processing_time is not Trigger.on_processing_time

    @abstractmethod
    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Handle a row that was added to the window."""

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Handle an event-time timer: the trigger's own, or the one that removes the window."""
        return CONTINUE

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Handle a processing-time timer: the trigger's own, or the one that removes the window."""
        return CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Initialise the memory of `window`, merged from windows with these memories.

        The memory of the merged window is empty at first.

        Raises:
            AnalysisError: The trigger cannot be used with windows that merge.
        """
        raise AnalysisError(
            f"{type(self).__name__} is not supported for sessions",
            hint="use EventTimeTrigger, ProcessingTimeTrigger, CountTrigger or ContinuousTrigger",
        )

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """Clean up when the window is removed: clear its memory and cancel its timers."""
        context.memory.clear()


class _TimeTrigger(Trigger):
    """Trigger at the end of the window and, in event time, at every later row.

    Attributes:
        processing_time: Whether the end is in processing time instead of event time.
    """

    processing_time: bool

    @property
    def needs_processing_time(self) -> bool:
        override = type(self).on_processing_time
        return self.processing_time or override is not _TimeTrigger.on_processing_time

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        now_us, at, _ = self._timers(context)
        if window.last_us > now_us:
            at(window.last_us)
        elif not self.processing_time:
            return FIRE
        return CONTINUE

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        return CONTINUE if self.processing_time else self._on_time(time_us, window, context)

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        return self._on_time(time_us, window, context) if self.processing_time else CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        # a merged window that has ended already fires for the row that merged it
        now_us, at, _ = self._timers(context)
        if window.last_us > now_us:
            at(window.last_us)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        _, _, forget = self._timers(context)
        forget(window.last_us)

    def _on_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Handle a timer in the kind of time that the trigger uses."""
        return FIRE if time_us == window.last_us else CONTINUE

    def _timers(
        self, context: TriggerContext
    ) -> tuple[int, Callable[[int], None], Callable[[int], None]]:
        """Return (now, set timer, cancel timer) in the kind of time that the trigger uses."""
        if self.processing_time:
            now_us = context.processing_time_us
            return now_us, context.at_processing_time, context.forget_processing_time
        return context.watermark_us, context.at_event_time, context.forget_event_time


class EventTimeTrigger(_TimeTrigger):
    """Trigger when the watermark reaches the window's last time, and at every later row."""

    processing_time = False


class ProcessingTimeTrigger(_TimeTrigger):
    """Trigger when processing time reaches the window's last time."""

    processing_time = True


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Trigger at every `n_rows`-th row only."""

    n_rows: int

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        count = context.memory.get("count", 0) + 1
        context.memory["count"] = 0 if count >= self.n_rows else count
        return FIRE if count >= self.n_rows else CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Add the counts up, without firing."""
        context.memory["count"] = sum(memory.get("count", 0) for memory in memories)


@dataclass(frozen=True)
class DeltaTrigger(Trigger):
    """Trigger when a row is further than `threshold` from the row of the last firing.

    Attributes:
        threshold: Distance that must be exceeded.
        distance: Called with the row of the last firing and the current row; returns their
            distance.
    """

    threshold: float
    distance: Callable[[Any, Any], float]

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Fire if the row is far from the last one that fired. The first row does not fire."""
        if "last" not in context.memory:
            context.memory["last"] = value
            return CONTINUE
        if self.distance(context.memory["last"], value) > self.threshold:
            context.memory["last"] = value
            return FIRE
        return CONTINUE


@dataclass(frozen=True)
class ContinuousTrigger(_TimeTrigger):
    """Trigger at every multiple of an interval while there are rows, and at the window's end.

    Attributes:
        interval_us: Interval in microseconds.
        processing_time: Whether it fires in processing time instead of event time.
    """

    interval_us: int
    processing_time: bool = False

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        if super().on_row(value, time_us, window, context) is FIRE:
            return FIRE
        from_us = context.processing_time_us if self.processing_time else time_us
        self._set_next(from_us, window, context)
        return CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Continue with the earliest timer."""
        super().on_merge(window, memories, context)
        times = [memory["next"] for memory in memories if "next" in memory]
        if times:
            _, at, _ = self._timers(context)
            context.memory["next"] = min(times)
            at(min(times))

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        super().clear(window, context)
        if "next" in context.memory:
            _, _, forget = self._timers(context)
            forget(context.memory["next"])

    def _on_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Fire at the end of the window, or at the interval and set the next timer."""
        if time_us == window.last_us:
            return FIRE
        if time_us != context.memory.get("next"):
            return CONTINUE
        del context.memory["next"]
        now_us, *_ = self._timers(context)
        if now_us < FOREVER_US:
            # at the end of input only the end of the window remains
            self._set_next(time_us, window, context)
        return FIRE

    def _set_next(self, time_us: int, window: TimeWindow, context: TriggerContext) -> None:
        next_us = time_us - time_us % self.interval_us + self.interval_us
        if "next" not in context.memory and (self.processing_time or next_us < window.last_us):
            _, at, _ = self._timers(context)
            context.memory["next"] = next_us
            at(next_us)


@dataclass(frozen=True)
class EarlyAndLateTrigger(Trigger):
    """Trigger when the watermark passes the window, and by other triggers before and after that.

    Attributes:
        early: Trigger until the watermark has passed the window. Its PURGE is ignored.
        late: Trigger after the watermark has passed the window; its PURGE is ignored too. None
            means that every late row fires.
    """

    early: Trigger | None = None
    late: Trigger | None = None

    @property
    def needs_processing_time(self) -> bool:
        return any(
            part is not None and part.needs_processing_time for part in (self.early, self.late)
        )

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        part = self._active_trigger(window, context)
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
        elif part is None:
            return FIRE
        return CONTINUE if part is None else FIRE & part.on_row(value, time_us, window, context)

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Fire at the window's last time, and switch from the early to the late trigger."""
        if time_us == window.last_us:
            if self.early is not None:
                self.early.clear(window, context)
            # the early trigger's memory means nothing to the late one
            context.memory.clear()
            return FIRE
        part = self.early if time_us < window.last_us else self.late
        return CONTINUE if part is None else FIRE & part.on_event_time(time_us, window, context)

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        part = self._active_trigger(window, context)
        if part is None:
            return CONTINUE
        return FIRE & part.on_processing_time(time_us, window, context)

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Set the timer of the merged window, and let the active trigger merge."""
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
        part = self._active_trigger(window, context)
        if part is not None:
            part.on_merge(window, memories, context)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        context.forget_event_time(window.last_us)
        for part in (self.early, self.late):
            if part is not None:
                part.clear(window, context)

    def _active_trigger(self, window: TimeWindow, context: TriggerContext) -> Trigger | None:
        return self.early if window.last_us > context.watermark_us else self.late


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Trigger that fires when another one does, and purges the contents each time."""

    inner: Trigger

    @property
    def needs_processing_time(self) -> bool:
        return self.inner.needs_processing_time

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        return _purging(self.inner.on_row(value, time_us, window, context))

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        return _purging(self.inner.on_event_time(time_us, window, context))

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        return _purging(self.inner.on_processing_time(time_us, window, context))

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        self.inner.on_merge(window, memories, context)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        self.inner.clear(window, context)


def _purging(verdict: Verdict) -> Verdict:
    return verdict | PURGE if FIRE in verdict else verdict
