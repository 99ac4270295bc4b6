"""Interface of accumulators: many groups at once, as columns of numpy arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.segments import Segments, accumulate_rows
from runtime.compute.kernels.conversions import (
    AnyArray,
    BoolArray,
    Int64Array,
    float64_array,
    float64_values,
    int64_array,
    int64_values,
    one_chunk,
    validity,
)
from runtime.errors import ExecutionError


@dataclass(frozen=True)
class AccumulatorState:
    """Accumulators of many groups, spread over arrays of the same length.

    Attributes:
        values: Arrays that the accumulator's `combine` operates on.
        n_valid: Number of non-NULL values in each group. None if no value was NULL, or if `values`
            determine it.
        lookup: Distinct values that `values` are codes of, if they are codes.
    """

    values: tuple[AnyArray, ...]
    n_valid: Int64Array | None = None
    lookup: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def valid(self) -> BoolArray | None:
        """True for groups with a value; None if all have one."""
        return None if self.n_valid is None else self.n_valid > 0


class ColumnarAccumulator(ABC):
    """Merge of partial columns. `combine` is associative and commutative.

    Only states from the same `from_arrow` call can be combined, because codes and the width of sums
    are chosen for the data at hand.
    """

    @abstractmethod
    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        """Return the state of each row of the partial columns."""

    @abstractmethod
    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        """Return the output columns, with the types of the partial columns.

        Raises:
            ExecutionError: A value does not fit its type.
        """

    @abstractmethod
    def identity(self, state: AccumulatorState) -> AccumulatorState:
        """Return the one-row state that is neutral when combined with a row of `state`."""

    @abstractmethod
    def combine(self, left: AccumulatorState, right: AccumulatorState) -> AccumulatorState:
        """Combine the states of both sides row by row."""

    @abstractmethod
    def reduce_runs(self, state: AccumulatorState, run_starts: Int64Array) -> AccumulatorState:
        """Combine the rows of each run to one.

        `run_starts` are the first rows of the runs, ascending, starting with 0.
        """

    @abstractmethod
    def scan(
        self, state: AccumulatorState, segments: Segments, reverse: bool = False
    ) -> AccumulatorState:
        """Combine each row with all earlier rows of its segment, or all later ones if `reverse`."""

    def take(self, state: AccumulatorState, index: Int64Array | slice) -> AccumulatorState:
        """Return the rows of `state` at `index`."""
        n_valid = None if state.n_valid is None else _rows(state.n_valid, index)
        values = tuple(_rows(v, index) for v in state.values)
        return AccumulatorState(values, n_valid, state.lookup)

    def concat(self, first: AccumulatorState, second: AccumulatorState) -> AccumulatorState:
        """Append the rows of `second` to `first`."""
        values = tuple(
            np.concatenate(pair) for pair in zip(first.values, second.values, strict=True)
        )
        n_valid = first.n_valid
        if n_valid is not None and second.n_valid is not None:
            n_valid = np.concatenate((n_valid, second.n_valid))
        return replace(first, values=values, n_valid=n_valid)


class InvertibleAccumulator(ColumnarAccumulator):
    """Accumulator whose `combine` can be undone exactly: integers, never floating point."""

    @abstractmethod
    def subtract(self, total: AccumulatorState, part: AccumulatorState) -> AccumulatorState:
        """Return the state that yields `total` when combined with `part`."""


class ElementwiseAccumulator(ColumnarAccumulator):
    """Accumulator that combines each of its arrays with a numpy ufunc.

    Attributes:
        ufunc: The ufunc.
        identity_value: Neutral element of `ufunc`.
    """

    ufunc: np.ufunc
    identity_value: float

    def identity(self, state: AccumulatorState) -> AccumulatorState:
        values = tuple(np.full(1, self.identity_value, v.dtype) for v in state.values)
        n_valid = None if state.n_valid is None else np.zeros(1, np.int64)
        return replace(state, values=values, n_valid=n_valid)

    def combine(self, left: AccumulatorState, right: AccumulatorState) -> AccumulatorState:
        with np.errstate(all="ignore"):
            pairs = zip(left.values, right.values, strict=True)
            values = tuple(self.ufunc(a, b) for a, b in pairs)
        n_valid = left.n_valid
        if n_valid is not None and right.n_valid is not None:
            n_valid = n_valid + right.n_valid
        return replace(left, values=values, n_valid=n_valid)

    def reduce_runs(self, state: AccumulatorState, run_starts: Int64Array) -> AccumulatorState:
        if len(run_starts) == len(state):
            return state
        with np.errstate(all="ignore"):
            values = tuple(self.ufunc.reduceat(v, run_starts) for v in state.values)
        n_valid = None if state.n_valid is None else np.add.reduceat(state.n_valid, run_starts)
        return AccumulatorState(values, n_valid, state.lookup)

    def scan(
        self, state: AccumulatorState, segments: Segments, reverse: bool = False
    ) -> AccumulatorState:
        n_valid = state.n_valid
        if n_valid is not None:
            n_valid = segments.scan_sums(n_valid, reverse)
        identities = [self.identity_value] * len(state.values)
        with np.errstate(all="ignore"):
            scan_rows = accumulate_rows(self.ufunc)
            values = segments.scan(state.values, identities, scan_rows, reverse)
        return replace(state, values=tuple(values), n_valid=n_valid)


class NumberFold(ElementwiseAccumulator):
    """Fold numbers, or types stored as integers, with a ufunc. All-NULL groups are NULL.

    Narrow numbers are combined in 64 bits. Integers keep their sign, so the results of bitwise
    operations fit the narrow type again.

    Args:
        ufunc: The ufunc.
        identity_value: Neutral element of `ufunc`.
        type_: Type of the result.
    """

    def __init__(self, ufunc: np.ufunc, identity_value: float, type_: pa.DataType) -> None:
        self.ufunc = ufunc
        self.identity_value = identity_value
        self._type = type_

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        values_of = float64_values if pa.types.is_floating(column.type) else int64_values
        return row_state(values_of(column), validity(column), self.identity_value)

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        column_of = float64_array if pa.types.is_floating(self._type) else int64_array
        return [column_of(state.values[0], state.valid, self._type)]


def _rows(array: AnyArray, index: Int64Array | slice) -> AnyArray:
    # take is a third faster than indexing with an array.
    return array[index] if isinstance(index, slice) else array.take(index)


def without_nulls(values: AnyArray, valid: BoolArray | None, instead: float) -> AnyArray:
    """Replace NULLs in `values`."""
    return values if valid is None else np.where(valid, values, instead)


def row_state(values: AnyArray, valid: BoolArray | None, instead: float) -> AccumulatorState:
    """Return the state of single rows, replacing NULL by `instead`."""
    return AccumulatorState((without_nulls(values, valid, instead),), count_valid(valid))


def count_valid(valid: BoolArray | None) -> Int64Array | None:
    """Return `AccumulatorState.n_valid` of single rows."""
    return None if valid is None else valid.astype(np.int64)


def unsupported_type(function: str, type_: pa.DataType, column: str, takes: str) -> ExecutionError:
    """Return the error for a partial column whose type `function` cannot merge."""
    return ExecutionError(
        f"{function} cannot merge column {column} of type {type_}",
        hint=f"{function} accepts {takes}",
    )
