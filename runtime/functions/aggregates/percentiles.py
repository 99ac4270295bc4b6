"""Percentiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.functions.aggregates.function import (
    FromValues,
    MergedFunction,
    Percentile,
    Values,
    WindowValues,
)

if TYPE_CHECKING:
    import pyarrow as pa


def interpolated(values: WindowValues, percentage: float) -> pa.Array:
    """Return the percentiles of doubles, between two values with the arithmetic of Spark."""
    import numpy as np
    import pyarrow as pa

    position = percentage * (values.counts - 1)
    low, high = np.floor(position), np.ceil(position)
    at_low, at_high = (values.at(side.astype(np.int64)) for side in (low, high))
    numbers = values.distinct.to_numpy()
    below, above = numbers.take(at_low), numbers.take(at_high)
    with np.errstate(invalid="ignore"):
        between = below + (above - below) * (position - low)
    return pa.array(np.where(at_low == at_high, below, between))


def median(values: WindowValues) -> pa.Array:
    """Return the medians of doubles."""
    return interpolated(values, 0.5)


def interpolation(percentage: float) -> Callable[[Values], float]:
    """Return the definition of a percentile."""

    def definition(values: Values) -> float:
        position = percentage * (len(values) - 1)
        low, high = math.floor(position), math.ceil(position)
        # NaN is the largest value
        ordered = sorted(map(float, values), key=lambda value: (math.isnan(value), value))
        if low == high:
            return ordered[low]
        return ordered[low] + (ordered[high] - ordered[low]) * (position - low)

    return definition


def _percentile_95(values: Values) -> object:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


_PERCENTILE = MergedFunction(
    "APPROX_PERCENTILE",
    Percentile(),
    "approximate percentile",
    "x, percentage [, accuracy]",
    "The percentage is from 0 to 1, or an ARRAY of them for an ARRAY of results.\n"
    "The rank is off by at most 1 / accuracy of the values (default 10000).",
    example="price, 0.95",
    drawn="x, 0.95",
    definition=_percentile_95,
    is_exact=False,
)

FUNCTIONS = (
    _PERCENTILE,
    _PERCENTILE.alias("PERCENTILE_APPROX"),
    MergedFunction(
        "MEDIAN",
        FromValues(median),
        "median",
        text="The mean of the two middle values if their number is even. The exchange carries all\n"
        "values once; APPROX_PERCENTILE(x, 0.5) thins them out.",
        definition=interpolation(0.5),
    ),
    MergedFunction(
        "PERCENTILE",
        FromValues(interpolated, has_percentage=True),
        "exact percentile",
        "x, percentage",
        "The percentage is from 0 to 1. Interpolated between two values, as in Spark.",
        example="price, 0.9",
        drawn="x, 0.25",
        definition=interpolation(0.25),
        is_exact=False,
    ),
)
