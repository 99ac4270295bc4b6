"""Accumulators: how partial aggregates of slices merge, vectorised over many groups."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.compute.accumulators.base import ColumnarAccumulator, InvertibleAccumulator, State
from runtime.compute.accumulators.bits import bit_accumulator
from runtime.compute.accumulators.extrema import extremum_accumulator
from runtime.compute.accumulators.moments import Moments
from runtime.compute.accumulators.ordered import FirstOrLast
from runtime.compute.accumulators.segments import Segments
from runtime.compute.accumulators.sums import sum_accumulator
from runtime.compute.accumulators.user import UserAccumulator
from runtime.spec.aggregates import Accumulator

__all__ = ["ColumnarAccumulator", "InvertibleAccumulator", "Segments", "State", "accumulator"]


def accumulator(spec: Accumulator, types: Sequence[pa.DataType]) -> ColumnarAccumulator:
    """What merges the partial columns of `spec`.

    Args:
        spec: the kind, and the names of the columns.
        types: the Arrow types of those columns.

    Raises:
        ExecutionError: the kind cannot merge columns of these types.
        ValueError: there is no such kind.
    """
    match spec.kind:
        case "sum" | "count":
            return sum_accumulator(spec.kind, types[0], spec.columns[0])
        case "min" | "max":
            return extremum_accumulator(spec.kind, types[0])
        case "bit_and" | "bit_or" | "bit_xor":
            return bit_accumulator(spec.kind, types[0], spec.columns[0])
        case "first" | "last":
            return FirstOrLast(spec.kind == "last", types)
        case "moments":
            return Moments(types)
        case "user":
            assert spec.function is not None, "a user-defined accumulator has its functions"
            return UserAccumulator(spec.function)
        case _:
            raise ValueError(f"there is no accumulator {spec.kind!r}")
