"""Compute an operator's watermark from its sources' watermarks.

All times are int64 microseconds on the windows' wall clock, except `clock_us`: processing time in
microseconds since 1970 in UTC. Everything here is a function of earlier messages. All key groups
get the same messages, so they compute the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from runtime.compute.wall_clock import wall_clock_us
from runtime.local.streaming.messages import EndOfInput, Progress, SourceProgress
from runtime.spec.stream import FINAL_US, StreamSource
from runtime.windows.assigner import SliceAssigner

# A window fires at watermark >= end - 1 ms: no row at or before the watermark will come
FIRE_LAG_US = 1_000
# Upper bound of the time that clocks repeat: usually an hour or two, at most a whole day
_LIVED_TWICE_US = 36 * 3600 * 1_000_000
# Clocks are set back at full minutes, except for a few in the distant past
_STEP_US = 60 * 1_000_000


@dataclass(frozen=True)
class SourceWatermark:
    """Progress of a source.

    Attributes:
        watermark_us: Highest watermark so far. None before the first.
        clock_us: Processing time of the last rows with a watermark; at first, of the start.
        held_us: Watermark to apply once no micro-batch is held. None if nothing is held.
        splits: (number, highest watermark, processing time of the last rows) of each split that has
            had a row. Empty if the source is tracked as a whole.
    """

    watermark_us: int | None = None
    clock_us: int | None = None
    held_us: int | None = None
    splits: tuple[tuple[int, int, int | None], ...] = ()


@dataclass(frozen=True)
class IdleAdvance:
    """When and how far the watermark of a silent source advances with the clock.

    Attributes:
        after_us: Time without rows of any source after which it advances.
        delay_us: Minimum distance of the advanced watermark to the clock.
    """

    after_us: int
    delay_us: int = 0


@dataclass(frozen=True)
class WatermarkRules:
    """Rules for watermarks.

    Attributes:
        policy, idle_timeout_us, max_jump_us: See the attributes of `StreamOptions`.
        idle_advance: Rule of each source, by number. Empty if the watermark never advances without
            rows.
        time_zone: Time zone of the wall clock that watermarks are on.
    """

    policy: str = "min"
    idle_timeout_us: int | None = None
    max_jump_us: int | None = None
    idle_advance: tuple[IdleAdvance, ...] = ()
    time_zone: str = "UTC"


@dataclass(frozen=True)
class Watermarks:
    """Progress of an operator and its sources.

    Attributes:
        sources: Sources, by number.
        combined_us: The operator's watermark, which never falls. None before the first.
        has_ended: Whether all input has ended; then all watermarks are FINAL_US.
    """

    sources: tuple[SourceWatermark, ...]
    combined_us: int | None = None
    has_ended: bool = False

    def fired_until_us(self) -> int | None:
        """Return the latest end of a window that the watermark has passed."""
        return ends_passed_us(self.combined_us)


def ends_passed_us(watermark_us: int | None) -> int | None:
    """Return the latest end of a window that a watermark passes."""
    if watermark_us is None:
        return None
    return min(watermark_us, FINAL_US - FIRE_LAG_US) + FIRE_LAG_US


def closed_until_us(
    watermark_us: int | None, allowed_lateness_us: int, *, has_ended: bool = False
) -> int | None:
    """Return the latest end of a window that accepts no more rows.

    Args:
        watermark_us: Watermark of an operator. None before the first.
        allowed_lateness_us: How long after their end windows accept rows.
        has_ended: Whether the input has ended, so that no window waits for late rows.
    """
    if watermark_us is None or has_ended:
        return ends_passed_us(watermark_us)
    return ends_passed_us(max(watermark_us - allowed_lateness_us, -FINAL_US))


def later_us(one_us: int | None, other_us: int | None) -> int | None:
    """Return the later of two times. None is before all."""
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return max(one_us, other_us)


def emitted_by_sessions_us(watermarks: Watermarks) -> int | None:
    """Return the watermark after windows that merge: no later session has its time up to here.

    A session closes when the watermark has reached its end, and its window_time is the end - 1 ms.
    """
    if watermarks.combined_us is None or watermarks.has_ended:
        return watermarks.combined_us
    return max(watermarks.combined_us - FIRE_LAG_US, -FINAL_US)


def watermark_of_rows_us(watermarks: Watermarks, windows: SliceAssigner) -> int | None:
    """Return the watermark after rows that waited until the watermark had passed their windows.

    No later row has its time up to here.

    Args:
        watermarks: Watermarks of the operator that emits the rows.
        windows: Windows in which the rows waited, one after another.
    """
    fired = watermarks.fired_until_us()
    if fired is None or watermarks.has_ended:
        return watermarks.combined_us
    next_end = np.array([windows.next_window_end(fired)], np.int64)
    return int(windows.window_start(next_end)[0]) - FIRE_LAG_US


def advance(
    before: Watermarks,
    progress: Iterable[Progress],
    rules: WatermarkRules,
    clock_us: int | None,
    *,
    is_held: bool = False,
) -> Watermarks:
    """Return the watermarks at the end of a micro-batch.

    Args:
        before: Watermarks at its start.
        progress: Progress of the tasks.
        rules: How source watermarks are combined.
        clock_us: Processing time, if the rules need it.
        is_held: Whether further micro-batches bring rows that belong to this one's, and that would
            be late if the watermarks advanced. They advance with the next one that is not held.
    """
    sources = [_with_clock(source, clock_us) for source in before.sources]
    splits: dict[int, list[SourceProgress]] = {}
    highest: dict[int, int] = {}
    lowest: dict[int, int] = {}
    has_ended = before.has_ended
    for message in progress:
        if isinstance(message, EndOfInput):
            has_ended = True
            continue
        if message.n_rows:
            sources[message.source] = replace(sources[message.source], clock_us=clock_us)
        if message.highest_us is not None and message.lowest_us is not None:
            if message.split is not None:
                splits.setdefault(message.source, []).append(message)
            highest[message.source] = max(
                message.highest_us, highest.get(message.source, message.highest_us)
            )
            lowest[message.source] = min(
                message.lowest_us, lowest.get(message.source, message.lowest_us)
            )
    if has_ended:
        final = tuple(replace(source, watermark_us=FINAL_US, held_us=None) for source in sources)
        return Watermarks(final, FINAL_US, has_ended=True)
    for number, source in enumerate(sources):
        if number in highest and number not in splits:
            # it is tracked as a whole from here on
            sources[number] = replace(source, splits=())
        elif number in splits or source.splits:
            sources[number] = source = _with_splits(source, splits.get(number, []), clock_us)
            high = _splits_watermark_us(source, rules, clock_us)
            highest[number] = high
            lowest.setdefault(number, high)
    for number, high in highest.items():
        source = sources[number]
        if rules.max_jump_us is not None:
            base_us = lowest[number] if source.watermark_us is None else source.watermark_us
            high = min(high, base_us + rules.max_jump_us)
        sources[number] = replace(source, held_us=later_us(source.held_us, high))
    if not is_held:
        sources = [
            replace(
                source, watermark_us=later_us(source.watermark_us, source.held_us), held_us=None
            )
            for source in sources
        ]
    combined = _combine(sources, rules, clock_us)
    if not is_held and clock_us is not None and advances_with_clock(sources, rules, clock_us):
        combined = later_us(combined, _advanced_us(sources, rules, clock_us))
    return Watermarks(tuple(sources), later_us(before.combined_us, combined))


def combine_progress(progress: Iterable[Progress]) -> list[Progress]:
    """Combine the progress of tasks as if it were one task's. `advance` treats both alike."""
    merged: dict[tuple[int, int | None] | None, Progress] = {}
    for message in progress:
        if isinstance(message, EndOfInput):
            merged[None] = message
            continue
        key = message.source, message.split
        previous = merged.setdefault(key, message)
        if previous is message or not isinstance(previous, SourceProgress):
            continue
        merged[key] = replace(
            previous,
            highest_us=later_us(previous.highest_us, message.highest_us),
            lowest_us=_earlier_us(previous.lowest_us, message.lowest_us),
            n_rows=previous.n_rows + message.n_rows,
        )
    return list(merged.values())


