"""Ranges of slices that windows consist of, for windows in listing order."""

from __future__ import annotations

import numpy as np

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.kernels.conversions import Int64Array
from runtime.compute.kernels.slices import Slices, row_changes
from runtime.windows import AlignedWindow


class WindowRanges:
    """Ranges of slice rows, from oldest to newest, that listed windows consist of.

    Listed windows are numbered consecutively over all keys; this number is a window's place. A
    slice belongs to the windows from its first place up to, but excluding, its end place.

    Args:
        slices: Slices of a bucket.
        window: Window.
        window_offset: int64[n + 1], number of windows listed before each slice's.
        is_shared: Whether a slice can belong to several windows.

    Attributes:
        first_place: int64[n], ascending: first window that each slice belongs to.
        left_at: int64[n], ascending: first window, of the slice's key or a later one, that is
            listed after all windows of the slice.
    """

    def __init__(
        self, slices: Slices, window: AlignedWindow, window_offset: Int64Array, is_shared: bool
    ) -> None:
        self.first_place: Int64Array = window_offset[:-1]
        self._is_shared = is_shared
        self.end_place: Int64Array
        if not is_shared:
            self.end_place = window_offset[1:]
        elif not window.grows:
            self.end_place = _hop_end_places(slices, window_offset)
        else:
            starts = maximal_window_starts(slices)
            after = np.append(starts[1:], len(slices))
            self.end_place = np.repeat(window_offset.take(after), after - starts)

    def oldest_slice(self, first_window: int, newest_slice: Int64Array) -> Int64Array:
        """Return the first row of each window's slices: the number of slices that ended by then.

        Args:
            first_window: Place of the first of consecutive windows.
            newest_slice: Last row of each window's slices.
        """
        if not self._is_shared:
            return newest_slice
        n_windows = len(newest_slice)
        before, after = np.searchsorted(self.end_place, (first_window, first_window + n_windows))
        n_ended = np.bincount(self.end_place[before:after] - first_window, minlength=n_windows)
        oldest: Int64Array = before + np.cumsum(n_ended)
        return oldest


def maximal_window_starts(slices: Slices) -> Int64Array:
    """Return the first slice of each maximal window of a CUMULATE."""
    maximal_window = slices.last_window.take(slices.slot)
    return run_starts(row_changes([slices.key_code, maximal_window]))


def _hop_end_places(slices: Slices, window_offset: Int64Array) -> Int64Array:
    """Return the first listed window that ends after the last window of each slice.

    It is listed by the newest slice of the key that such a window can contain, if that slice lists
    enough windows.
    """
    after_last = slices.last_window + 1
    # Newest slot that window number `after_last` can cover. Window numbers ascend with the slots: a
    # slot belongs to this window or an older one if its first window is no newer.
    newest_slot = np.searchsorted(slices.first_window, after_last, side="right") - 1
    later_slots = newest_slot - np.arange(len(newest_slot))
    newest_slice = slices.newest_up_to(slices.cell + later_slots.take(slices.slot))
    place_of_window_0 = window_offset[:-1] - slices.first_window.take(slices.slot)
    end_place: Int64Array = place_of_window_0.take(newest_slice) + after_last.take(slices.slot)
    np.minimum(end_place, window_offset[1:].take(newest_slice), out=end_place)
    return end_place
