"""Slice assigners of windows of fixed lengths: TUMBLE, HOP and CUMULATE on int64 arrays.

A slice is the smallest piece of time that windows share, named by its end. All times are int64
microseconds since 1970-01-01 00:00, possibly negative: every division rounds down. The same
arithmetic is available as Spark SQL over a BIGINT expression, so that both local stages agree.

    HOP(slide 2, size 5): windows start at every even time and last 5, so slices are cut at every
    window start and at every window end; all slices have width 1.

    0  1  2  3  4  5  6  7  8  9
    [--------------)
          [--------------)
                [--------------)
    |  |  |  |  |  |  |  |  |  |

Two slices per slide are called paired windows (Krishnamurthy, Wu, Franklin: On-the-fly sharing for
streamed aggregation, SIGMOD 2006); Flink cuts by the greatest common divisor.
"""

from __future__ import annotations

import numpy as np

from runtime.compute.windows.assigner import Int64Array, SliceAssigner
from runtime.errors import AnalysisError
from runtime.spec.windows import Cumulate, Hop, Tumble


class _EvenWindowEnds(SliceAssigner):
    """Window ends on a grid: one every `window_end_stride_us`."""

    block_us: int
    """Upper bound of window lengths."""

    _end_offset: int
    """A window end, modulo the stride."""

    def next_window_end(self, time_us: int) -> int:
        return _next(time_us, self._end_offset, self.window_end_stride_us)

    def previous_window_end(self, time_us: int) -> int:
        return self.next_window_end(time_us) - self.window_end_stride_us

    def window_number(self, window_end: Int64Array) -> Int64Array:
        return (window_end - self._end_offset) // self.window_end_stride_us

    def window_end_of(self, number: Int64Array) -> Int64Array:
        return number * self.window_end_stride_us + self._end_offset

    def block(self, slice_end: Int64Array) -> Int64Array:
        return slice_end // self.block_us


class HopSlices(_EvenWindowEnds):
    """HOP with any ratio of size and slide, cut at every window start and every window end.

    They coincide if the size is a multiple of the slide; otherwise there are two slices per slide
    ("paired windows", see the module). With slide > size every second slice is a gap.
    """

    def __init__(self, window: Hop) -> None:
        self._slide = window.slide_us
        self._size = self.block_us = window.size_us
        self._start_offset = window.offset_us % window.slide_us
        self._end_offset = (window.offset_us + window.size_us) % window.slide_us
        # Distance from a window start to the next window end, modulo the slide; 0 if they coincide.
        self._rest = window.size_us % window.slide_us
        self.window_end_stride_us = window.slide_us
        self.is_shared = window.size_us > window.slide_us

    def slice_end(self, time_us: Int64Array) -> Int64Array:
        phase = (time_us - self._start_offset) % self._slide
        slice_start = time_us - phase
        if self._rest == 0:
            return slice_start + self._slide
        return slice_start + np.where(phase < self._rest, self._rest, self._slide)

    def slice_end_sql(self, time_us_sql: str) -> str:
        next_start = _next_sql(time_us_sql, self._start_offset, self._slide)
        if self._rest == 0:
            return next_start
        return f"least({next_start}, {_next_sql(time_us_sql, self._end_offset, self._slide)})"

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return _floor(slice_end - 1, self._end_offset, self._slide) + self._slide

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return _floor(slice_end - 1, self._start_offset, self._slide) + self._size

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return window_end - self._size

    def window_start_sql(self, window_end_sql: str) -> str:
        return f"({window_end_sql}) - {self._size}L"

    def window_ends_sql(self, time_us_sql: str) -> str:
        first = _next_sql(time_us_sql, self._end_offset, self._slide)
        last = f"{_floor_sql(time_us_sql, self._start_offset, self._slide)} + {self._size}L"
        windows = f"sequence({first}, {last}, {self._slide}L)"
        if self._slide <= self._size:
            return windows
        # sequence() fails if the bounds are reversed.
        return f"if({first} <= {last}, {windows}, cast(array() AS array<bigint>))"


class TumbleSlices(HopSlices):
    """TUMBLE, a HOP whose slide equals its size: a slice is a whole window."""

    def __init__(self, window: Tumble) -> None:
        super().__init__(Hop(window.size_us, window.size_us, window.offset_us))

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def window_ends_sql(self, time_us_sql: str) -> str:
        return f"array({self.slice_end_sql(time_us_sql)})"


class CumulateSlices(_EvenWindowEnds):
    """CUMULATE: a slice is a step; windows of one maximal window share their start."""

    def __init__(self, window: Cumulate) -> None:
        self._step = window.step_us
        self._size = self.block_us = window.size_us
        # The step divides the size, so one offset serves both grids.
        self._offset = window.offset_us % window.size_us
        self._end_offset = self._offset % window.step_us
        self.window_end_stride_us = window.step_us
        self.is_shared = window.size_us > window.step_us

    def slice_end(self, time_us: Int64Array) -> Int64Array:
        return _floor(time_us, self._offset % self._step, self._step) + self._step

    def slice_end_sql(self, time_us_sql: str) -> str:
        return _next_sql(time_us_sql, self._offset % self._step, self._step)

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return self.window_start(slice_end) + self._size

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return _floor(window_end - 1, self._offset, self._size)

    def window_start_sql(self, window_end_sql: str) -> str:
        return _floor_sql(f"({window_end_sql}) - 1L", self._offset, self._size)

    def window_ends_sql(self, time_us_sql: str) -> str:
        first = self.slice_end_sql(time_us_sql)
        return (
            f"sequence({first}, {_next_sql(time_us_sql, self._offset, self._size)}, {self._step}L)"
        )


def even_slices(window: Tumble | Hop | Cumulate) -> SliceAssigner:
    """Return the slice assigner of a window with fixed lengths.

    Raises:
        AnalysisError: A length is not positive, or CUMULATE's step does not divide its size.
    """
    match window:
        case Tumble():
            _check_positive("TUMBLE", "size", window.size_us)
            return TumbleSlices(window)
        case Hop():
            _check_positive("HOP", "slide", window.slide_us)
            _check_positive("HOP", "size", window.size_us)
            return HopSlices(window)
        case Cumulate():
            _check_positive("CUMULATE", "step", window.step_us)
            _check_positive("CUMULATE", "size", window.size_us)
            if window.size_us % window.step_us:
                raise AnalysisError(
                    f"the size of CUMULATE, {window.size_us} us, is not a multiple of "
                    f"its step, {window.step_us} us",
                    hint="use a step that divides the size",
                )
            return CumulateSlices(window)


def _check_positive(function: str, parameter: str, length_us: int) -> None:
    if length_us <= 0:
        raise AnalysisError(
            f"the {parameter} of {function} is {length_us} us",
            hint=f"the {parameter} must be positive",
        )


def _floor(time_us: Int64Array, offset: int, width: int) -> Int64Array:
    """Return the last k*width + offset at or below the time."""
    return time_us - (time_us - offset) % width


def _next(time_us: int, offset: int, width: int) -> int:
    """Return the first k*width + offset above the time."""
    return time_us - (time_us - offset) % width + width


def _floor_sql(time_us_sql: str, offset: int, width: int) -> str:
    phase = f"({time_us_sql}) - {offset}L" if offset else f"({time_us_sql})"
    return f"({time_us_sql}) - pmod({phase}, {width}L)"


def _next_sql(time_us_sql: str, offset: int, width: int) -> str:
    return f"{_floor_sql(time_us_sql, offset, width)} + {width}L"
