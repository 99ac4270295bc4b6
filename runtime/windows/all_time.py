"""The window of GROUP BY without a window on a stream: it holds all rows and never closes.

To the operators it is a TUMBLE whose watermark never comes, so nothing is late and results are
emitted early only. A key is in one of `N_PARTS` such windows, which the local stage chooses by its
hash. State is stored by window, so a micro-batch reads and writes the windows of its keys alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from runtime.windows.intervals import IntervalValue
from runtime.windows.tumble import Tumble

# Parts of the state of a key group, a power of two. More parts read less for few changed keys, but
# write more blobs for many.
N_PARTS = 256


@dataclass(frozen=True)
class AllTime(Tumble):
    """All time, as window 0 of one microsecond. The times of its rows are constant.

    Attributes:
        ttl_us: See `state_ttl_us`. It may change when a stream resumes.
    """

    size_us: int = 1
    ttl_us: int | None = field(default=None, compare=False)

    function: ClassVar[str] = "ALL_TIME"
    closes: ClassVar[bool] = False
    tiles: ClassVar[bool] = False
    why_not_filled: ClassVar[str] = "it is one window"

    @property
    def parameters(self) -> Mapping[str, IntervalValue]:
        return {}

    @property
    def state_ttl_us(self) -> int | None:
        return self.ttl_us

    # -- EXPLAIN -----------------------------------------------------------------------------------

    def slice_lines(self) -> list[str]:
        return ["one window holds all rows and never closes"]

    def copies_text(self) -> str:
        return "all rows are in one window"

    def state_text(self, results: str) -> str:
        return f"one partial per key{results}, in {N_PARTS} parts by the keys' hash"

    def late_text(self, fate: str) -> str:
        return "no row is late"