def _earlier_us(one_us: int | None, other_us: int | None) -> int | None:
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return min(one_us, other_us)


def _with_clock(source: SourceWatermark, clock_us: int | None) -> SourceWatermark:
    """Start a source's idle clock now if it has not started."""
    splits = tuple((n, mark, clock_us if at is None else at) for n, mark, at in source.splits)
    clock = clock_us if source.clock_us is None else source.clock_us
    return replace(source, clock_us=clock, splits=splits)


def _with_splits(
    source: SourceWatermark, progress: Iterable[SourceProgress], clock_us: int | None
) -> SourceWatermark:
    """Update a source with the tasks' progress in its splits."""
    splits = {number: (mark, at) for number, mark, at in source.splits}
    for message in progress:
        assert message.split is not None and message.highest_us is not None
        mark, _ = splits.get(message.split, (message.highest_us, None))
        splits[message.split] = (max(mark, message.highest_us), clock_us)
    return replace(source, splits=tuple((n, *splits[n]) for n in sorted(splits)))


def _splits_watermark_us(
    source: SourceWatermark, rules: WatermarkRules, clock_us: int | None
) -> int:
    """Return the lowest watermark of a source's splits that are not idle."""
    split_watermarks = [SourceWatermark(mark, at) for _, mark, at in source.splits]
    lowest = _combine(split_watermarks, replace(rules, policy="min"), clock_us)
    assert lowest is not None, "each of them has a watermark"
    return lowest


def is_idle(source: SourceWatermark, rules: WatermarkRules, clock_us: int | None) -> bool:
    """Return whether a source is ignored because it has had no rows for too long."""
    if rules.idle_timeout_us is None or clock_us is None or source.clock_us is None:
        return False
    return clock_us - source.clock_us >= rules.idle_timeout_us


