"""The interface of windows for the planner and the runtime.

Each kind of window is one file of this package, with all of its answers. `isinstance` and `match`
on a kind stay within the package. Elsewhere `has_slices`, `is_calendar` and `grows` are asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

from runtime.errors import AnalysisError
from runtime.windows.assigner import SliceAssigner
from runtime.windows.intervals import IntervalValue, render_duration

# Start and end of a window, in microseconds since 1970 on the wall clock
Bounds = tuple[int, int]


@dataclass(frozen=True)
class MonthSeries:
    """Months from which Spark SQL computes all windows between two of them.

    Attributes:
        month_sql: Function from the end of a window to its month.
        ends_sql: Function from a month to the end of its window, or to an array of several.
        step: Distance between neighbouring months.
        has_arrays: Whether `ends_sql` returns arrays.
    """

    month_sql: Callable[[str], str]
    ends_sql: Callable[[str], str]
    step: int
    has_arrays: bool = False


class BaseWindow(ABC):
    """Windows of one window table function with its arguments. Frozen and picklable."""

    function: ClassVar[str]
    """Name of the window table function."""

    has_slices: ClassVar[bool]
    """Whether windows are known without rows, so that they consist of slices. Sessions are not."""

    is_calendar: ClassVar[bool] = False
    """Whether windows begin in months, so that their lengths vary."""

    grows: ClassVar[bool] = False
    """Whether windows share their start and differ in their ends, as in CUMULATE."""

    tiles: ClassVar[bool] = False
    """Whether each time is in exactly one window."""

    closes: ClassVar[bool] = True
    """Whether windows end. The window of all time does not."""

    start_identifies: ClassVar[bool] = True
    """Whether windows with equal starts have equal ends."""

    starts_in_order: ClassVar[bool] = True
    """Whether windows that end later start no earlier."""

    why_not_filled: ClassVar[str | None] = None
    """Why windows without rows cannot be added. None: they can."""

    @property
    def state_ttl_us(self) -> int | None:
        """Processing time after which the state of an unchanged key is dropped. None: never."""
        return None

    # -- SQL ---------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, IntervalValue]:
        """Parameters that are not 0, under the names of EXPLAIN and in its order."""

    @property
    def partition(self) -> tuple[str, ...]:
        """Columns of PARTITION BY: each combination of values has its own windows."""
        return ()

    @property
    def row_length(self) -> str | None:
        """Hidden column with the length that each row adds to its window. None: they add none."""
        return None

    def with_partition(self, names: tuple[str, ...]) -> Self:
        """Return the windows of rows whose PARTITION BY columns have these names."""
        return self

    @property
    def emit_only_on_update(self) -> bool:
        """Whether only windows whose last slice has rows are emitted."""
        return False

    def emitting_all(self) -> Self:
        """Return the same windows, all of them emitted."""
        return self

    # -- sizes -------------------------------------------------------------------------------------

    @property
    def longest_us(self) -> int | None:
        """Upper bound of the length of a window. None if rows determine it."""
        return None

    @property
    def slices_per_window(self) -> int:
        """Maximum number of slices in a window."""
        return 1

    @property
    def windows_per_row(self) -> int:
        """Maximum number of windows that contain a row, and so its slice."""
        return 1

    @property
    @abstractmethod
    def cells(self) -> BaseAligned:
        """The windows whose slices the local stage aggregates into."""

    # -- streams -----------------------------------------------------------------------------------

    @abstractmethod
    def reason_against(self, new: BaseWindow) -> str | None:
        """Return why windows `new` cannot be computed from the state of these windows, or None."""

    # -- EXPLAIN -----------------------------------------------------------------------------------

    piece: ClassVar[str] = "slice"
    """Name of the pieces of time that the exchange carries."""

    def parameter_texts(self) -> list[str]:
        """Return the parameters as text, such as `size=[10 min]`."""
        # an offset is last, and lengths in months are before others
        shown = sorted(
            self.parameters.items(), key=lambda item: (item[0] == "offset", not item[1].months)
        )
        return [f"{name}=[{length.text}]" for name, length in shown]

    @property
    def slice_widths_us(self) -> tuple[int, ...]:
        """Widths of the slices in cyclic order, the widest first. Empty if they vary."""
        return ()

    @abstractmethod
    def slice_lines(self) -> list[str]:
        """Return how windows consist of slices."""

    def note_lines(self, keys: Sequence[str]) -> list[str]:
        """Return notes on the windows of an aggregate with these keys."""
        return []

    @abstractmethod
    def copies_text(self) -> str:
        """Return in how many windows a row is."""

    @abstractmethod
    def state_text(self, results: str) -> str:
        """Return the contents of a stream's state. `results` names emitted results in it."""

    @abstractmethod
    def late_text(self, fate: str) -> str:
        """Return when a row of a stream is late. `fate` is what happens to late rows."""

    # -- definition --------------------------------------------------------------------------------

    @abstractmethod
    def windows_of_rows(
        self, times_us: Sequence[int], lengths_us: Sequence[int] | None = None
    ) -> Iterator[Sequence[Bounds]]:
        """Yield the windows of each row of one partition, by definition.

        Args:
            times_us: Times of the rows in any order.
            lengths_us: The rows' values of `row_length`. None without this column.

        Raises:
            ExecutionError: Windows of months are not defined for a year.
        """


