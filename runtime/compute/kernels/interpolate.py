"""Values on the line between two values, vectorised, for every type that LINEAR fills."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    Int64Array,
    decimal_array,
    decimal_words,
    float64_array,
    float64_values,
    int64_array,
    int64_values,
)

_FITS = 1 << 62
_LOW_WORD = (1 << 64) - 1


def interpolate(left: pa.Array, right: pa.Array, x: Int64Array, length: Int64Array) -> pa.Array:
    """Return `left + (right - left) * x / length` for each row.

    Integers, decimals, dates and timestamps are exact, rounded half away from zero.

    Args:
        left: Values without NULL, of a number, date or timestamp type.
        right: Values of the same type without NULL.
        x: Distances of the results from `left`, 0 <= x <= length.
        length: Distances of `right` from `left`, positive.
    """
    type_ = left.type
    if pa.types.is_floating(type_):
        f0, f1 = float64_values(left), float64_values(right)
        share = x / length
        with np.errstate(over="ignore", invalid="ignore"):
            line = f0 + (f1 - f0) * share
            # The difference of two huge values can be infinite.
            apart = f0 * (1 - share) + f1 * share
        return float64_array(np.where(np.isfinite(line), line, apart), None, type_)
    if pa.types.is_decimal(type_):
        line = _rounded(_unscaled(left), _unscaled(right), x, length)
        low = np.array([value & _LOW_WORD for value in line], np.uint64).view(np.int64)
        return decimal_array(low, (line >> 64).astype(np.int64), None, type_)
    y0, y1 = int64_values(left), int64_values(right)
    bound = int(max(np.abs(y0.astype(np.float64)).max(), np.abs(y1.astype(np.float64)).max()))
    if 4 * bound * int(length.max()) >= _FITS:
        line = _rounded(y0.astype(object), y1.astype(object), x, length).astype(np.int64)
    else:
        line = _rounded(y0, y1, x, length)
    return int64_array(line, None, type_)


def _unscaled(column: pa.Array) -> Any:
    """Return decimals as object[n] of integers."""
    words = decimal_words(column)
    low = np.ascontiguousarray(words[:, 0]).view(np.uint64)
    return (words[:, 1].astype(object) << 64) + low.astype(object)


def _rounded(y0: Any, y1: Any, x: Any, length: Any) -> Any:
    """Return the integers nearest to the line; halves are rounded away from zero."""
    if y0.dtype == object:
        x, length = x.astype(object), length.astype(object)
    # Compute y0 + (y1 - y0) * x / length as one fraction.
    numerator = y0 * (length - x) + y1 * x
    sign = np.where(numerator < 0, -1, 1)
    return sign * ((2 * np.abs(numerator) + length) // (2 * length))
