"""When a window is emitted, and when its contents are dropped.

A trigger is called with every row and by the timers it set, and answers with a Verdict. What it
has to remember of a window it keeps in the context's `memory`, a dictionary of the window's own;
it must hold nothing itself, since it serves all windows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from runtime.errors import AnalysisError
from runtime.streaming.general.windows import (
    CONTINUE,
    FIRE,
    FOREVER_US,
    PURGE,
    TimeWindow,
    Verdict,
)


class TriggerContext(Protocol):
    """What a trigger knows of a window and can do about it.

    Attributes:
        memory: what the trigger remembers of the window.
        watermark_us: the watermark.
        processing_time_us: the processing time.
    """

    memory: dict[str, Any]
    watermark_us: int
    processing_time_us: int

    def at_event_time(self, time_us: int) -> None:
        """Call `on_event_time` once the watermark reaches this time."""

    def at_processing_time(self, time_us: int) -> None:
        """Call `on_processing_time` once processing time reaches this time."""

    def forget_event_time(self, time_us: int) -> None:
        """Take `at_event_time` back."""

    def forget_processing_time(self, time_us: int) -> None:
        """Take `at_processing_time` back."""


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


class EventTimeTrigger(Trigger):
    """Fires when the watermark reaches the window's last time, and for every later row at once."""

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Fires for a late row; else sets the timer of the window's last time."""
        if window.last_us <= context.watermark_us:
            return FIRE
        context.at_event_time(window.last_us)
        return CONTINUE

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Fires at the window's last time."""
        return FIRE if time_us == window.last_us else CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Sets the timer of the merged window."""
        # a merged window that is over already fires with the row that merged it
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """Takes that timer back."""
        context.forget_event_time(window.last_us)


class ProcessingTimeTrigger(Trigger):
    """Fires when processing time reaches the window's last time."""

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Sets the timer of the window's last time."""
        context.at_processing_time(window.last_us)
        return CONTINUE

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Fires at the window's last time."""
        return FIRE if time_us == window.last_us else CONTINUE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Sets the timer of the merged window."""
        if window.last_us > context.processing_time_us:
            context.at_processing_time(window.last_us)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """Takes that timer back."""
        context.forget_processing_time(window.last_us)


@dataclass(frozen=True)
class CountTrigger(Trigger):
    """Fires with every `n_rows`-th row, and at no other time."""

    n_rows: int

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Counts, and fires when there are enough."""
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
class ContinuousTrigger(Trigger):
    """Fires at every multiple of an interval while there are rows, and when the window is over.

    Attributes:
        interval_us: the interval.
        processing_time: whether it fires in processing time; else by the watermark.
    """

    interval_us: int
    processing_time: bool = False

    @property
    def needs_processing_time(self) -> bool:
        """Whether it fires in processing time."""
        return self.processing_time

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Sets the timers; fires for a late row."""
        if not self.processing_time and window.last_us <= context.watermark_us:
            return FIRE
        if self.processing_time:
            self._ask_processing_time(window, context.processing_time_us, context)
            return CONTINUE
        context.at_event_time(window.last_us)
        self._ask(window, time_us, context)
        return CONTINUE

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Fires, and sets the next timer."""
        if self.processing_time:
            return CONTINUE
        if time_us == window.last_us:
            return FIRE
        if time_us != context.memory.get("next"):
            return CONTINUE
        del context.memory["next"]
        if context.watermark_us < FOREVER_US:
            # at the end of input the window's own end is all that is left
            self._ask(window, time_us, context)
        return FIRE

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """The same in processing time."""
        if not self.processing_time:
            return CONTINUE
        if time_us == window.last_us:
            return FIRE
        if time_us != context.memory.get("next"):
            return CONTINUE
        del context.memory["next"]
        if context.processing_time_us < FOREVER_US:
            self._ask_processing_time(window, time_us, context)
        return FIRE

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Goes on with the earliest of the timers."""
        times = [memory["next"] for memory in memories if "next" in memory]
        if not self.processing_time and window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
        if self.processing_time and window.last_us > context.processing_time_us:
            context.at_processing_time(window.last_us)
        if times:
            context.memory["next"] = min(times)
            (context.at_processing_time if self.processing_time else context.at_event_time)(
                min(times)
            )

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """Takes both timers back."""
        forget_end = (
            context.forget_processing_time if self.processing_time else context.forget_event_time
        )
        forget_end(window.last_us)
        if "next" in context.memory:
            forget = (
                context.forget_processing_time
                if self.processing_time
                else context.forget_event_time
            )
            forget(context.memory["next"])

    def _ask(self, window: TimeWindow, time_us: int, context: TriggerContext) -> None:
        next_us = time_us - time_us % self.interval_us + self.interval_us
        if "next" not in context.memory and next_us < window.last_us:
            context.memory["next"] = next_us
            context.at_event_time(next_us)

    def _ask_processing_time(
        self, window: TimeWindow, time_us: int, context: TriggerContext
    ) -> None:
        next_us = time_us - time_us % self.interval_us + self.interval_us
        if time_us < window.last_us:
            context.at_processing_time(window.last_us)
        if "next" not in context.memory:
            context.memory["next"] = next_us
            context.at_processing_time(next_us)


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
        """Whether one of the two does."""
        return any(
            part is not None and part.needs_processing_time for part in (self.early, self.late)
        )

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Asks the trigger whose turn it is."""
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
            if self.early is None:
                return CONTINUE
            return _fires(self.early.on_row(value, time_us, window, context))
        if self.late is None:
            return FIRE
        return _fires(self.late.on_row(value, time_us, window, context))

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """Fires at the window's last time, from which on it is the late one's turn."""
        if time_us == window.last_us:
            if self.early is not None:
                self.early.clear(window, context)
            # what the early trigger remembers means nothing to the late one
            context.memory.clear()
            return FIRE
        part = self.early if time_us < window.last_us else self.late
        if part is None:
            return CONTINUE
        return _fires(part.on_event_time(time_us, window, context))

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """Asks the trigger whose turn it is."""
        part = self.early if window.last_us > context.watermark_us else self.late
        if part is None:
            return CONTINUE
        return _fires(part.on_processing_time(time_us, window, context))

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """Sets the timer of the merged window; the trigger whose turn it is merges."""
        if window.last_us > context.watermark_us:
            context.at_event_time(window.last_us)
        part = self.early if window.last_us > context.watermark_us else self.late
        if part is not None:
            part.on_merge(window, memories, context)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """Clears both."""
        context.forget_event_time(window.last_us)
        for part in (self.early, self.late):
            if part is not None:
                part.clear(window, context)


