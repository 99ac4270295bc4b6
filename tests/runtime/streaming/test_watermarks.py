"""A watermark on the wall clock waits while a repeated hour passes for the first time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from runtime.compute.wall_clock import wall_clock_us
from runtime.local.streaming.messages import EndOfInput, SourceProgress
from runtime.spec.stream import FINAL_US, StreamSource
from runtime.streaming.watermarks import (
    IdleAdvance,
    SourceWatermark,
    WatermarkRules,
    Watermarks,
    advance,
    advances_with_clock,
    closed_until_us,
    idle_advance,
    no_watermarks,
    wall_watermark_us,
    with_new_clocks,
)

ZONES = ["America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Tokyo", "UTC"]


def instant(zone, *fields, fold=0):
    return int(datetime(*fields, tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1_000_000)


def wall(*fields):
    return int(datetime(*fields, tzinfo=UTC).timestamp() * 1_000_000)


def test_a_repeated_hour_is_passed_only_the_second_time():
    zone = "America/Los_Angeles"
    before = wall(2024, 11, 3, 1) - 1
    assert wall_watermark_us(instant(zone, 2024, 11, 3, 0, 30), zone) == wall(2024, 11, 3, 0, 30)
    assert wall_watermark_us(instant(zone, 2024, 11, 3, 1, 59), zone) == before
    second = instant(zone, 2024, 11, 3, 1, 30, fold=1)
    assert wall_watermark_us(second, zone) == wall(2024, 11, 3, 1, 30)


def test_clocks_set_forward_skip_the_hour():
    zone = "America/Los_Angeles"
    assert wall_watermark_us(instant(zone, 2024, 3, 10, 3), zone) == wall(2024, 3, 10, 3)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time_us", [FINAL_US, -FINAL_US - 1, FINAL_US - 10**11, 4 * 10**18])
def test_times_at_the_ends_of_int64_have_a_watermark_nearby(zone, time_us):
    mark = wall_watermark_us(time_us, zone)
    assert -FINAL_US <= mark <= FINAL_US
    assert abs(mark - time_us) < 4 * 86_400_000_000


def test_the_maximum_watermark_is_the_end_only_after_the_input():
    rules = WatermarkRules()
    progress = SourceProgress(0, FINAL_US, FINAL_US, 1)
    far = advance(Watermarks((SourceWatermark(),)), [progress], rules, None)
    ended = advance(far, [EndOfInput()], rules, None)
    assert (far.combined_us, far.has_ended) == (FINAL_US, False)
    assert (ended.combined_us, ended.has_ended) == (FINAL_US, True)


def test_allowed_lateness_ends_with_the_input_within_int64():
    assert closed_until_us(FINAL_US, 1_000_000) == FINAL_US - 1_000_000 + 1_000
    assert closed_until_us(FINAL_US, 1_000_000, has_ended=True) == FINAL_US
    assert closed_until_us(-FINAL_US, 1_000_000) == -FINAL_US + 1_000


@pytest.mark.parametrize("zone", ZONES)
def test_no_later_instant_falls_to_the_watermark_or_below(zone):
    start = wall(2024, 1, 1)
    instants = start + np.arange(366 * 96) * 900_000_000
    local = wall_clock_us(instants, zone)
    earliest_later = np.minimum.accumulate(local[::-1])[::-1]
    last = -(1 << 63)
    for at in range(0, len(instants) - 200, 7):
        mark = wall_watermark_us(int(instants[at]), zone)
        assert mark < earliest_later[at + 1]
        assert mark >= earliest_later[at] - 1 - 900_000_000
        assert mark >= last
        last = mark


S = 1_000_000
NOON = 43_200 * S


def steps(rules, *events, n_sources=1, start=None):
    """Return the operator's watermark after each event: (clock in s after noon, {source: s}).

    Times of sources are in seconds after noon as well.
    """
    watermarks = start or no_watermarks(n_sources)
    after = []
    for clock, marks in events:
        progress = [
            SourceProgress(source, NOON + mark * S, NOON + mark * S, 1)
            for source, mark in marks.items()
        ]
        watermarks = advance(watermarks, progress, rules, NOON + clock * S)
        combined = watermarks.combined_us
        after.append(None if combined is None else (combined - NOON) // S)
    return after, watermarks


ALONE = WatermarkRules(idle_advance=(IdleAdvance(30 * S, 5 * S),))
BOTH = WatermarkRules(idle_advance=(IdleAdvance(30 * S), IdleAdvance(60 * S)))


def test_a_silent_watermark_advances_by_the_time_since_the_last_row():
    # the row of clock 10 moved it to 2: from 30 s of silence on it is 8 s behind the clock
    events = [(10, {0: 2}), (39, {}), (40, {}), (45, {}), (100, {})]
    assert steps(ALONE, *events)[0] == [2, 2, 32, 37, 92]


def test_no_row_means_no_watermark_to_advance():
    assert steps(ALONE, (0, {}), (1000, {}))[0] == [None, None]
    after, _ = steps(BOTH, (0, {0: 0}), (59, {}), (60, {}), n_sources=2)
    assert after == [None, None, 60]


def test_a_row_stops_the_advance_until_the_silence_has_lasted_as_long_again():
    events = [(0, {0: 0}), (40, {}), (50, {0: 20}), (79, {}), (80, {}), (81, {})]
    # a row at 20 is behind the watermark 40, which waits until 20 + 30 s has passed it
    assert steps(ALONE, *events)[0] == [0, 35, 35, 35, 50, 51]


def test_a_watermark_ahead_of_the_clock_waits_for_the_clock_minus_the_delay():
    events = [(0, {0: 100}), (30, {}), (104, {}), (105, {}), (106, {})]
    assert steps(ALONE, *events)[0] == [100, 100, 100, 100, 101]


def test_the_watermark_waits_until_every_source_has_been_silent_for_its_time():
    events = [(0, {0: 0, 1: 10}), (30, {}), (59, {}), (60, {}), (61, {0: 1}), (91, {})]
    assert steps(BOTH, *events, n_sources=2)[0] == [0, 0, 0, 60, 60, 60]
    # the other source has no time of its own, so nothing advances without its rows
    sources = [StreamSource("a", "timestamp_ntz", 0, 30 * S), StreamSource("b", "timestamp_ntz")]
    assert idle_advance(sources) == () and len(idle_advance(sources[:1])) == 1


def test_with_the_highest_watermark_as_policy_the_source_ahead_advances():
    rules = WatermarkRules("max", idle_advance=BOTH.idle_advance)
    assert steps(rules, (70, {0: 0, 1: 10}), (130, {}), n_sources=2)[0] == [10, 70]


def test_an_idle_source_lets_the_highest_watermark_advance():
    rules = WatermarkRules(idle_timeout_us=5 * S, idle_advance=BOTH.idle_advance)
    events = [(20, {0: 0, 1: 10}), (25, {}), (80, {})]
    assert steps(rules, *events, n_sources=2)[0] == [0, 10, 70]


def test_a_new_run_continues_from_the_advanced_watermark():
    after, watermarks = steps(ALONE, (0, {0: 0}), (100, {}))
    assert after == [0, 95]
    again, _ = steps(
        ALONE, (1_000, {}), (1_029, {}), (1_030, {}), start=with_new_clocks(watermarks)
    )
    assert again == [95, 95, 125]


def test_nothing_advances_while_watermarks_are_held():
    _, watermarks = steps(ALONE, (0, {0: 0}))
    held = advance(watermarks, [], ALONE, NOON + 100 * S, is_held=True)
    assert held.combined_us == NOON


def test_an_advancing_watermark_follows_the_wall_clock_when_clocks_change():
    zone = "America/Los_Angeles"
    rules = WatermarkRules(idle_advance=(IdleAdvance(60 * S),), time_zone=zone)
    last = wall(2024, 3, 10, 1, 59)
    start = advance(
        no_watermarks(1),
        [SourceProgress(0, last, last, 1)],
        rules,
        instant(zone, 2024, 3, 10, 1, 59),
    )
    ahead = advance(start, [], rules, instant(zone, 2024, 3, 10, 3, 10))
    assert ahead.combined_us == wall(2024, 3, 10, 3, 10)
    # the hour that passes twice is not passed at its first time
    last = wall(2024, 11, 3, 0, 30)
    first = advance(
        no_watermarks(1),
        [SourceProgress(0, last, last, 1)],
        rules,
        instant(zone, 2024, 11, 3, 0, 30),
    )
    within = advance(first, [], rules, instant(zone, 2024, 11, 3, 1, 30))
    assert within.combined_us == wall(2024, 11, 3, 1) - 1
    assert advances_with_clock(within.sources, rules, instant(zone, 2024, 11, 3, 1, 30))


def test_the_largest_times_do_not_overflow():
    for mark in (FINAL_US, -FINAL_US):
        start = advance(no_watermarks(1), [SourceProgress(0, mark, mark, 1)], ALONE, NOON)
        assert start.combined_us == mark
        after = advance(start, [], ALONE, NOON + 30 * S)
        assert after.combined_us == (mark if mark > 0 else mark + 30 * S)
