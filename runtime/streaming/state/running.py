"""Running aggregates of a HOP window in state, so that a fire costs the same whatever the overlap.

The slices of a window are cut into blocks of time, four a window or more. In state are, beside the
slices and made of them, spans: one partial a key for all slices between two times.

    blocks       |  .  .  .  .  |  .  .  .  .  |  .  .  .  .  |  .  .  .  .  |  .  .  .  .
    window             [--------|--------------|--------------|--------------|-----]
    spans               suffix      middle: whole blocks, together             prefix

- the prefix is the newest block so far; a window that fires adds the slices that came;
- suffixes reach from some slice to the end of its block; there is one for every second window that
  will begin in it. They are made from the newest to the oldest, each of the one behind it;
- the middle is all whole blocks in between, to which a block is added when it is full.

So a window is put together from three spans, and takes three merges of one partial a key: into the
prefix, into a suffix, and its own. That is two stacks (Tangwongsan, Hirzel, Schneider: In-order
sliding-window aggregation in worst-case constant time, VLDB Journal 2021; Flink and others call the
slices panes) with blocks shorter than a window, as suffixes need not be made all at once then: with
each window that fires comes one of the block that the windows after the next few begin in.
Everything merges that way, what cannot be subtracted too. Slices before the nearest suffix are
merged as they are. Lists of values grow when they merge, so of them a block has few suffixes.

A row that is late for some windows goes to its slice, and as a patch beside the spans that have
its slice; what is read or made from a span takes the patches along that are newer than the span.

INSERTs of a set that share their slices have spans each, on the slices of their own windows.

Spans never hold what slices do not: they may be dropped at any time, and are where they are not
worth it (few rows, or few slices a key; many windows at once, which share the work of one merge).
A checkpoint without them gets them when its next windows fire.
"""

from __future__ import annotations

from math import isqrt
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.windows.aligned import slice_assigner
from runtime.spec.aggregates import CollectRows, CollectSet
from runtime.spec.windows import CalendarHop, Hop, windows_per_slice
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.columns import StateColumns
from runtime.streaming.state.spans import MANY_PATCHES, Slices, Span, Spans, needs

# A window has so many blocks at least. With more of them there are fewer suffixes to remember, and
# the middle is made anew from more partials, of which there are to be no more than that.
_FEWEST_BLOCKS = 4
MIDDLE_ROWS = 1 << 16
# A block has so many suffixes of lists at most.
_SUFFIXES_OF_LISTS = 4
# Of others there is one for every second window, whose block has so many windows: a window between
# two reads one slice more, and half as much is written.
_STRIDE = 2
_ENOUGH_FOR_STRIDE = 4


