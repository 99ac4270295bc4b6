"""FIRST and LAST: the value of the first or last row in the order of other columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import (
    AccumulatorState,
    ElementwiseAccumulator,
    without_nulls,
)
from runtime.compute.accumulators.extrema import INT64
from runtime.compute.kernels.conversions import (
    Int64Array,
    distinct_codes,
    int64_values,
    integer_storage,
    one_chunk,
    ranks,
    validity,
)


class FirstOrLast(ElementwiseAccumulator):
    """The last column's value where the preceding columns are smallest or largest.

    Ties are broken by the value itself; NULLs are smallest, NaN is largest. So the result does not
    depend on the order of the rows. Rows whose first column is NULL are ignored; a group without
    other rows is NULL, as is a group whose chosen value is NULL.

    Values: the columns packed into one int64 in mixed radix. The lowest digit is the value, decoded
    by `lookup`. Groups without rows have the smallest or largest int64.
    """

    def __init__(self, is_last: bool, types: Sequence[pa.DataType]) -> None:
        self._type = types[-1]
        self.ufunc = np.maximum if is_last else np.minimum
        self.identity_value = INT64.min if is_last else INT64.max

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        arrays = [one_chunk(column) for column in columns]
        order: Int64Array = np.zeros(len(arrays[0]), np.int64)
        n_order = 1
        for array in arrays[:-1]:
            digit, n_digits = _digits(array)
            if n_order * n_digits > INT64.max:
                digit, n_digits = _dense(digit)
            if n_order * n_digits > INT64.max:
                order, n_order = _dense(order)
            order = order * n_digits + digit
            n_order *= n_digits
        value, ascending = ranks(arrays[-1])
        if n_order * len(ascending) > INT64.max:
            order, _ = _dense(order)
        codes = order * len(ascending) + value
        codes = without_nulls(codes, validity(arrays[0]), self.identity_value)
        return AccumulatorState((codes,), None, (ascending,))

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        codes: Int64Array = state.values[0]
        (ascending,) = state.lookup
        rank = np.where(codes == self.identity_value, 0, codes % len(ascending))
        column = ascending.take(pa.array(rank))
        return [column if column.type == self._type else column.cast(self._type)]


def _digits(column: pa.Array) -> tuple[Int64Array, int]:
    """Return numbers >= 0 in the order of the values, and their bound; NULL is 0."""
    if integer_storage(column.type) is not None and column.null_count < len(column):
        values, valid = int64_values(column), validity(column)
        present = values if valid is None else values[valid]
        smallest, largest = int(present.min()), int(present.max())
        if largest - smallest < INT64.max - 2:
            return without_nulls(values - smallest + 1, valid, 0), largest - smallest + 2
    rank, ascending = ranks(column)
    return rank, len(ascending)


def _dense(numbers: Int64Array) -> tuple[Int64Array, int]:
    """Return the rank of each number among the distinct ones, from 0, and their count."""
    codes, distinct = distinct_codes(pa.array(numbers))
    order = np.argsort(distinct.to_numpy())
    rank_of_code = np.empty(len(order), np.int64)
    rank_of_code[order] = np.arange(len(order))
    return rank_of_code[codes], len(order)
