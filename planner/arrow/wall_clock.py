"""Instants on the wall clock of a time zone, where comparing them there is the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# An instant is compared on the wall clock if its offset holds for so long before and after it
_STEADY = timedelta(days=2)
_UTC = frozenset(("UTC", "Z", "GMT", "UT", "Etc/UTC", "Etc/GMT"))


def wall_clock_bound_us(time_us: int, zone: str) -> int | None:
    """An instant on the wall clock, such that what is before and after it is so there too.

    Args:
        time_us: microseconds since 1970.
        zone: the time zone.

    Returns:
        Microseconds on the wall clock; None where clocks change within two days, so that times of
        the wall clock before it may be after it, and where the zone is not known here.
    """
    if zone in _UTC:
        return time_us
    try:
        known = ZoneInfo(zone)
        at = _EPOCH + timedelta(microseconds=time_us)
        offsets = {(at + apart).astimezone(known).utcoffset() for apart in (-_STEADY, _STEADY)}
    except (ZoneInfoNotFoundError, ValueError, OverflowError):
        return None
    (offset, *others) = offsets
    if others or offset is None:
        return None
    return time_us + offset // timedelta(microseconds=1)
