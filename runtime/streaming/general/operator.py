"""The general window operator, row by row, by the rules of Flink's WindowOperator."""

from __future__ import annotations

from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from runtime.errors import AnalysisError
from runtime.streaming.general.assigners import Assigner
from runtime.streaming.general.evictors import Evictor
from runtime.streaming.general.functions import EvictingFunction, WindowFunction
from runtime.streaming.general.timers import Owner, Timers
from runtime.streaming.general.triggers import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
    Trigger,
    TriggerContext,
)
from runtime.streaming.general.windows import (
    FIRE,
    FOREVER_US,
    PURGE,
    MergingWindows,
    TimeWindow,
    Verdict,
)


@dataclass(frozen=True)
class WindowJob:
    """Definition of windows: how rows are assigned, what is computed and when it is emitted.

    Attributes:
        assigner: Assigns rows to windows.
        function: Computes the results of a window.
        trigger: Decides when a window emits. None means when the watermark (or processing time)
            passes its end.
        evictor: Removes rows when a window emits. With an evictor a window keeps all its rows.
        allowed_lateness_us: How long after its end a window accepts late rows.
        is_processing_time: Whether windows are on processing time instead of event time.
    """

    assigner: Assigner
    function: WindowFunction
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_us: int = 0
    is_processing_time: bool = False

    @property
    def needs_processing_time(self) -> bool:
        """Whether the operator must be called when processing time advances, even without rows."""
        return self.is_processing_time or (
            self.trigger is not None and self.trigger.needs_processing_time
        )

    def __post_init__(self) -> None:
        """Check the allowed lateness."""
        if self.allowed_lateness_us < 0:
            raise AnalysisError("the allowed lateness is negative", hint="it must be zero or more")
        if self.allowed_lateness_us and self.is_processing_time:
            raise AnalysisError(
                "windows on processing time have no late rows",
                hint="remove the allowed lateness",
            )


@dataclass(frozen=True)
class Emission:
    """One result of a window."""

    key: Any
    window: TimeWindow
    result: Any


