"""Types of partial columns, from the types of the arguments."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.values.percentile_summaries import summary_type
from runtime.compute.values.texts import rows_type
from runtime.errors import AnalysisError
from runtime.spec.aggregates import (
    Accumulator,
    CollectRegisters,
    CollectRows,
    CollectSet,
    Merge,
    MergeMoments,
    MergeOp,
    Summaries,
    UserDefined,
)

_MOST_DECIMAL_DIGITS = 38


def partial_types(into: Accumulator, args: Sequence[str]) -> list[pa.DataType]:
    """Return the types of the partial columns, the same as in Spark's partials.

    Args:
        into: Accumulator.
        args: Spark types of its arguments.

    Raises:
        AnalysisError: The function does not accept the type of an argument.
    """
    match into:
        case Merge(op=MergeOp.COUNT):
            return [pa.int64()]
        case Merge(op=MergeOp.SUM):
            return [_sum_type(args[0])]
        case MergeMoments():
            return [pa.int64(), pa.float64(), pa.float64()]
        case CollectSet() if len(args) == 1:
            return [pa.list_(arrow_type(args[0]))]
        case CollectSet():
            return [pa.list_(pa.struct([(f"v{i}", arrow_type(a)) for i, a in enumerate(args)]))]
        case CollectRegisters():
            return [pa.list_(pa.int32())]
        case CollectRows():
            return [rows_type(arrow_type(args[0]))]
        case Summaries():
            return [summary_type(arrow_type(args[0]))]
        case UserDefined():
            return [arrow_type(type_) for type_ in into.function.state.values()]
    return [arrow_type(arg) for arg in args]


def _sum_type(arg: str) -> pa.DataType:
    type_ = arrow_type(arg)
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(_MOST_DECIMAL_DIGITS, type_.precision + 10), type_.scale)
    if pa.types.is_integer(type_):
        return pa.int64()
    if pa.types.is_floating(type_):
        return pa.float64()
    raise AnalysisError(f"SUM of {arg} has no accumulator", hint="cast it to a number")
