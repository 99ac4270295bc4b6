"""Accumulators: merge partial aggregates of slices, vectorised over many groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import ColumnarAccumulator, NumberFold, unsupported_type
from runtime.compute.accumulators.extrema import extremum_accumulator
from runtime.compute.accumulators.moments import Moments
from runtime.compute.accumulators.ordered import FirstOrLast
from runtime.compute.accumulators.sums import sum_accumulator
from runtime.compute.accumulators.user import UserAccumulator
from runtime.spec.aggregates import Accumulator, Merge, MergeMoments, MergeOp, Pick, UserDefined

_BITWISE: dict[MergeOp, tuple[np.ufunc, int]] = {
    MergeOp.BIT_AND: (np.bitwise_and, -1),
    MergeOp.BIT_OR: (np.bitwise_or, 0),
    MergeOp.BIT_XOR: (np.bitwise_xor, 0),
}


def accumulator(spec: Accumulator, types: Sequence[pa.DataType]) -> ColumnarAccumulator:
    """Return the accumulator that merges the partial columns of `spec`.

    Args:
        spec: Kind of accumulator, with the column names.
        types: Arrow types of those columns.

    Raises:
        ExecutionError: Columns of these types cannot be merged.
        TypeError: `spec` reads lists of values, which are not merged slice by slice.
    """
    match spec:
        case Merge(op=MergeOp.SUM | MergeOp.COUNT as op):
            return sum_accumulator(op, types[0], spec.columns[0])
        case Merge(op=MergeOp.MIN | MergeOp.MAX as op):
            return extremum_accumulator(op, types[0])
        case Merge(op=op):
            if not pa.types.is_signed_integer(types[0]):
                raise unsupported_type(op.upper(), types[0], spec.columns[0], "integers")
            return NumberFold(*_BITWISE[op], types[0])
        case Pick():
            return FirstOrLast(spec.is_last, types)
        case MergeMoments():
            return Moments(types)
        case UserDefined():
            return UserAccumulator(spec.function)
        case _:
            raise TypeError(f"{type(spec).__name__} does not merge slice by slice")
