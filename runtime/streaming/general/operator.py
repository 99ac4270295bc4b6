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
from runtime.streaming.general.merging import MergingWindows
from runtime.streaming.general.timers import Owner, Timers
from runtime.streaming.general.triggers import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
    Trigger,
    TriggerContext,
)
from runtime.streaming.general.windows import FIRE, FOREVER_US, PURGE, TimeWindow, Verdict


@dataclass(frozen=True)
class WindowJob:
    """What an operator does.

    Attributes:
        assigner: which windows rows belong to.
        function: what is computed of a window.
        trigger: when it is emitted; None: when the watermark, or processing time, passes its end.
        evictor: drops rows when it is emitted; then a window keeps all its rows.
        allowed_lateness_us: for so long after its end a window is kept for late rows.
        is_processing_time: whether windows are on processing time; else on the rows' time.
    """

    assigner: Assigner
    function: WindowFunction
    trigger: Trigger | None = None
    evictor: Evictor | None = None
    allowed_lateness_us: int = 0
    is_processing_time: bool = False

    @property
    def needs_processing_time(self) -> bool:
        """Whether it is to be called when processing time reaches a time, rows or none."""
        return self.is_processing_time or (
            self.trigger is not None and self.trigger.needs_processing_time
        )

    def __post_init__(self) -> None:
        """Refuse what makes no sense together."""
        if self.allowed_lateness_us < 0:
            raise AnalysisError("a negative allowed lateness", hint="give zero or more")
        if self.allowed_lateness_us and self.is_processing_time:
            raise AnalysisError(
                "windows on processing time know no late rows",
                hint="leave the allowed lateness out",
            )


@dataclass(frozen=True)
class Emission:
    """A result of a window."""

    key: Any
    window: TimeWindow
    result: Any


