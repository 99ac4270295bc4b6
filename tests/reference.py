"""The windows of a row by definition, in plain integers and dates, independent of slices.

Tests compare computed windows with these. `tests.oracle` is the equivalent in SQL.
"""

from __future__ import annotations

from datetime import date

from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble

Bounds = tuple[int, int]
EPOCH = date(1970, 1, 1)
# The Gregorian calendar repeats after 400 years
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097


def windows_of(window: Window, time: int, unit_us: int = 1) -> list[Bounds]:
    """(start, end) of each window that the row is in, oldest first.

    Args:
        window: Any but SESSION, whose windows depend on the other rows.
        time: The row's time, in units of `unit_us` microseconds, as are the bounds.
        unit_us: 1 for microseconds, 1,000 for milliseconds.
    """
    t = time * unit_us
    starts: list[int]
    match window:
        case Tumble(size, offset):
            bounds = [(t - (t - offset) % size, t - (t - offset) % size + size)]
        case Hop(slide, size, offset):
            starts = list(range(t - (t - offset) % slide, t - size, -slide))
            bounds = [(start, start + size) for start in reversed(starts)]
        case Cumulate(step, size, offset):
            start = t - (t - offset) % size
            bounds = [(start, start + width) for width in range(step, size + 1, step)]
        case CalendarTumble() | CalendarHop() | CalendarCumulate():
            bounds = _calendar(window, t)
        case _:
            raise TypeError(f"the windows of {window} are not those of a row alone")
    return [(start // unit_us, end // unit_us) for start, end in bounds if start <= t < end]


def _calendar(window: CalendarTumble | CalendarHop | CalendarCumulate, t: int) -> list[Bounds]:
    """Return the windows of months around a time. The caller selects those that contain it."""

    def begin(month: int) -> int:
        return month_start(month) + window.offset_us

    current_month = month_of(t - window.offset_us)
    stride = window.slide_months if isinstance(window, CalendarHop) else window.size_months
    result = []
    for month in range(current_month - window.size_months, current_month + 1):
        start, end = begin(month), begin(month + window.size_months)
        if (month - window.offset_months) % stride or t >= end:
            continue
        ends = [end]
        if isinstance(window, CalendarCumulate) and window.step_months:
            steps = range(window.step_months, window.size_months + 1, window.step_months)
            ends = [begin(month + step) for step in steps]
        elif isinstance(window, CalendarCumulate):
            ends = [*range(start + window.step_us, end, window.step_us), end]
        result += [(start, item) for item in ends]
    return result


def month_start(month: int) -> int:
    """Return the microseconds of the first day of a month, counted from January 1970.

    The calendar is proleptic: years before 1 and after 9999 have the same months.
    """
    cycle, year = divmod(1970 + month // 12 - 1, _CYCLE_YEARS)
    first = date(year + 1, month % 12 + 1, 1)
    return (first.toordinal() + cycle * _CYCLE_DAYS - EPOCH.toordinal()) * DAY_US


def month_of(time_us: int) -> int:
    """Return the month of a time, counted from January 1970, in the calendar of `month_start`."""
    cycle, day = divmod(time_us // DAY_US + EPOCH.toordinal() - 1, _CYCLE_DAYS)
    first = date.fromordinal(day + 1)
    return (first.year + cycle * _CYCLE_YEARS - 1970) * 12 + first.month - 1
