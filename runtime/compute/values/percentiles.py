"""APPROX_PERCENTILE of windows from the values of slices, with a guaranteed rank error.

A slice's values are stored sorted. If there are more than the accuracy needs, each run of g
neighbours is represented by its last one, with weight g: then any rank is off by less than g, and g
<= n / accuracy for a slice of n values. The errors of slices add up as their sizes do, so a window
of N values is off by at most N / accuracy, regardless of the number of slices. If slices have fewer
than twice as many values as the accuracy, all values are kept and the result is exact.

A window's values are a contiguous range of its key's values, which are stored slice by slice. The
value with a given rank in a range is found by a wavelet matrix (Claude, Navarro, Ordonez: The
wavelet matrix, 2015): for each bit of the values' numbers, from the highest, the values with a 0
precede those with a 1, and running sums tell how much weight of a range went to either side. So a
rank costs one step per bit, for all windows at once, for any overlap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.kernels.conversions import (
    Int64Array,
    from_buffer,
    int64_values,
    list_array,
    one_chunk,
    ranks,
    running_sums,
)
from runtime.compute.values.value_lists import SliceValues
from runtime.compute.values.value_sets import list_lengths

VALUE, WEIGHT = "value", "weight"


def condense(lists: pa.Array | pa.ChunkedArray, accuracy: int) -> pa.ListArray:
    """Reduce lists of values to ascending (value, weight) pairs, fewer than 2 * accuracy each.

    Args:
        lists: Values of each slice, with repetitions, without NULLs.
        accuracy: Ranks are off by at most 1 / accuracy of a list's length.

    Returns:
        Lists of structs `value` and `weight` (int64). A weight is the number of values after the
        previous one, up to this one. The weights add up to the length of the list.
    """
    n_values = list_lengths(lists)
    values = one_chunk(pc.list_flatten(lists))
    rank, _ = ranks(values)
    n_lists = len(n_values)
    of_list = np.repeat(np.arange(n_lists), n_values)
    order = np.lexsort((rank, of_list))
    end = np.cumsum(n_values)
    group = np.maximum(n_values // accuracy, 1)
    place = np.arange(len(values)) - np.repeat(end - n_values, n_values)
    group_of_value = np.repeat(group, n_values)
    is_last = place == np.repeat(n_values, n_values) - 1
    is_kept = is_last | (place % group_of_value == group_of_value - 1)
    kept_values = np.flatnonzero(is_kept)
    # The last run of a list may be shorter than the others.
    weight = place[kept_values] % group_of_value[kept_values] + 1
    chosen = values.take(pa.array(order[kept_values]))
    weights = from_buffer(weight, None, pa.int64(), len(weight))
    items = pa.StructArray.from_arrays([chosen, weights], [VALUE, WEIGHT])
    return list_array(np.bincount(of_list[kept_values], minlength=n_lists), items)


def percentile_ranks(n: Int64Array, percentage: float, accuracy: int) -> Int64Array:
    """Return the rank, from 1, of the percentile among `n` values; 1 for no values.

    As in Spark: the first or last value if the percentage is within 1 / accuracy of 0 or 1, else
    the smallest one with at least `percentage` of the values up to it.
    """
    if percentage <= 1 / accuracy:
        return np.ones(len(n), np.int64)
    rank = n if percentage >= 1 - 1 / accuracy else np.ceil(percentage * n).astype(np.int64)
    clipped: Int64Array = np.maximum(np.minimum(rank, n), 1)
    return clipped


class RangePercentiles:
    """Values of ranges of slices by rank.

    Args:
        values: Structs of value and weight in slices, as returned by `condense`.
        n_slices: Number of slices.
    """

    def __init__(self, values: SliceValues, n_slices: int) -> None:
        chosen = values.values.take(pa.array(values.place))
        numbers, self.distinct = ranks(chosen.field(VALUE))
        weights, slice_row = int64_values(chosen.field(WEIGHT)), values.slice_row
        if weights.min(initial=1) < 0:
            slice_row, numbers, weights = _remaining(slice_row, numbers, weights)
        self._offset = np.searchsorted(slice_row, np.arange(n_slices + 1))
        self._weight_before = running_sums(weights)
        self._numbers, self._weights = numbers, weights
        self._levels = _levels(numbers, weights, len(self.distinct))

    def counts(self, oldest_slice: Int64Array, newest_slice: Int64Array) -> Int64Array:
        """Return the number of values in each range of slices."""
        begin, end = self._offset.take(oldest_slice), self._offset.take(newest_slice + 1)
        counts: Int64Array = self._weight_before.take(end) - self._weight_before.take(begin)
        return counts

    def values_in(
        self, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return range, index in `distinct` and weight of each value of each range.

        They are in order of the ranges, then of the slices.
        """
        begin, end = self._offset.take(oldest_slice), self._offset.take(newest_slice + 1)
        lengths = end - begin
        place = np.repeat(end - np.cumsum(lengths), lengths)
        place += np.arange(len(place))
        of_range = np.repeat(np.arange(len(lengths)), lengths)
        return of_range, self._numbers.take(place), self._weights.take(place)

    def value_at_rank(
        self, oldest_slice: Int64Array, newest_slice: Int64Array, rank: Int64Array
    ) -> Int64Array:
        """Return the index in `distinct` of each range's value with a rank, from 1.

        For an empty range, the index is arbitrary.
        """
        begin, end = self._offset.take(oldest_slice), self._offset.take(newest_slice + 1)
        number = np.zeros(len(rank), np.int64)
        for level in self._levels:
            zero_begin, zero_end = level.zeros.take(begin), level.zeros.take(end)
            if level.zero_weight is level.zeros:
                weight = zero_end - zero_begin
            else:
                weight = level.zero_weight.take(end) - level.zero_weight.take(begin)
            is_one = rank > weight
            rank = np.where(is_one, rank - weight, rank)
            begin = np.where(is_one, level.n_zeros + begin - zero_begin, zero_begin)
            end = np.where(is_one, level.n_zeros + end - zero_end, zero_end)
            number = 2 * number + is_one
        in_range: Int64Array = np.minimum(number, len(self.distinct) - 1)
        return in_range


