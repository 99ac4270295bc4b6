"""Windows of the general window operator, how they merge, and the verdicts of triggers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Flag

from runtime.windows.times import WINDOW_TIME_LAG_US

# Above every time; its negative is below every time
FOREVER_US = (1 << 63) - 1


@dataclass(frozen=True, order=True)
class TimeWindow:
    """The window [start_us, end_us)."""

    start_us: int
    end_us: int

    @property
    def last_us(self) -> int:
        """Last time of the window. A watermark here means that all its rows have arrived."""
        if self.end_us >= FOREVER_US:
            return FOREVER_US
        return self.end_us - WINDOW_TIME_LAG_US

    def touches(self, other: TimeWindow) -> bool:
        """Return whether the windows overlap or are adjacent."""
        return self.start_us <= other.end_us and other.start_us <= self.end_us

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self.start_us, other.start_us), max(self.end_us, other.end_us))


GLOBAL_WINDOW = TimeWindow(-FOREVER_US, FOREVER_US)


class Verdict(Flag):
    """Decision of a trigger: emit the window (FIRE), drop its contents (PURGE), both or neither."""

    CONTINUE = 0
    FIRE = 1
    PURGE = 2
    FIRE_AND_PURGE = 3


CONTINUE, FIRE, PURGE = Verdict.CONTINUE, Verdict.FIRE, Verdict.PURGE


@dataclass
class MergingWindows:
    """The open windows of one key, and the window under which the contents of each are stored.

    Contents do not move when a window grows: they stay under the first window's name. Follows
    Flink's MergingWindowSet.

    Attributes:
        stored_under: Open window -> window under which its contents are stored.
    """

    stored_under: dict[TimeWindow, TimeWindow] = field(default_factory=dict)

    def add(self, window: TimeWindow) -> tuple[TimeWindow, list[TimeWindow], list[TimeWindow]]:
        """Add `window` and merge all open windows that touch it.

        Returns:
            The merged window, the windows it replaced, and the names of their contents, the first
            to be kept. Both lists are empty if the window is new or was open already.
        """
        touched = sorted(
            open_window for open_window in self.stored_under if open_window.touches(window)
        )
        if not touched:
            self.stored_under[window] = window
            return window, [], []
        merged = window
        for open_window in touched:
            merged = merged.cover(open_window)
        names = [self.stored_under.pop(open_window) for open_window in touched]
        self.stored_under[merged] = names[0]
        return (merged, [], []) if touched == [merged] else (merged, touched, names)
