"""The watermark of an operator, from those of its sources.

All times are int64 microseconds on the windows' wall clock, but for `clock_us`: processing
time, in microseconds since 1970 in UTC. Everything here is a function of what came
before: all key groups get the same messages and so come to the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from typing import Any

import numpy as np

from runtime.local.streaming.messages import EndOfInput, Progress, SourceProgress
from runtime.scan.wall_clock import wall_clock_us
from runtime.spec.stream import FINAL_US

# fired(E) is watermark >= E - 1 ms: a watermark says that no row up to and with it will come.
FIRE_LAG_US = 1_000
# Clocks are put back by an hour or two; a day has never been lived through twice for longer.
_LIVED_TWICE_US = 36 * 3600 * 1_000_000
# Clocks are put back at full minutes, but for a few in the distant past.
_STEP_US = 60 * 1_000_000


@dataclass(frozen=True)
class SourceWatermark:
    """How far a source has got.

    Attributes:
        watermark_us: the highest watermark so far; None before the first.
        clock_us: when rows with a watermark came last; at first, when the operator started.
        held_us: the watermark that it gets when no micro-batch is held any more; None: none.
        splits: number, highest watermark and the clock of its last rows, of each of its splits that
            has had a row; none if it is followed as a whole.
    """

    watermark_us: int | None = None
    clock_us: int | None = None
    held_us: int | None = None
    splits: tuple[tuple[int, int, int | None], ...] = ()


@dataclass(frozen=True)
class WatermarkRules:
    """See the attributes of the same names of `StreamOptions`."""

    policy: str = "min"
    idle_timeout_us: int | None = None
    max_jump_us: int | None = None


@dataclass(frozen=True)
class Watermarks:
    """How far each source has got, and the operator with them.

    Attributes:
        sources: the sources, by their numbers.
        combined_us: the operator's watermark, which never falls; None before the first.
        has_ended: whether all input has ended; the watermarks then are FINAL_US.
    """

    sources: tuple[SourceWatermark, ...]
    combined_us: int | None = None
    has_ended: bool = False

    def fired_until_us(self) -> int | None:
        """Windows that end no later than this have been passed."""
        return ends_passed_us(self.combined_us)


def ends_passed_us(watermark_us: int | None) -> int | None:
    """The latest end of a window that a watermark passes."""
    if watermark_us is None:
        return None
    return min(watermark_us, FINAL_US - FIRE_LAG_US) + FIRE_LAG_US


def closed_until_us(
    watermark_us: int | None, allowed_lateness_us: int, *, has_ended: bool = False
) -> int | None:
    """Return the latest end of a window that takes no more rows.

    Args:
        watermark_us: an operator's watermark; None before the first.
        allowed_lateness_us: for how long after their end windows take rows.
        has_ended: whether the input has ended, so that no window waits for late rows.
    """
    if watermark_us is None or has_ended:
        return ends_passed_us(watermark_us)
    return ends_passed_us(max(watermark_us - allowed_lateness_us, -FINAL_US))


def later_us(one_us: int | None, other_us: int | None) -> int | None:
    """The later of two times; None is before all."""
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return max(one_us, other_us)


def emitted_by_sessions_us(watermarks: Watermarks) -> int | None:
    """Return the watermark behind windows that merge: no later session has its time up to here.

    A session closes when the watermark has reached its end, and its window_time is the end - 1 ms.
    """
    if watermarks.combined_us is None or watermarks.has_ended:
        return watermarks.combined_us
    return max(watermarks.combined_us - FIRE_LAG_US, -FINAL_US)


def advance(
    before: Watermarks,
    progress: Iterable[Progress],
    rules: WatermarkRules,
    clock_us: int | None,
    *,
    is_held: bool = False,
) -> Watermarks:
    """The watermarks at the end of a micro-batch.

    Args:
        before: those at its start.
        progress: what the tasks saw.
        rules: how sources are combined.
        clock_us: the processing time, if the rules ask for it.
        is_held: whether more rows come that belong to those of the micro-batch, and would be late
            if it moved the watermarks: the next one that is not held does.
    """
    sources = [_with_clock(source, clock_us) for source in before.sources]
    splits: dict[int, list[SourceProgress]] = {}
    highest: dict[int, int] = {}
    lowest: dict[int, int] = {}
    has_ended = before.has_ended
    for each in progress:
        if isinstance(each, EndOfInput):
            has_ended = True
            continue
        if each.n_rows:
            sources[each.source] = replace(sources[each.source], clock_us=clock_us)
        if each.highest_us is not None and each.lowest_us is not None:
            if each.split is not None:
                splits.setdefault(each.source, []).append(each)
            highest[each.source] = max(each.highest_us, highest.get(each.source, each.highest_us))
            lowest[each.source] = min(each.lowest_us, lowest.get(each.source, each.lowest_us))
    if has_ended:
        final = tuple(replace(each, watermark_us=FINAL_US, held_us=None) for each in sources)
        return Watermarks(final, FINAL_US, has_ended=True)
    for number, source in enumerate(sources):
        if number in highest and number not in splits:
            # it is followed as a whole from here on
            sources[number] = replace(source, splits=())
        elif number in splits or source.splits:
            sources[number] = source = _with_splits(source, splits.get(number, []), clock_us)
            high = _of_splits(source, rules, clock_us)
            highest[number] = high
            lowest.setdefault(number, high)
    for number, high in highest.items():
        source = sources[number]
        if rules.max_jump_us is not None:
            known = lowest[number] if source.watermark_us is None else source.watermark_us
            high = min(high, known + rules.max_jump_us)
        sources[number] = replace(source, held_us=later_us(source.held_us, high))
    if not is_held:
        sources = [
            replace(each, watermark_us=later_us(each.watermark_us, each.held_us), held_us=None)
            for each in sources
        ]
    combined = _combined(sources, rules, clock_us)
    if before.combined_us is not None:
        combined = before.combined_us if combined is None else max(combined, before.combined_us)
    return Watermarks(tuple(sources), combined)


def reduced(progress: Iterable[Progress]) -> list[Progress]:
    """What tasks saw as if one had seen it: `advance` makes the same of both."""
    found: dict[tuple[int, int | None] | None, Progress] = {}
    for each in progress:
        if isinstance(each, EndOfInput):
            found[None] = each
            continue
        key = each.source, each.split
        known = found.setdefault(key, each)
        if known is each or not isinstance(known, SourceProgress):
            continue
        found[key] = replace(
            known,
            highest_us=later_us(known.highest_us, each.highest_us),
            lowest_us=_earlier_us(known.lowest_us, each.lowest_us),
            n_rows=known.n_rows + each.n_rows,
        )
    return list(found.values())


def _earlier_us(one_us: int | None, other_us: int | None) -> int | None:
    if one_us is None or other_us is None:
        return other_us if one_us is None else one_us
    return min(one_us, other_us)


def _with_clock(source: SourceWatermark, clock_us: int | None) -> SourceWatermark:
    """A source for whose silence the clock begins now, if it has not begun."""
    splits = tuple((n, mark, clock_us if at is None else at) for n, mark, at in source.splits)
    clock = clock_us if source.clock_us is None else source.clock_us
    return replace(source, clock_us=clock, splits=splits)


def _with_splits(
    source: SourceWatermark, seen: Iterable[SourceProgress], clock_us: int | None
) -> SourceWatermark:
    """A source with what tasks saw of its splits."""
    splits = {number: (mark, at) for number, mark, at in source.splits}
    for each in seen:
        assert each.split is not None and each.highest_us is not None
        mark, _ = splits.get(each.split, (each.highest_us, None))
        splits[each.split] = (max(mark, each.highest_us), clock_us)
    return replace(source, splits=tuple((n, *splits[n]) for n in sorted(splits)))


def _of_splits(source: SourceWatermark, rules: WatermarkRules, clock_us: int | None) -> int:
    """The lowest watermark of the splits of a source that are not idle."""
    each = [SourceWatermark(mark, at) for _, mark, at in source.splits]
    lowest = _combined(each, replace(rules, policy="min"), clock_us)
    assert lowest is not None, "each of them has a watermark"
    return lowest


def is_idle(source: SourceWatermark, rules: WatermarkRules, clock_us: int | None) -> bool:
    """Whether a source is left out because it has had no rows for long."""
    if rules.idle_timeout_us is None or clock_us is None or source.clock_us is None:
        return False
    return clock_us - source.clock_us >= rules.idle_timeout_us


def _combined(
    sources: list[SourceWatermark], rules: WatermarkRules, clock_us: int | None
) -> int | None:
    known = [source.watermark_us for source in sources if source.watermark_us is not None]
    if rules.policy == "max":
        return max(known, default=None)
    active = [source for source in sources if not is_idle(source, rules, clock_us)]
    if not active:
        # there is none left to wait for (Flink's StatusWatermarkValve does the same)
        return max(known, default=None)
    watermarks = [source.watermark_us for source in active]
    known = [watermark for watermark in watermarks if watermark is not None]
    # a source that has said nothing holds the others back
    return min(known) if len(known) == len(watermarks) else None


def watermark_facts(watermarks: Watermarks, run: str) -> dict[str, Any]:
    """Return what an operator remembers of its watermarks, as JSON; `run` names the run.

    "ended" is there only with the watermark that checkpoints of older versions take for the end.
    """
    ended = {"ended": watermarks.has_ended} if watermarks.combined_us == FINAL_US else {}
    return {
        "watermark": watermarks.combined_us,
        **ended,
        "sources": [
            astuple(source)[: 4 if source.splits else 2 if source.held_us is None else 3]
            for source in watermarks.sources
        ],
        "run": run,
    }


def watermarks_of(facts: Mapping[str, Any], n_sources: int, run: str) -> Watermarks:
    """Read what `watermark_facts` wrote; a source's silence counts from the start of a run."""
    known = facts.get("sources") or [(None, None)] * n_sources
    sources = [_remembered(source) for source in known]
    if facts.get("run", "") != run:
        sources = [_without_clock(source) for source in sources]
    return Watermarks(tuple(sources), facts.get("watermark"), input_has_ended(facts))