def idle_advance(sources: Sequence[StreamSource]) -> tuple[IdleAdvance, ...]:
    """Return the rules by which silent sources advance. Empty if one of them never does."""
    rules = [
        IdleAdvance(source.idle_advance_us, source.delay_us)
        for source in sources
        if source.idle_advance_us is not None and source.time_type != "proctime"
    ]
    return tuple(rules) if len(rules) == len(sources) else ()


def advances_with_clock(
    sources: Sequence[SourceWatermark], rules: WatermarkRules, clock_us: int | None
) -> bool:
    """Return whether all sources have been silent for so long that the watermark advances."""
    if clock_us is None or not rules.idle_advance:
        return False
    return all(
        source.clock_us is not None and clock_us - source.clock_us >= rule.after_us
        for source, rule in zip(sources, rules.idle_advance, strict=True)
    )


def _advanced_us(
    sources: Sequence[SourceWatermark], rules: WatermarkRules, clock_us: int
) -> int | None:
    """Return the watermark of silent sources, or None if no source has had a row.

    Each source's watermark advances by the time since the last row of any source, but not beyond
    the clock minus the source's delay. It is a function of the sources' last rows and the clock, so
    a micro-batch that runs again gives the same watermark.
    """
    last_us = max(source.clock_us for source in sources if source.clock_us is not None)
    now_us = wall_watermark_us(clock_us, rules.time_zone)
    silent_us = max(now_us - wall_watermark_us(last_us, rules.time_zone), 0)
    advanced = []
    for source, rule in zip(sources, rules.idle_advance, strict=True):
        mark = source.watermark_us
        if mark is not None:
            limit_us = min(mark + silent_us, now_us - rule.delay_us)
            advanced.append(replace(source, watermark_us=max(mark, limit_us)))
    return _combine(advanced, rules, clock_us)


def _combine(
    sources: list[SourceWatermark], rules: WatermarkRules, clock_us: int | None
) -> int | None:
    marks = [source.watermark_us for source in sources if source.watermark_us is not None]
    if rules.policy == "max":
        return max(marks, default=None)
    active = [source for source in sources if not is_idle(source, rules, clock_us)]
    if not active:
        # all sources are idle (as in Flink's StatusWatermarkValve)
        return max(marks, default=None)
    watermarks = [source.watermark_us for source in active]
    marks = [watermark for watermark in watermarks if watermark is not None]
    # a source without a watermark holds back the others
    return min(marks) if len(marks) == len(watermarks) else None


def no_watermarks(n_sources: int) -> Watermarks:
    """Return the watermarks of an operator before its first micro-batch."""
    return Watermarks((SourceWatermark(),) * n_sources)


def with_new_clocks(watermarks: Watermarks) -> Watermarks:
    """Start the idle clocks of all sources over, for a new run of a stream.

    Where the watermark has advanced with the clock, silent sources continue from there.
    """
    combined_us = watermarks.combined_us
    return replace(
        watermarks, sources=tuple(_without_clock(s, combined_us) for s in watermarks.sources)
    )


def _without_clock(source: SourceWatermark, combined_us: int | None) -> SourceWatermark:
    splits = tuple((number, mark, None) for number, mark, _ in source.splits)
    mark = source.watermark_us
    # the operator's watermark never falls, so a source behind it may as well be level with it
    reached = None if mark is None else later_us(mark, combined_us)
    return replace(source, watermark_us=reached, clock_us=None, splits=splits)


def wall_watermark_us(instant_us: int, zone: str) -> int:
    """Return the latest wall clock time such that no later instant is before it.

    When clocks are set back, an hour occurs twice. Its windows must fire only after the second
    time, so in the first pass the watermark stops before the hour begins. This is Flink's rule for
    timers of local time (TimeWindowUtil.toEpochMillsForTimer).

    Args:
        instant_us: Microseconds since 1970 in UTC.
        zone: Time zone.

    Raises:
        ExecutionError: This machine does not know the zone.
    """
    # near the ends of int64 clocks do not change, and the search below would overflow
    instant_us = min(max(instant_us, -FINAL_US + _LIVED_TWICE_US), FINAL_US - 2 * _LIVED_TWICE_US)
    ahead = np.arange(instant_us, instant_us + _LIVED_TWICE_US, 15 * _STEP_US)
    local = wall_clock_us(ahead, zone)
    local_us = int(local[0])
    back = np.flatnonzero(local[1:] < local[:-1])
    if len(back) == 0:
        return local_us
    # find the instant in that step at which clocks are set back, by bisection
    low, high = int(ahead[back[0]]), int(ahead[back[0] + 1])
    offset = int(local[back[0]]) - low
    while high - low > 1:
        middle = (low + high) // 2
        same = int(wall_clock_us(np.array([middle]), zone)[0]) - middle == offset
        low, high = (middle, high) if same else (low, middle)
    earliest = int(wall_clock_us(np.array([high]), zone)[0])
    return min(local_us, earliest - 1)
