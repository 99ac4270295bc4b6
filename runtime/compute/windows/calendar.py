"""Slice assigners of calendar windows: months, quarters and years, by civil-date arithmetic.

Months are numbered from January 1970. Windows with lengths in months are then aligned windows over
these numbers, and only times and month numbers need to be converted. NumPy and Spark both use the
proleptic Gregorian calendar.

    CUMULATE(step 1 week, size 1 month): steps are counted from the start of each month, and the
    last one ends with the month.

    1 February 2023                1 March                             1 April
    [------|------|------|------)  [------|------|------|------|--)
"""

from __future__ import annotations

import numpy as np

from runtime.compute.windows.assigner import Int64Array, SliceAssigner
from runtime.compute.windows.even import even_slices
from runtime.errors import AnalysisError
from runtime.spec.windows import (
    DAY_US,
    LONGEST_MONTH_US,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    CalendarWindow,
    Cumulate,
    Hop,
    Tumble,
)


class Months:
    """Conversion between times and month numbers.

    Args:
        offset_us: Offset of a month's start from midnight of its first day.
    """

    def __init__(self, offset_us: int) -> None:
        self._offset = offset_us

    def of(self, time_us: Int64Array) -> Int64Array:
        """Return the month of each time."""
        days = ((time_us - self._offset) // DAY_US).astype("M8[D]")
        return days.astype("M8[M]").astype(np.int64)

    def start(self, month: Int64Array) -> Int64Array:
        """Return the start of each month."""
        days = month.astype("M8[M]").astype("M8[D]").astype(np.int64)
        start: Int64Array = days * DAY_US + self._offset
        return start

    def month_of_sql(self, time_us_sql: str) -> str:
        """Return `of` as a BIGINT expression of Spark SQL."""
        time = f"({time_us_sql}) - {self._offset}L" if self._offset else f"({time_us_sql})"
        day = f"CAST(({time} - PMOD({time}, {DAY_US}L)) DIV {DAY_US}L AS INT)"
        date = f"DATE_FROM_UNIX_DATE({day})"
        return f"CAST((YEAR({date}) - 1970) * 12 + MONTH({date}) - 1 AS BIGINT)"

    def start_sql(self, month_sql: str) -> str:
        """Return `start` as a BIGINT expression of Spark SQL."""
        date = f"ADD_MONTHS(DATE'1970-01-01', CAST({month_sql} AS INT))"
        start = f"CAST(UNIX_DATE({date}) AS BIGINT) * {DAY_US}L"
        return f"({start} + {self._offset}L)" if self._offset else f"({start})"


class CalendarSlices(SliceAssigner):
    """Windows whose lengths are all in months.

    Args:
        over_months: Assigner of the same window with months as the unit.
        months: Conversion of months.
    """

    def __init__(self, over_months: SliceAssigner, months: Months) -> None:
        self._inner = over_months
        self._months = months
        self.window_end_stride_us = over_months.window_end_stride_us * LONGEST_MONTH_US
        self.is_shared = over_months.is_shared

    def slice_end(self, time_us: Int64Array) -> Int64Array:
        return self._months.start(self._inner.slice_end(self._months.of(time_us)))

    def slice_end_sql(self, time_us_sql: str) -> str:
        return self._months.start_sql(
            self._inner.slice_end_sql(self._months.month_of_sql(time_us_sql))
        )

    def first_window_end(self, slice_end: Int64Array) -> Int64Array:
        return self._months.start(self._inner.first_window_end(self._months.of(slice_end)))

    def last_window_end(self, slice_end: Int64Array) -> Int64Array:
        return self._months.start(self._inner.last_window_end(self._months.of(slice_end)))

    def window_start(self, window_end: Int64Array) -> Int64Array:
        return self._months.start(self._inner.window_start(self._months.of(window_end)))

    def window_start_sql(self, window_end_sql: str) -> str:
        month = self._months.month_of_sql(window_end_sql)
        return self._months.start_sql(self._inner.window_start_sql(month))

    def next_window_end(self, time_us: int) -> int:
        (month,) = self._months.of(np.array([time_us])).tolist()
        (end,) = self._months.start(np.array([self._inner.next_window_end(month)])).tolist()
        return int(end)

    def previous_window_end(self, time_us: int) -> int:
        (month,) = self._months.of(np.array([time_us])).tolist()
        (end,) = self._months.start(np.array([self._inner.previous_window_end(month)])).tolist()
        return int(end)

    def window_number(self, window_end: Int64Array) -> Int64Array:
        return self._inner.window_number(self._months.of(window_end))

    def window_end_of(self, number: Int64Array) -> Int64Array:
        return self._months.start(self._inner.window_end_of(number))

    def block(self, slice_end: Int64Array) -> Int64Array:
        return self._inner.block(self._months.of(slice_end))

    def window_ends_sql(self, time_us_sql: str) -> str:
        months = self._inner.window_ends_sql(self._months.month_of_sql(time_us_sql))
        return f"TRANSFORM({months}, m -> {self._months.start_sql('m')})"


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
        return int(self.slice_end(np.array([time_us]))[0])

    def previous_window_end(self, time_us: int) -> int:
        start, _ = self._bounds(self._period(np.array([time_us])))
        # for the first step it is the start, where the previous maximal window ends
        return time_us - (time_us - int(start[0])) % self._step

    def window_number(self, window_end: Int64Array) -> Int64Array:
        period = self._period(window_end - 1)
        start, end = self._bounds(period)
        steps_after = self._n_steps(end - start) - self._n_steps(window_end - start)
        return (period + 1) * self._most_steps - 1 - steps_after

    def window_end_of(self, number: Int64Array) -> Int64Array:
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

    def _period(self, time_us: Int64Array) -> Int64Array:
        """Return the number of the maximal window that contains each time."""
        return (self._months.of(time_us) - self._offset) // self._size

    def _bounds(self, period: Int64Array) -> tuple[Int64Array, Int64Array]:
        month = period * self._size + self._offset
        return self._months.start(month), self._months.start(month + self._size)

    def _bounds_sql(self, time_us_sql: str) -> tuple[str, str]:
        month = self._months.month_of_sql(time_us_sql)
        first = f"({month} - PMOD({month} - {self._offset}L, {self._size}L))"
        return self._months.start_sql(first), self._months.start_sql(f"{first} + {self._size}L")

    def _n_steps(self, length: Int64Array) -> Int64Array:
        return -(-length // self._step)


def calendar_slices(window: CalendarWindow) -> SliceAssigner:
    """Return the slice assigner of a window whose size is in months.

    Raises:
        AnalysisError: A length is not positive, or CUMULATE's step does not divide its size.
    """
    over_months: Tumble | Hop | Cumulate
    match window:
        case CalendarTumble():
            over_months = Tumble(window.size_months, window.offset_months)
        case CalendarHop():
            over_months = Hop(window.slide_months, window.size_months, window.offset_months)
        case CalendarCumulate():
            if window.step_us:
                if window.step_us < 0 or window.size_months <= 0:
                    raise AnalysisError("CUMULATE requires a positive step and size")
                return CalendarStepSlices(window)
            over_months = Cumulate(window.step_months, window.size_months, window.offset_months)
    return CalendarSlices(even_slices(over_months), Months(window.offset_us))
