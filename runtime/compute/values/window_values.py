"""Functions of all values of a window: the values of windows as the kernels of functions see them.

A function is an entry of `runtime.functions.aggregates` whose form is `FromValues`. Its kernel gets
many windows at once. It reads single ranks, which cost one step per bit for any overlap of windows,
or all values of each window, which costs a sort of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.accumulators.sums import overflow
from runtime.compute.arrow.types import arrow_type
from runtime.compute.kernels.conversions import Int64Array, ranks, running_sums
from runtime.compute.values.percentiles import RangePercentiles
from runtime.compute.values.too_many_values import check_counts
from runtime.functions.aggregates import AGGREGATES
from runtime.functions.aggregates.counted import from_counts
from runtime.functions.aggregates.function import WindowValues
from runtime.shown_types import shown_type
from runtime.spec.aggregates import ResultOfValues

# Window, index among the distinct values and count of each value of each window
_RunsOfValues: TypeAlias = tuple[Int64Array, Int64Array, Int64Array]
# Windows are passed to a kernel until they have about this many values, which it may copy.
_VALUES_AT_ONCE = 1 << 22


def results_of_values(
    accumulator: ResultOfValues,
    values: RangePercentiles,
    oldest_slice: Int64Array,
    newest_slice: Int64Array,
) -> pa.Array:
    """Return the result of each window; NULL without values.

    Args:
        accumulator: Function.
        values: Values of slices.
        oldest_slice: First slice of each window.
        newest_slice: Last slice of each window.

    Raises:
        TooManyValues: A window has more values than the accumulator allows.
        ComputationError: A sum overflows its type.
    """
    form = from_counts(AGGREGATES[accumulator.function].form)
    assert form is not None
    type_ = arrow_type(accumulator.output.type)
    counts = values.counts(oldest_slice, newest_slice)
    check_counts(counts, accumulator.max_values)
    (filled,) = np.nonzero(counts)
    parts = [pa.array([], type_)]
    for part in _parts(counts[filled]):
        windows = filled[part]
        view: WindowValues = _Windows(
            values, oldest_slice[windows], newest_slice[windows], counts[windows]
        )
        if accumulator.is_distinct:
            window, number, _ = view.runs()
            view = _Listed(view.distinct, (window, number, np.ones_like(number)))
        if accumulator.is_descending:
            view = _Descending(view)
        result = form.result(view, *accumulator.constants)
        try:
            parts.append(result.cast(type_))
        except pa.ArrowInvalid:
            type_name = shown_type(accumulator.output.type)
            raise overflow(type_name, accumulator.output.name) from None
    results = pa.concat_arrays(parts)
    if len(filled) == len(counts):
        return results
    place = np.zeros(len(counts), np.int64)
    place[filled] = np.arange(len(filled))
    return results.take(pa.array(place, mask=counts == 0))


def _parts(counts: Int64Array) -> Iterator[slice]:
    """Cut windows with these numbers of values into parts."""
    before = running_sums(counts)
    start = 0
    while start < len(counts):
        end = int(np.searchsorted(before, before[start] + _VALUES_AT_ONCE, side="right")) - 1
        end = max(end, start + 1)
        yield slice(start, end)
        start = end


class _Windows:
    """Values of windows that are ranges of slices. See `WindowValues`."""

    def __init__(
        self,
        values: RangePercentiles,
        oldest_slice: Int64Array,
        newest_slice: Int64Array,
        counts: Int64Array,
    ) -> None:
        self._values = values
        self._range = oldest_slice, newest_slice
        self.counts = counts

    @cached_property
    def distinct(self) -> pa.Array:
        return self._values.distinct[1:]  # after NULL, which no window contains

    def at(self, rank: Int64Array) -> Int64Array:
        return self._values.value_at_rank(*self._range, rank + 1) - 1

    def runs(self) -> _RunsOfValues:
        window, number, weight = self._values.values_in(*self._range)
        return _runs(window, number - 1, weight, len(self.distinct))

    def mapped(self, values: pa.Array) -> WindowValues:
        return _listed(values, self.runs())


class _Descending:
    """Values of windows from the largest one. See `WindowValues`."""

    def __init__(self, values: WindowValues) -> None:
        self._values = values
        self.counts = values.counts
        self._last = len(values.distinct) - 1

    @cached_property
    def distinct(self) -> pa.Array:
        return self._values.distinct[::-1]

    def at(self, rank: Int64Array) -> Int64Array:
        return self._last - self._values.at(self.counts - 1 - rank)

    def runs(self) -> _RunsOfValues:
        window, number, count = self._values.runs()
        return _runs(window, self._last - number, count, self._last + 1)

    def mapped(self, values: pa.Array) -> WindowValues:
        return _Descending(_listed(values, self.runs()))


class _Listed:
    """Values of windows that are listed. See `WindowValues`."""

    def __init__(self, distinct: pa.Array, runs: _RunsOfValues) -> None:
        self.distinct = distinct
        self._runs = runs
        window, _, count = runs
        self.counts = np.add.reduceat(count, run_starts(window[1:] != window[:-1]))
        self._up_to = np.cumsum(count)
        self._before = np.cumsum(self.counts) - self.counts

    def at(self, rank: Int64Array) -> Int64Array:
        run = np.searchsorted(self._up_to, self._before + rank, side="right")
        return self._runs[1].take(run)

    def runs(self) -> _RunsOfValues:
        return self._runs

    def mapped(self, values: pa.Array) -> WindowValues:
        return _listed(values, self._runs)


def _listed(values: pa.Array, runs: _RunsOfValues) -> _Listed:
    """Return windows whose runs have these values."""
    number, distinct = ranks(values)
    window, _, count = runs
    return _Listed(distinct[1:], _runs(window, number - 1, count, len(distinct) - 1))


def _runs(
    window: Int64Array, number: Int64Array, count: Int64Array, n_numbers: int
) -> _RunsOfValues:
    """Return window, number and total count of equal values, in order of window and number."""
    cell = window * n_numbers + number
    order = np.argsort(cell, kind="stable")
    cell = cell.take(order)
    starts = run_starts(cell[1:] != cell[:-1])
    count = np.add.reduceat(count.take(order), starts)
    cell = cell.take(starts)
    return cell // n_numbers, cell % n_numbers, count
