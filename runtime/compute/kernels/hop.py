"""HOP from slices: two combines per window, however many slices it covers.

The algorithm of van Herk (1992) and Gil and Werman (1993) for running extrema, generalised to any
associative combine and to sparse data. Each key's slices are cut into blocks of time as long as a
window. Every slice stores the combine of its block up to the slice (prefix) and from the slice on
(suffix). A window touches at most two blocks:

    slices        a  b  c  d | e  f     i | j
    window           [---------------]      suffix[b] combined with prefix[f]
    window        [--------]                prefix[d]: begins with its block
    window              [----]              suffix[c]: ends with its block

Integer sums do not need blocks: a window is the exact difference of two entries of a running sum.
Floating point is never subtracted, so that NaN, infinity and rounding errors do not spread to other
windows.
"""

from __future__ import annotations

import numpy as np

from runtime.compute.accumulators.base import (
    AccumulatorState,
    ColumnarAccumulator,
    InvertibleAccumulator,
)
from runtime.compute.accumulators.segments import Segments, run_starts
from runtime.compute.kernels.conversions import Int64Array
from runtime.compute.kernels.slices import Slices, row_changes


class HopCombiner:
    """Combination of slices to the windows of a HOP.

    Args:
        slices: Slices of a bucket.
        block_of_slot: int64[n_slots], ascending: block of each slot. A window touches at most two.
    """

    def __init__(self, slices: Slices, block_of_slot: Int64Array) -> None:
        self._accumulators = slices.accumulators
        self._n_slices = len(slices)
        block = block_of_slot.take(slices.slot)
        blocks = Segments(run_starts(row_changes([slices.key_code, block])), len(slices))
        self._block_start = np.repeat(blocks.starts, blocks.lengths)
        self._ranges: list[_RunningDifference | _PrefixAndSuffix] = [
            _RunningDifference(accumulator, state)
            if isinstance(accumulator, InvertibleAccumulator)
            else _PrefixAndSuffix(accumulator, state, blocks)
            for accumulator, state in zip(slices.accumulators, slices.states, strict=True)
        ]

    def states(self, oldest_slice: Int64Array, newest_slice: Int64Array) -> list[AccumulatorState]:
        """Return the state of each accumulator for some windows.

        Args:
            oldest_slice: First row of each window's slices.
            newest_slice: Last row of each window's slices.
        """
        block_start = self._block_start.take(newest_slice)
        identity = self._n_slices
        suffix_at = np.where(oldest_slice == block_start, identity, oldest_slice)
        prefix_at = np.where(oldest_slice > block_start, identity, newest_slice)
        return [
            source.between(oldest_slice, newest_slice)
            if isinstance(source, _RunningDifference)
            else source.combine(suffix_at, prefix_at)
            for source in self._ranges
        ]


class _RunningDifference:
    """Sums over ranges of slices, as differences of one running sum over all slices."""

    def __init__(self, accumulator: InvertibleAccumulator, state: AccumulatorState) -> None:
        self._accumulator = accumulator
        total = Segments(np.zeros(1, np.int64), len(state))
        running = accumulator.scan(state, total)
        self._running = accumulator.concat(accumulator.identity(state), running)

    def between(self, first: Int64Array, last: Int64Array) -> AccumulatorState:
        """Return the states of slices first .. last, inclusive."""
        take = self._accumulator.take
        return self._accumulator.subtract(take(self._running, last + 1), take(self._running, first))


class _PrefixAndSuffix:
    """Combined slices from a slice to its block's end, and from a block's start to a slice.

    The row after the last slice is the identity.
    """

    def __init__(
        self, accumulator: ColumnarAccumulator, state: AccumulatorState, blocks: Segments
    ) -> None:
        self._accumulator = accumulator
        identity = accumulator.identity(state)
        self._prefix = accumulator.concat(accumulator.scan(state, blocks), identity)
        self._suffix = accumulator.concat(accumulator.scan(state, blocks, reverse=True), identity)

    def combine(self, suffix_at: Int64Array, prefix_at: Int64Array) -> AccumulatorState:
        """Combine the suffixes at some slices with the prefixes at others."""
        take = self._accumulator.take
        return self._accumulator.combine(
            take(self._suffix, suffix_at), take(self._prefix, prefix_at)
        )
