"""A watermark on the wall clock waits while an hour is lived through for the first time."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from runtime.scan.wall_clock import wall_clock_us
from runtime.spec.stream import FINAL_US
from runtime.streaming.watermarks import wall_watermark_us

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


def test_the_end_of_input_stays_what_it_is():
    assert wall_watermark_us(FINAL_US, "Europe/Berlin") == FINAL_US


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
