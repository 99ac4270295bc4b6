"""Running totals of a CUMULATE window with allowed lateness.

Without allowed lateness the contents of a largest window so far are one slice. With allowed
lateness steps that may still change stay separate, and each window that fires would merge all of
them. So spans are stored from the start of the largest window to the end of the window that fired
last, and to the ends of some windows before it:

    steps        =========|---|---|---|---|---|...      ==: closed for good, one slice
    totals       [------------------------]
                 [----------------------------]
    windows      [--------------------------------]     the last total and the steps since

Windows are computed from the newest total that ends before the first of them, and the steps after
it: those that fire now, and again those that had late rows.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.spec.stream import FINAL_US
from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.spans import Slices, Spans
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.metadata import TotalsMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.windows import AlignedWindow


class RunningTotals(Spans):
    """The totals of one key group.

    Args:
        window: CUMULATE window.
        columns, store, metadata, thresholds: See `Spans`.
    """

    def __init__(
        self,
        window: AlignedWindow,
        columns: StateColumns,
        store: BlobStore,
        metadata: TotalsMetadata | None,
        thresholds: Thresholds,
    ) -> None:
        super().__init__(columns, store, metadata, thresholds)
        self._assigner = window.assigner()
        self._is_worth_it = False

    def metadata(self) -> TotalsMetadata | None:
        """Return the metadata for the next micro-batch, or None before the first total."""
        if not (self._n_results or self._spans):
            return None
        return TotalsMetadata(self._n_results, self._number, [*self._spans.values()], self._patches)

    def windows(
        self, ends: tuple[int, int], n_rows: int, closed_us: int | None, slices: Slices
    ) -> list[pa.Table] | None:
        """Return the partials of windows: a total, as the step at its end, and the steps after it.

        Returns None if no total can be used. Drops totals if they no longer pay off.

        Args:
            ends: Windows with `ends[0]` < window end <= `ends[1]`.
            n_rows: Number of partials in state.
            closed_us: Windows that end at or before this were closed when the micro-batch began.
            slices: Reads partials.
        """
        self._is_worth_it = self._are_worth_it(n_rows)
        if not self._is_worth_it:
            self._clear()
            return None
        base = self._base(self._assigner.next_window_end(ends[0]), closed_us)
        if base is None:
            return None
        self._merge_many_patches()
        span = self._spans[base]
        total = self._concat(self._read(span), span.until_us)
        steps = slices(span.until_us, ends[1])
        return steps if total is None else [total, *steps]

    def store_total(
        self, ends: tuple[int, int], n_results: int | None, closed_us: int | None, slices: Slices
    ) -> None:
        """Write the total of the last window that fired.

        Args:
            ends: Windows with `ends[0]` < window end <= `ends[1]` fired for the first time.
            n_results: Number of their results. None if unknown.
            closed_us: Windows that end at or before this were closed when the micro-batch began.
            slices: Reads partials.
        """
        first = self._assigner.next_window_end(ends[0])
        end = self._assigner.previous_window_end(ends[1])
        n_windows = (end - first) // self._assigner.window_end_stride_us + 1
        if n_results is not None:
            self._n_results = -(-n_results // n_windows)
        start = self._start(end)
        is_full = self._start(self._assigner.next_window_end(end)) != start
        if not self._is_worth_it or is_full or (start, end) in self._spans:
            return
        base = self._base(end, closed_us)
        if base is None:
            parts = slices(start, end)
        else:
            parts = self._read(self._spans[base]) + slices(base[1], end)
        self._make(start, end, parts)

    def forget(self, closed_us: int | None) -> None:
        """Drop totals of steps that are closed for good, and the oldest if there are too many."""
        newest_first = sorted(self._spans, key=lambda key: key[1], reverse=True)
        least = -FINAL_US if closed_us is None else self._assigner.previous_window_end(closed_us)
        for number, key in enumerate(newest_first):
            if number >= self._thresholds.spans_max_patches or key[1] < least:
                self._drop(self._spans.pop(key))
        self._drop_patches()

    def _base(self, end_us: int, closed_us: int | None) -> tuple[int, int] | None:
        """Return the newest total that can be extended to a window's end, or None.

        Steps that are closed for good are one slice. A total that ends before them cannot be used:
        it includes an unknown part of that slice.
        """
        start = self._start(end_us)
        candidates = [key for key in self._spans if key[0] == start and key[1] < end_us]
        base = max(candidates, default=None)
        if base is None or closed_us is None:
            return base
        return base if base[1] >= self._assigner.previous_window_end(closed_us) else None

    def _start(self, window_end_us: int) -> int:
        return int(self._assigner.window_start(np.array([window_end_us]))[0])
