"""Running aggregates of a HOP window: the cost of a fire does not depend on the overlap.

The slices of a window are grouped into blocks of time, four per window or more. Spans are stored in
addition to the slices and computed from them: one partial per key for all slices between two times.

    blocks       |  .  .  .  .  |  .  .  .  .  |  .  .  .  .  |  .  .  .  .  |  .  .  .  .
    window             [--------|--------------|--------------|--------------|-----]
    spans               suffix      middle: whole blocks, together             prefix

- The prefix is the newest block so far. A window that fires adds the new slices to it.
- Suffixes reach from a slice to the end of its block. There is one for every second window that
  will begin in the block. They are computed from the newest to the oldest, each from the next newer
  one.
- The middle is all whole blocks in between. A block is added to it when it is full.

So a window is computed from three spans, and takes three merges of one partial per key: into the
prefix, into a suffix, and its own. This is the two-stacks algorithm (Tangwongsan, Hirzel,
Schneider: In-order sliding-window aggregation in worst-case constant time, VLDB Journal 2021; Flink
and others call the slices panes) with blocks shorter than a window, because then suffixes need not
be computed all at once: each window that fires adds one suffix of the block in which the windows
after the next few begin. It works for every accumulator, including those that cannot be subtracted.
Slices before the nearest suffix are merged individually. Lists of values grow when they merge, so
blocks of lists have few suffixes.

A row that is late for some windows is added to its slice and, as a patch, to the spans that cover
it; see `runtime.streaming.slices.spans`.

INSERTs of a set that share their slices have separate spans, on the slices of their own windows.

Spans can be dropped at any time because they are computed from slices. They are dropped if they do
not pay off: few rows, few slices per key, or many windows at once, which share the work of one
merge. If a checkpoint has none, they are computed when its next windows fire.
"""

from __future__ import annotations

from math import isqrt

import numpy as np
import pyarrow as pa

from runtime.spec.thresholds import Thresholds
from runtime.streaming.slices.spans import Slices, Spans, needs
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.metadata import RunningMetadata, Span
from runtime.streaming.state.partial_columns import StateColumns
from runtime.windows import AlignedWindow