class BaseAligned(BaseWindow):
    """Windows that are known without rows."""

    has_slices: ClassVar[Literal[True]] = True

    @abstractmethod
    def assigner(self) -> SliceAssigner:
        """Return the slice assigner of the windows.

        Raises:
            AnalysisError: A length is not positive, or CUMULATE's step does not divide its size.
        """

    @property
    def cells(self) -> Self:
        return self

    # -- sizes -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def slice_width_us(self) -> int:
        """Width of the widest slice."""

    @property
    @abstractmethod
    def stride(self) -> IntervalValue:
        """Distance between neighbouring windows."""

    @property
    def constant_stride_us(self) -> int | None:
        """Least distance of two windows' bounds. None if it varies."""
        return self.stride.us or None

    @property
    def month_series(self) -> MonthSeries | None:
        """Months from which SQL computes windows. None if they have fixed lengths."""
        return None

    @property
    def length(self) -> IntervalValue | None:
        """Length of all windows. None if it differs."""
        return self.stride if self.tiles else None

    @property
    def has_gaps(self) -> bool:
        """Whether times between windows are in no window."""
        return False

    # -- grids -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def tiling(self) -> BaseAligned:
        """The windows one after another that end where these windows do."""

    @property
    @abstractmethod
    def slice_grid(self) -> BaseAligned:
        """The widest slices of one width that make up the windows."""

    @property
    def has_even_slices(self) -> bool:
        """Whether all slices have one width."""
        return True

    @property
    @abstractmethod
    def pieces(self) -> tuple[int, int]:
        """(width, offset) of the widest equal pieces of time that divide all slices."""

    # -- streams -----------------------------------------------------------------------------------

    def reason_against(self, new: BaseWindow) -> str | None:
        if not isinstance(new, BaseAligned):
            return "sessions have no slices"
        if self.has_gaps:
            return "rows between its windows were not stored"
        if not self.has_even_slices:
            return "its windows do not consist of the stored slices"
        if not new.has_even_slices or new.slice_grid != self.slice_grid:
            width = self.slice_grid.stride.in_one_unit()
            return f"its windows do not consist of the stored slices, which are {width} wide"
        return None

    # -- EXPLAIN -----------------------------------------------------------------------------------

    @property
    def slice_widths_us(self) -> tuple[int, ...]:
        return () if self.is_calendar else (self.slice_width_us,)

    @property
    def slice_text(self) -> str:
        """The widths of the slices as text."""
        widths = " and ".join(map(render_duration, self.slice_widths_us))
        return widths + (", alternating" if len(self.slice_widths_us) > 1 else "")

    def slice_lines(self) -> list[str]:
        count, up_to = self.slices_per_window, "up to " if self.grows else ""
        consists = f"{up_to}{count} {'slice' if count == 1 else 'slices'}"
        return [
            f"slice width: {self.slice_text}",
            f"a window consists of {consists}; each row is aggregated once",
        ]

    def copies_text(self) -> str:
        if self.windows_per_row == 1:
            return "each row is in at most one window"
        return f"each row is copied into up to {self.windows_per_row:,} windows"

    def state_text(self, results: str) -> str:
        if self.slices_per_window == 1:
            return "one partial per key and open window"
        width = render_duration(self.slice_width_us)
        most = f"at most {self.slices_per_window} per window"
        return f"one partial per key and live slice of {width}, {most}"

    def late_text(self, fate: str) -> str:
        if self.slices_per_window == 1:
            return f"rows that arrive later are late; late rows are {fate}"
        return f"a row is late once all windows of its slice are emitted; late rows are {fate}"

    # -- definition --------------------------------------------------------------------------------

    @abstractmethod
    def candidates(self, time_us: int) -> Iterator[Bounds]:
        """Yield all windows that may contain a time, and some that do not.

        Raises:
            ExecutionError: Windows of months are not defined for this year.
        """

    @property
    def ahead_us(self) -> int:
        """Upper bound of the time from a window's end to the start of a window that ends later."""
        return 0

    def windows_of_rows(
        self, times_us: Sequence[int], lengths_us: Sequence[int] | None = None
    ) -> Iterator[Sequence[Bounds]]:
        for time_us in times_us:
            yield [
                (start, end) for start, end in self.candidates(time_us) if start <= time_us < end
            ]

    def next_window(self, time_us: int) -> Bounds:
        """Return the window that is the first one to end after a time, by definition.

        Raises:
            ExecutionError: Windows of months are not defined for this year.
        """
        bounds = [*self.candidates(time_us), *self.candidates(time_us + self.ahead_us)]
        return min(((s, e) for s, e in bounds if e > time_us), key=lambda bound: bound[1])


def check_positive(function: str, **lengths_us: int) -> None:
    """Check lengths, given by parameter.

    Raises:
        AnalysisError: One is not positive.
    """
    for parameter, length_us in lengths_us.items():
        if length_us <= 0:
            raise AnalysisError(
                f"the {parameter} of {function} is {length_us} us",
                hint=f"the {parameter} must be positive",
            )


def given(**lengths: IntervalValue) -> dict[str, IntervalValue]:
    """Return the parameters whose length is not zero."""
    return {name: length for name, length in lengths.items() if length.months or length.us}
