"""SESSION: windows that end after a gap without rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self

from runtime.windows.arguments import Arguments, WindowKind
from runtime.windows.base import BaseWindow, Bounds, given
from runtime.windows.intervals import IntervalValue, render_duration
from runtime.windows.tumble import Tumble


@dataclass(frozen=True)
class SessionWindow(BaseWindow):
    """Windows that end after `gap_us` without a row; rows exactly the gap apart merge.

    Attributes:
        gap_us: Gap.
        partition: Names of the partition columns; each combination of values has its own sessions.
    """

    gap_us: int
    partition: tuple[str, ...] = ()

    function: ClassVar[str] = "SESSION"
    has_slices: ClassVar[Literal[False]] = False
    is_calendar: ClassVar[Literal[False]] = False

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        return given(gap=IntervalValue(0, self.gap_us))

    def with_partition(self, names: tuple[str, ...]) -> Self:
        return replace(self, partition=names)

    @property
    def cells(self) -> Tumble:
        """Fixed intervals so short that all rows of a partition in one belong to one session."""
        return Tumble(self.gap_us)

    def reason_against(self, new: BaseWindow) -> str | None:
        return "sessions have no slices"

    # -- EXPLAIN -----------------------------------------------------------------------------------

    piece: ClassVar[str] = "piece"

    def slice_lines(self) -> list[str]:
        return [
            f"rows of one key are first aggregated in pieces of {render_duration(self.gap_us)}, "
            "the gap; each row is aggregated once",
            "sessions are merged from these pieces, by the times of their first and last rows",
        ]

    def note_lines(self, keys: Sequence[str]) -> list[str]:
        others = [key for key in keys if key not in self.partition]
        if not others:
            return []
        return [
            f"sessions span all rows{self._partition_text}; within a session, rows are grouped by "
            f"{', '.join(others)}"
        ]

    def copies_text(self) -> str:
        return f"each row is in one session; one task sorts the rows{self._partition_text} by time"

    def state_text(self, results: str) -> str:
        return f"one partial per key and open session{results}"

    def late_text(self, fate: str) -> str:
        return f"a row is late if it belongs to no open session; late rows are {fate}"

    @property
    def _partition_text(self) -> str:
        return f" of one {', '.join(self.partition)}" if self.partition else ""

    # -- definition --------------------------------------------------------------------------------

    def windows_of_rows(self, times_us: Sequence[int]) -> Iterator[Sequence[Bounds]]:
        sessions: list[list[int]] = []
        for time_us in sorted(times_us):
            if sessions and time_us - sessions[-1][1] <= self.gap_us:
                sessions[-1][1] = time_us
            else:
                sessions.append([time_us, time_us])
        for time_us in times_us:
            for first, last in sessions:
                if first <= time_us <= last:
                    yield [(first, last + self.gap_us)]


def session_of(arguments: Arguments) -> SessionWindow:
    """Return the windows that arguments describe, without PARTITION BY.

    Raises:
        AnalysisError: An argument is invalid.
    """
    gap = arguments.positive("gap")
    if gap.months:
        raise arguments.error(
            "gap",
            f"the gap of SESSION must have a fixed length, but {gap.text} does not",
            "use days: INTERVAL '30' DAYS",
        )
    return SessionWindow(gap.us)


SESSION = WindowKind(
    name="SESSION",
    lengths=("gap",),
    optional=(),
    window=session_of,
    summary="windows that end after a gap without rows",
    text="A window lasts from its first row until the gap has passed since its last row. Rows\n"
    "at most the gap apart are in the same session. With PARTITION BY, each key has its\n"
    "own sessions.",
    example="INTERVAL '5' MINUTES",
    drawn=SessionWindow(5),
    drawn_until=40,
    has_partition=True,
)