class RunningAggregates(Spans):
    """The spans of one key group.

    Args:
        window: the window.
        columns, store, facts: as in `Spans`.
    """

    def __init__(
        self,
        window: Hop | CalendarHop,
        columns: StateColumns,
        store: BlobStore,
        facts: dict[str, Any] | None,
    ) -> None:
        facts = facts or {}
        super().__init__(columns, store, facts)
        self._assigner = slice_assigner(window)
        self._n_windows = windows_per_slice(window)
        self._grows = any(
            isinstance(each, CollectSet | CollectRows) for each in columns.accumulators
        )
        self._set_block(facts.get("block", self._n_windows // _FEWEST_BLOCKS))
        if facts.get("spans") and not self._grows:
            self._stride = facts["stride"]
        # the number of the window that fired last
        self._last: int | None = facts.get("last")
        self._middle = Span._make(facts["middle"]) if facts.get("middle") else None

    def facts(self) -> dict[str, Any]:
        """What is to be remembered for the next micro-batch, as JSON has it."""
        if self._last is None:
            return {}
        own = {
            "last": self._last,
            "block": self._block,
            "stride": self._stride,
            "middle": self._middle,
        }
        return self._span_facts() | own

    def windows(self, ends: tuple[int, int], n_rows: int) -> list[int] | None:
        """The ends of windows that are best put together from spans; None: from slices.

        Spans that are not worth their while any more are dropped.

        Args:
            ends: windows with an end above the first and up to the second are to fire.
            n_rows: how many partials there are.
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
        """The ends of windows that have fired and are best put together anew from spans.

        Those are the ones that fired last, for which spans are kept as long as they are open. None:
        from slices.

        Args:
            ends: windows with an end above the first and up to the second had late rows.
        """
        if self._last is None or not self._spans:
            return None
        first, last = self._numbers(ends)
        are_old = first <= self._last - self._n_again
        if last > self._last or are_old or self._are_many(first, last):
            return None
        return [self._end(number) for number in range(first, last + 1)]

    def note(self, ends: tuple[int, int], n_results: int) -> None:
        """Note how many results windows had that were put together from slices."""
        first, last = self._numbers(ends)
        if last == self._last:
            self._n_results = -(-n_results // (last - first + 1))

    def window(self, end_us: int, slices: Slices, *, has_fired: bool = False) -> pa.Table | None:
        """The partials of a window, all of one slice of it; None if there are none.

        Args:
            end_us: the end of the window, which is newer than that of the one before.
            slices: reads partials.
            has_fired: whether it is one of those that `again` gave, whose ends are any.
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
        return self._joined(parts, end_us)

    def fired(
        self, end_us: int, n_results: int | None, slices: Slices, closed_us: int | None
    ) -> None:
        """Make a suffix for a later window, and forget what no window needs any more.

        Args:
            end_us: the end of the window.
            n_results: how many results it had; None: not known.
            slices: reads partials.
            closed_us: windows that end no later take no rows any more; None: all do.
        """
        number = self._number_of(end_us)
        if n_results is not None:
            self._n_results = n_results
        # the windows that still begin in this block, behind this one
        left = self._block - 1 - self._cell(self._start(number)) % self._block
        later = number + 2 * left + 1
        later += -later % self._stride
        block_end = self._block_end(self._block_end(self._start(number)))
        if self._start(later) < block_end:
            self._make_suffix(later, block_end, slices)
        self._forget(number, closed_us)
        self._drop_patches()

    def forget(self, closed_us: int | None) -> None:
        """Drop spans of slices of which all windows are closed for good."""
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
        """Drop spans that later windows do not need, nor the last ones as long as they are open."""
        first = number + 1 - self._n_again
        if closed_us is not None:
            first = max(first, self._number_of(self._assigner.next_window_end(closed_us)))
        first = min(first, number + 1)
        start = self._start(first)
        # the prefix of the last one is what the next one is made of
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
        """The partials from the start of a window to the end of its first block."""
        near = number + -number % self._stride
        begun = min(self._start(near), until_us)
        parts = slices(self._start(number), begun) if near > number else []
        if begun < until_us:
            parts += self._read(self._make_suffix(near, until_us, slices), is_last=True)
        return parts

    def _make_suffix(self, number: int, until_us: int, slices: Slices) -> Span:
        """The suffix of a block for a window; also those behind it, if they are missing."""
        missing = []
        at = number
        while self._start(at) < until_us and (self._start(at), until_us) not in self._spans:
            missing.append(at)
            at += self._stride
        for each in reversed(missing):
            behind = min(self._start(each + self._stride), until_us)
            parts = slices(self._start(each), behind)
            if behind < until_us:
                parts += self._read(self._spans[behind, until_us], is_last=True)
            self._make(self._start(each), until_us, parts)
        return self._spans[self._start(number), until_us]

    def _whole_blocks(self, after_us: int, until_us: int, slices: Slices) -> list[pa.Table]:
        """The partials of the blocks between the first and the last of a window, as the middle."""
        parts, n_spans = self._blocks(after_us, until_us, slices)
        if n_spans < 2:
            return parts
        if self._middle is not None:
            self._drop(self._middle)
        self._middle = self._merged(after_us, until_us, parts)
        return self._read(self._middle)

    def _blocks(self, after_us: int, until_us: int, slices: Slices) -> tuple[list[pa.Table], int]:
        """(the partials of the blocks between two times, of how many spans)."""
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
        """The partials of the last block of a window, up to its end."""
        known = [key for key in self._spans if key[0] == after_us and key[1] <= until_us]
        if not known:
            return self._read(self._make(after_us, until_us, slices(after_us, until_us)))
        before = self._spans[max(known)]
        if before.until_us == until_us:
            return self._read(before)
        parts = self._read(before) + slices(before.until_us, until_us)
        return self._read(self._make(after_us, until_us, parts))

    # -- spans --

    def _set_block(self, n_windows: int) -> None:
        """Have blocks of so many windows."""
        self._block = max(1, n_windows)
        if self._grows:
            self._stride = -(-self._block // _SUFFIXES_OF_LISTS)
        else:
            self._stride = _STRIDE if self._block >= _ENOUGH_FOR_STRIDE else 1

    @property
    def _n_again(self) -> int:
        """For how many windows that have fired spans are kept."""
        return min(max(1, self._n_windows // (2 * _FEWEST_BLOCKS)), MANY_PATCHES)

    def _are_many(self, first: int, last: int) -> bool:
        """Whether windows are so many that they are better merged together."""
        return last - first >= max(1, self._n_windows // (2 * _FEWEST_BLOCKS))

    def _blocks_for(self, n_results: int) -> int:
        """How many blocks are best for windows of so many results."""
        most = min(isqrt(self._n_windows), MIDDLE_ROWS // n_results)
        return max(_FEWEST_BLOCKS, most)

    def _merge_patches(self) -> None:
        middle = self._middle
        if middle is not None and any(needs(middle, patch) for patch in self._patches):
            self._middle = self._merged(middle.after_us, middle.until_us, self._read(middle))
            self._drop(middle)
        super()._merge_patches()

    def _clear(self) -> None:
        super()._clear()
        self._middle = None

    def _spans_only(self) -> list[Span]:
        return [*super()._spans_only(), *([] if self._middle is None else [self._middle])]

    # -- windows by number; block n are the slices up to the ends of windows n * size and so on --

    def _numbers(self, ends: tuple[int, int]) -> tuple[int, int]:
        """The first and the last window with an end above the first and up to the second."""
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
        """The number of the first window that ends behind a time."""
        return self._number_of(self._assigner.next_window_end(time_us))

    def _block_end(self, time_us: int) -> int:
        """The end of the block that begins at a time, or that it is in."""
        cell = self._cell(time_us)
        return self._end(cell - cell % self._block + self._block - 1)
