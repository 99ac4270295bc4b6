"""HOP from slices: two combines a window, however many slices it covers.

The algorithm of van Herk (1992) and Gil and Werman (1993) for running extrema, for any associative
combine and on sparse data. Each key's slices are cut into blocks of time, each as long as a
window; inside a block every slice knows the combine of the block up to it (prefix) and from it on
(suffix). A window touches at most two blocks:

    slices        a  b  c  d | e  f     i | j
    window           [---------------]      suffix[b] combined with prefix[f]
    window        [--------]                prefix[d]: begins with its block
    window              [----]              suffix[c]: ends with its block

Integer sums need no blocks: a window is the difference of two entries of one running sum, which
is exact. Floating point is never subtracted: NaN, infinity and rounding stay where they belong.
"""

from __future__ import annotations

import numpy as np

from runtime.accumulators import ColumnarAccumulator, Segments, State
from runtime.accumulators.segments import run_starts
from runtime.kernels.columns import Int64Array
from runtime.kernels.slices import Slices, changes


class HopCombiner:
    """Combines slices into the windows of a HOP.

    Args:
        slices: the slices of a bucket.
        size_us: the size of a window.
        window_offset: int64[n + 1], the number of windows listed before each slice's.
    """

    def __init__(self, slices: Slices, size_us: int, window_offset: Int64Array) -> None:
        self._accumulators = slices.accumulators
        self._n_slices = len(slices)
        self._left_at = _left_at(slices, window_offset)
        block_of_slot = (slices.slot_end - slices.slot_end[0]) // size_us
        block = block_of_slot.take(slices.slot)
        blocks = Segments(run_starts(changes([slices.key_code, block])), len(slices))
        self._block_start = np.repeat(blocks.starts, blocks.lengths)
        self._ranges: list[_RunningDifference | _PrefixAndSuffix] = [
            _RunningDifference(each, state)
            if each.is_invertible
            else _PrefixAndSuffix(each, state, blocks)
            for each, state in zip(slices.accumulators, slices.states, strict=True)
        ]

    def states(self, first_window: int, newest_slice: Int64Array) -> list[State]:
        """The state of each accumulator for consecutive windows in the order they are listed in.

        Args:
            first_window: how many windows are listed before the first of these.
            newest_slice: the last row of each window's slices.
        """
        oldest_slice = self._oldest_slice(first_window, len(newest_slice))
        block_start = self._block_start.take(newest_slice)
        identity = self._n_slices
        suffix_at = np.where(oldest_slice == block_start, identity, oldest_slice)
        prefix_at = np.where(oldest_slice > block_start, identity, newest_slice)
        return [
            each.between(oldest_slice, newest_slice)
            if isinstance(each, _RunningDifference)
            else each.combined(suffix_at, prefix_at)
            for each in self._ranges
        ]

    def _oldest_slice(self, first_window: int, n_windows: int) -> Int64Array:
        """The first row of each window's slices: as many as have been left behind by then."""
        before, after = np.searchsorted(self._left_at, (first_window, first_window + n_windows))
        left = np.bincount(self._left_at[before:after] - first_window, minlength=n_windows)
        oldest: Int64Array = before + np.cumsum(left)
        return oldest


class _RunningDifference:
    """Sums over ranges of slices, as differences of one running sum over all slices."""

    def __init__(self, accumulator: ColumnarAccumulator, state: State) -> None:
        self._accumulator = accumulator
        whole = Segments(np.zeros(1, np.int64), len(state))
        running = accumulator.scan(state, whole)
        self._running = accumulator.concat(accumulator.identity(state), running)

    def between(self, first: Int64Array, last: Int64Array) -> State:
        """The states of slices first .. last, both included."""
        take = self._accumulator.take
        return self._accumulator.subtract(take(self._running, last + 1), take(self._running, first))


class _PrefixAndSuffix:
    """Combines from a slice to the end of its block, and from the start of a block to a slice.

    Behind the last slice stands the identity.
    """

    def __init__(self, accumulator: ColumnarAccumulator, state: State, blocks: Segments) -> None:
        self._accumulator = accumulator
        identity = accumulator.identity(state)
        self._prefix = accumulator.concat(accumulator.scan(state, blocks), identity)
        self._suffix = accumulator.concat(accumulator.scan(state, blocks, reverse=True), identity)

    def combined(self, suffix_at: Int64Array, prefix_at: Int64Array) -> State:
        """The suffixes at some slices combined with the prefixes at others."""
        take = self._accumulator.take
        return self._accumulator.combine(
            take(self._suffix, suffix_at), take(self._prefix, prefix_at)
        )


def _left_at(slices: Slices, window_offset: Int64Array) -> Int64Array:
    """int64[n], ascending: the first listed window, of its key or a later one, without the slice.

    That is the first window that ends after the last window of the slice. It is listed with the
    newest slice of the key that such a window would have, if that slice has so many windows.
    """
    after_last = slices.last_window + 1
    # The newest slot that window number `after_last` can cover. Numbers of windows ascend with
    # the slots: a slot belongs to it or an older one if its first window is no newer.
    newest_slot = np.searchsorted(slices.first_window, after_last, side="right") - 1
    later_slots = newest_slot - np.arange(len(newest_slot))
    newest_slice = slices.newest_up_to(slices.cell + later_slots.take(slices.slot))
    place_of_window_0 = window_offset[:-1] - slices.first_window.take(slices.slot)
    left_at: Int64Array = place_of_window_0.take(newest_slice) + after_last.take(slices.slot)
    np.minimum(left_at, window_offset[1:].take(newest_slice), out=left_at)
    return left_at
