"""BIT_AND, BIT_OR and BIT_XOR of integers; NULLs are ignored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import (
    AccumulatorState,
    ColumnarAccumulator,
    ElementwiseAccumulator,
    count_valid,
    unsupported,
    without_nulls,
)
from runtime.compute.kernels.columns import (
    AnyArray,
    int64_array,
    int64_values,
    one_chunk,
    validity,
)

_UFUNCS: dict[str, tuple[np.ufunc, int]] = {
    "bit_and": (np.bitwise_and, -1),
    "bit_or": (np.bitwise_or, 0),
    "bit_xor": (np.bitwise_xor, 0),
}


class BitFold(ElementwiseAccumulator):
    """A bitwise operation over all values: NULL for a group of NULLs only.

    Narrow integers are widened to 64 bits with their sign, which the operations keep, so the
    results are narrow again.
    """

    def __init__(self, kind: str, type_: pa.DataType) -> None:
        self.ufunc, self._identity = _UFUNCS[kind]
        self._type = type_

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        valid = validity(column)
        values = without_nulls(int64_values(column), valid, self._identity)
        return AccumulatorState((values,), count_valid(valid))

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        return [int64_array(state.values[0], state.valid, self._type)]

    def identity_value(self, array: AnyArray) -> int:
        return self._identity


def bit_accumulator(kind: str, type_: pa.DataType, column: str) -> ColumnarAccumulator:
    """The accumulator for `bit_and`, `bit_or` or `bit_xor` over a partial column of `type_`."""
    if not pa.types.is_signed_integer(type_):
        raise unsupported(kind.upper(), type_, column, "integers")
    return BitFold(kind, type_)