@dataclass(frozen=True)
class PurgingTrigger(Trigger):
    """Another trigger that drops the contents whenever it fires."""

    inner: Trigger

    @property
    def needs_processing_time(self) -> bool:
        """Whether the inner one does."""
        return self.inner.needs_processing_time

    def on_row(
        self, value: Any, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """The inner one's answer; FIRE becomes FIRE_AND_PURGE."""
        return _purging(self.inner.on_row(value, time_us, window, context))

    def on_event_time(self, time_us: int, window: TimeWindow, context: TriggerContext) -> Verdict:
        """The inner one's answer; FIRE becomes FIRE_AND_PURGE."""
        return _purging(self.inner.on_event_time(time_us, window, context))

    def on_processing_time(
        self, time_us: int, window: TimeWindow, context: TriggerContext
    ) -> Verdict:
        """The inner one's answer; FIRE becomes FIRE_AND_PURGE."""
        return _purging(self.inner.on_processing_time(time_us, window, context))

    def on_merge(
        self, window: TimeWindow, memories: list[dict[str, Any]], context: TriggerContext
    ) -> None:
        """The inner one merges."""
        self.inner.on_merge(window, memories, context)

    def clear(self, window: TimeWindow, context: TriggerContext) -> None:
        """Clears the inner one."""
        self.inner.clear(window, context)


def _purging(verdict: Verdict) -> Verdict:
    return verdict | PURGE if FIRE in verdict else verdict


def _fires(verdict: Verdict) -> Verdict:
    return verdict & FIRE
