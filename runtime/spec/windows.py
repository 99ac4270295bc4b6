"""Windows: what the planner hands to the runtime of them.

All times are int64 microseconds since 1970-01-01 00:00 on the wall clock of the windows:
as it is written for TIMESTAMP_NTZ columns, the local wall clock for TIMESTAMP_LTZ columns.
"""

from __future__ import annotations

from dataclasses import dataclass

# window_time = window_end - 1 ms, as in Flink
WINDOW_TIME_LAG_US = 1_000


@dataclass(frozen=True)
class Tumble:
    """Windows [k*size + offset, k*size + offset + size)."""

    size_us: int
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of a slice: a slice is a whole window."""
        return self.size_us

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return 1


@dataclass(frozen=True)
class Hop:
    """Windows [k*slide + offset, k*slide + offset + size), any ratio of size and slide.

    Where size is no multiple of slide there are two slices a slide, cut where windows start and
    where they end ("paired" windows: Krishnamurthy, Wu, Franklin, SIGMOD 2006).
    """

    slide_us: int
    size_us: int
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        rest = self.size_us % self.slide_us
        return max(rest, self.slide_us - rest)

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        whole, rest = divmod(self.size_us, self.slide_us)
        return whole if rest == 0 else 2 * whole + 1


@dataclass(frozen=True)
class Cumulate:
    """Windows [s, s + step), [s, s + 2*step), ... [s, s + size) with s = k*size + offset."""

    step_us: int
    size_us: int
    offset_us: int = 0
    emit_only_on_update: bool = False

    @property
    def slice_width_us(self) -> int:
        """Width of a slice: one step."""
        return self.step_us

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return self.size_us // self.step_us


@dataclass(frozen=True)
class SessionWindow:
    """Windows that end when `gap_us` passed without a row; rows exactly the gap apart merge.

    Attributes:
        gap_us: the gap.
        partition: names of the columns that partition the rows: each combination of
            their values has sessions of its own.
    """

    gap_us: int
    partition: tuple[str, ...] = ()

    @property
    def cells(self) -> Tumble:
        """Pieces of time, each so short that a partition's rows in it belong to one session."""
        return Tumble(self.gap_us)


# Calendar windows begin at midnight of the first day of a month, moved by `offset_us`. Months are
# counted from January 1970, which is 0.

DAY_US = 86_400_000_000
LONGEST_MONTH_US = 31 * DAY_US


@dataclass(frozen=True)
class CalendarTumble:
    """Windows of `size_months` months that begin in months k*size + offset."""

    size_months: int
    offset_months: int = 0
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return self.size_months * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return 1


@dataclass(frozen=True)
class CalendarHop:
    """Windows of `size_months` months that begin in months k*slide + offset, any ratio of both."""

    slide_months: int
    size_months: int
    offset_months: int = 0
    offset_us: int = 0

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return Hop(self.slide_months, self.size_months).slice_width_us * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        return Hop(self.slide_months, self.size_months).slices_per_window


@dataclass(frozen=True)
class CalendarCumulate:
    """Windows that begin in months k*size + offset and grow by the step up to the size.

    The step is a number of months that divides the size, or `step_us`, counted anew from the
    start of each largest window; the last one ends with the window and may be shorter.
    """

    size_months: int
    step_months: int = 0
    step_us: int = 0
    offset_months: int = 0
    offset_us: int = 0
    emit_only_on_update: bool = False

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return self.step_us or self.step_months * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Most slices that a window is put together from."""
        if self.step_months:
            return self.size_months // self.step_months
        return -(-self.size_months * LONGEST_MONTH_US // self.step_us)


CalendarWindow = CalendarTumble | CalendarHop | CalendarCumulate
AlignedWindow = Tumble | Hop | Cumulate | CalendarWindow
Window = AlignedWindow | SessionWindow


# With fewer windows a slice its slices are merged as they are
_MANY_WINDOWS = 6

# What partials of sessions carry besides the accumulators, BIGINT microseconds: the times of the
# first and the last of the rows that went in.
FIRST_TIME, LAST_TIME = "$first_time", "$last_time"


def local_window(window: Window) -> AlignedWindow:
    """The window whose slices the local stage aggregates rows into: for sessions their cells."""
    return window.cells if isinstance(window, SessionWindow) else window


def window_kind(window: object) -> str:
    """`TUMBLE`, `HOP`, `CUMULATE`, `SESSION`: the window table function of a window."""
    if isinstance(window, SessionWindow):
        return "SESSION"
    return type(window).__name__.removeprefix("Calendar").upper()


def windows_per_slice(window: Hop | CalendarHop) -> int:
    """In how many windows a slice is at most."""
    if isinstance(window, Hop):
        return -(-window.size_us // window.slide_us)
    return -(-window.size_months // window.slide_months)


def is_overlapping(window: Window) -> bool:
    """Whether running aggregates are worth it in a stream's state, if there are many rows."""
    return isinstance(window, Hop | CalendarHop) and windows_per_slice(window) >= _MANY_WINDOWS
