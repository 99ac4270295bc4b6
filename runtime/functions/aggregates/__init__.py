"""Aggregate functions that are merged from slices, one file per family.

An entry says how rows become partials and how these merge (its form), what help shows, and the
result by definition. The planner, the oracle and help read it.
"""

from __future__ import annotations

from collections.abc import Mapping

from runtime.functions.aggregates import (
    counts,
    extrema,
    median_abs_dev,
    modes,
    moments,
    percentiles,
    picks,
    shapes,
    sums,
    texts,
)
from runtime.functions.aggregates.function import MergedFunction

# By name, in the order of help
AGGREGATES: Mapping[str, MergedFunction] = {
    function.name: function
    for functions in (
        counts.FUNCTIONS,
        percentiles.FUNCTIONS,
        median_abs_dev.FUNCTIONS,
        modes.FUNCTIONS,
        sums.FUNCTIONS,
        extrema.FUNCTIONS,
        picks.FUNCTIONS,
        texts.FUNCTIONS,
        moments.FUNCTIONS,
        shapes.FUNCTIONS,
        extrema.BOOLEANS,
        extrema.BITS,
    )
    for function in functions
}
