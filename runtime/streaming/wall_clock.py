"""A watermark that is an instant, on the wall clock that windows are computed on."""

from __future__ import annotations

import numpy as np

from runtime.scan.wall_clock import wall_clock_us
from runtime.spec.stream import FINAL_US

_SECOND_US = 1_000_000
# Clocks are put back by an hour or two; a day has never been lived through twice for longer.
_HORIZON_US = 36 * 3600 * _SECOND_US
# Clocks are put back at full minutes, but for a few in the distant past.
_STEP_US = 60 * _SECOND_US


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
    if instant_us == FINAL_US:
        return FINAL_US
    ahead = np.arange(instant_us, instant_us + _HORIZON_US, 15 * _STEP_US)
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
