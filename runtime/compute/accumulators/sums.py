"""SUM and COUNT: exact for integers and decimals; floating point is only added.

Integers are added as int64 if the largest absolute value shows that no sum can overflow. Otherwise
each value is split into limbs of 32 bits, the top one signed, which are summed separately as int64:
a limb overflows only after 2**31 rows, and carries are propagated once at the end. So a result that
is too large is an error, but an intermediate sum never is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.base import (
    AccumulatorState,
    ColumnarAccumulator,
    ElementwiseAccumulator,
    InvertibleAccumulator,
    NumberFold,
    count_valid,
    unsupported_type,
    without_nulls,
)
from runtime.compute.accumulators.segments import Segments
from runtime.compute.kernels.conversions import (
    AnyArray,
    BoolArray,
    Int64Array,
    decimal_array,
    decimal_words,
    float64_array,
    int64_array,
    int64_values,
    one_chunk,
    validity,
)
from runtime.errors import ComputationError

_LIMB_BITS = 32
_LIMB_MASK = (1 << _LIMB_BITS) - 1
_LIMB_TOP = 1 << (_LIMB_BITS - 1)
# Sums of absolute values below this fit int64, with a margin for rounding in the check.
_SAFE_SUM = 1 << 62


class IntegerSum(ElementwiseAccumulator, InvertibleAccumulator):
    """SUM of integers. NULLs are ignored; a group of NULLs is NULL.

    Values: one array, or low and high limbs.
    """

    ufunc = np.add
    identity_value = 0

    def __init__(self, type_: pa.DataType, column: str) -> None:
        self._type = type_
        self._column = column

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        valid = validity(column)
        values = without_nulls(int64_values(column), valid, 0)
        if _sums_fit(values):
            return AccumulatorState((values,), count_valid(valid))
        return AccumulatorState((values & _LIMB_MASK, values >> _LIMB_BITS), count_valid(valid))

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        if len(state.values) == 1:
            sums: Int64Array = state.values[0]
        else:
            low, high = _carry(state.values)
            if not _top_limb_fits(high):
                raise overflow("BIGINT", self._column)
            sums = (high << _LIMB_BITS) | low
        try:
            return [int64_array(sums, state.valid, self._type)]
        except pa.ArrowInvalid:
            raise overflow(_TYPE_NAMES.get(str(self._type), "BIGINT"), self._column) from None

    def scan(
        self, state: AccumulatorState, segments: Segments, reverse: bool = False
    ) -> AccumulatorState:
        n_valid = state.n_valid
        if n_valid is not None:
            n_valid = segments.scan_sums(n_valid, reverse)
        values = tuple(segments.scan_sums(v, reverse) for v in state.values)
        return replace(state, values=values, n_valid=n_valid)

    def subtract(self, total: AccumulatorState, part: AccumulatorState) -> AccumulatorState:
        values = tuple(a - b for a, b in zip(total.values, part.values, strict=True))
        n_valid = total.n_valid
        if n_valid is not None and part.n_valid is not None:
            n_valid = n_valid - part.n_valid
        return replace(total, values=values, n_valid=n_valid)


class RoundedIntegerSum(IntegerSum):
    """SUM of integers as DOUBLE: added exactly, then rounded; it cannot overflow."""

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        *low, high = state.values if len(state.values) == 1 else _carry(state.values)
        sums = high.astype(np.float64)
        for limb in reversed(low):
            sums = sums * (_LIMB_MASK + 1.0) + limb
        return [float64_array(sums, state.valid, pa.float64())]


class Count(IntegerSum):
    """Sum of counts: 0, not NULL, for a group without counted rows."""

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        return replace(super().from_arrow(columns), n_valid=None)


class DecimalSum(IntegerSum):
    """SUM of decimal128(p, s), exact; a result of more than p digits is an error.

    Values: one array if unscaled values and their sums fit int64, else four limbs.
    """

    def from_arrow(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> AccumulatorState:
        column = one_chunk(columns[0])
        valid = validity(column)
        words = decimal_words(column)
        low = without_nulls(words[:, 0], valid, 0)
        high = without_nulls(words[:, 1], valid, 0)
        n_valid = count_valid(valid)
        if np.array_equal(high, low >> 63) and _sums_fit(low):
            return AccumulatorState((np.ascontiguousarray(low),), n_valid)
        limbs = (
            low & _LIMB_MASK,
            (low >> _LIMB_BITS) & _LIMB_MASK,
            high & _LIMB_MASK,
            high >> _LIMB_BITS,
        )
        return AccumulatorState(limbs, n_valid)

    def to_arrow(self, state: AccumulatorState) -> list[pa.Array]:
        if len(state.values) == 1:
            low: Int64Array = state.values[0]
            high = low >> 63
            fits = True
        else:
            limbs = _carry(state.values)
            fits = _top_limb_fits(limbs[3])
            low = limbs[0] | (limbs[1] << _LIMB_BITS)
            high = limbs[2] | (limbs[3] << _LIMB_BITS)
        if not fits or np.any(_beyond(low, high, 10**self._type.precision)):
            name = f"DECIMAL({self._type.precision},{self._type.scale})"
            raise overflow(name, self._column)
        return [decimal_array(low, high, state.valid, self._type)]


def sum_accumulator(kind: str, type_: pa.DataType, column: str) -> ColumnarAccumulator:
    """Return the accumulator for `sum` or `count` over a partial column of `type_`."""
    if kind == "count" and pa.types.is_signed_integer(type_):
        return Count(type_, column)
    if kind == "count":
        raise unsupported_type("COUNT", type_, column, "counts as BIGINT")
    if pa.types.is_signed_integer(type_):
        return IntegerSum(type_, column)
    if pa.types.is_decimal128(type_):
        return DecimalSum(type_, column)
    if pa.types.is_floating(type_):
        # NaN and infinity must stay in their group, and 0.0 would turn a sum of -0.0 into 0.0.
        return NumberFold(np.add, -0.0, type_)
    raise unsupported_type("SUM", type_, column, "integers, decimals, FLOAT and DOUBLE")


def exact_sum_accumulator(
    type_: pa.DataType, output_type: pa.DataType, column: str
) -> InvertibleAccumulator:
    """Return the accumulator for sums of type `output_type` over integers or decimals of `type_`.

    Raises:
        ExecutionError: `output_type` is not supported for sums of `type_`.
    """
    if pa.types.is_signed_integer(type_) and pa.types.is_float64(output_type):
        return RoundedIntegerSum(type_, column)
    if pa.types.is_signed_integer(type_) and pa.types.is_int64(output_type):
        return IntegerSum(output_type, column)
    if pa.types.is_decimal128(type_) and pa.types.is_decimal128(output_type):
        return DecimalSum(output_type, column)
    raise unsupported_type(f"SUM to {output_type}", type_, column, "integers and decimals")


_TYPE_NAMES = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT"}


def _sums_fit(values: Int64Array) -> bool:
    """Return whether every sum over a subset of `values` certainly fits int64."""
    if len(values) == 0:
        return True
    largest = max(-int(values.min()), int(values.max()))
    if largest * len(values) < _SAFE_SUM:
        return True
    return float(np.abs(values.astype(np.float64)).sum()) < _SAFE_SUM


def _carry(limbs: Sequence[AnyArray]) -> list[Int64Array]:
    """Propagate carries, so that all limbs except the top one are in 0 .. 2**32 - 1."""
    carried: list[Int64Array] = [limbs[0]]
    for limb in limbs[1:]:
        total = carried[-1]
        carried[-1] = total & _LIMB_MASK
        carried.append(limb + (total >> _LIMB_BITS))
    return carried


def _top_limb_fits(limb: Int64Array) -> bool:
    return len(limb) == 0 or (int(limb.min()) >= -_LIMB_TOP and int(limb.max()) < _LIMB_TOP)


def _beyond(low: Int64Array, high: Int64Array, bound: int) -> BoolArray:
    """Return where the 128-bit number is >= bound or <= -bound."""
    word = (1 << 64) - 1
    unsigned = low.view(np.uint64)
    above_low, above_high = np.uint64(bound & word), bound >> 64
    below_low, below_high = np.uint64(-bound & word), -bound >> 64
    above = (high > above_high) | ((high == above_high) & (unsigned >= above_low))
    below = (high < below_high) | ((high == below_high) & (unsigned <= below_low))
    beyond: BoolArray = above | below
    return beyond


def overflow(type_name: str, column: str) -> ComputationError:
    """Return the error of a sum that does not fit its type.

    Args:
        type_name: SQL type.
        column: Partial column of the sum.
    """
    # a partial column is named after its aggregate: name$sum; one without an alias is `$agg0$sum`
    name = column.split("$")[0]
    return ComputationError(
        f"SUM overflows {type_name}" + (f" in column {name}" if name else ""),
        hint="cast the argument of SUM to a wider type, such as DECIMAL(38, 0) or DOUBLE",
    )
