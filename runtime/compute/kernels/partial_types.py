"""The types of partial columns, from those of what is aggregated."""

from __future__ import annotations

import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.compute.values.percentile_summaries import summary_type
from runtime.compute.values.texts import rows_type
from runtime.errors import AnalysisError
from runtime.spec.aggregates import Accumulator
from runtime.spec.local import StreamPartial

_MOST_DECIMAL_DIGITS = 38


def partial_types(partial: StreamPartial, args: list[str]) -> list[pa.DataType]:
    """The types of the partial columns, as Spark's own partials have them.

    Args:
        partial: what is aggregated.
        args: Spark's types of its arguments.

    Raises:
        AnalysisError: an argument is of a type that its function does not take.
    """
    match partial.function:
        case "count":
            return [pa.int64()]
        case "moments":
            return [pa.int64(), pa.float64(), pa.float64()]
        case "sum":
            return [_sum_type(args[0])]
        case "set" if len(args) == 1:
            return [pa.list_(arrow_type(args[0]))]
        case "set":
            return [pa.list_(pa.struct([(f"v{i}", arrow_type(a)) for i, a in enumerate(args)]))]
        case "registers":
            return [pa.list_(pa.int32())]
        case "rows":
            return [rows_type(arrow_type(args[0]))]
        case "percentiles":
            return [summary_type(arrow_type(args[0]))]
        case "user":
            assert partial.user is not None
            return [arrow_type(type_) for type_ in partial.user.state.values()]
    return [arrow_type(arg) for arg in args]


def partial_accumulator(partial: StreamPartial) -> Accumulator:
    """What aggregates rows to the partial columns, and these to fewer."""
    return Accumulator(
        partial.function, partial.columns, arguments=partial.arguments, function=partial.user
    )


def _sum_type(arg: str) -> pa.DataType:
    type_ = arrow_type(arg)
    if pa.types.is_decimal(type_):
        return pa.decimal128(min(_MOST_DECIMAL_DIGITS, type_.precision + 10), type_.scale)
    if pa.types.is_integer(type_):
        return pa.int64()
    if pa.types.is_floating(type_):
        return pa.float64()
    raise AnalysisError(f"SUM of {arg} has no accumulator", hint="cast it to a number")
