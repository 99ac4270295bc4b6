"""MIN and MAX of any flat type; NULLs are ignored, NaN is larger than every other number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import (
    AccumulatorState,
    ColumnarAccumulator,
    ElementwiseAccumulator,
    count_valid,
    without_nulls,
)
from runtime.compute.kernels.columns import (
    AnyArray,
    Int64Array,
    decimal_array,
    decimal_words,
    float64_array,
    float64_values,
    int64_array,
    int64_values,
    integer_storage,
    one_chunk,
    ranks,
    validity,
)

INT64 = np.iinfo(np.int64)


class _Extremum(ElementwiseAccumulator):
    def __init__(self, is_max: bool, type_: pa.DataType) -> None:
        self._is_max = is_max
        self._type = type_
        self.ufunc = np.maximum if is_max else np.minimum

    def identity_value(self, array: AnyArray) -> Any:
        return INT64.min if self._is_max else INT64.max


class IntegerExtremum(_Extremum):
    """MIN or MAX of what is stored as integers: numbers, booleans, dates, times, intervals."""

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        valid = validity(column)
        values = int64_values(column)
        return AccumulatorState(
            (without_nulls(values, valid, self.identity_value(values)),), count_valid(valid)
        )

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        return [int64_array(state.values[0], state.valid, self._type)]


class DoubleExtremum(_Extremum):
    """MIN or MAX of FLOAT or DOUBLE.

    numpy's maximum hands NaN on and its fmin passes it over, which is just what "NaN is the
    largest" asks for.
    """

    def __init__(self, is_max: bool, type_: pa.DataType) -> None:
        super().__init__(is_max, type_)
        self.ufunc = np.maximum if is_max else np.fmin

    def identity_value(self, array: AnyArray) -> float:
        return -np.inf if self._is_max else np.nan

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        valid = validity(column)
        values = float64_values(column)
        return AccumulatorState(
            (without_nulls(values, valid, self.identity_value(values)),), count_valid(valid)
        )

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        return [float64_array(state.values[0], state.valid, self._type)]


class RankedExtremum(_Extremum):
    """MIN or MAX of types without numbers in order: strings, binaries, wide decimals.

    Values: the rank of each value among the distinct ones; `lookup` leads back. Rank 0 is NULL.
    Decimals that fit int64 are compared as they are, without `lookup`.
    """

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        if pa.types.is_decimal128(column.type):
            narrow = self._from_narrow_decimals(column)
            if narrow is not None:
                return narrow
        rank, ascending = ranks(column)
        if not self._is_max:
            rank = np.where(rank == 0, INT64.max, rank)
        return AccumulatorState((rank,), None, (ascending,))

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        values: Int64Array = state.values[0]
        if not state.lookup:
            return [decimal_array(values, values >> 63, state.valid, self._type)]
        rank = np.where((values == INT64.min) | (values == INT64.max), 0, values)
        column = state.lookup[0].take(pa.array(rank))
        return [column if column.type == self._type else column.cast(self._type)]

    @staticmethod
    def _fits_int64(words: Int64Array) -> bool:
        return np.array_equal(words[:, 1], words[:, 0] >> 63)

    def _from_narrow_decimals(self, column: pa.Array) -> AccumulatorState | None:
        valid = validity(column)
        words = decimal_words(column)
        if valid is not None:
            words = np.where(valid[:, None], words, 0)
        if not self._fits_int64(words):
            return None
        values = np.ascontiguousarray(words[:, 0])
        values = without_nulls(values, valid, self.identity_value(values))
        return AccumulatorState((values,), count_valid(valid))


def extremum_accumulator(kind: str, type_: pa.DataType) -> ColumnarAccumulator:
    """The accumulator for `min` or `max` over a partial column of `type_`."""
    is_max = kind == "max"
    if integer_storage(type_) is not None:
        return IntegerExtremum(is_max, type_)
    if pa.types.is_floating(type_):
        return DoubleExtremum(is_max, type_)
    return RankedExtremum(is_max, type_)
