"""COUNT(DISTINCT) and SUM(DISTINCT) of windows from the distinct values of slices.

A value in slices s1 < s2 < ... of a key is present in a union of stretches of the key's windows: it
enters with the oldest window of a slice, and leaves after the newest window of a slice, unless
another slice with the value has entered by then:

    slices with the value         a        b                 c
    windows with a             [--------------)
    windows with b                      [--------------)
    windows with c                                        [-----
    present                    enters             leaves  enters

The number of values in a window is the number that entered up to its newest slice, minus the number
that left before its oldest slice: two running sums over slices, for any overlap. The cost is one
sort of the (key, slice, value) triples.

This is exact for counts, integers and decimals. Doubles are only added, in a tree over the windows,
so that NaN, infinity and rounding errors stay in the windows that contain the values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import AccumulatorState
from runtime.compute.accumulators.segments import run_starts
from runtime.compute.accumulators.sums import exact_sum_accumulator
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import (
    Float64Array,
    Int64Array,
    float64_array,
    float64_values,
    int64_array,
    int64_values,
    list_array,
    normalise_floats,
    running_sums,
)
from runtime.compute.kernels.grouping import SortedGroups
from runtime.compute.values.percentiles import RangePercentiles, percentile_ranks
from runtime.compute.values.registers import RANK_BITS, estimates, inverse_sum, register_sums
from runtime.compute.values.texts import TextsByTime
from runtime.compute.values.value_lists import SliceValues
from runtime.compute.values.window_values import results_of_values
from runtime.spec.aggregates import (
    Accumulator,
    ApproxCountDistinct,
    ApproxPercentile,
    Distinct,
    ListAgg,
    MergeOp,
    OfValues,
    ResultOfValues,
)


class KeyedPieces(Protocol):
    """Pieces of time with their values, such as slices; see `kernels.slices.Slices`."""

    @property
    def key_code(self) -> Int64Array:
        """int64[n], ascending: group key of each piece."""

    @property
    def values(self) -> dict[str, SliceValues]:
        """Columns of lists by name."""

    def __len__(self) -> int: ...


class Places(Protocol):
    """Listed windows of each piece; see `kernels.window_ranges.WindowRanges`."""

    @property
    def first_place(self) -> Int64Array:
        """int64[n], ascending: first window that each piece belongs to."""

    @property
    def end_place(self) -> Int64Array:
        """int64[n], ascending: first window after all windows of the piece."""


class DistinctAggregate(ABC):
    """Aggregate of the distinct values of each window."""

    @abstractmethod
    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        """Return the results of consecutive windows in listing order.

        Args:
            first_window: Number of windows listed before the first of these.
            oldest_slice: First row of each window's slices.
            newest_slice: Last row of each window's slices.

        Raises:
            ExecutionError: A sum does not fit its type.
        """


def distinct_aggregates(
    slices: KeyedPieces, accumulators: Iterable[Accumulator], ranges: Places
) -> dict[Accumulator, DistinctAggregate]:
    """Return the implementation of each distinct accumulator; they share common data."""
    stretches: dict[str, _Stretches] = {}
    counts: dict[str, _DistinctCount] = {}
    percentiles: dict[str, RangePercentiles] = {}
    texts: dict[str, TextsByTime] = {}
    aggregates: dict[Accumulator, DistinctAggregate] = {}
    for spec in accumulators:
        if not isinstance(spec, OfValues):
            continue
        (name,) = spec.columns
        if isinstance(spec, ApproxPercentile | ResultOfValues):
            if name not in percentiles:
                percentiles[name] = RangePercentiles(slices.values[name], len(slices))
            aggregates[spec] = (
                _ApproximatePercentile(percentiles[name], spec)
                if isinstance(spec, ApproxPercentile)
                else _ResultOfValues(percentiles[name], spec)
            )
            continue
        if isinstance(spec, ListAgg):
            if name not in texts:
                texts[name] = TextsByTime(slices.values[name], len(slices))
            aggregates[spec] = _JoinedTexts(texts[name], spec)
            continue
        if isinstance(spec, ApproxCountDistinct):
            reached = _stretches(slices, _ranks_reached(slices.values[name]), ranges)
            aggregates[spec] = _ApproximateCount(reached, spec, len(slices))
            continue
        assert isinstance(spec, Distinct)
        if name not in stretches:
            stretches[name] = _stretches(slices, slices.values[name], ranges)
            counts[name] = _DistinctCount(stretches[name], len(slices))
        if spec.op is MergeOp.COUNT:
            aggregates[spec] = counts[name]
            continue
        values, output_type = stretches[name].values, arrow_type(spec.output.type)
        if pa.types.is_floating(values.type):
            aggregates[spec] = _DistinctDoubleSum(stretches[name], counts[name], ranges)
        else:
            aggregates[spec] = _ExactSum(stretches[name], counts[name], output_type, name)
    return aggregates


@dataclass(frozen=True)
class _Stretches:
    """Presence of values: one row for each value and unbroken stretch of a key's windows.

    Attributes:
        values: Values.
        enters: int64[n], slice whose first window begins the stretch.
        leaves: int64[n], slice whose last window ends it.
    """

    values: pa.Array
    enters: Int64Array
    leaves: Int64Array


def _stretches(slices: KeyedPieces, values: SliceValues, ranges: Places) -> _Stretches:
    if len(values) == 0:
        nothing = np.zeros(0, np.int64)
        return _Stretches(values.values[:0], nothing, nothing)
    first_key = slices.key_code[0]
    group = (slices.key_code - first_key).take(values.slice_row) * values.n_codes + values.code
    n_groups = (int(slices.key_code[-1] - first_key) + 1) * values.n_codes
    # Stable: the slices of a group stay in order.
    order, group_starts = SortedGroups(group, n_groups).runs()
    row = values.slice_row.take(order)
    is_apart = ranges.end_place.take(row[:-1]) < ranges.first_place.take(row[1:])
    is_apart[group_starts[1:] - 1] = True
    first = run_starts(is_apart)
    last = np.append(first[1:], len(row)) - 1
    place = pa.array(values.place.take(order.take(first)))
    return _Stretches(values.values.take(place), row.take(first), row.take(last))


class _DistinctCount(DistinctAggregate):
    """COUNT(DISTINCT)."""

    def __init__(self, stretches: _Stretches, n_slices: int) -> None:
        self.n_slices = n_slices
        self._entered = running_sums(np.bincount(stretches.enters, minlength=n_slices))
        self._left = running_sums(np.bincount(stretches.leaves, minlength=n_slices))

    def between(self, oldest_slice: Int64Array, newest_slice: Int64Array) -> Int64Array:
        """Return the number of values present."""
        counts: Int64Array = self._entered.take(newest_slice + 1) - self._left.take(oldest_slice)
        return counts

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        return int64_array(self.between(oldest_slice, newest_slice), None, pa.int64())


def _ranks_reached(registers: SliceValues) -> SliceValues:
    """Return one value for each rank up to a register's own in a slice.

    Then the largest rank over a window's slices is the number of ranks present, and a register in
    many slices is like any other value in many slices.
    """
    codes = int64_values(registers.values).take(registers.place)
    rank = codes & ((1 << RANK_BITS) - 1)
    before = np.cumsum(rank) - rank
    reached = np.repeat(codes - rank, rank) + np.arange(1, int(rank.sum()) + 1)
    reached -= np.repeat(before, rank)
    n_codes = int(codes.max(initial=0)) + 1
    slice_row = np.repeat(registers.slice_row, rank)
    return SliceValues(slice_row, reached, n_codes, pa.array(reached), np.arange(len(reached)))


class _ApproximateCount(DistinctAggregate):
    """APPROX_COUNT_DISTINCT, from the registers and ranks that are present."""

    def __init__(
        self, reached: _Stretches, accumulator: ApproxCountDistinct, n_slices: int
    ) -> None:
        self._precision = accumulator.precision
        rank = int64_values(reached.values) & ((1 << RANK_BITS) - 1)
        self._entered = self._running_sums(rank, reached.enters, n_slices)
        self._left = self._running_sums(rank, reached.leaves, n_slices)

    @staticmethod
    def _running_sums(rank: Int64Array, row: Int64Array, n_slices: int) -> list[Int64Array]:
        """Return running sums over slices: registers in use, and what their ranks subtract."""
        in_use = np.bincount(row[rank == 1], minlength=n_slices)
        return [
            running_sums(of_slice) for of_slice in (in_use, *register_sums(rank, row, n_slices))
        ]

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        in_use, coarse, fine = (
            entered.take(newest_slice + 1) - left.take(oldest_slice)
            for entered, left in zip(self._entered, self._left, strict=True)
        )
        inverse = inverse_sum(self._precision, coarse, fine)
        n_empty = (1 << self._precision) - in_use
        counts = estimates(self._precision, inverse, n_empty)
        return int64_array(counts, None, pa.int64())


class _ApproximatePercentile(DistinctAggregate):
    """APPROX_PERCENTILE of one percentage, or of several in an array; NULL without values."""

    def __init__(self, percentiles: RangePercentiles, accumulator: ApproxPercentile) -> None:
        self._percentiles = percentiles
        self._accuracy = accumulator.accuracy
        self._percentages = accumulator.percentages
        self._type = arrow_type(accumulator.output.type)

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        counts = self._percentiles.counts(oldest_slice, newest_slice)
        is_empty = counts == 0
        positions = []
        for percentage in self._percentages:
            rank = percentile_ranks(counts, percentage, self._accuracy)
            positions.append(self._percentiles.value_at_rank(oldest_slice, newest_slice, rank))
        distinct = self._percentiles.distinct
        if not pa.types.is_list(self._type):
            return distinct.take(pa.array(positions[0], mask=is_empty)).cast(self._type)
        position = np.stack(positions, axis=1)[~is_empty].reshape(-1)
        lengths = np.where(is_empty, 0, len(positions))
        values = distinct.take(pa.array(position)).cast(self._type.value_type)
        return list_array(lengths, values, self._type, is_empty)


class _ResultOfValues(DistinctAggregate):
    """Function of all values of a window; NULL without values."""

    def __init__(self, percentiles: RangePercentiles, accumulator: ResultOfValues) -> None:
        self._percentiles = percentiles
        self._accumulator = accumulator

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        return results_of_values(self._accumulator, self._percentiles, oldest_slice, newest_slice)


class _JoinedTexts(DistinctAggregate):
    """LISTAGG, NULL without texts; COLLECT_LIST, an empty array without values."""

    def __init__(self, texts: TextsByTime, accumulator: ListAgg) -> None:
        self._texts = texts
        self._separator = accumulator.separator
        self._type = arrow_type(accumulator.output.type)
        self._is_unique = accumulator.is_unique

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        if self._separator is None:
            return self._texts.lists(oldest_slice, newest_slice, self._is_unique).cast(self._type)
        return self._texts.join_texts(oldest_slice, newest_slice, self._separator, self._is_unique)


class _ExactSum(DistinctAggregate):
    """SUM(DISTINCT) of integers and decimals; NULL where no value is present."""

    def __init__(
        self, stretches: _Stretches, count: _DistinctCount, output_type: pa.DataType, column: str
    ) -> None:
        self._count = count
        self._sum = exact_sum_accumulator(stretches.values.type, output_type, column)
        state = self._sum.from_arrow([stretches.values])
        self._entered = self._running_sums(state, stretches.enters, count.n_slices)
        self._left = self._running_sums(state, stretches.leaves, count.n_slices)

    @staticmethod
    def _running_sums(state: AccumulatorState, row: Int64Array, n_slices: int) -> AccumulatorState:
        """Return running sums modulo 2**64; row n is the sum of the slices before slice n."""
        sums = []
        for values in state.values:
            of_slice = np.zeros(n_slices, np.int64)
            np.add.at(of_slice, row, values)
            sums.append(running_sums(of_slice))
        return replace(state, values=tuple(sums), n_valid=None)

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        take = self._sum.take
        sums = self._sum.subtract(
            take(self._entered, newest_slice + 1), take(self._left, oldest_slice)
        )
        n_valid = self._count.between(oldest_slice, newest_slice)
        (column,) = self._sum.to_arrow(replace(sums, n_valid=n_valid))
        return column


class _DistinctDoubleSum(DistinctAggregate):
    """SUM(DISTINCT) of FLOAT and DOUBLE as DOUBLE; NULL where no value is present."""

    def __init__(self, stretches: _Stretches, count: _DistinctCount, ranges: Places) -> None:
        self._count = count
        # Between two of these places no value enters or leaves, so the sums stay the same.
        self._places = np.union1d(ranges.first_place, ranges.end_place)
        begin = np.searchsorted(self._places, ranges.first_place).take(stretches.enters)
        end = np.searchsorted(self._places, ranges.end_place).take(stretches.leaves)
        values = float64_values(normalise_floats(stretches.values))
        self._sums = _sums_over_stretches(begin, end, values, len(self._places))

    def window_results(
        self, first_window: int, oldest_slice: Int64Array, newest_slice: Int64Array
    ) -> pa.Array:
        place = np.arange(first_window, first_window + len(newest_slice))
        sums = self._sums.take(np.searchsorted(self._places, place, side="right") - 1)
        is_valid = self._count.between(oldest_slice, newest_slice) > 0
        return float64_array(sums, is_valid, pa.float64())


def _sums_over_stretches(
    begin: Int64Array, end: Int64Array, values: Float64Array, n_places: int
) -> Float64Array:
    """Return float64[n_places]: at each place, the sum of the values with begin <= place < end.

    A segment tree (Bentley 1977) without nodes. On each level, a stretch with an odd begin or end
    adds its value at that place; the rest continues on the next level with pairs of places. Then
    each place adds the sum of its pair. Uses only additions; at most n log n time.
    """
    sums = np.zeros(n_places)
    with np.errstate(invalid="ignore", over="ignore"):
        if n_places <= 1:
            np.add.at(sums, begin, values)
            return sums
        odd_begin, odd_end = np.flatnonzero(begin & 1), np.flatnonzero(end & 1)
        np.add.at(sums, begin[odd_begin], values[odd_begin])
        np.add.at(sums, end[odd_end] - 1, values[odd_end])
        begin, end = (begin + 1) >> 1, end >> 1
        (inside,) = np.nonzero(begin < end)
        if len(inside):
            n_pairs = (n_places + 1) >> 1
            pairs = _sums_over_stretches(begin[inside], end[inside], values[inside], n_pairs)
            sums += np.repeat(pairs, 2)[:n_places]
    return sums