class RunningAggregates(Spans):
    """The spans of one key group.

    Args:
        window: HOP window whose slices are in several windows.
        columns, store, metadata, thresholds: See `Spans`.
    """

    def __init__(
        self,
        window: AlignedWindow,
        columns: StateColumns,
        store: BlobStore,
        metadata: RunningMetadata | None,
        thresholds: Thresholds,
    ) -> None:
        super().__init__(columns, store, metadata, thresholds)
        self._assigner = window.assigner()
        self._n_windows = window.windows_per_row
        # the first and the last block of a window must be different ones
        assert self._n_windows > 1, window
        self._grows = any(accumulator.is_growing for accumulator in columns.accumulators)
        n_windows = self._n_windows // thresholds.running_min_blocks
        self._set_block(n_windows if metadata is None else metadata.block)
        if metadata is not None and metadata.spans and not self._grows:
            self._stride = metadata.stride
        # number of the window that fired last
        self._last = None if metadata is None else metadata.last
        self._middle = None if metadata is None else metadata.middle

    def metadata(self) -> RunningMetadata | None:
        """Return the metadata for the next micro-batch, or None before the first window fires."""
        if self._last is None:
            return None
        return RunningMetadata(
            self._n_results,
            self._number,
            [*self._spans.values()],
            self._patches,
            self._last,
            self._block,
            self._stride,
            self._middle,
        )

    def windows(self, ends: tuple[int, int], n_rows: int) -> list[int] | None:
        """Return the ends of windows that are best computed from spans, or None for slices.

        Drops spans if they no longer pay off.

        Args:
            ends: Windows with `ends[0]` < window end <= `ends[1]` fire.
            n_rows: Number of partials in state.
        """
        first, last = self._numbers(ends)
        fired_before = self._last is not None and first <= self._last
        self._last = last if self._last is None else max(self._last, last)
        if fired_before:
            return None
        if not self._are_worth_it(n_rows) or self._are_many(first, last):
            self._clear()
            return None
        if not self._spans:
            self._set_block(self._n_windows // self._blocks_for(self._n_results))
        return [self._end(number) for number in range(first, last + 1)]

    def again(self, ends: tuple[int, int]) -> list[int] | None:
        """Return the ends of windows that fired before and are best recomputed from spans.

        These are the windows that fired last, whose spans are kept while they are open. None means
        that slices are better.

        Args:
            ends: Windows with `ends[0]` < window end <= `ends[1]` had late rows.
        """
        if self._last is None or not self._spans:
            return None
        first, last = self._numbers(ends)
        are_old = first <= self._last - self._n_again
        if last > self._last or are_old or self._are_many(first, last):
            return None
        return [self._end(number) for number in range(first, last + 1)]

    def note(self, ends: tuple[int, int], n_results: int) -> None:
        """Record the number of results of windows that were computed from slices."""
        first, last = self._numbers(ends)
        if last == self._last:
            self._n_results = -(-n_results // (last - first + 1))

    def window(self, end_us: int, slices: Slices, *, has_fired: bool = False) -> pa.Table | None:
        """Return a window's partials, all under one slice end. None if the window is empty.

        Args:
            end_us: End of the window, after the end of the previous one.
            slices: Reads partials.
            has_fired: Whether the window is from `again`; then the order of ends does not matter.
        """
        number = self._number_of(end_us)
        oldest = self._block_end(self._start(number))
        newest = self._end(number - number % self._block - 1)
        if not has_fired:
            self._merge_many_patches()
        parts = self._suffix(number, oldest, slices)
        if has_fired:
            parts += self._blocks(oldest, newest, slices)[0]
        else:
            parts += self._whole_blocks(oldest, newest, slices)
        parts += self._prefix(newest, end_us, slices)
        return self._concat(parts, end_us)

    def prepare_later(
        self, end_us: int, n_results: int | None, slices: Slices, closed_us: int | None
    ) -> None:
        """Write a suffix for a later window, and drop spans that no window needs.

        Args:
            end_us: End of the window.
            n_results: Number of its results. None if unknown.
            slices: Reads partials.
            closed_us: Windows that end at or before this are closed. None if no window is closed.
        """
        number = self._number_of(end_us)
        if n_results is not None:
            self._n_results = n_results
        # number of windows after this one that begin in the same block
        left = self._block - 1 - self._cell(self._start(number)) % self._block
        later = number + 2 * left + 1
        later += -later % self._stride
        block_end = self._block_end(self._block_end(self._start(number)))
        if self._start(later) < block_end:
            self._make_suffix(later, block_end, slices)
        self._forget(number, closed_us)
        self._drop_patches()

    def forget(self, closed_us: int | None) -> None:
        """Drop spans of slices whose windows are all closed for good."""
        if closed_us is None or not self._spans:
            return
        keys = [*self._spans]
        ends = np.array([until for _, until in keys], np.int64)
        for place in np.flatnonzero(self._assigner.last_window_end(ends) <= closed_us).tolist():
            self._drop(self._spans.pop(keys[place]))
        if not self._spans:
            self._clear()
        self._drop_patches()

    def _forget(self, number: int, closed_us: int | None) -> None:
        """Drop spans that neither later windows nor the last open ones need."""
        first = number + 1 - self._n_again
        if closed_us is not None:
            first = max(first, self._number_of(self._assigner.next_window_end(closed_us)))
        first = min(first, number + 1)
        start = self._start(first)
        # the next prefix is computed from the last one
        oldest = min(first, number)
        end = self._end(oldest)
        recent = self._end(oldest - oldest % self._block - self._block - 1)
        for after, until in list(self._spans):
            is_prefix = recent <= after and until < end and until != self._block_end(after)
            if after < start or is_prefix:
                self._drop(self._spans.pop((after, until)))
        next_start = self._start(number + 1)
        if self._middle is not None and self._middle.after_us < self._block_end(next_start):
            self._drop(self._middle)
            self._middle = None

    # -- the three parts of a window --

    def _suffix(self, number: int, until_us: int, slices: Slices) -> list[pa.Table]:
        """Return the partials from the start of a window to the end of its first block."""
        near = number + -number % self._stride
        begun = min(self._start(near), until_us)
        parts = slices(self._start(number), begun) if near > number else []
        if begun < until_us:
            parts += self._read(self._make_suffix(near, until_us, slices), is_last=True)
        return parts

    def _make_suffix(self, number: int, until_us: int, slices: Slices) -> Span:
        """Write a window's suffix of a block and missing ones after it, and return the first."""
        missing = []
        at = number
        while self._start(at) < until_us and (self._start(at), until_us) not in self._spans:
            missing.append(at)
            at += self._stride
        for window_number in reversed(missing):
            behind = min(self._start(window_number + self._stride), until_us)
            parts = slices(self._start(window_number), behind)
            if behind < until_us:
                parts += self._read(self._spans[behind, until_us], is_last=True)
            self._make(self._start(window_number), until_us, parts)
        return self._spans[self._start(number), until_us]

    def _whole_blocks(self, after_us: int, until_us: int, slices: Slices) -> list[pa.Table]:
        """Return the partials of the whole blocks of a window, and store them as the middle."""
        parts, n_spans = self._blocks(after_us, until_us, slices)
        if n_spans < 2:
            return parts
        if self._middle is not None:
            self._drop(self._middle)
        self._middle = self._merge(after_us, until_us, parts)
        return self._read(self._middle)

    def _blocks(self, after_us: int, until_us: int, slices: Slices) -> tuple[list[pa.Table], int]:
        """Return (partials of the blocks between two times, number of spans read)."""
        parts: list[pa.Table] = []
        at, n_spans = after_us, 0
        middle = self._middle
        if middle is not None and middle.after_us == after_us and middle.until_us <= until_us:
            parts += self._read(middle)
            at = middle.until_us
            n_spans += 1
        while at < until_us:
            block_end = self._block_end(at)
            span = self._spans.get((at, block_end))
            if span is None:
                span = self._make(at, block_end, slices(at, block_end))
            parts += self._read(span)
            at = block_end
            n_spans += 1
        return parts, n_spans

    def _prefix(self, after_us: int, until_us: int, slices: Slices) -> list[pa.Table]:
        """Return the partials of a window's last block, up to the end of the window."""
        prefixes = [key for key in self._spans if key[0] == after_us and key[1] <= until_us]
        if not prefixes:
            return self._read(self._make(after_us, until_us, slices(after_us, until_us)))
        before = self._spans[max(prefixes)]
        if before.until_us == until_us:
            return self._read(before)
        parts = self._read(before) + slices(before.until_us, until_us)
        return self._read(self._make(after_us, until_us, parts))

    # -- spans --

    def _set_block(self, n_windows: int) -> None:
        """Set the number of windows per block."""
        self._block = max(1, n_windows)
        if self._grows:
            self._stride = -(-self._block // self._thresholds.running_max_list_suffixes)
        else:
            self._stride = 2 if self._block >= self._thresholds.running_min_stride_windows else 1

    @property
    def _n_again(self) -> int:
        """Number of fired windows whose spans are kept."""
        limits = self._thresholds
        n_windows = self._n_windows // (2 * limits.running_min_blocks)
        return min(max(1, n_windows), limits.spans_max_patches)

    def _are_many(self, first: int, last: int) -> bool:
        """Return whether one merge for all these windows is better than one for each."""
        n_windows = self._n_windows // (2 * self._thresholds.running_min_blocks)
        return last - first >= max(1, n_windows)

    def _blocks_for(self, n_results: int) -> int:
        """Return the best number of blocks for windows with `n_results` results."""
        limits = self._thresholds
        most = min(isqrt(self._n_windows), limits.running_max_middle_rows // n_results)
        return max(limits.running_min_blocks, most)

    def _merge_patches(self) -> None:
        middle = self._middle
        if middle is not None and any(needs(middle, patch) for patch in self._patches):
            self._middle = self._merge(middle.after_us, middle.until_us, self._read(middle))
            self._drop(middle)
        super()._merge_patches()

    def _clear(self) -> None:
        super()._clear()
        self._middle = None

    def _spans_only(self) -> list[Span]:
        return [*super()._spans_only(), *([] if self._middle is None else [self._middle])]

    # -- windows by number; block n is the slices up to the ends of windows n * size, ... --

    def _numbers(self, ends: tuple[int, int]) -> tuple[int, int]:
        """Return the first and the last window with `ends[0]` < window end <= `ends[1]`."""
        first = self._assigner.next_window_end(ends[0])
        return self._number_of(first), self._number_of(self._assigner.previous_window_end(ends[1]))

    def _number_of(self, end_us: int) -> int:
        return int(self._assigner.window_number(np.array([end_us]))[0])

    def _end(self, number: int) -> int:
        return int(self._assigner.window_end_of(np.array([number]))[0])

    def _start(self, number: int) -> int:
        ends = self._assigner.window_end_of(np.array([number]))
        return int(self._assigner.window_start(ends)[0])

    def _cell(self, time_us: int) -> int:
        """Return the number of the first window that ends after a time."""
        return self._number_of(self._assigner.next_window_end(time_us))

    def _block_end(self, time_us: int) -> int:
        """Return the end of the block that begins at a time or contains it."""
        cell = self._cell(time_us)
        return self._end(cell - cell % self._block + self._block - 1)
