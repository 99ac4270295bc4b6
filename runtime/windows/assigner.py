"""Slice assigners: map times to slices, and slices to windows.

A slice is the smallest piece of time that windows share, named by its end. All times are int64
microseconds since 1970-01-01 00:00, possibly negative: every division rounds down. The same
arithmetic is available as Spark SQL over a BIGINT expression, so that both local stages agree.

NumPy is imported where arrays are made, because help and the planner read windows without it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Int64Array: TypeAlias = "npt.NDArray[np.int64]"


class SliceAssigner(ABC):
    """Slices and windows of one aligned window function, modelled after Flink's SliceAssigner.

    Windows are numbered in the order of their ends. Arrays may have any length. Arguments that are
    slice ends or window ends are not validated.
    """

    window_end_stride_us: int
    """Distance between neighbouring window ends, or the longest one if months make it vary."""

    is_shared: bool
    """True if a slice can belong to several windows; otherwise a window is exactly one slice."""

    @abstractmethod
    def slice_end(self, time_us: Int64Array) -> Int64Array:
        """Return the exclusive end of the slice that contains each time."""

    @abstractmethod
    def slice_end_sql(self, time_us_sql: str) -> str:
        """Return `slice_end` as Spark SQL over the BIGINT expression `time_us_sql`."""

    @abstractmethod
    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        """Return the end of the oldest window that each slice belongs to.

        A slice in a gap between windows (HOP with slide > size) belongs to none: its
        `first_window_end` is greater than its `last_window_end`.
        """

    @abstractmethod
    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        """Return the end of the newest window that each slice belongs to."""

    @abstractmethod
    def window_start(self, window_end: Int64Array) -> Int64Array:
        """Return the inclusive start of the window with each end."""

    @abstractmethod
    def window_start_sql(self, window_end_sql: str) -> str:
        """Return `window_start` as Spark SQL over the BIGINT expression `window_end_sql`."""

    @abstractmethod
    def next_window_end(self, time_us: int) -> int:
        """Return the first window end after `time_us`, which need not be a window end."""

    @abstractmethod
    def previous_window_end(self, time_us: int) -> int:
        """Return the last window end that is not after `time_us`."""

    def first_window_end_from(self, time_us: int) -> int:
        """Return the end of the first window that does not start before `time_us`."""
        import numpy as np

        def end_of(number: int) -> Int64Array:
            return self.window_end_of(np.array([number]))

        def starts_before(number: int) -> bool:
            return int(self.window_start(end_of(number))[0]) < time_us

        low = int(self.window_number(np.array([self.next_window_end(time_us)]))[0])
        step = 1
        while starts_before(low + step):
            step *= 2
        high = low + step
        while low < high:
            middle = (low + high) // 2
            if starts_before(middle):
                low = middle + 1
            else:
                high = middle
        return int(end_of(low)[0])

    @abstractmethod
    def window_number(self, window_end: Int64Array) -> Int64Array:
        """Return the number of the window with each end; numbers of consecutive ends differ by 1.

        Between CUMULATE windows of different starts, numbers may be skipped.
        """

    @abstractmethod
    def window_end_of(self, number: Int64Array) -> Int64Array:
        """Return the window end with each number."""

    @abstractmethod
    def block(self, slice_end: Int64Array) -> Int64Array:
        """Return the number of the block of time with each slice, ascending with the slices.

        Blocks are so long that a window has slices in at most two.
        """

    @abstractmethod
    def window_ends_sql(self, time_us_sql: str) -> str:
        """Return Spark SQL for an array<bigint> with the ends of a row's windows, oldest first.

        Empty for a row in a gap; NULL or empty for a NULL time, so that `explode` drops such a row.
        """

    def window_ends(self, time_us: Int64Array) -> tuple[Int64Array, Int64Array]:
        """Return all windows of all rows: (row index, window end), by row, then oldest first."""
        import numpy as np

        slice_end = self.slice_end(time_us)
        first = self.window_number(self.first_window_end(slice_end))
        last = self.window_number(self.last_window_end(slice_end))
        n_windows = np.maximum(last - first + 1, 0)
        row_index = np.repeat(np.arange(len(time_us), dtype=np.int64), n_windows)
        position = np.arange(len(row_index), dtype=np.int64)
        position -= np.repeat(np.cumsum(n_windows) - n_windows, n_windows)
        return row_index, self.window_end_of(first[row_index] + position)


class EvenWindowEnds(SliceAssigner):
    """Window ends on a grid: one every `window_end_stride_us`."""

    block_us: int
    """Upper bound of window lengths."""

    _end_offset: int
    """A window end, modulo the stride."""

    def next_window_end(self, time_us: int) -> int:
        return after(time_us, self._end_offset, self.window_end_stride_us)

    def previous_window_end(self, time_us: int) -> int:
        return self.next_window_end(time_us) - self.window_end_stride_us

    def window_number(self, window_end: Int64Array) -> Int64Array:
        return (window_end - self._end_offset) // self.window_end_stride_us

    def window_end_of(self, number: Int64Array) -> Int64Array:
        return number * self.window_end_stride_us + self._end_offset

    def block(self, slice_end: Int64Array) -> Int64Array:
        return slice_end // self.block_us


def at_or_before(time_us: Int64Array, offset: int, width: int) -> Int64Array:
    """Return the last k*width + offset at or below the time."""
    return time_us - (time_us - offset) % width


def after(time_us: int, offset: int, width: int) -> int:
    """Return the first k*width + offset above the time."""
    return time_us - (time_us - offset) % width + width


def at_or_before_sql(time_us_sql: str, offset: int, width: int) -> str:
    """Return `at_or_before` as Spark SQL."""
    phase = f"({time_us_sql}) - {offset}L" if offset else f"({time_us_sql})"
    return f"({time_us_sql}) - pmod({phase}, {width}L)"


def after_sql(time_us_sql: str, offset: int, width: int) -> str:
    """Return `after` as Spark SQL."""
    return f"{at_or_before_sql(time_us_sql, offset, width)} + {width}L"
