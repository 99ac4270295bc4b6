"""The wall clock of time zones, vectorised."""

import datetime as dt
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.compute.wall_clock import is_known_zone, wall_clock_us

SECOND = 1_000_000


def local_us(instant_us, zone):
    instant = dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=instant_us)
    local = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=dt.UTC)
    return (local - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)


INSTANTS = st.integers(-62_000_000_000, 253_000_000_000).map(lambda s: s * SECOND + s % SECOND)


@given(
    st.lists(INSTANTS, min_size=1, max_size=20),
    st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu",
                     "Africa/Casablanca", "Pacific/Apia"]),
)  # fmt: skip
@example([1_774_746_000 * SECOND - 1, 1_774_746_000 * SECOND], "Europe/Berlin")
@example([1_325_239_200 * SECOND - 1, 1_325_239_200 * SECOND], "Pacific/Apia")
def test_the_wall_clock_is_that_of_the_time_zone_database(instants, zone):
    result = wall_clock_us(np.array(instants), zone)
    assert result.tolist() == [local_us(instant, zone) for instant in instants]


def test_every_offset_change_is_exact_to_the_second():
    zone = "Australia/Lord_Howe"
    instants = np.arange(1_740_000_000, 1_780_000_000, 1801) * SECOND
    assert wall_clock_us(instants, zone).tolist() == [local_us(t, zone) for t in instants.tolist()]


def test_the_wall_clock_continues_after_the_year_9999():
    far = (
        dt.datetime(9998, 7, 1, tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    ).total_seconds()
    cycle = 146_097 * 86_400
    instants = (np.array([0, cycle, 5 * cycle]) + int(far)) * SECOND
    assert (wall_clock_us(instants, "Europe/Berlin") - instants == 7200 * SECOND).all()


def test_fixed_offsets_are_zones_but_names_of_java_are_not():
    for zone, seconds in (("UTC", 0), ("+01:00", 3600), ("GMT-8", -28_800), ("UTC+05:30", 19_800)):
        assert wall_clock_us(np.array([0]), zone).tolist() == [seconds * SECOND]
    assert not is_known_zone("PST")
    assert is_known_zone("America/Los_Angeles")
