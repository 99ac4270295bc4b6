"""The windows of rows by definition, in integers and dates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from runtime.errors import ExecutionError
from runtime.spec.windows import (
    DAY_US,
    AlignedWindow,
    CalendarCumulate,
    CalendarHop,
    CalendarTumble,
    Cumulate,
    Hop,
    SessionWindow,
    Tumble,
)

# Start and end of a window, in microseconds since 1970 on the wall clock
Bounds = tuple[int, int]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def windows_of(window: AlignedWindow, time_us: int) -> Iterator[Bounds]:
    """Yield the windows that contain a time: start <= time < end.

    Args:
        window: Windows.
        time_us: Time, microseconds since 1970 on the wall clock.

    Raises:
        ExecutionError: Windows of months are not defined for this year.
    """
    for start, end in _candidates(window, time_us):
        if start <= time_us < end:
            yield start, end


def next_window(window: AlignedWindow, time_us: int) -> Bounds:
    """Return the window that is the first one to end after a time.

    Args:
        window: Windows.
        time_us: Time, microseconds since 1970 on the wall clock.

    Raises:
        ExecutionError: Windows of months are not defined for this year.
    """
    ahead = 0
    match window:
        case Hop(slide):
            ahead = slide
        case CalendarHop(months):
            ahead = 31 * months * DAY_US
    bounds = [*_candidates(window, time_us), *_candidates(window, time_us + ahead)]
    return min(((s, e) for s, e in bounds if e > time_us), key=lambda bound: bound[1])


def _candidates(window: AlignedWindow, time_us: int) -> Iterator[Bounds]:
    """Yield all windows that may contain a time, and some that do not."""
    match window:
        case Tumble(size, offset):
            number = (time_us - offset) // size
            yield number * size + offset, (number + 1) * size + offset
        case Hop(slide, size, offset):
            # The last window that begins at or before the time, and the windows before it.
            number = (time_us - offset) // slide
            for k in range(number, number - -(-size // slide) - 1, -1):
                yield k * slide + offset, k * slide + offset + size
        case Cumulate(step, size, offset):
            start = (time_us - offset) // size * size + offset
            for width in range(step, size + 1, step):
                yield start, start + width
        case CalendarTumble(size, offset_months):
            yield from _months(window, time_us, size, size, offset_months)
        case CalendarHop(slide, size, offset_months):
            yield from _months(window, time_us, size, slide, offset_months)
        case CalendarCumulate():
            size = window.size_months
            for start, end in _months(window, time_us, size, size, window.offset_months):
                yield from _steps(window, start, end)


def _months(
    window: CalendarTumble | CalendarHop | CalendarCumulate,
    time_us: int,
    size: int,
    slide: int,
    offset: int,
) -> Iterator[Bounds]:
    """Yield windows of `size` months that begin every `slide` months."""
    month = _month_of(time_us - window.offset_us)
    number = (month - offset) // slide
    for k in range(number, number - -(-size // slide) - 1, -1):
        first = k * slide + offset
        yield _begin(first) + window.offset_us, _begin(first + size) + window.offset_us


def _steps(window: CalendarCumulate, start_us: int, end_us: int) -> Iterator[Bounds]:
    """Yield the windows that grow from the start of a largest window to its end."""
    if window.step_months:
        first = _month_of(start_us - window.offset_us)
        for months in range(window.step_months, window.size_months + 1, window.step_months):
            yield start_us, _begin(first + months) + window.offset_us
        return
    for step_end in range(start_us + window.step_us, end_us, window.step_us):
        yield start_us, step_end
    yield start_us, end_us


def _month_of(time_us: int) -> int:
    """Return the month of a time, counted from January 1970."""
    try:
        moment = _EPOCH + timedelta(microseconds=time_us)
    except OverflowError as error:
        raise ExecutionError("months are defined for the years 1 to 9999 only") from error
    return (moment.year - 1970) * 12 + moment.month - 1


def _begin(month: int) -> int:
    """Return the first microsecond of a month, counted from January 1970."""
    years, rest = divmod(month, 12)
    try:
        return (date(1970 + years, rest + 1, 1) - date(1970, 1, 1)).days * DAY_US
    except ValueError as error:
        raise ExecutionError("months are defined for the years 1 to 9999 only") from error


def sessions_of(window: SessionWindow, times_us: Sequence[int]) -> list[Bounds]:
    """Return the session of each row of one partition.

    Rows at most the gap apart are in one session, which ends the gap after its last row.

    Args:
        window: Sessions.
        times_us: Times of the rows in any order.
    """
    sessions: list[list[int]] = []
    for time_us in sorted(times_us):
        if sessions and time_us - sessions[-1][1] <= window.gap_us:
            sessions[-1][1] = time_us
        else:
            sessions.append([time_us, time_us])
    return [
        next((first, last + window.gap_us) for first, last in sessions if first <= time_us <= last)
        for time_us in times_us
    ]


def has_instant(start_us: int, end_us: int, zone: str) -> bool:
    """Return whether the clock of a zone ever shows a time of a window.

    Raises:
        ExecutionError: The times are not in the years 1 to 9999.
    """
    bounds = (start_us, end_us - 1)
    near = [bound + days * DAY_US for bound in bounds for days in (-1, 1)]
    offsets = {wall_clock(time, zone) - time for time in near}
    return any(
        start_us <= wall_clock(bound - offset, zone) < end_us
        for bound in bounds
        for offset in offsets
    )


def wall_clock(instant_us: int, zone: str) -> int:
    """Return the local time of an instant, in microseconds since 1970 on the wall clock.

    Raises:
        ExecutionError: The instant is not in the years 1 to 9999.
    """
    try:
        local = (_EPOCH + timedelta(microseconds=instant_us)).astimezone(ZoneInfo(zone))
        offset = local.utcoffset()
    except OverflowError as error:
        raise ExecutionError("instants are defined for the years 1 to 9999 only") from error
    assert offset is not None
    return instant_us + offset // timedelta(microseconds=1)
