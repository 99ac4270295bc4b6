"""A watermark on the wall clock waits while a repeated hour passes for the first time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from runtime.compute.wall_clock import wall_clock_us
from runtime.local.streaming.messages import EndOfInput, SourceProgress
from runtime.spec.stream import FINAL_US
from runtime.streaming.watermarks import (
    SourceWatermark,
    WatermarkRules,
    Watermarks,
    advance,
    closed_until_us,
    wall_watermark_us,
)

ZONES = ["America/Los_Angeles", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Tokyo", "UTC"]


def instant(zone, *fields, fold=0):
    return int(datetime(*fields, tzinfo=ZoneInfo(zone), fold=fold).timestamp() * 1_000_000)


def wall(*fields):
    return int(datetime(*fields, tzinfo=UTC).timestamp() * 1_000_000)


def test_the_hour_before_clocks_are_put_back_is_not_passed_at_its_first_time():
    zone = "America/Los_Angeles"
    before = wall(2024, 11, 3, 1) - 1
    assert wall_watermark_us(instant(zone, 2024, 11, 3, 0, 30), zone) == wall(2024, 11, 3, 0, 30)
    assert wall_watermark_us(instant(zone, 2024, 11, 3, 1, 59), zone) == before
    second = instant(zone, 2024, 11, 3, 1, 30, fold=1)
    assert wall_watermark_us(second, zone) == wall(2024, 11, 3, 1, 30)


def test_clocks_that_are_put_forward_skip_the_hour():
    zone = "America/Los_Angeles"
    assert wall_watermark_us(instant(zone, 2024, 3, 10, 3), zone) == wall(2024, 3, 10, 3)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time_us", [FINAL_US, -FINAL_US - 1, FINAL_US - 10**11, 4 * 10**18])
def test_times_at_the_ends_of_int64_have_a_watermark_about_there(zone, time_us):
    mark = wall_watermark_us(time_us, zone)
    assert -FINAL_US <= mark <= FINAL_US
    assert abs(mark - time_us) < 4 * 86_400_000_000


def test_the_highest_watermark_is_the_end_only_if_the_input_has_ended():
    rules = WatermarkRules()
    progress = SourceProgress(0, FINAL_US, FINAL_US, 1)
    far = advance(Watermarks((SourceWatermark(),)), [progress], rules, None)
    ended = advance(far, [EndOfInput()], rules, None)
    assert (far.combined_us, far.has_ended) == (FINAL_US, False)
    assert (ended.combined_us, ended.has_ended) == (FINAL_US, True)


def test_allowed_lateness_ends_with_the_input_and_does_not_leave_int64():
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
