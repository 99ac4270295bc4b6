"""What FILL and temporal joins compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from runtime.spec.expressions import Constant
from runtime.windows import AlignedWindow

# Default of 'sqlwin.fill.max-windows'
DEFAULT_MAX_WINDOWS = 1_000_000
# Default of 'sqlwin.fill.keep'
DEFAULT_KEEP_US = 86_400_000_000


@dataclass(frozen=True)
class FillConstant:
    """The same value in every added window; NULL for `Constant(None, type)`."""

    value: Constant


@dataclass(frozen=True)
class FillLocf:
    """The key's last value before the window that is not NULL; NULL before the first one."""


@dataclass(frozen=True)
class FillLinear:
    """A line between the nearest values that are not NULL before and after the window.

    NULL before the first and after the last value. Integers, decimals and times are rounded half
    away from zero.
    """


Filler: TypeAlias = FillConstant | FillLocf | FillLinear


@dataclass(frozen=True)
class GapFilling:
    """Step that adds a row for every window of a key without rows. Existing rows are unchanged.

    Windows are added from the first to the last window of a key, or up to the bounds. A row whose
    window end is NULL only declares its key and is removed.

    Attributes:
        window: Windows.
        keys: Key columns; none for a single key.
        start: Column with the start of the window, TIMESTAMP_NTZ. None if the rows have none.
        end: Column with the end of the window, TIMESTAMP_NTZ.
        fillers: Other columns and their values in added windows.
        order: Column that orders rows of the same window; None if it does not matter.
        from_us: Added windows do not start before this time on the wall clock. None: before the
            key's first window.
        to_us: Added windows do not end after this time. None: after the key's last window.
        is_of_instants: Whether the wall clock of the windows skips times, as with summer time.
        max_windows: Maximum windows from the first to the last one of a key.
        keep_us: On a stream, how long after its last row, or after `from_us`, windows of a key are
            added.
    """

    window: AlignedWindow
    keys: tuple[str, ...]
    start: str | None
    end: str
    fillers: tuple[tuple[str, Filler], ...]
    order: str | None = None
    from_us: int | None = None
    to_us: int | None = None
    is_of_instants: bool = False
    max_windows: int = DEFAULT_MAX_WINDOWS
    keep_us: int = DEFAULT_KEEP_US


@dataclass(frozen=True)
class VersionJoining:
    """Joins each row of a stream with the version of its key that holds at its time.

    The input has the rows of both sides. A version holds from its time until the time of the next
    version of its key. Of versions with the same time, the one with the highest values holds.

    Attributes:
        keys: Key columns. NULL equals nothing, so versions have no NULL.
        time: Time column of both sides.
        is_version: BOOLEAN column: whether a row of the input is a version. In the result: whether
            a version holds at the time of the row.
        columns: Columns of a version. NULL in the rows that are joined.
        is_deleted: BOOLEAN column of a version: whether its key has no version from its time on.
            None if keys are never deleted.
    """

    keys: tuple[str, ...]
    time: str
    is_version: str
    columns: tuple[str, ...]
    is_deleted: str | None = None


@dataclass(frozen=True)
class AsOfMatching:
    """Picks, for each row of a left side, the nearest row of a right side by time.

    NULL matches nothing. Of right rows with the same time, any is picked.

    Attributes:
        keys: Pairs of columns that must be equal, left and right.
        times: Time columns, left and right, of the same type.
        is_before: Whether the last row before is picked, rather than the first one after.
        is_inclusive: Whether a right row at the same time matches.
        limits: Left columns with the farthest time at which the picked row still matches, each with
            whether that time itself does.
    """

    keys: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    is_before: bool
    is_inclusive: bool
    limits: tuple[tuple[str, bool], ...] = ()

    @property
    def place_of_right(self) -> int:
        """Place of right rows among rows with the same time, where left rows have 1."""
        return 0 if self.is_inclusive else 2

    @property
    def comparisons(self) -> tuple[tuple[str, str, str], ...]:
        """Comparisons of the times as left column, sign and right column; the limits follow."""
        left, right = self.times
        sign, back = (">", "<") if self.is_before else ("<", ">")
        return (
            (left, sign + "=" * self.is_inclusive, right),
            *((limit, back + "=" * has_end, right) for limit, has_end in self.limits),
        )
