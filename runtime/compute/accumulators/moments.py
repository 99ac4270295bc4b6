"""Count, mean and sum of squared deviations, from which variances are computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import AccumulatorState, ColumnarAccumulator, without_nulls
from runtime.compute.accumulators.segments import Segments
from runtime.compute.kernels.conversions import (
    AnyArray,
    Int64Array,
    float64_array,
    float64_values,
    int64_array,
    int64_values,
    one_chunk,
    validity,
)


class Moments(ColumnarAccumulator):
    """Three columns: n BIGINT, mean DOUBLE, M2 DOUBLE. If n is 0, the others are NULL.

    Groups are combined by the formula of Chan, Golub and LeVeque (Updating formulae and a pairwise
    algorithm for computing sample variances, 1979), which avoids the cancellation of sums of
    squares. A group with n = 0 is neutral: it adds no rounding error and no infinity.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        count, mean, m2 = (one_chunk(column) for column in columns)
        n = without_nulls(int64_values(count), validity(count), 0)
        means = np.where(n > 0, without_nulls(float64_values(mean), validity(mean), 0.0), 0.0)
        m2s = np.where(n > 0, without_nulls(float64_values(m2), validity(m2), 0.0), 0.0)
        return AccumulatorState((n, means, m2s))

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        n, mean, m2 = state.values
        valid = None if np.all(n > 0) else n > 0
        return [
            int64_array(n, None, self._types[0]),
            float64_array(mean, valid, self._types[1]),
            float64_array(m2, valid, self._types[2]),
        ]

    def identity(self, state: AccumulatorState) -> AccumulatorState:
        return AccumulatorState((np.zeros(1, np.int64), np.zeros(1), np.zeros(1)))

    def combine(self, left: AccumulatorState, right: AccumulatorState) -> AccumulatorState:
        return AccumulatorState(_combine(left.values, right.values))

    def reduce_runs(self, state: AccumulatorState, run_starts: Int64Array) -> AccumulatorState:
        # Combine pairs of neighbours, then pairs of pairs: about as many combines as rows.
        n_rows = len(state)
        while len(run_starts) < n_rows:
            lengths = np.diff(run_starts, append=n_rows)
            n_pairs = (lengths + 1) // 2
            pair_starts = np.cumsum(n_pairs) - n_pairs
            first = np.repeat(run_starts - 2 * pair_starts, n_pairs) + 2 * np.arange(n_pairs.sum())
            has_second = first + 1 < np.repeat(run_starts + lengths, n_pairs)
            # The row after the last is the identity, for unpaired rows.
            padded = self.concat(state, self.identity(state))
            second = np.where(has_second, first + 1, n_rows)
            state = self.combine(self.take(padded, first), self.take(padded, second))
            run_starts, n_rows = pair_starts, len(first)
        return state

    def scan(
        self, state: AccumulatorState, segments: Segments, reverse: bool = False
    ) -> AccumulatorState:
        values = segments.scan(state.values, (0, 0.0, 0.0), _scan_rows, reverse)
        return replace(state, values=tuple(values))


def _combine(left: Sequence[AnyArray], right: Sequence[AnyArray]) -> tuple[AnyArray, ...]:
    (n_a, mean_a, m2_a), (n_b, mean_b, m2_b) = left, right
    n = n_a + n_b
    with np.errstate(all="ignore"):
        delta = mean_b - mean_a
        share = n_b / np.maximum(n, 1)
        # In this order, the square of a large delta does not overflow when n is 0.
        between = delta * (delta * (share * n_a))
        mean = mean_a + delta * share
        m2 = m2_a + m2_b + between
    # Copy the other side where one is empty: infinity times 0 would be NaN.
    is_empty_a, is_empty_b = n_a == 0, n_b == 0
    if is_empty_a.any() or is_empty_b.any():
        mean = np.where(is_empty_a, mean_b, np.where(is_empty_b, mean_a, mean))
        m2 = np.where(is_empty_a, m2_b, np.where(is_empty_b, m2_a, m2))
    return n, mean, m2


def _scan_rows(matrices: Sequence[AnyArray]) -> None:
    for matrix, scanned in zip(matrices, _scan(matrices), strict=True):
        matrix[...] = scanned


def _scan(matrices: Sequence[AnyArray]) -> Sequence[AnyArray]:
    """Running combine along rows: of pairs of columns first, then of the columns in between."""
    n_columns = matrices[0].shape[1]
    if n_columns == 1:
        return matrices
    left = [m[:, 0 : n_columns - 1 : 2] for m in matrices]
    pairs = _scan(_combine(left, [m[:, 1::2] for m in matrices]))
    scanned = [np.empty(m.shape, m.dtype) for m in matrices]
    for out, matrix, pair in zip(scanned, matrices, pairs, strict=True):
        out[:, 0] = matrix[:, 0]
        out[:, 1::2] = pair
    if n_columns > 2:
        odd = [m[:, 2::2] for m in matrices]
        before = [pair[:, : odd[0].shape[1]] for pair in pairs]
        for out, combined in zip(scanned, _combine(before, odd), strict=True):
            out[:, 2::2] = combined
    return scanned
