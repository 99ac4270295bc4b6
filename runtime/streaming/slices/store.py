"""The interface of the slices of a key group's open windows.

`PlainSlices` merges all slices of a window when it fires. `RunningSlices` also stores partials that
are merged already, so a window reads a few partials per key however many slices it has. The planner
chooses for each window aggregation (`SliceStoreKind`). The results are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array
from runtime.streaming.slices.levels import Reader
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import SliceMetadata
from runtime.streaming.state.ranges import Range


@dataclass(frozen=True)
class Horizon:
    """How far windows fire and close in a micro-batch. None is before all times.

    Attributes:
        fired_us: End up to which windows have fired, before and after the micro-batch.
        closed_us: End up to which windows are closed, before and after the micro-batch.
    """

    fired_us: tuple[int | None, int | None] = (None, None)
    closed_us: tuple[int | None, int | None] = (None, None)

    def has_fired(self, end_us: int) -> bool:
        """Return whether a window has fired by the end of the micro-batch."""
        after = self.fired_us[1]
        return after is not None and end_us <= after

    def fires(self, ends: Range) -> bool:
        """Return whether windows fire in the micro-batch, and not before or after it."""
        before = self.fired_us[0]
        return (before is None or ends[0] >= before) and self.has_fired(ends[1])


class SliceStore(Protocol):
    """The slices of a key group's open windows, for all window aggregations that read them.

    A micro-batch calls `add`, then `windows` for the windows that are due, then `expire`. Nothing
    of its partials is written before `expire`, so slices whose windows all close at once are never
    written.
    """

    @property
    def readers(self) -> Sequence[Reader]:
        """Window aggregations."""

    def add(self, partials: Sequence[pa.Table], horizon: Horizon) -> list[list[pa.Table]]:
        """Add the partials of a micro-batch. Partials without an open window are left out.

        Returns:
            The partials that were added, for each reader.
        """

    def windows(
        self, reader: int, ends: Range, keys: KeySet | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield a reader's windows with `ends[0]` < window end <= `ends[1]`: keys and results.

        Args:
            reader: Number of the window aggregation.
            ends: Windows. Either all or none of them have fired before this micro-batch.
            keys: Compute at least these keys. None means all.

        Raises:
            ExecutionError: State lacks a blob, or a sum overflows its type.
        """

    def window_ends(self, reader: int) -> tuple[Int64Array, Int64Array]:
        """Return first and last window end of each stored or added table that a reader reads."""

    def expire(self, closed_us: int | None) -> None:
        """Free slices whose windows all end at or before `closed_us`, and write the others."""

    def metadata(self) -> SliceMetadata:
        """Return the metadata for the next micro-batch. Call it after `expire`."""

    @property
    def n_rows(self) -> int:
        """Number of partials in state."""

    @property
    def n_bytes(self) -> int:
        """Size of their blobs."""

    @property
    def most_bytes(self) -> int:
        """Largest number of bytes of partials merged at once in this micro-batch."""
