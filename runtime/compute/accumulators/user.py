"""User-defined aggregate functions as accumulators."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import AccumulatorState, ColumnarAccumulator
from runtime.compute.accumulators.segments import Segments
from runtime.compute.kernels.conversions import Int64Array, one_chunk
from runtime.compute.user_aggregates import finish_states, merge_states, no_groups
from runtime.spec.user_aggregates import UserDefinedAggregateFunction


class UserAccumulator(ColumnarAccumulator):
    """Accumulator that calls the aggregate's own `merge` for many groups at once.

    `AccumulatorState.lookup` contains the fields of states, `values` the index of each row's state.
    So selecting rows does not copy states; they are copied when they are merged.

    Args:
        aggregate: User-defined aggregate.
    """

    def __init__(self, aggregate: UserDefinedAggregateFunction) -> None:
        self._aggregate = aggregate

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        return _state([one_chunk(column) for column in columns])

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        """Return the results, in one column."""
        return [finish_states(self._aggregate, _fields(state))]

    def identity(self, state: AccumulatorState) -> AccumulatorState:
        nothing = [field.slice(0, 0) for field in state.lookup]
        return self._merge(no_groups(), 1, nothing)

    def combine(self, left: AccumulatorState, right: AccumulatorState) -> AccumulatorState:
        group = np.arange(len(left))
        both = _concat(_fields(left), _fields(right))
        return self._merge(np.concatenate((group, group)), len(left), both)

    def reduce_runs(self, state: AccumulatorState, run_starts: Int64Array) -> AccumulatorState:
        if len(run_starts) == len(state):
            return state
        lengths = np.diff(run_starts, append=len(state))
        groups = np.repeat(np.arange(len(run_starts)), lengths)
        return self._merge(groups, len(run_starts), _fields(state))

    def scan(
        self, state: AccumulatorState, segments: Segments, reverse: bool = False
    ) -> AccumulatorState:
        """See ColumnarAccumulator.

        In steps of 1, 2, 4 ... rows, combine every row with the row that far away (Hillis and
        Steele, "Data Parallel Algorithms", 1986). This needs few calls of `merge` at any length.
        """
        place = np.arange(segments.n_rows) - np.repeat(segments.starts, segments.lengths)
        if reverse:
            place = np.repeat(segments.lengths, segments.lengths) - 1 - place
        distance = 1
        while distance < segments.lengths.max():
            rows = np.flatnonzero(place >= distance)
            other = rows + distance if reverse else rows - distance
            further = self.combine(self.take(state, other), self.take(state, rows))
            all_fields = _concat(_fields(state), _fields(further))
            values = np.arange(len(state))
            values[rows] = len(state) + np.arange(len(rows))
            state = AccumulatorState((values,), None, tuple(all_fields))
            distance *= 2
        return state

    def concat(self, first: AccumulatorState, second: AccumulatorState) -> AccumulatorState:
        return _state(_concat(_fields(first), _fields(second)))

    def _merge(
        self, groups: Int64Array, n_groups: int, fields: Sequence[pa.Array]
    ) -> AccumulatorState:
        return _state(merge_states(self._aggregate, groups, n_groups, fields))


def _state(fields: Sequence[pa.Array]) -> AccumulatorState:
    return AccumulatorState((np.arange(len(fields[0])),), None, tuple(fields))


def _fields(state: AccumulatorState) -> list[pa.Array]:
    index = pa.array(state.values[0])
    return [field.take(index) for field in state.lookup]


def _concat(first: Sequence[pa.Array], second: Sequence[pa.Array]) -> list[pa.Array]:
    return [pa.concat_arrays(pair) for pair in zip(first, second, strict=True)]
