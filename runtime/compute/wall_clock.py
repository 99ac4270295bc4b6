"""Convert instants to the wall clock of a time zone, vectorised.

The zone's offset is looked up at the start of each day of the years involved. Where it differs from
the previous day, the second of the change is found by bisection. Years are cached.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import numpy as np

from runtime.compute.kernels.conversions import Int64Array
from runtime.errors import ExecutionError

_SECOND_US = 1_000_000
_DAY_S = 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIXED = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d)(?::?([0-5]\d))?)?")
# The calendar, including weekdays, repeats every 400 years.
_CYCLE_YEARS = 400
_CYCLE_S = 146_097 * _DAY_S
# Years that datetime supports, minus the outermost ones, so that adding an offset stays in range.
_FIRST_YEAR, _LAST_YEAR = 2, 9998
# Over a longer range, only the years that occur are looked up.
_MANY_YEARS = 200


def is_known_zone(zone: str) -> bool:
    """Return whether `wall_clock_us` supports the zone: a region or a fixed offset."""
    try:
        _zone(zone)
    except (KeyError, ValueError, OSError):
        return False
    return True


def wall_clock_us(instants_us: Int64Array, zone: str) -> Int64Array:
    """Convert instants (microseconds since 1970 in UTC) to wall-clock microseconds in `zone`.

    Raises:
        ExecutionError: The zone is unknown on this machine.
    """
    if len(instants_us) == 0:
        return instants_us
    try:
        rules = _zone(zone)
    except (KeyError, ValueError, OSError) as error:
        raise ExecutionError(
            f"unknown time zone {zone}",
            hint="install the package tzdata on every host, or set another time zone",
        ) from error
    if isinstance(rules, int):
        return instants_us + rules * _SECOND_US
    first, last = _year(int(instants_us.min())), _year(int(instants_us.max()))
    if last - first <= _MANY_YEARS:
        years = list(range(first, last + 1))
    else:
        # numpy counts years from 1970 in the proleptic Gregorian calendar.
        years = (
            np.unique(instants_us.astype("M8[us]").astype("M8[Y]").astype(int)) + 1970
        ).tolist()
    starts_s, offsets_s = [], []
    for year in years:
        year_starts, year_offsets = _offsets_in(zone, year)
        starts_s += year_starts
        offsets_s += year_offsets
    offset_us = np.array(offsets_s) * _SECOND_US
    if (offset_us == offset_us[0]).all():
        return instants_us + int(offset_us[0])
    period = np.searchsorted(np.array(starts_s) * _SECOND_US, instants_us, side="right") - 1
    local_us: Int64Array = instants_us + offset_us[period]
    return local_us


def instants_us(local_us: Int64Array, zone: str) -> Int64Array:
    """Convert wall-clock microseconds in `zone` to instants, the inverse of `wall_clock_us`.

    As in java.time, a time that occurs twice is the earlier instant, and a skipped time moves
    forward by the length of the gap: both use the offset before the change.

    Raises:
        ExecutionError: The zone is unknown on this machine.
    """
    before, after = (
        wall_clock_us(local_us + days * _DAY_S * _SECOND_US, zone)
        - (local_us + days * _DAY_S * _SECOND_US)
        for days in (-1, 1)
    )
    earlier, later = local_us - before, local_us - after
    is_earlier = wall_clock_us(earlier, zone) == local_us
    is_later = ~is_earlier & (wall_clock_us(later, zone) == local_us)
    return np.where(is_later, later, earlier)


@lru_cache(maxsize=8)
def _zone(zone: str) -> ZoneInfo | int:
    """Return the rules of a zone, or the offset in seconds east of UTC of a fixed one."""
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _FIXED.fullmatch(zone)
    if match is None:
        return ZoneInfo(zone)
    hours, minutes, seconds = (int(part or 0) for part in match.groups()[1:])
    offset = hours * 3600 + minutes * 60 + seconds
    return -offset if match[1] == "-" else offset


@lru_cache(maxsize=2048)
def _offsets_in(zone: str, year: int) -> tuple[list[int], list[int]]:
    """Return the starts and offsets of a year's periods in seconds, beginning with the year."""
    cycles = max(0, -((_LAST_YEAR - year) // _CYCLE_YEARS))
    start, end = (_year_start_s(y - cycles * _CYCLE_YEARS) for y in (year, year + 1))
    if year < _FIRST_YEAR:
        # Before the introduction of time zones, the offset is the local mean time in every year.
        return [start], [_offset_s(zone, _year_start_s(_FIRST_YEAR))]
    starts, offsets = [start], [_offset_s(zone, start)]
    for before, probe in pairwise([*range(start, end, _DAY_S), end - 1]):
        offset = _offset_s(zone, probe)
        if offset == offsets[-1]:
            continue
        low, high = before, probe
        while high - low > 1:
            middle = (low + high) // 2
            if _offset_s(zone, middle) == offset:
                high = middle
            else:
                low = middle
        starts.append(high)
        offsets.append(offset)
    return [start + cycles * _CYCLE_S for start in starts], offsets


def _offset_s(zone: str, instant_s: int) -> int:
    rules = _zone(zone)
    assert isinstance(rules, ZoneInfo)
    offset = (_EPOCH + timedelta(seconds=instant_s)).astimezone(rules).utcoffset()
    assert offset is not None
    return round(offset.total_seconds())


def _year(instant_us: int) -> int:
    return int(np.datetime64(instant_us, "us").astype("M8[Y]").astype(int)) + 1970


def _year_start_s(year: int) -> int:
    return int(np.datetime64(year - 1970, "Y").astype("M8[s]").astype(int))
