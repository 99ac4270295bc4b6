"""Merge windows that touch."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.streaming.general.windows import TimeWindow


@dataclass
class MergingWindows:
    """The open windows of one key, and the window under which the contents of each are stored.

    Contents do not move when a window grows: they stay under the first window's name. Follows
    Flink's MergingWindowSet.

    Attributes:
        kept_as: Open window -> window under which its contents are stored.
    """

    kept_as: dict[TimeWindow, TimeWindow] = field(default_factory=dict)

    def add(self, window: TimeWindow) -> tuple[TimeWindow, list[TimeWindow], list[TimeWindow]]:
        """Add `window` and merge all open windows that touch it.

        Returns:
            The merged window, the windows it replaced, and the names of their contents, the first
            to be kept. Both lists are empty if the window is new or was open already.
        """
        touched = sorted(open_window for open_window in self.kept_as if open_window.touches(window))
        if not touched:
            self.kept_as[window] = window
            return window, [], []
        merged = window
        for open_window in touched:
            merged = merged.cover(open_window)
        names = [self.kept_as.pop(open_window) for open_window in touched]
        self.kept_as[merged] = names[0]
        return (merged, [], []) if touched == [merged] else (merged, touched, names)
