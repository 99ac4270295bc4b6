"""Windows, as the planner passes them to the runtime.

All times are int64 microseconds since 1970-01-01 00:00 on the wall clock of the windows: as written
for TIMESTAMP_NTZ columns, local time for TIMESTAMP_LTZ columns.
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
        """Maximum number of slices in a window."""
        return 1


@dataclass(frozen=True)
class Hop:
    """Windows [k*slide + offset, k*slide + offset + size), any ratio of size and slide.

    If size is not a multiple of slide, there are two slices per slide, cut where windows start and
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
        """Maximum number of slices in a window."""
        n_slides, rest = divmod(self.size_us, self.slide_us)
        return n_slides if rest == 0 else 2 * n_slides + 1


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
        """Maximum number of slices in a window."""
        return self.size_us // self.step_us


@dataclass(frozen=True)
class SessionWindow:
    """Windows that end after `gap_us` without a row; rows exactly the gap apart merge.

    Attributes:
        gap_us: Gap.
        partition: Names of the partition columns; each combination of values has its own sessions.
    """

    gap_us: int
    partition: tuple[str, ...] = ()

    @property
    def cells(self) -> Tumble:
        """Fixed intervals so short that all rows of a partition in one belong to one session."""
        return Tumble(self.gap_us)


# Calendar windows begin at midnight of the first day of a month, shifted by `offset_us`. Months are
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
        """Maximum number of slices in a window."""
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
        """Maximum number of slices in a window."""
        return Hop(self.slide_months, self.size_months).slices_per_window


@dataclass(frozen=True)
class CalendarCumulate:
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

    @property
    def slice_width_us(self) -> int:
        """Width of the widest slice."""
        return self.step_us or self.step_months * LONGEST_MONTH_US

    @property
    def slices_per_window(self) -> int:
        """Maximum number of slices in a window."""
        if self.step_months:
            return self.size_months // self.step_months
        return -(-self.size_months * LONGEST_MONTH_US // self.step_us)


CalendarWindow = CalendarTumble | CalendarHop | CalendarCumulate
AlignedWindow = Tumble | Hop | Cumulate | CalendarWindow
Window = AlignedWindow | SessionWindow


# Columns of session partials in addition to the accumulators, BIGINT microseconds: times of the
# first and the last row aggregated
FIRST_TIME, LAST_TIME = "$first_time", "$last_time"


def local_window(window: Window) -> AlignedWindow:
    """Return the window whose slices the local stage aggregates into; the cells of sessions."""
    return window.cells if isinstance(window, SessionWindow) else window


def window_kind(window: object) -> str:
    """Return the window table function of a window: `TUMBLE`, `HOP`, `CUMULATE`, `SESSION`."""
    if isinstance(window, SessionWindow):
        return "SESSION"
    return type(window).__name__.removeprefix("Calendar").upper()


def windows_per_slice(window: Hop | CalendarHop) -> int:
    """Return the maximum number of windows that contain a slice."""
    if isinstance(window, Hop):
        return -(-window.size_us // window.slide_us)
    return -(-window.size_months // window.slide_months)
