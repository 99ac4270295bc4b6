"""Calendar windows: months, quarters and years, by civil-date arithmetic.

Calendar windows begin at midnight of the first day of a month, shifted by an offset. Months are
numbered from January 1970, which is 0. Windows with lengths in months are then windows of fixed
lengths over these numbers, and only times and month numbers need to be converted. NumPy and Spark
both use the proleptic Gregorian calendar.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import ClassVar, Literal

from runtime.errors import ExecutionError
from runtime.windows.assigner import Int64Array, SliceAssigner
from runtime.windows.base import BaseAligned, Bounds, MonthSeries
from runtime.windows.times import DAY_US, LONGEST_MONTH_US

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        return days.astype("M8[M]").astype("i8")

    def start(self, month: Int64Array) -> Int64Array:
        """Return the start of each month."""
        days: Int64Array = month.astype("M8[M]").astype("M8[D]").astype("i8")
        return days * DAY_US + self._offset

    def of_time(self, time_us: int) -> int:
        """Return the month of a time."""
        import numpy as np

        return int(self.of(np.array([time_us]))[0])

    def start_of(self, month: int) -> int:
        """Return the start of a month."""
        import numpy as np

        return int(self.start(np.array([month]))[0])

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
        return self._months.start_of(self._inner.next_window_end(self._months.of_time(time_us)))

    def previous_window_end(self, time_us: int) -> int:
        return self._months.start_of(self._inner.previous_window_end(self._months.of_time(time_us)))

    def window_number(self, window_end: Int64Array) -> Int64Array:
        return self._inner.window_number(self._months.of(window_end))

    def window_end_of(self, number: Int64Array) -> Int64Array:
        return self._months.start(self._inner.window_end_of(number))

    def block(self, slice_end: Int64Array) -> Int64Array:
        return self._inner.block(self._months.of(slice_end))

    def window_ends_sql(self, time_us_sql: str) -> str:
        months = self._inner.window_ends_sql(self._months.month_of_sql(time_us_sql))
        return f"TRANSFORM({months}, m -> {self._months.start_sql('m')})"


class BaseCalendar(BaseAligned):
    """Windows that begin in months."""

    is_calendar: ClassVar[Literal[True]] = True

    size_months: int
    offset_months: int
    offset_us: int

    @property
    def longest_us(self) -> int:
        return self.size_months * LONGEST_MONTH_US

    @property
    def pieces(self) -> tuple[int, int]:
        return DAY_US, self.offset_us

    @property
    def month_series(self) -> MonthSeries:
        months = Months(self.offset_us)
        return MonthSeries(months.month_of_sql, months.start_sql, self.stride.months)

    def months_candidates(self, time_us: int, slide: int) -> Iterator[Bounds]:
        """Yield windows of the size that begin every `slide` months, by definition.

        Raises:
            ExecutionError: Months are not defined for this year.
        """
        month = month_of(time_us - self.offset_us)
        number = (month - self.offset_months) // slide
        for k in range(number, number - -(-self.size_months // slide) - 1, -1):
            first = k * slide + self.offset_months
            start, end = month_start(first), month_start(first + self.size_months)
            yield start + self.offset_us, end + self.offset_us


def month_of(time_us: int) -> int:
    """Return the month of a time by definition.

    Raises:
        ExecutionError: Months are not defined for this year.
    """
    try:
        moment = _EPOCH + timedelta(microseconds=time_us)
    except OverflowError as error:
        raise ExecutionError("months are defined for the years 1 to 9999 only") from error
    return (moment.year - 1970) * 12 + moment.month - 1


def month_start(month: int) -> int:
    """Return the first microsecond of a month by definition.

    Raises:
        ExecutionError: Months are not defined for this year.
    """
    years, rest = divmod(month, 12)
    try:
        return (date(1970 + years, rest + 1, 1) - date(1970, 1, 1)).days * DAY_US
    except ValueError as error:
        raise ExecutionError("months are defined for the years 1 to 9999 only") from error
