"""CUMULATE: windows that grow by the step up to the size, then start over.

CUMULATE(step 1 week, size 1 month): steps are counted from the start of each month, and the
last one ends with the month.

1 February 2023                1 March                             1 April
[------|------|------|------)  [------|------|------|------|--)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar, Literal, Self

from runtime.errors import AnalysisError
from runtime.windows.arguments import Arguments, WindowKind, check_windows_per_row
from runtime.windows.assigner import (
    EvenWindowEnds,
    Int64Array,
    SliceAssigner,
    after_sql,
    at_or_before,
    at_or_before_sql,
)
from runtime.windows.base import (
    BaseAligned,
    BaseWindow,
    Bounds,
    MonthSeries,
    check_positive,
    given,
)
from runtime.windows.intervals import IntervalValue, render_duration, render_months
from runtime.windows.months import BaseCalendar, CalendarSlices, Months, month_of, month_start
from runtime.windows.times import DAY_US, LONGEST_MONTH_US
from runtime.windows.tumble import CalendarTumble, SliceGrid, Tumble

_CLOSED = "a closed window of CUMULATE is a single slice"


@dataclass(frozen=True)
class Cumulate(BaseAligned):
    """Windows [s, s + step), [s, s + 2*step), ... [s, s + size) with s = k*size + offset."""

    step_us: int
    size_us: int
    offset_us: int = 0
    emit_only_on_update: bool = False

    function: ClassVar[str] = "CUMULATE"
    grows: ClassVar[bool] = True
    start_identifies: ClassVar[bool] = False
    is_calendar: ClassVar[Literal[False]] = False

    def assigner(self) -> SliceAssigner:
        check_positive(self.function, step=self.step_us, size=self.size_us)
        if self.size_us % self.step_us:
            raise AnalysisError(
                f"the size of CUMULATE, {self.size_us} us, is not a multiple of its step, "
                f"{self.step_us} us",
                hint="use a step that divides the size",
            )
        return CumulateSlices(self)

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        offset = IntervalValue(0, self.offset_us)
        return given(max_size=IntervalValue(0, self.size_us), step=self.stride, offset=offset)

    def emitting_all(self) -> Self:
        return replace(self, emit_only_on_update=False)

    @property
    def longest_us(self) -> int:
        return self.size_us

    @property
    def slice_width_us(self) -> int:
        return self.step_us

    @property
    def slices_per_window(self) -> int:
        return self.size_us // self.step_us

    @property
    def windows_per_row(self) -> int:
        return self.slices_per_window

    @property
    def stride(self) -> IntervalValue:
        return IntervalValue(0, self.step_us)

    @property
    def tiling(self) -> Tumble:
        return Tumble(self.step_us, self.offset_us % self.step_us)

    @property
    def slice_grid(self) -> Tumble:
        return self.tiling

    @property
    def pieces(self) -> tuple[int, int]:
        return self.step_us, self.offset_us

    def reason_against(self, new: BaseWindow) -> str | None:
        return _CLOSED if new.has_slices else super().reason_against(new)

    def candidates(self, time_us: int) -> Iterator[Bounds]:
        start = (time_us - self.offset_us) // self.size_us * self.size_us + self.offset_us
        for width in range(self.step_us, self.size_us + 1, self.step_us):
            yield start, start + width


@dataclass(frozen=True)
class CalendarCumulate(BaseCalendar):
    """Windows that begin in months k*size + offset and grow by the step up to the size.

    The step is a number of months that divides the size, or `step_us`. `step_us` is counted from
    the start of each largest window; the last step ends with that window and may be shorter.
    """

    size_months: int
    step_months: int = 0
    step_us: int = 0
    offset_months: int = 0
    offset_us: int = 0
    emit_only_on_update: bool = False

    function: ClassVar[str] = "CUMULATE"
    grows: ClassVar[bool] = True
    start_identifies: ClassVar[bool] = False

    def assigner(self) -> SliceAssigner:
        if self.step_us:
            if self.step_us < 0 or self.size_months <= 0:
                raise AnalysisError("CUMULATE requires a positive step and size")
            return CalendarStepSlices(self)
        over_months = Cumulate(self.step_months, self.size_months, self.offset_months)
        return CalendarSlices(over_months.assigner(), Months(self.offset_us))

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        offset = IntervalValue(self.offset_months, self.offset_us)
        return given(max_size=IntervalValue(self.size_months, 0), step=self.stride, offset=offset)

    def emitting_all(self) -> Self:
        return replace(self, emit_only_on_update=False)

    @property
    def slice_width_us(self) -> int:
        return self.step_us or self.step_months * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        if self.step_months:
            return self.size_months // self.step_months
        return -(-self.size_months * LONGEST_MONTH_US // self.step_us)

    @property
    def windows_per_row(self) -> int:
        return self.slices_per_window

    @property
    def stride(self) -> IntervalValue:
        return IntervalValue(self.step_months, self.step_us)

    @property
    def tiling(self) -> CalendarTumble:
        offset = self.offset_months % self.step_months
        return CalendarTumble(self.step_months, offset, self.offset_us)

    @property
    def slice_grid(self) -> SliceGrid:
        if self.step_months:
            return self.tiling
        # A month may start at any midnight, and steps are counted from the start of the month.
        width = gcd(self.step_us, DAY_US)
        return Tumble(width, self.offset_us % width)

    @property
    def has_even_slices(self) -> bool:
        return not self.step_us

    @property
    def pieces(self) -> tuple[int, int]:
        return gcd(DAY_US, self.step_us), self.offset_us

    def reason_against(self, new: BaseWindow) -> str | None:
        return _CLOSED if new.has_slices else super().reason_against(new)

    @property
    def month_series(self) -> MonthSeries:
        if self.step_months:
            return super().month_series
        slices = CalendarStepSlices(self)
        return MonthSeries(slices.month_sql, slices.ends_sql, self.size_months, has_arrays=True)

    @property
    def slice_text(self) -> str:
        if self.step_months:
            return render_months(self.step_months)
        is_even = DAY_US % self.step_us == 0
        less = "" if is_even else ", or less for the last slice of a window"
        return render_duration(self.step_us) + less

    def candidates(self, time_us: int) -> Iterator[Bounds]:
        for start, end in self.months_candidates(time_us, self.size_months):
            yield from self._steps(start, end)

    def _steps(self, start_us: int, end_us: int) -> Iterator[Bounds]:
        """Yield the windows that grow from the start of a largest window to its end."""
        if self.step_months:
            first = month_of(start_us - self.offset_us)
            for months in range(self.step_months, self.size_months + 1, self.step_months):
                yield start_us, month_start(first + months) + self.offset_us
            return
        for step_end in range(start_us + self.step_us, end_us, self.step_us):
            yield start_us, step_end
        yield start_us, end_us


class CumulateSlices(EvenWindowEnds):
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
        return at_or_before(time_us, self._offset % self._step, self._step) + self._step

    def slice_end_sql(self, time_us_sql: str) -> str:
        return after_sql(time_us_sql, self._offset % self._step, self._step)

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return self.window_start(slice_end) + self._size

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return at_or_before(window_end - 1, self._offset, self._size)

    def window_start_sql(self, window_end_sql: str) -> str:
        return at_or_before_sql(f"({window_end_sql}) - 1L", self._offset, self._size)

    def window_ends_sql(self, time_us_sql: str) -> str:
        first = self.slice_end_sql(time_us_sql)
        return (
            f"sequence({first}, {after_sql(time_us_sql, self._offset, self._size)}, {self._step}L)"
        )


class CalendarStepSlices(SliceAssigner):
    """CUMULATE with a size in months and a step of fixed length.

    Windows are numbered so that the last window of each start has the same remainder. Where a
    maximal window begins, numbers are skipped to make up for having fewer steps than the longest
    one.
    """

    def __init__(self, window: CalendarCumulate) -> None:
        self._step = window.step_us
        self._size = window.size_months
        self._offset = window.offset_months
        self._months = Months(window.offset_us)
        self._most_steps = window.slices_per_window
        self.window_end_stride_us = window.step_us
        self.is_shared = self._most_steps > 1

    def slice_end(self, time_us: Int64Array) -> Int64Array:
        import numpy as np

        start, end = self._bounds(self._period(time_us))
        slice_end: Int64Array = np.minimum(
            time_us - (time_us - start) % self._step + self._step, end
        )
        return slice_end

    def slice_end_sql(self, time_us_sql: str) -> str:
        start, end = self._bounds_sql(time_us_sql)
        in_step = f"PMOD(({time_us_sql}) - {start}, {self._step}L)"
        return f"LEAST(({time_us_sql}) - {in_step} + {self._step}L, {end})"

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return slice_end

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return self._bounds(self._period(slice_end - 1))[1]

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return self._bounds(self._period(window_end - 1))[0]

    def window_start_sql(self, window_end_sql: str) -> str:
        return self._bounds_sql(f"({window_end_sql}) - 1L")[0]

    def next_window_end(self, time_us: int) -> int:
        start, end = self._bounds_of(time_us)
        return min(time_us - (time_us - start) % self._step + self._step, end)

    def previous_window_end(self, time_us: int) -> int:
        start, _ = self._bounds_of(time_us)
        # for the first step it is the start, where the previous maximal window ends
        return time_us - (time_us - start) % self._step

    def window_number(self, window_end: Int64Array) -> Int64Array:
        period = self._period(window_end - 1)
        start, end = self._bounds(period)
        steps_after = self._n_steps(end - start) - self._n_steps(window_end - start)
        return (period + 1) * self._most_steps - 1 - steps_after

    def window_end_of(self, number: Int64Array) -> Int64Array:
        import numpy as np

        period = number // self._most_steps
        start, end = self._bounds(period)
        steps_after = self._most_steps - 1 - number % self._most_steps
        n_steps = self._n_steps(end - start) - steps_after
        window_end: Int64Array = np.minimum(start + n_steps * self._step, end)
        return window_end

    def block(self, slice_end: Int64Array) -> Int64Array:
        return self._period(slice_end - 1)

    def window_ends_sql(self, time_us_sql: str) -> str:
        start, end = self._bounds_sql(time_us_sql)
        first = f"(({time_us_sql}) - {start}) DIV {self._step}L"
        last = f"({end} - {start} - 1L) DIV {self._step}L"
        step_end = f"LEAST({start} + (i + 1L) * {self._step}L, {end})"
        return f"TRANSFORM(SEQUENCE({first}, {last}), i -> {step_end})"

    def month_sql(self, window_end_sql: str) -> str:
        """Return Spark SQL for the first month of the window with each end."""
        return self._first_month_sql(f"({window_end_sql}) - 1L")

    def ends_sql(self, month_sql: str) -> str:
        """Return Spark SQL for an array<bigint> with the ends of the windows from a month on."""
        start = self._months.start_sql(month_sql)
        end = self._months.start_sql(f"{month_sql} + {self._size}L")
        ends = f"SEQUENCE({start} + {self._step}L, {end} + {self._step - 1}L, {self._step}L)"
        return f"TRANSFORM({ends}, e -> LEAST(e, {end}))"

    def _period(self, time_us: Int64Array) -> Int64Array:
        """Return the number of the maximal window that contains each time."""
        return (self._months.of(time_us) - self._offset) // self._size

    def _bounds(self, period: Int64Array) -> tuple[Int64Array, Int64Array]:
        month = period * self._size + self._offset
        return self._months.start(month), self._months.start(month + self._size)

    def _bounds_of(self, time_us: int) -> tuple[int, int]:
        """Return the maximal window that contains a time."""
        number = (self._months.of_time(time_us) - self._offset) // self._size
        month = number * self._size + self._offset
        return self._months.start_of(month), self._months.start_of(month + self._size)

    def _bounds_sql(self, time_us_sql: str) -> tuple[str, str]:
        first = self._first_month_sql(time_us_sql)
        return self._months.start_sql(first), self._months.start_sql(f"{first} + {self._size}L")

    def _first_month_sql(self, time_us_sql: str) -> str:
        month = self._months.month_of_sql(time_us_sql)
        return f"({month} - PMOD({month} - {self._offset}L, {self._size}L))"

    def _n_steps(self, length: Int64Array) -> Int64Array:
        return -(-length // self._step)


def cumulate_of(arguments: Arguments) -> Cumulate | CalendarCumulate:
    """Return the windows that arguments describe.

    Raises:
        AnalysisError: An argument is invalid.
    """
    step, size = arguments.positive("step"), arguments.positive("size")
    _check_step(arguments, step, size)
    offset = arguments.offset(size, "size")
    on_update = arguments.flag("emitonlyonupdate")
    window: Cumulate | CalendarCumulate = Cumulate(step.us, size.us, offset.us, on_update)
    if size.months:
        window = CalendarCumulate(
            size.months, step.months, step.us, offset.months % size.months, offset.us, on_update
        )
    windows = window.windows_per_row
    message = f"CUMULATE would assign a row to {windows:,} windows"
    check_windows_per_row(arguments, "step", windows, message)
    return window


def _check_step(arguments: Arguments, step: IntervalValue, size: IntervalValue) -> None:
    sizes = f"step {step.text}, size {size.text}"
    hint = "CUMULATE takes the step first, then the maximum size, a multiple of the step"
    if step.months and not size.months:
        raise arguments.error(
            "step",
            f"the size of CUMULATE must be in months if the step is: {sizes}",
            f"{hint}; they look swapped",
        )
    if size.months and step.us:
        # Any step is valid, because the last one of a window is cut off at its end.
        if step.us < size.months * LONGEST_MONTH_US:
            return
        raise arguments.error(
            "step", f"the step of CUMULATE must be shorter than the size: {sizes}", hint
        )
    length, step_length = (size.months, step.months) if size.months else (size.us, step.us)
    if length % step_length:
        if step_length > length and step_length % length == 0:
            hint += "; they look swapped"
        raise arguments.error(
            "step", f"the size of CUMULATE must be a multiple of the step: {sizes}", hint
        )


CUMULATE: WindowKind[Cumulate | CalendarCumulate] = WindowKind(
    name="CUMULATE",
    lengths=("step", "size"),
    optional=("offset", "emitonlyonupdate"),
    window=cumulate_of,
    summary="windows that grow by the step up to the size, then start over",
    text="At every multiple of the size, several windows begin. They end after one step, two\n"
    "steps, ... up to the size. Use them for running totals, such as today's count so\n"
    "far, every ten minutes. The size must be a multiple of the step.\n"
    "EMITONLYONUPDATE => TRUE emits only the windows whose last step has rows.",
    example="INTERVAL '5' MINUTES, INTERVAL '15' MINUTES",
    drawn=Cumulate(5, 15),
    drawn_until=30,
    is_group_window=False,
)
