"""A slice assigner that knows only the windows whose ends lie in a range of time."""

from __future__ import annotations

import numpy as np

from runtime.compute.windows.assigner import Int64Array, SliceAssigner


class WindowsBetween(SliceAssigner):
    """The windows of another assigner with `after_us` < window end <= `until_us`.

    Slices are those of the other assigner. One that belongs to no window in the range is like a
    slice in a gap: its first window end is greater than its last.
    """

    def __init__(self, assigner: SliceAssigner, after_us: int, until_us: int) -> None:
        self._all = assigner
        self._first = assigner.next_window_end(after_us)
        self._last = assigner.previous_window_end(until_us)
        self.window_end_stride_us = assigner.window_end_stride_us
        self.is_shared = assigner.is_shared

    def slice_end(self, time_us: Int64Array) -> Int64Array:
        return self._all.slice_end(time_us)

    def slice_end_sql(self, time_us_sql: str) -> str:
        return self._all.slice_end_sql(time_us_sql)

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return np.maximum(self._all.first_window_end(slice_end), self._first)

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return np.minimum(self._all.last_window_end(slice_end), self._last)

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return self._all.window_start(window_end)

    def window_start_sql(self, window_end_sql: str) -> str:
        return self._all.window_start_sql(window_end_sql)

    def previous_window_end(self, time_us: int) -> int:
        return self._all.previous_window_end(min(time_us, self._last))

    def window_number(self, window_end: Int64Array) -> Int64Array:
        return self._all.window_number(window_end)

    def window_end_of(self, number: Int64Array) -> Int64Array:
        return self._all.window_end_of(number)

    def block(self, slice_end: Int64Array) -> Int64Array:
        return self._all.block(slice_end)

    def next_window_end(self, time_us: int) -> int:
        return self._all.next_window_end(max(time_us, self._first - 1))

    def expired_slices(self, window_end: int) -> Int64Array:
        return self._all.expired_slices(window_end)

    def window_ends_sql(self, time_us_sql: str) -> str:
        ends = self._all.window_ends_sql(time_us_sql)
        return f"filter({ends}, e -> e BETWEEN {self._first}L AND {self._last}L)"
