"""Window table functions: their parameters, how arguments become windows, and their help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from runtime.errors import AnalysisError
from runtime.windows.base import BaseWindow
from runtime.windows.intervals import IntervalValue

# More windows per row than this indicate a mistyped size: a year by the second has 31 million.
MAX_WINDOWS_PER_ROW = 10_000_000

Window_co = TypeVar("Window_co", bound=BaseWindow, covariant=True)


@dataclass(frozen=True)
class RowLength:
    """An interval that is an expression of the row.

    Attributes:
        text: The expression as SQL.
        least_us: Lower bound of its positive values, in microseconds.
    """

    text: str
    least_us: int


class Arguments(Protocol):
    """The arguments of a call."""

    def positive(self, parameter: str) -> IntervalValue:
        """Return a positive interval, in months or of a fixed length.

        Raises:
            AnalysisError: It is another one, or not constant.
        """

    def of_rows(self, parameter: str) -> RowLength | None:
        """Return an interval that depends on the row. None if it is constant.

        Raises:
            AnalysisError: It has an expression that is not supported.
        """

    def offset(self, stride: IntervalValue, parameter: str) -> IntervalValue:
        """Return the argument `offset`; without it, 0, or Monday for a stride in weeks.

        Args:
            stride: Distance between windows. An offset in months requires a distance in months.
            parameter: Name of the parameter that sets the stride.

        Raises:
            AnalysisError: It is not constant, or in months for another stride.
        """

    def flag(self, parameter: str) -> bool:
        """Return a BOOLEAN argument, False without it.

        Raises:
            AnalysisError: It is neither TRUE nor FALSE.
        """

    def columns(self, parameter: str) -> tuple[str, ...]:
        """Return the columns of a DESCRIPTOR."""

    def error(self, parameter: str, message: str, hint: str) -> AnalysisError:
        """Return an error at an argument."""


@dataclass(frozen=True)
class WindowKind(Generic[Window_co]):
    """A window table function.

    Attributes:
        name: Name in upper case.
        lengths: Parameters after the data and the time column, in order.
        optional: Parameters that a call may leave out, in order.
        window: Returns the windows that arguments describe. Raises an AnalysisError.
        summary: Description in a few words, for help.
        text: Description in sentences, in lines.
        example: Lengths of an example.
        drawn: Windows in the picture, in minutes.
        drawn_until: End of time in the picture, in minutes.
        has_partition: Whether the data may have PARTITION BY.
        has_bounds: Whether the windows are rows of a table, which is an argument with the names of
            two of its columns.
        is_group_window: Whether GROUP BY may contain it, as in Flink before 1.13.
    """

    name: str
    lengths: tuple[str, ...]
    optional: tuple[str, ...]
    window: Callable[[Arguments], Window_co]
    summary: str
    text: str
    example: str
    drawn: Window_co
    drawn_until: int
    has_partition: bool = False
    has_bounds: bool = False
    is_group_window: bool = True

    @property
    def usage(self) -> str:
        """Usage, for example `TUMBLE(TABLE data, DESCRIPTOR(timecol), size [, offset])`."""
        required = ", ".join(self.arguments)
        return f"{self.name}({required}{''.join(f' [, {name}]' for name in self.optional)})"

    @property
    def arguments(self) -> tuple[str, ...]:
        """Required arguments as in `usage`."""
        data = "TABLE data [PARTITION BY keys]" if self.has_partition else "TABLE data"
        bounds = ("TABLE bounds", "DESCRIPTOR(starts, ends)")
        return (data, "DESCRIPTOR(timecol)", *(bounds if self.has_bounds else self.lengths))


def check_windows_per_row(
    arguments: Arguments, parameter: str, windows_per_row: int, message: str
) -> None:
    """Refuse windows if a row is in too many of them.

    Args:
        arguments: Arguments of the call.
        parameter: Parameter that is too short.
        windows_per_row: Number of windows of a row.
        message: Error message.

    Raises:
        AnalysisError: A row is in too many windows.
    """
    if windows_per_row > MAX_WINDOWS_PER_ROW:
        most = f"the maximum is {MAX_WINDOWS_PER_ROW:,} windows per row"
        raise arguments.error(parameter, message, f"{most}: use a longer {parameter}")
