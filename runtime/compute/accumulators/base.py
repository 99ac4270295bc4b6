"""What every accumulator can do: many groups at once, as columns of numpy arrays."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.segments import Segments, accumulate_rows
from runtime.compute.kernels.columns import (
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
    """The accumulator of each group, spread over arrays of one length.

    Attributes:
        values: the arrays that the accumulator's own combine works on.
        n_valid: how many values that are not NULL went into each group; None if no value that
            went in was NULL, or if `values` show it themselves.
        lookup: what `values` are codes of, if they are.
    """

    values: tuple[AnyArray, ...]
    n_valid: Int64Array | None = None
    lookup: tuple[pa.Array, ...] = ()

    def __len__(self) -> int:
        return len(self.values[0])

    @property
    def valid(self) -> BoolArray | None:
        """True for groups that have a value; None if all have one."""
        return None if self.n_valid is None else self.n_valid > 0


class ColumnarAccumulator(ABC):
    """Merges partial columns. `combine` is associative and commutative.

    Only states that stem from one `from_arrow` can be combined: codes and the width of sums are
    chosen for the data at hand.
    """

    @abstractmethod
    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        """The state of each row of the partial columns."""

    @abstractmethod
    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        """The accumulator's output columns, of the types of the partial ones.

        Raises:
            ExecutionError: a value does not fit its type.
        """

    @abstractmethod
    def identity(self, state: AccumulatorState) -> AccumulatorState:
        """The one-row state that changes nothing when combined with a row of `state`."""

    @abstractmethod
    def combine(self, left: AccumulatorState, right: AccumulatorState) -> AccumulatorState:
        """Row by row, the state of both sides' values together."""

    @abstractmethod
    def reduce_runs(self, state: AccumulatorState, run_starts: Int64Array) -> AccumulatorState:
        """One row for each run of rows: all its rows combined.

        `run_starts` are the first rows of the runs, ascending, the first of them 0.
        """

    @abstractmethod
    def scan(
        self, state: AccumulatorState, segments: Segments, reverse: bool = False
    ) -> AccumulatorState:
        """Each row combined with all before it in its segment; with all behind it if `reverse`."""

    def take(self, state: AccumulatorState, index: Int64Array | slice) -> AccumulatorState:
        """The rows of `state` at `index`."""
        n_valid = None if state.n_valid is None else _rows(state.n_valid, index)
        return replace(state, values=tuple(_rows(v, index) for v in state.values), n_valid=n_valid)

    def concat(self, first: AccumulatorState, second: AccumulatorState) -> AccumulatorState:
        """The rows of `first`, then those of `second`."""
        values = tuple(
            np.concatenate(pair) for pair in zip(first.values, second.values, strict=True)
        )
        n_valid = first.n_valid
        if n_valid is not None and second.n_valid is not None:
            n_valid = np.concatenate((n_valid, second.n_valid))
        return replace(first, values=values, n_valid=n_valid)


class InvertibleAccumulator(ColumnarAccumulator):
    """An accumulator whose `combine` can be undone exactly: integers, never floating point."""

    @abstractmethod
    def subtract(self, whole: AccumulatorState, part: AccumulatorState) -> AccumulatorState:
        """The state that gives `whole` when combined with `part`."""


class ElementwiseAccumulator(ColumnarAccumulator):
    """An accumulator whose arrays are each combined by one numpy ufunc.

    Attributes:
        ufunc: the ufunc.
        identity_value: what changes nothing when `ufunc` combines it with an element.
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
        return replace(state, values=values, n_valid=n_valid)

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
    """A ufunc over numbers, and what is stored as integers: NULL for a group of NULLs only.

    Narrow numbers are combined in 64 bits; integers keep their sign there, so that what comes of
    bitwise operations is narrow again.

    Args:
        ufunc: the ufunc.
        identity_value: what changes nothing when `ufunc` combines it with an element.
        type_: the type of the result.
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
    """`values` with `instead` where they are NULL."""
    return values if valid is None else np.where(valid, values, instead)


def row_state(values: AnyArray, valid: BoolArray | None, instead: float) -> AccumulatorState:
    """The state of rows with a value each, `instead` where it is NULL."""
    return AccumulatorState((without_nulls(values, valid, instead),), count_valid(valid))


def count_valid(valid: BoolArray | None) -> Int64Array | None:
    """`AccumulatorState.n_valid` of single rows."""
    return None if valid is None else valid.astype(np.int64)


def unsupported(function: str, type_: pa.DataType, column: str, takes: str) -> ExecutionError:
    """The error for a partial column of a type that `function` cannot merge."""
    return ExecutionError(
        f"{function} cannot merge column {column} of type {type_}",
        hint=f"{function} takes {takes}",
    )
