"""What a slice assigner is: the slices and the windows of an aligned window function."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]


class SliceAssigner(ABC):
    """The slices and windows of one aligned window function; the model is Flink's SliceAssigner.

    Windows are numbered in the order of their ends. Arrays are of any length; a slice end or
    window end that is handed in must be one, which is not checked.
    """

    window_end_stride_us: int
    """Distance between neighbouring window ends; the longest, where months make it vary."""

    is_shared: bool
    """True if a slice can belong to several windows; else a window is exactly one slice."""

    @abstractmethod
    def slice_end(self, time_us: Int64Array) -> Int64Array:
        """The end, exclusive, of the slice that each time falls into."""

    @abstractmethod
    def slice_end_sql(self, time_us_sql: str) -> str:
        """`slice_end` as a Spark SQL expression over the BIGINT expression `time_us_sql`."""

    @abstractmethod
    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        """The end of the oldest window that each slice belongs to.

        A slice in a gap between windows (HOP with slide > size) belongs to none: its
        `first_window_end` is greater than its `last_window_end`.
        """

    @abstractmethod
    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        """The end of the newest window that each slice belongs to."""

    @abstractmethod
    def window_start(self, window_end: Int64Array) -> Int64Array:
        """The start, inclusive, of the window with each end."""

    @abstractmethod
    def window_start_sql(self, window_end_sql: str) -> str:
        """`window_start` as a Spark SQL expression over the BIGINT expression `window_end_sql`."""

    @abstractmethod
    def next_window_end(self, time_us: int) -> int:
        """The first window end after `time_us`, which may itself be a window end or not."""

    @abstractmethod
    def previous_window_end(self, time_us: int) -> int:
        """The last window end that is not after `time_us`."""

    @abstractmethod
    def window_number(self, window_end: Int64Array) -> Int64Array:
        """The number of the window with each end; ends that follow each other differ by 1.

        Between the windows of two starts of CUMULATE numbers may be left out.
        """

    @abstractmethod
    def window_end_of(self, number: Int64Array) -> Int64Array:
        """The window end with each number."""

    @abstractmethod
    def block(self, slice_end: Int64Array) -> Int64Array:
        """The number of the block of time that each slice is in, ascending with the slices.

        Blocks are so long that the slices of a window are in two of them at most.
        """

    @abstractmethod
    def window_ends_sql(self, time_us_sql: str) -> str:
        """Spark SQL: array<bigint> with the ends of all windows of a row, oldest first.

        Empty for a row in a gap; NULL or empty for a NULL time, so `explode` drops such a row.
        """

    def window_ends(self, time_us: Int64Array) -> tuple[Int64Array, Int64Array]:
        """All windows of all rows: (row index, window end), rows in order, oldest window first."""
        slice_end = self.slice_end(time_us)
        first = self.window_number(self.first_window_end(slice_end))
        last = self.window_number(self.last_window_end(slice_end))
        n_windows = np.maximum(last - first + 1, 0)
        row_index = np.repeat(np.arange(len(time_us), dtype=np.int64), n_windows)
        position = np.arange(len(row_index), dtype=np.int64)
        position -= np.repeat(np.cumsum(n_windows) - n_windows, n_windows)
        return row_index, self.window_end_of(first[row_index] + position)
