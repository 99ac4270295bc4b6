"""When a window is emitted, and when its contents are dropped.

A trigger is called with every row and by the timers it set, and answers with a Verdict. What it
has to remember of a window it keeps in the context's `memory`, a dictionary of the window's own;
it must hold nothing itself, since it serves all windows.
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
    """What a trigger knows of a window and can do about it.

    Attributes:
        memory: what the trigger remembers of the window.
        watermark_us: the watermark.
        processing_time_us: the processing time.
        owner: the key and the window.
        event_timers: timers by the watermark.
        clock_timers: timers of processing time.
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
        """Take `at_event_time` back."""
        self.event_timers.forget(time_us, self.owner)

    def forget_processing_time(self, time_us: int) -> None:
        """Take `at_processing_time` back."""
        self.clock_timers.forget(time_us, self.owner)


class Trigger(ABC):
    """When a window is emitted. Methods that are not overridden want nothing."""

    @property
    def needs_processing_time(self) -> bool:
        """Whether it sets timers of processing time."""
        return type(self).on_processing_time is not Trigger.on_processing_time

    @abstractmethod
    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """A row has come."""

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """The watermark has reached a time asked for, by this trigger or for the clean-up."""
        return CONTINUE

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Processing time has reached a time asked for."""
        return CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Windows with these memories have become `window`, whose memory is empty.

        Raises:
            AnalysisError: the trigger cannot be used with windows that merge.
        """
        raise AnalysisError(
            f"{type(self).__name__} cannot be used with sessions",
            hint="use EventTimeTrigger, ProcessingTimeTrigger, CountTrigger or ContinuousTrigger",
        )

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """The window is gone: forget it, and take timers back."""
        context.memory.clear()


class _TimeTrigger(Trigger):
    """Fires when the window is over, and by the watermark for every later row at once.

    Attributes:
        processing_time: whether it is over in processing time; else by the watermark.
    """

    processing_time: bool

    @property
    def needs_processing_time(self) -> bool:
        own = type(self).on_processing_time
        return self.processing_time or own is not _TimeTrigger.on_processing_time

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
        # a merged window that is over already fires with the row that merged it
        now_us, at, _ = self._timers(context)
        if window.last_us > now_us:
            at(window.last_us)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        _, _, forget = self._timers(context)
        forget(window.last_us)

    def _on_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """A timer is due in the time that it fires in."""
        return FIRE if time_us == window.last_us else CONTINUE

    def _timers(
        self, context: TriggerContext
    ) -> tuple[int, Callable[[int], None], Callable[[int], None]]:
        """(now, what sets a timer, what takes one back) in the time that it fires in."""
        if self.processing_time:
            now_us = context.processing_time_us
            return now_us, context.at_processing_time, context.forget_processing_time
        return context.watermark_us, context.at_event_time, context.forget_event_time


class EventTimeTrigger(_TimeTrigger):
    """Fires when the watermark reaches the window's last time, and for every later row at once."""

    processing_time = False


class ProcessingTimeTrigger(_TimeTrigger):
    """Fires when processing time reaches the window's last time."""

    processing_time = True


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Fires with every `n_rows`-th row, and at no other time."""

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
        """Adds the counts up, without firing."""
        context.memory["count"] = sum(memory.get("count", 0) for memory in memories)


@dataclass(frozen=True)
class DeltaTrigger(Trigger):
    """Fires when a row lies further than `threshold` from the one that fired last.

    Attributes:
        threshold: the distance.
        distance: of the row that fired last and the row at hand.
    """

    threshold: float
    distance: Callable[[Any, Any], float]

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Fires if the row is far from the last that fired; the first does not."""
        if "last" not in context.memory:
            context.memory["last"] = value
            return CONTINUE
        if self.distance(context.memory["last"], value) > self.threshold:
            context.memory["last"] = value
            return FIRE
        return CONTINUE


@dataclass(frozen=True)
class ContinuousTrigger(_TimeTrigger):
    """Fires at every multiple of an interval while there are rows, and when the window is over.

    Attributes:
        interval_us: the interval.
        processing_time: whether it fires in processing time; else by the watermark.
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
        """Goes on with the earliest of the timers."""
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
        """Fires, and sets the next timer."""
        if time_us == window.last_us:
            return FIRE
        if time_us != context.memory.get("next"):
            return CONTINUE
        del context.memory["next"]
        now_us, *_ = self._timers(context)
        if now_us < FOREVER_US:
            # at the end of input the window's own end is all that is left
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
    """Fires when the watermark passes the window, and by other triggers before and after that.

    Attributes:
        early: asked until the watermark has passed the window; its PURGE does not count.
        late: asked from then on; None: every late row fires.
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
        part = self._in_turn(window, context)
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
        elif part is None:
            return FIRE
        return CONTINUE if part is None else FIRE & part.on_row(value, time_us, window, context)

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Fires at the window's last time, from which on it is the late one's turn."""
        if time_us == window.last_us:
            if self.early is not None:
                self.early.clear(window, context)
            # what the early trigger remembers means nothing to the late one
            context.memory.clear()
            return FIRE
        part = self.early if time_us < window.last_us else self.late
        return CONTINUE if part is None else FIRE & part.on_event_time(time_us, window, context)

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        part = self._in_turn(window, context)
        if part is None:
            return CONTINUE
        return FIRE & part.on_processing_time(time_us, window, context)

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Sets the timer of the merged window; the trigger whose turn it is merges."""
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
        part = self._in_turn(window, context)
        if part is not None:
            part.on_merge(window, memories, context)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        context.forget_event_time(window.last_us)
        for part in (self.early, self.late):
            if part is not None:
                part.clear(window, context)

    def _in_turn(self, window: TimeWindow, context: TriggerContext) -> Trigger | None:
        return self.early if window.last_us > context.watermark_us else self.late


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Another trigger that drops the contents whenever it fires."""

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
