"""TUMBLE: consecutive windows that do not overlap, of a fixed length or of months.

Slices are the windows of a TUMBLE, so grids of slices are described by these classes too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias

from runtime.windows.arguments import Arguments, WindowKind
from runtime.windows.assigner import (
    EvenWindowEnds,
    Int64Array,
    SliceAssigner,
    after_sql,
    at_or_before,
)
from runtime.windows.base import BaseAligned, Bounds, check_positive, given
from runtime.windows.intervals import IntervalValue, render_duration, render_months
from runtime.windows.months import BaseCalendar, CalendarSlices, Months, month_of, month_start
from runtime.windows.times import DAY_US, LONGEST_MONTH_US


@dataclass(frozen=True)
class Tumble(BaseAligned):
    """Windows [k*size + offset, k*size + offset + size)."""

    size_us: int
    offset_us: int = 0

    function: ClassVar[str] = "TUMBLE"
    tiles: ClassVar[bool] = True
    is_calendar: ClassVar[Literal[False]] = False

    def assigner(self) -> SliceAssigner:
        check_positive(self.function, size=self.size_us)
        return TumbleSlices(self)

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        return given(size=self.stride, offset=IntervalValue(0, self.offset_us))

    @property
    def longest_us(self) -> int:
        return self.size_us

    @property
    def slice_width_us(self) -> int:
        return self.size_us

    @property
    def stride(self) -> IntervalValue:
        return IntervalValue(0, self.size_us)

    @property
    def tiling(self) -> Self:
        return self

    @property
    def slice_grid(self) -> Tumble:
        return Tumble(self.size_us, self.offset_us % self.size_us)

    @property
    def pieces(self) -> tuple[int, int]:
        return self.size_us, self.offset_us

    def candidates(self, time_us: int) -> Iterator[Bounds]:
        number = (time_us - self.offset_us) // self.size_us
        start = number * self.size_us + self.offset_us
        yield start, start + self.size_us

    # -- as a grid of slices -----------------------------------------------------------------------

    @property
    def grid_text(self) -> str:
        """Width of the slices, and their origin if not midnight."""
        text = render_duration(self.size_us)
        return f"{text} and {render_duration(self.offset_us)}" if self.offset_us else text

    def consists_of(self, fine: SliceGrid) -> bool:
        """Return whether every slice consists of whole slices of a finer grid.

        Example:
            >>> Tumble(60, 30).consists_of(Tumble(20, 10)), Tumble(60, 30).consists_of(Tumble(20))
            (True, False)
        """
        if not isinstance(fine, Tumble):
            return False
        apart = self.offset_us - fine.offset_us
        return self.size_us % fine.size_us == 0 and apart % fine.size_us == 0

    def is_cut(self, time_us: int) -> bool:
        """Return whether a slice begins at a time."""
        return (time_us - self.offset_us) % self.size_us == 0


@dataclass(frozen=True)
class CalendarTumble(BaseCalendar):
    """Windows of `size_months` months that begin in months k*size + offset."""

    size_months: int
    offset_months: int = 0
    offset_us: int = 0

    function: ClassVar[str] = "TUMBLE"
    tiles: ClassVar[bool] = True

    def assigner(self) -> SliceAssigner:
        over_months = Tumble(self.size_months, self.offset_months).assigner()
        return CalendarSlices(over_months, Months(self.offset_us))

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        return given(size=self.stride, offset=IntervalValue(self.offset_months, self.offset_us))

    @property
    def slice_width_us(self) -> int:
        return self.size_months * LONGEST_MONTH_US

    @property
    def stride(self) -> IntervalValue:
        return IntervalValue(self.size_months, 0)

    @property
    def tiling(self) -> Self:
        return self

    @property
    def slice_grid(self) -> CalendarTumble:
        return CalendarTumble(
            self.size_months, self.offset_months % self.size_months, self.offset_us
        )

    @property
    def slice_text(self) -> str:
        return render_months(self.size_months)

    def candidates(self, time_us: int) -> Iterator[Bounds]:
        return self.months_candidates(time_us, self.size_months)

    # -- as a grid of slices -----------------------------------------------------------------------

    @property
    def grid_text(self) -> str:
        """Width of the slices, and their origin if not the start of the year."""
        text = render_months(self.size_months)
        if self.offset_months:
            text += f" from month {self.offset_months + 1}"
        return f"{text} and {render_duration(self.offset_us)}" if self.offset_us else text

    def consists_of(self, fine: SliceGrid) -> bool:
        """Return whether every slice consists of whole slices of a finer grid."""
        if isinstance(fine, Tumble):
            apart = self.offset_us - fine.offset_us
            return DAY_US % fine.size_us == 0 and apart % fine.size_us == 0
        months = self.offset_months - fine.offset_months
        return (
            self.size_months % fine.size_months == 0
            and months % fine.size_months == 0
            and self.offset_us == fine.offset_us
        )

    def is_cut(self, time_us: int) -> bool:
        """Return whether a slice begins at a time."""
        month = month_of(time_us - self.offset_us)
        is_first = month_start(month) == time_us - self.offset_us
        return is_first and (month - self.offset_months) % self.size_months == 0


SliceGrid: TypeAlias = Tumble | CalendarTumble


class TumbleSlices(EvenWindowEnds):
    """Slices of TUMBLE: a slice is a whole window."""

    def __init__(self, window: Tumble) -> None:
        self._size = self.block_us = self.window_end_stride_us = window.size_us
        self._end_offset = window.offset_us % window.size_us
        self.is_shared = False

    def slice_end(self, time_us: Int64Array) -> Int64Array:
        return at_or_before(time_us, self._end_offset, self._size) + self._size

    def slice_end_sql(self, time_us_sql: str) -> str:
        return after_sql(time_us_sql, self._end_offset, self._size)

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return window_end - self._size

    def window_start_sql(self, window_end_sql: str) -> str:
        return f"({window_end_sql}) - {self._size}L"

    def window_ends_sql(self, time_us_sql: str) -> str:
        return f"array({self.slice_end_sql(time_us_sql)})"


def tumble_of(arguments: Arguments, parameter: str = "size") -> SliceGrid:
    """Return the windows that arguments describe.

    Args:
        arguments: Arguments of the call.
        parameter: Parameter with the size.

    Raises:
        AnalysisError: An argument is invalid.
    """
    size = arguments.positive(parameter)
    offset = arguments.offset(size, parameter)
    if size.months:
        return CalendarTumble(size.months, offset.months % size.months, offset.us)
    return Tumble(size.us, offset.us)


TUMBLE: WindowKind[SliceGrid] = WindowKind(
    name="TUMBLE",
    lengths=("size",),
    optional=("offset",),
    window=tumble_of,
    summary="consecutive windows that do not overlap",
    text="All windows have the same size, and each row is in exactly one. Windows begin at\n"
    "multiples of the size since 1970-01-01 00:00, shifted by the offset, which may be\n"
    "negative. A size in weeks, months, quarters or years gives calendar windows. A row\n"
    "on a boundary belongs to the later window.",
    example="INTERVAL '10' MINUTES",
    drawn=Tumble(10),
    drawn_until=40,
)