def _remaining(
    slice_row: Int64Array, numbers: Int64Array, weights: Int64Array
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return the values that remain in each slice after changes, with their numbers and weights."""
    order = np.lexsort((numbers, slice_row))
    slice_row, numbers, weights = (each.take(order) for each in (slice_row, numbers, weights))
    starts = run_starts((slice_row[1:] != slice_row[:-1]) | (numbers[1:] != numbers[:-1]))
    weights = np.add.reduceat(weights, starts)
    remains = weights > 0
    return slice_row.take(starts)[remains], numbers.take(starts)[remains], weights[remains]


@dataclass(frozen=True)
class _BitLevel:
    """One bit of the numbers.

    Attributes:
        zeros: [n + 1], number of zeros among the first values.
        zero_weight: [n + 1], total weight of those; `zeros` itself if every weight is 1.
        n_zeros: Total number of zeros.
    """

    zeros: npt.NDArray[np.integer]
    zero_weight: npt.NDArray[np.integer]
    n_zeros: int


def _levels(numbers: Int64Array, weights: Int64Array, n_numbers: int) -> list[_BitLevel]:
    levels = []
    is_plain = bool((weights == 1).all())
    for bit in reversed(range(max(n_numbers - 1, 0).bit_length())):
        is_zero = (numbers >> bit) & 1 == 0
        zeros = running_sums(is_zero.astype(np.int64)).astype(np.int32)
        zero_weight = zeros if is_plain else running_sums(np.where(is_zero, weights, 0))
        levels.append(_BitLevel(zeros, zero_weight, int(zeros[-1])))
        numbers = np.concatenate((numbers[is_zero], numbers[~is_zero]))
        if not is_plain:
            weights = np.concatenate((weights[is_zero], weights[~is_zero]))
    return levels
