"""Windows that become one when they touch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from runtime.streaming.general.windows import TimeWindow

# (the merged window, the windows that went in, the window under whose name the contents are kept,
# the names of other contents that have to be merged into those)
OnMerge = Callable[[TimeWindow, list[TimeWindow], TimeWindow, list[TimeWindow]], None]


@dataclass
class MergingWindows:
    """The open windows of one key, and under the name of which window the contents of each are.

    Contents are not moved each time a window grows: they stay under the name of the window that
    was first. The model is Flink's MergingWindowSet.

    Attributes:
        kept_as: for each open window the name of its contents.
    """

    kept_as: dict[TimeWindow, TimeWindow] = field(default_factory=dict)

    def add(self, window: TimeWindow, on_merge: OnMerge) -> TimeWindow:
        """The open window that holds `window`, after everything that it touches was merged."""
        touched = [known for known in self.kept_as if known.touches(window)]
        if not touched:
            self.kept_as[window] = window
            return window
        touched.sort()
        merged = window
        for known in touched:
            merged = merged.cover(known)
        names = [self.kept_as.pop(known) for known in touched]
        self.kept_as[merged] = names[0]
        if touched != [merged]:
            on_merge(merged, touched, names[0], names[1:])
        return merged

    def remove(self, window: TimeWindow) -> None:
        """Forget an open window."""
        del self.kept_as[window]
