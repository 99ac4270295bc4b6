"""Wall clocks of time zones by definition."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from runtime.errors import ExecutionError
from runtime.windows.times import DAY_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def has_instant(start_us: int, end_us: int, zone: str) -> bool:
    """Return whether the clock of a zone ever shows a time of a window.

    Raises:
        ExecutionError: The times are not in the years 1 to 9999.
    """
    bounds = (start_us, end_us - 1)
    near = [bound + days * DAY_US for bound in bounds for days in (-1, 1)]
    offsets = {wall_clock(time, zone) - time for time in near}
    return any(
        start_us <= wall_clock(bound - offset, zone) < end_us
        for bound in bounds
        for offset in offsets
    )


def wall_clock(instant_us: int, zone: str) -> int:
    """Return the local time of an instant, in microseconds since 1970 on the wall clock.

    Raises:
        ExecutionError: The instant is not in the years 1 to 9999.
    """
    try:
        local = (_EPOCH + timedelta(microseconds=instant_us)).astimezone(ZoneInfo(zone))
        offset = local.utcoffset()
    except OverflowError as error:
        raise ExecutionError("instants are defined for the years 1 to 9999 only") from error
    assert offset is not None
    return instant_us + offset // timedelta(microseconds=1)