@dataclass
class OperatorState:
    """State of an operator. Checkpoints store it pickled.

    Compatibility: the names and modules of its classes (this one, `Timers`, `TimeWindow`,
    `MergingWindows`) and of their fields must not change, or existing checkpoints become
    unreadable.

    Attributes:
        contents: Contents of windows, by key and by the window under whose name they are stored.
        memories: Memory of the trigger, by key and window.
        merging: Open windows of each key, if windows merge.
        event_timers: Timers in event time.
        clock_timers: Timers in processing time.
        watermark_us: Watermark.
        clock_us: Processing time.
        n_late: Rows dropped because all their windows were closed.
        allowed_lateness_us: Lateness for which clean-up timers were set. None if unknown.
        positions: Positions of keys, which decide in which cell they are stored.
    """

    contents: dict[Owner, Any] = field(default_factory=dict)
    memories: dict[Owner, dict[str, Any]] = field(default_factory=dict)
    merging: dict[Any, MergingWindows] = field(default_factory=dict)
    event_timers: Timers = field(default_factory=Timers)
    clock_timers: Timers = field(default_factory=Timers)
    watermark_us: int = -FOREVER_US
    clock_us: int = -FOREVER_US
    n_late: int = 0
    allowed_lateness_us: int | None = None
    positions: dict[Any, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether no key has state."""
        parts = (self.contents, self.merging, self.memories)
        return not (any(parts) or self.event_timers.standing or self.clock_timers.standing)

    def tidy(self) -> None:
        """Remove cancelled timers, empty memories, and positions of keys without state."""
        self.event_timers.tidy()
        self.clock_timers.tidy()
        self.memories = {owner: memory for owner, memory in self.memories.items() if memory}
        keys = self.keys()
        self.positions = {key: at for key, at in self.positions.items() if key in keys}

    def keys(self) -> set[Any]:
        """Return the keys that have state."""
        keys_with_state = {key for owned in (self.contents, self.memories) for key, _ in owned}
        for timers in (self.event_timers, self.clock_timers):
            keys_with_state.update(owner[0] for _, owner in timers.standing)
        return keys_with_state.union(self.merging)

    def select_keys(self, keys: Set[Any]) -> OperatorState:
        """Return the state of some keys."""
        return OperatorState(
            {owner: contents for owner, contents in self.contents.items() if owner[0] in keys},
            {owner: memory for owner, memory in self.memories.items() if owner[0] in keys},
            {key: merging for key, merging in self.merging.items() if key in keys},
            self.event_timers.select_keys(keys),
            self.clock_timers.select_keys(keys),
            self.watermark_us,
            self.clock_us,
            0,
            self.allowed_lateness_us,
            {key: at for key, at in self.positions.items() if key in keys},
        )

    def add(self, other: OperatorState) -> None:
        """Add the state of other keys. None of their timers may be due."""
        self.contents |= other.contents
        self.memories |= other.memories
        self.merging |= other.merging
        self.event_timers.add(other.event_timers)
        self.clock_timers.add(other.clock_timers)
        self.watermark_us = max(self.watermark_us, other.watermark_us)
        self.clock_us = max(self.clock_us, other.clock_us)
        self.positions |= other.positions


class GeneralWindowOperator:
    """Operator that runs a window job over rows of any keys.

    Args:
        job: What to compute.
        state: State of an earlier operator of the same job.
        closed_us: Windows whose last time is at or before this are closed, even if the allowed
            lateness has been raised.
    """

    def __init__(
        self,
        job: WindowJob,
        state: OperatorState | None = None,
        closed_us: int | None = None,
    ) -> None:
        self.state = OperatorState() if state is None else state
        self._job = job
        self._closed_us = -FOREVER_US if closed_us is None else closed_us
        self._function = job.function
        if job.evictor is not None:
            self._function = EvictingFunction(job.function)
        self._trigger: Trigger = job.trigger or (
            ProcessingTimeTrigger() if job.is_processing_time else EventTimeTrigger()
        )
        known_us = self.state.allowed_lateness_us
        if known_us is not None and known_us != job.allowed_lateness_us:
            self._change_lateness(known_us)
        self.state.allowed_lateness_us = job.allowed_lateness_us

    def on_row(self, key: Any, value: Any, time_us: int) -> Iterator[Emission]:
        """Process a row and yield what fires at once.

        Args:
            key: Key of the row. Must be hashable.
            value: The row.
            time_us: Its event time, or the processing time if windows are on that.
        """
        is_skipped, is_late = True, False
        for assigned in self._job.assigner.windows(value, time_us):
            window, name = assigned, assigned
            if self._job.assigner.merges:
                merging = self.state.merging.setdefault(key, MergingWindows())
                window = self._merge(key, assigned, merging)
                name = merging.stored_under[window]
            if self._is_late(window):
                is_late = True
                if self._job.assigner.merges:
                    self._forget(key, window, name)
                continue
            is_skipped = False
            contents = self.state.contents.get((key, name))
            if contents is None:
                contents = self._function.create()
            self.state.contents[key, name] = self._function.add(contents, (value, time_us))
            context = self._context((key, window))
            verdict = self._trigger.on_row(value, time_us, window, context)
            yield from self._apply(verdict, key, window, name)
            self._set_clean_up(key, window)
        if is_skipped and (is_late or self._is_row_late(time_us)):
            self.state.n_late += 1

    def on_watermark(self, watermark_us: int) -> Iterator[Emission]:
        """Advance the watermark and yield what fires. A lower watermark changes nothing."""
        if watermark_us <= self.state.watermark_us:
            return
        self.state.watermark_us = watermark_us
        for time_us, (key, window) in self.state.event_timers.due(watermark_us):
            yield from self._on_timer(time_us, key, window, in_processing_time=False)

    def on_processing_time(self, clock_us: int) -> Iterator[Emission]:
        """Advance processing time and yield what fires. An earlier time changes nothing."""
        if clock_us <= self.state.clock_us:
            return
        self.state.clock_us = clock_us
        for time_us, (key, window) in self.state.clock_timers.due(clock_us):
            yield from self._on_timer(time_us, key, window, in_processing_time=True)

    def on_end(self) -> Iterator[Emission]:
        """End the input: advance the watermark (and processing time, if used) past all windows."""
        yield from self.on_watermark(FOREVER_US)
        if self._job.is_processing_time:
            yield from self.on_processing_time(FOREVER_US)

    def _on_timer(
        self, time_us: int, key: Any, window: TimeWindow, in_processing_time: bool
    ) -> Iterator[Emission]:
        name = window
        if self._job.assigner.merges:
            merging = self.state.merging.get(key)
            if merging is None or window not in merging.stored_under:
                return  # the window was merged into another
            name = merging.stored_under[window]
        context = self._context((key, window))
        if in_processing_time:
            verdict = self._trigger.on_processing_time(time_us, window, context)
        else:
            verdict = self._trigger.on_event_time(time_us, window, context)
        yield from self._apply(verdict, key, window, name)
        if in_processing_time == self._job.is_processing_time and time_us == self._clean_up_us(
            window
        ):
            self._forget(key, window, name)

    def _apply(
        self, verdict: Verdict, key: Any, window: TimeWindow, name: TimeWindow
    ) -> Iterator[Emission]:
        contents = self.state.contents.get((key, name))
        if FIRE in verdict and contents is not None:
            evictor = self._job.evictor
            if evictor is not None and not evictor.after:
                contents = self._evict(evictor, key, window, name, contents)
            for result in self._function.results(key, window, contents):
                yield Emission(key, window, result)
            if evictor is not None and evictor.after:
                self._evict(evictor, key, window, name, contents)
        if PURGE in verdict:
            self.state.contents.pop((key, name), None)

    def _evict(
        self, evictor: Evictor, key: Any, window: TimeWindow, name: TimeWindow, contents: Any
    ) -> Any:
        remaining = evictor.keep(contents, window) if contents else contents
        self.state.contents[key, name] = remaining
        return remaining

    # -- merging -------------------------------------------------------------------------------

    def _merge(self, key: Any, window: TimeWindow, merging: MergingWindows) -> TimeWindow:
        """Add a window, merge the windows it touches with their contents, and return the result."""
        merged, parts, names = merging.add(window)
        if not parts:
            return merged
        memories = []
        for part in parts:
            owner = (key, part)
            memories.append(dict(self.state.memories.get(owner, {})))
            self._trigger.clear(part, self._context(owner))
            self.state.memories.pop(owner, None)
            self._timers.forget(self._clean_up_us(part), owner)
        self._trigger.on_merge(merged, memories, self._context((key, merged)))
        removed = [self.state.contents.pop((key, name), None) for name in names]
        contents_to_merge = [contents for contents in removed if contents is not None]
        if contents_to_merge:
            self.state.contents[key, names[0]] = reduce(self._function.merge, contents_to_merge)
        self._set_clean_up(key, merged)
        return merged

    # -- late rows and clean-up ----------------------------------------------------------------

    @property
    def _timers(self) -> Timers:
        return self.state.clock_timers if self._job.is_processing_time else self.state.event_timers

    def _clean_up_us(self, window: TimeWindow) -> int:
        """Return when a window is removed."""
        if self._job.is_processing_time:
            return window.last_us
        return min(window.last_us + self._job.allowed_lateness_us, FOREVER_US)

    def _set_clean_up(self, key: Any, window: TimeWindow) -> None:
        self._timers.set(self._clean_up_us(window), (key, window))

    def _is_late(self, window: TimeWindow) -> bool:
        if self._job.is_processing_time:
            return False
        is_passed = self._clean_up_us(window) <= self.state.watermark_us
        return is_passed or window.last_us <= self._closed_us

    def _change_lateness(self, before_us: int) -> None:
        """Apply the job's allowed lateness to open windows, and remove those past the new limit."""
        for time_us, (key, window) in list(self.state.event_timers.standing):
            if time_us != min(window.last_us + before_us, FOREVER_US):
                continue  # a trigger's timer
            name: TimeWindow | None = window
            if self._job.assigner.merges:
                merging = self.state.merging.get(key)
                name = None if merging is None else merging.stored_under.get(window)
            if name is None:
                continue
            if self._clean_up_us(window) > time_us:
                # keep the old timer: the trigger may have set one at the same time
                self._set_clean_up(key, window)
                continue
            self.state.event_timers.forget(time_us, (key, window))
            if self._is_late(window):
                self._forget(key, window, name)
            else:
                self._set_clean_up(key, window)

    def _is_row_late(self, time_us: int) -> bool:
        if self._job.is_processing_time:
            return False
        return time_us + self._job.allowed_lateness_us <= self.state.watermark_us

    def _forget(self, key: Any, window: TimeWindow, name: TimeWindow) -> None:
        self.state.contents.pop((key, name), None)
        self._trigger.clear(window, self._context((key, window)))
        self.state.memories.pop((key, window), None)
        if self._job.assigner.merges:
            merging = self.state.merging[key]
            del merging.stored_under[window]
            if not merging.stored_under:
                del self.state.merging[key]

    def _context(self, owner: Owner) -> TriggerContext:
        state = self.state
        return TriggerContext(
            state.memories.setdefault(owner, {}),
            state.watermark_us,
            state.clock_us,
            owner,
            state.event_timers,
            state.clock_timers,
        )
