"""HOP: windows that begin at every slide and may overlap, with any ratio of size and slide.

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import ClassVar, Literal

from runtime.windows.arguments import Arguments, WindowKind, check_windows_per_row
from runtime.windows.assigner import (
    EvenWindowEnds,
    Int64Array,
    SliceAssigner,
    after_sql,
    at_or_before,
    at_or_before_sql,
)
from runtime.windows.base import BaseAligned, Bounds, check_positive, given
from runtime.windows.intervals import IntervalValue, render_months
from runtime.windows.months import BaseCalendar, CalendarSlices, Months
from runtime.windows.times import LONGEST_MONTH_US
from runtime.windows.tumble import CalendarTumble, Tumble


@dataclass(frozen=True)
class Hop(BaseAligned):
    """Windows [k*slide + offset, k*slide + offset + size), any ratio of size and slide.

    If size is not a multiple of slide, there are two slices per slide, cut where windows start and
    where they end.
    """

    slide_us: int
    size_us: int
    offset_us: int = 0

    function: ClassVar[str] = "HOP"
    is_calendar: ClassVar[Literal[False]] = False

    def assigner(self) -> SliceAssigner:
        check_positive(self.function, slide=self.slide_us, size=self.size_us)
        return HopSlices(self)

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        offset = IntervalValue(0, self.offset_us)
        return given(size=self.length, slide=self.stride, offset=offset)

    @property
    def longest_us(self) -> int:
        return self.size_us

    @property
    def slice_width_us(self) -> int:
        return self.slice_widths_us[0]

    @property
    def slice_widths_us(self) -> tuple[int, ...]:
        rest = self.size_us % self.slide_us
        if not rest:
            return (self.slide_us,)
        return tuple(sorted((rest, self.slide_us - rest), reverse=True))

    @property
    def slices_per_window(self) -> int:
        n_slides, rest = divmod(self.size_us, self.slide_us)
        return n_slides if rest == 0 else 2 * n_slides + 1

    @property
    def windows_per_row(self) -> int:
        return -(-self.size_us // self.slide_us)

    @property
    def stride(self) -> IntervalValue:
        return IntervalValue(0, self.slide_us)

    @property
    def length(self) -> IntervalValue:
        return IntervalValue(0, self.size_us)

    @property
    def has_gaps(self) -> bool:
        return self.slide_us > self.size_us

    @property
    def tiling(self) -> Tumble:
        return Tumble(self.slide_us, (self.offset_us + self.size_us) % self.slide_us)

    @property
    def slice_grid(self) -> Tumble:
        width = gcd(self.slide_us, self.size_us)
        return Tumble(width, self.offset_us % width)

    @property
    def has_even_slices(self) -> bool:
        return self.size_us % self.slide_us == 0

    @property
    def pieces(self) -> tuple[int, int]:
        return gcd(self.slide_us, self.size_us), self.offset_us

    def note_lines(self, keys: Sequence[str]) -> list[str]:
        if not self.has_gaps:
            return []
        return [
            "advice: the slide is longer than the size, so rows between windows are in no window; "
            "the slide argument comes before the size"
        ]

    def candidates(self, time_us: int) -> Iterator[Bounds]:
        # The last window that begins at or before the time, and the windows before it.
        number = (time_us - self.offset_us) // self.slide_us
        for k in range(number, number - self.windows_per_row - 1, -1):
            start = k * self.slide_us + self.offset_us
            yield start, start + self.size_us

    @property
    def ahead_us(self) -> int:
        return self.slide_us


@dataclass(frozen=True)
class CalendarHop(BaseCalendar):
    """Windows of `size_months` months that begin in months k*slide + offset, any ratio of both."""

    slide_months: int
    size_months: int
    offset_months: int = 0
    offset_us: int = 0

    function: ClassVar[str] = "HOP"

    @property
    def _over_months(self) -> Hop:
        return Hop(self.slide_months, self.size_months, self.offset_months)

    def assigner(self) -> SliceAssigner:
        return CalendarSlices(self._over_months.assigner(), Months(self.offset_us))

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        offset = IntervalValue(self.offset_months, self.offset_us)
        return given(size=self.length, slide=self.stride, offset=offset)

    @property
    def slice_width_us(self) -> int:
        return self._over_months.slice_width_us * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        return self._over_months.slices_per_window

    @property
    def windows_per_row(self) -> int:
        return self._over_months.windows_per_row

    @property
    def stride(self) -> IntervalValue:
        return IntervalValue(self.slide_months, 0)

    @property
    def length(self) -> IntervalValue:
        return IntervalValue(self.size_months, 0)

    @property
    def has_gaps(self) -> bool:
        return self._over_months.has_gaps

    @property
    def tiling(self) -> CalendarTumble:
        tiling = self._over_months.tiling
        return CalendarTumble(tiling.size_us, tiling.offset_us, self.offset_us)

    @property
    def slice_grid(self) -> CalendarTumble:
        grid = self._over_months.slice_grid
        return CalendarTumble(grid.size_us, grid.offset_us, self.offset_us)

    @property
    def has_even_slices(self) -> bool:
        return self._over_months.has_even_slices

    @property
    def slice_text(self) -> str:
        widths = self._over_months.slice_widths_us
        text = " and ".join(map(render_months, widths))
        return text + (", alternating" if len(widths) > 1 else "")

    def candidates(self, time_us: int) -> Iterator[Bounds]:
        return self.months_candidates(time_us, self.slide_months)

    @property
    def ahead_us(self) -> int:
        return self.slide_months * LONGEST_MONTH_US


class HopSlices(EvenWindowEnds):
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
        import numpy as np

        return slice_start + np.where(phase < self._rest, self._rest, self._slide)

    def slice_end_sql(self, time_us_sql: str) -> str:
        next_start = after_sql(time_us_sql, self._start_offset, self._slide)
        if self._rest == 0:
            return next_start
        return f"least({next_start}, {after_sql(time_us_sql, self._end_offset, self._slide)})"

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return at_or_before(slice_end - 1, self._end_offset, self._slide) + self._slide

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return at_or_before(slice_end - 1, self._start_offset, self._slide) + self._size

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return window_end - self._size

    def window_start_sql(self, window_end_sql: str) -> str:
        return f"({window_end_sql}) - {self._size}L"

    def window_ends_sql(self, time_us_sql: str) -> str:
        first = after_sql(time_us_sql, self._end_offset, self._slide)
        last = f"{at_or_before_sql(time_us_sql, self._start_offset, self._slide)} + {self._size}L"
        windows = f"sequence({first}, {last}, {self._slide}L)"
        if self._slide <= self._size:
            return windows
        # sequence() fails if the bounds are reversed.
        return f"if({first} <= {last}, {windows}, cast(array() AS array<bigint>))"


def hop_of(arguments: Arguments) -> Hop | CalendarHop:
    """Return the windows that arguments describe.

    Raises:
        AnalysisError: An argument is invalid.
    """
    slide, size = arguments.positive("slide"), arguments.positive("size")
    if bool(slide.months) != bool(size.months):
        raise arguments.error(
            "slide",
            "the slide and the size of HOP must both be calendar months or both "
            f"fixed lengths: slide {slide.text}, size {size.text}",
            "use months, quarters or years for both, or weeks, days or smaller units for both",
        )
    offset = arguments.offset(slide, "slide")
    window: Hop | CalendarHop = Hop(slide.us, size.us, offset.us)
    if slide.months:
        window = CalendarHop(slide.months, size.months, offset.months % slide.months, offset.us)
    windows = window.windows_per_row
    message = (
        f"HOP would assign every row to {windows:,} windows: size {size.text}, slide {slide.text}"
    )
    check_windows_per_row(arguments, "slide", windows, message)
    return window


HOP: WindowKind[Hop | CalendarHop] = WindowKind(
    name="HOP",
    lengths=("slide", "size"),
    optional=("offset",),
    window=hop_of,
    summary="windows that begin at every slide and may overlap",
    text="All windows have the same size, and one begins at every slide. Each row is in\n"
    "size / slide windows. The slide comes before the size, as in Flink. The size need\n"
    "not be a multiple of the slide. If the slide is larger than the size, rows between\n"
    "two windows are in no window.",
    example="INTERVAL '5' MINUTES, INTERVAL '10' MINUTES",
    drawn=Hop(5, 10),
    drawn_until=25,
)
