"""RANGES: windows given as rows of a table, each with a start and an end.

Rows are joined with the ranges that contain their times, so a range has no slices, and its bounds
are columns like any other. A stream holds the joined rows until the watermark passes their ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.windows.arguments import Arguments, WindowKind
from runtime.windows.base import BaseWindow, Bounds
from runtime.windows.intervals import IntervalValue
from runtime.windows.tumble import Tumble


@dataclass(frozen=True)
class Ranges(Tumble):
    """Ranges [starts, ends) of a table, which may overlap, be equal and share bounds.

    To the operators of a stream, a range is its last microsecond, in which the rows wait for the
    watermark. Several ranges may share it.

    Attributes:
        starts: Column with the starts.
        ends: Column with the ends.
        drawn: Ranges of a picture.
    """

    size_us: int = 1
    starts: str = field(kw_only=True)
    ends: str = field(kw_only=True)
    drawn: tuple[Bounds, ...] = field(default=(), kw_only=True, compare=False)

    function: ClassVar[str] = "RANGES"
    tiles: ClassVar[bool] = False
    start_identifies: ClassVar[bool] = False
    starts_in_order: ClassVar[bool] = False
    why_not_filled: ClassVar[str] = "ranges have no distance"

    @property
    def has_gaps(self) -> bool:
        return True

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        return {}

    def reason_against(self, new: BaseWindow) -> str | None:
        return None if new == self else "ranges have no slices"

    # -- EXPLAIN -----------------------------------------------------------------------------------

    def parameter_texts(self) -> list[str]:
        return [f"starts=[{self.starts}]", f"ends=[{self.ends}]"]

    def slice_lines(self) -> list[str]:
        return ["each row is aggregated once per range that contains its time"]

    def copies_text(self) -> str:
        return "each row is copied into the ranges that contain its time"

    def state_text(self, results: str) -> str:
        return "one partial per key and open range"

    # -- definition --------------------------------------------------------------------------------

    def windows_of_rows(
        self, times_us: Sequence[int], lengths_us: Sequence[int] | None = None
    ) -> Iterator[Sequence[Bounds]]:
        for time_us in times_us:
            yield [(start, end) for start, end in self.drawn if start <= time_us < end]


def ranges_of(arguments: Arguments) -> Ranges:
    """Return the windows that arguments describe.

    Raises:
        AnalysisError: An argument is invalid.
    """
    starts, ends = arguments.columns("boundcols")
    return Ranges(starts=starts, ends=ends)


RANGES = WindowKind(
    name="RANGES",
    lengths=("bounds", "boundcols"),
    optional=(),
    window=ranges_of,
    summary="windows given as rows of a table: holidays, campaigns, incidents",
    text="A row is in each range [starts, ends) of the table bounds that contains its time; rows\n"
    "in no range are left out. Ranges may overlap, be equal and share bounds. A range that is\n"
    "empty or has a NULL contains no row. The other columns of bounds come along, for example a\n"
    "name to group by. On a stream, bounds must be a bounded table.",
    example="TABLE campaigns, DESCRIPTOR(starts, ends)",
    drawn=Ranges(starts="starts", ends="ends", drawn=((0, 15), (8, 20), (10, 15), (30, 35))),
    drawn_until=40,
    has_bounds=True,
    is_group_window=False,
)
