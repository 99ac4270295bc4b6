"""Windows of the general operator, and what a trigger can say about one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag

from runtime.spec.windows import WINDOW_TIME_LAG_US

# No time is above it, none below its negative.
FOREVER_US = (1 << 63) - 1


@dataclass(frozen=True, order=True)
class TimeWindow:
    """The window [start_us, end_us)."""

    start_us: int
    end_us: int

    @property
    def last_us(self) -> int:
        """Its last time: a watermark here says that all its rows have come."""
        if self.end_us >= FOREVER_US:
            return FOREVER_US
        return self.end_us - WINDOW_TIME_LAG_US

    def touches(self, other: TimeWindow) -> bool:
        """Whether both share a time or an end of one is the start of the other."""
        return self.start_us <= other.end_us and other.start_us <= self.end_us

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that holds both."""
        return TimeWindow(min(self.start_us, other.start_us), max(self.end_us, other.end_us))


GLOBAL_WINDOW = TimeWindow(-FOREVER_US, FOREVER_US)


class Verdict(Flag):
    """What a trigger wants: emit the window, drop its contents, both or nothing."""

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3


CONTINUE, FIRE, PURGE = Verdict.CONTINUE, Verdict.FIRE, Verdict.PURGE
