"""Windows that become one when they touch."""

from __future__ import annotations

from dataclasses import dataclass, field

from runtime.streaming.general.windows import TimeWindow


@dataclass
class MergingWindows:
    """The open windows of one key, and under the name of which window the contents of each are.

    Contents are not moved each time a window grows: they stay under the name of the window that
    was first. The model is Flink's MergingWindowSet.

    Attributes:
        kept_as: for each open window the name of its contents.
    """

    kept_as: dict[TimeWindow, TimeWindow] = field(default_factory=dict)

    def add(self, window: TimeWindow) -> tuple[TimeWindow, list[TimeWindow], list[TimeWindow]]:
        """The open window that holds `window`, after everything that it touches was merged.

        Returns:
            That window, the windows that went in, and the names of their contents, of which the
            first stays; none went in if it is a new one, or one that it was before.
        """
        touched = sorted(known for known in self.kept_as if known.touches(window))
        if not touched:
            self.kept_as[window] = window
            return window, [], []
        merged = window
        for known in touched:
            merged = merged.cover(known)
        names = [self.kept_as.pop(known) for known in touched]
        self.kept_as[merged] = names[0]
        return (merged, [], []) if touched == [merged] else (merged, touched, names)
