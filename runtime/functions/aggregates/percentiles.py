"""Percentiles."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from runtime.functions.aggregates.function import (
    FromValues,
    MergedFunction,
    Percentile,
    Values,
    WindowValues,
    WithinGroup,
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


def _smallest(values: WindowValues, percentage: float) -> pa.Array:
    """Return the smallest values with at least the percentage of the values up to them."""
    import numpy as np

    rank = np.ceil(percentage * values.counts).astype(np.int64)
    return values.distinct.take(values.at(np.maximum(rank, 1) - 1))


def interpolation(values: Values, percentage: float) -> float:
    """Return a percentile by definition."""
    position = percentage * (len(values) - 1)
    low, high = math.floor(position), math.ceil(position)
    ordered = _ordered(values)
    if low == high:
        return ordered[low]
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def _smallest_value(values: Values, percentage: float) -> float:
    return _ordered(values)[max(math.ceil(percentage * len(values)), 1) - 1]


def _ordered(values: Values) -> list[float]:
    # NaN is the largest value
    return sorted(map(float, values), key=lambda value: (math.isnan(value), value))


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

_CONTINUOUS = MergedFunction(
    "PERCENTILE",
    FromValues(interpolated, has_percentage=True),
    "exact percentile",
    "x, percentage",
    "The percentage is from 0 to 1. Interpolated between two values, as in Spark.",
    example="price, 0.9",
    drawn="x, 0.25",
    definition=interpolation,
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
        definition=lambda values: interpolation(values, 0.5),
    ),
    _CONTINUOUS,
    _CONTINUOUS.alias(
        "PERCENTILE_CONT",
        "exact percentile of a group in order",
        text="Interpolated between two values. With DESC, from the largest value.",
        form=FromValues(interpolated, has_percentage=True, within_group=WithinGroup.YES),
    ),
    MergedFunction(
        "PERCENTILE_DISC",
        FromValues(_smallest, has_percentage=True, within_group=WithinGroup.YES),
        "first value that reaches a percentage of the values",
        "x, percentage",
        "One of the values, as DOUBLE. With DESC, from the largest value.",
        example="price, 0.9",
        drawn="x, 0.25",
        definition=_smallest_value,
    ),
)
