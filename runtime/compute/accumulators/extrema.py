"""MIN and MAX of any flat type; NULLs are ignored, NaN is larger than every other number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import (
    AccumulatorState,
    ColumnarAccumulator,
    ElementwiseAccumulator,
    NumberFold,
    row_state,
)
from runtime.compute.kernels.conversions import (
    Int64Array,
    decimal_array,
    decimal_words,
    integer_storage,
    one_chunk,
    ranks,
    validity,
)

INT64 = np.iinfo(np.int64)


class RankedExtremum(ElementwiseAccumulator):
    """MIN or MAX of types that are not stored as numbers: strings, binaries, wide decimals.

    Values: rank of each value among the distinct ones, which `lookup` contains. Rank 0 is NULL.
    Decimals that fit int64 are compared directly, without `lookup`.
    """

    def __init__(self, is_max: bool, type_: pa.DataType) -> None:
        self._is_max = is_max
        self._type = type_
        self.ufunc = np.maximum if is_max else np.minimum
        self.identity_value = INT64.min if is_max else INT64.max

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

    def _from_narrow_decimals(self, column: pa.Array) -> AccumulatorState | None:
        valid = validity(column)
        words = decimal_words(column)
        if valid is not None:
            words = np.where(valid[:, None], words, 0)
        if not np.array_equal(words[:, 1], words[:, 0] >> 63):
            return None
        return row_state(np.ascontiguousarray(words[:, 0]), valid, self.identity_value)


def extremum_accumulator(kind: str, type_: pa.DataType) -> ColumnarAccumulator:
    """Return the accumulator for `min` or `max` over a partial column of `type_`."""
    is_max = kind == "max"
    if integer_storage(type_) is not None:
        if is_max:
            return NumberFold(np.maximum, INT64.min, type_)
        return NumberFold(np.minimum, INT64.max, type_)
    if pa.types.is_floating(type_):
        # maximum propagates NaN and fmin ignores it, which is correct because NaN is the largest
        # value
        if is_max:
            return NumberFold(np.maximum, -np.inf, type_)
        return NumberFold(np.fmin, np.nan, type_)
    return RankedExtremum(is_max, type_)
