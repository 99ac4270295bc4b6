"""SESSION: windows that end after a gap without rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal, Self

from runtime.windows.arguments import Arguments, RowLength, WindowKind
from runtime.windows.base import BaseWindow, Bounds, given
from runtime.windows.intervals import IntervalValue, render_duration
from runtime.windows.times import GAP
from runtime.windows.tumble import Tumble


@dataclass(frozen=True)
class SessionWindow(BaseWindow):
    """Windows that end after a gap without a row; rows exactly the gap apart merge.

    Attributes:
        gap_us: Gap.
        partition: Names of the partition columns; each combination of values has its own sessions.
    """

    gap_us: int
    partition: tuple[str, ...] = ()

    function: ClassVar[str] = "SESSION"
    has_slices: ClassVar[Literal[False]] = False
    is_calendar: ClassVar[Literal[False]] = False
    starts_in_order: ClassVar[bool] = False
    why_not_filled: ClassVar[str] = "a session ends where rows are missing"

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
        return self._slice_lines("the gap", "the times of their first and last rows")

    def _slice_lines(self, width: str, times: str) -> list[str]:
        return [
            "rows of one key are first aggregated in pieces of "
            f"{render_duration(self.cells.slice_width_us)}, {width}; each row is aggregated once",
            f"sessions are merged from these pieces, by {times}",
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

    def windows_of_rows(
        self, times_us: Sequence[int], lengths_us: Sequence[int] | None = None
    ) -> Iterator[Sequence[Bounds]]:
        gaps_us = [self.gap_us] * len(times_us) if lengths_us is None else lengths_us
        sessions: list[list[int]] = []
        for time_us, gap_us in sorted(zip(times_us, gaps_us, strict=True)):
            if sessions and time_us <= sessions[-1][1]:
                sessions[-1][1] = max(sessions[-1][1], time_us + gap_us)
            else:
                sessions.append([time_us, time_us + gap_us])
        for time_us in times_us:
            # a row at the very end of a session is in it
            yield next([(start, end)] for start, end in sessions if start <= time_us <= end)


@dataclass(frozen=True)
class RowGapSession(SessionWindow):
    """Sessions in which a row reaches from its time to that plus its own gap.

    The local stage stores the latest end of its rows as the time of the last one. To all stages
    after it, these are sessions with a gap of 0.

    Attributes:
        of_rows: The gap of each row.
    """

    of_rows: RowLength = field(kw_only=True)

    @property
    def row_length(self) -> str:
        return GAP

    @property
    def cells(self) -> Tumble:
        return Tumble(self.of_rows.least_us)

    def parameter_texts(self) -> list[str]:
        return [f"gap=[{self.of_rows.text}]"]

    def slice_lines(self) -> list[str]:
        times = "their first times and the latest end of their rows"
        return self._slice_lines("the least gap", times)


def session_of(arguments: Arguments) -> SessionWindow:
    """Return the windows that arguments describe, without PARTITION BY.

    Raises:
        AnalysisError: An argument is invalid.
    """
    of_rows = arguments.of_rows("gap")
    if of_rows is not None:
        return RowGapSession(0, of_rows=of_rows)
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
    "own sessions. The gap may be an expression of the row; a row whose gap is NULL, zero or\n"
    "negative is in no session.",
    example="INTERVAL '5' MINUTES",
    drawn=SessionWindow(5),
    drawn_until=40,
    has_partition=True,
)