@dataclass
class OperatorState:
    """All that an operator remembers. Checkpoints hold it pickled.

    So they have the names and modules of its classes, of timers, of windows and of those that
    merge, which stay what they are: a name that went would leave a checkpoint unreadable.

    Attributes:
        contents: of each window, by key and the window under whose name they are kept.
        memories: what the trigger remembers, by key and window.
        merging: the open windows of each key, if windows merge.
        event_timers: timers by the watermark.
        clock_timers: timers of processing time.
        watermark_us: the watermark.
        clock_us: the processing time.
        n_late: rows dropped because all their windows were gone.
        allowed_lateness_us: the lateness that timers for clean-up go by; None: not known.
        positions: of keys their places by which they are in cells.
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
        """Whether nothing is kept of any key."""
        kept = (self.contents, self.merging, self.memories)
        return not (any(kept) or self.event_timers.standing or self.clock_timers.standing)

    def tidy(self) -> None:
        """Keep nothing of what is not there any more: timers, empty memories, places of keys."""
        self.event_timers.tidy()
        self.clock_timers.tidy()
        self.memories = {owner: memory for owner, memory in self.memories.items() if memory}
        keys = self.keys()
        self.positions = {key: at for key, at in self.positions.items() if key in keys}

    def keys(self) -> set[Any]:
        """The keys of which anything is kept."""
        found = {key for owned in (self.contents, self.memories) for key, _ in owned}
        for timers in (self.event_timers, self.clock_timers):
            found.update(owner[0] for _, owner in timers.standing)
        return found.union(self.merging)

    def of_keys(self, keys: Set[Any]) -> OperatorState:
        """What is kept of some keys."""
        return OperatorState(
            {owner: kept for owner, kept in self.contents.items() if owner[0] in keys},
            {owner: memory for owner, memory in self.memories.items() if owner[0] in keys},
            {key: merging for key, merging in self.merging.items() if key in keys},
            self.event_timers.of_keys(keys),
            self.clock_timers.of_keys(keys),
            self.watermark_us,
            self.clock_us,
            0,
            self.allowed_lateness_us,
            {key: at for key, at in self.positions.items() if key in keys},
        )

    def add(self, other: OperatorState) -> None:
        """Keep what another keeps of other keys, none of whose timers is due."""
        self.contents |= other.contents
        self.memories |= other.memories
        self.merging |= other.merging
        self.event_timers.add(other.event_timers)
        self.clock_timers.add(other.clock_timers)
        self.watermark_us = max(self.watermark_us, other.watermark_us)
        self.clock_us = max(self.clock_us, other.clock_us)
        self.positions |= other.positions


class GeneralWindowOperator:
    """Runs a job over the rows of any keys.

    Args:
        job: what to do.
        state: where another operator of the same job has got.
        closed_us: windows whose last time is no later are gone, whatever lateness is allowed now.
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
        """Take a row in; gives what fires at once.

        Args:
            key: the row's key, which can be hashed.
            value: the row.
            time_us: its time; the processing time where windows are on that.
        """
        is_skipped, is_late = True, False
        for assigned in self._job.assigner.windows(value, time_us):
            window, name = assigned, assigned
            if self._job.assigner.merges:
                merging = self.state.merging.setdefault(key, MergingWindows())
                window = self._merge(key, assigned, merging)
                name = merging.kept_as[window]
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
        """The watermark moves on; one that is behind changes nothing."""
        if watermark_us <= self.state.watermark_us:
            return
        self.state.watermark_us = watermark_us
        for time_us, (key, window) in self.state.event_timers.due(watermark_us):
            yield from self._on_timer(time_us, key, window, in_processing_time=False)

    def on_processing_time(self, clock_us: int) -> Iterator[Emission]:
        """Processing time moves on."""
        if clock_us <= self.state.clock_us:
            return
        self.state.clock_us = clock_us
        for time_us, (key, window) in self.state.clock_timers.due(clock_us):
            yield from self._on_timer(time_us, key, window, in_processing_time=True)

    def on_end(self) -> Iterator[Emission]:
        """The end of input: the last watermark, or the last processing time too."""
        yield from self.on_watermark(FOREVER_US)
        if self._job.is_processing_time:
            yield from self.on_processing_time(FOREVER_US)

    def _on_timer(
        self, time_us: int, key: Any, window: TimeWindow, in_processing_time: bool
    ) -> Iterator[Emission]:
        name = window
        if self._job.assigner.merges:
            merging = self.state.merging.get(key)
            if merging is None or window not in merging.kept_as:
                return  # a timer of a window that has become part of another
            name = merging.kept_as[window]
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
        kept = evictor.keep(contents, window) if contents else contents
        self.state.contents[key, name] = kept
        return kept

    # -- merging -------------------------------------------------------------------------------

    def _merge(self, key: Any, window: TimeWindow, merging: MergingWindows) -> TimeWindow:
        """The open window that holds one, with what those held that went into it."""
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
        kept = [self.state.contents.pop((key, name), None) for name in names]
        found = [contents for contents in kept if contents is not None]
        if found:
            self.state.contents[key, names[0]] = reduce(self._function.merge, found)
        self._set_clean_up(key, merged)
        return merged

    # -- late rows and clean-up ----------------------------------------------------------------

    @property
    def _timers(self) -> Timers:
        return self.state.clock_timers if self._job.is_processing_time else self.state.event_timers

    def _clean_up_us(self, window: TimeWindow) -> int:
        """When a window is forgotten."""
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
        """Windows are kept for as long as the job says now; those kept too long are forgotten."""
        for time_us, (key, window) in list(self.state.event_timers.standing):
            if time_us != min(window.last_us + before_us, FOREVER_US):
                continue  # of a trigger
            name: TimeWindow | None = window
            if self._job.assigner.merges:
                merging = self.state.merging.get(key)
                name = None if merging is None else merging.kept_as.get(window)
            if name is None:
                continue
            if self._clean_up_us(window) > time_us:
                # a timer of the trigger may stand at the same time
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
            del merging.kept_as[window]
            if not merging.kept_as:
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
