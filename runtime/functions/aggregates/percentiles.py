"""Percentiles."""

from __future__ import annotations

import math

from runtime.functions.aggregates.function import MergedFunction, Percentile, Values


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

FUNCTIONS = (_PERCENTILE, _PERCENTILE.alias("PERCENTILE_APPROX"))