def input_has_ended(facts: Mapping[str, Any]) -> bool:
    """Whether an operator that remembers `facts` has seen the end of the input.

    Before "ended" was written, the highest watermark stood for it.
    """
    return bool(facts.get("ended", facts.get("watermark") == FINAL_US))


def _remembered(fields: Sequence[Any]) -> SourceWatermark:
    source = SourceWatermark(*fields[:3])
    splits = fields[3] if len(fields) > 3 else ()
    return replace(source, splits=tuple((number, mark, clock) for number, mark, clock in splits))


def _without_clock(source: SourceWatermark) -> SourceWatermark:
    splits = tuple((number, mark, None) for number, mark, _ in source.splits)
    return replace(source, clock_us=None, splits=splits)


def wall_watermark_us(instant_us: int, zone: str) -> int:
    """The latest wall clock time that no later instant falls below.

    When clocks are put back an hour is lived through twice. Its windows may only fire after the
    second time, so in the first pass the watermark waits before the hour begins. This is Flink's
    rule for timers of local time (TimeWindowUtil.toEpochMillsForTimer).

    Args:
        instant_us: microseconds since 1970 in UTC.
        zone: the time zone.

    Raises:
        ExecutionError: there is no such zone on this machine.
    """
    # near the ends of int64 there is no clock change, and no room to look for one or to add hours
    instant_us = min(max(instant_us, -FINAL_US + _LIVED_TWICE_US), FINAL_US - 2 * _LIVED_TWICE_US)
    ahead = np.arange(instant_us, instant_us + _LIVED_TWICE_US, 15 * _STEP_US)
    local = wall_clock_us(ahead, zone)
    here = int(local[0])
    back = np.flatnonzero(local[1:] < local[:-1])
    if len(back) == 0:
        return here
    # the step in which clocks are put back, and in it the instant, by bisection
    low, high = int(ahead[back[0]]), int(ahead[back[0] + 1])
    offset = int(local[back[0]]) - low
    while high - low > 1:
        middle = (low + high) // 2
        same = int(wall_clock_us(np.array([middle]), zone)[0]) - middle == offset
        low, high = (middle, high) if same else (low, middle)
    earliest = int(wall_clock_us(np.array([high]), zone)[0])
    return min(here, earliest - 1)
