"""Percentiles."""

from __future__ import annotations

import math
from collections.abc import Callable

from runtime.functions.aggregates.function import MergedFunction, Percentile, Values


def _percentile_95(values: Values) -> object:
    return sorted(values)[math.ceil(0.95 * len(values)) - 1]


def _exact(percentage: float) -> Callable[[Values], float]:
    def definition(values: Values) -> float:
        position = percentage * (len(values) - 1)
        low, high = math.floor(position), math.ceil(position)
        ordered = sorted(values)
        return float(ordered[low] + (ordered[high] - ordered[low]) * (position - low))

    return definition


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
        Percentile(is_exact=True, percentage=0.5),
        "median",
        text="The mean of the two middle values if their number is even. The exchange carries all\n"
        "values once; APPROX_PERCENTILE(x, 0.5) thins them out.",
        definition=_exact(0.5),
    ),
    MergedFunction(
        "PERCENTILE",
        Percentile(is_exact=True),
        "exact percentile",
        "x, percentage",
        "The percentage is from 0 to 1. Interpolated between two values, as in Spark.",
        example="price, 0.9",
        drawn="x, 0.25",
        definition=_exact(0.25),
        is_exact=False,
    ),
)
