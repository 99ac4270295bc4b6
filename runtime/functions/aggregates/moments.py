"""Variances and standard deviations."""

from __future__ import annotations

import math
from fractions import Fraction

from runtime.functions.aggregates.function import MergedFunction, Spread, Values


def _function(name: str, form: Spread, summary: str) -> MergedFunction:
    def definition(values: Values) -> float | None:
        n_rows = len(values)
        if n_rows <= form.less:
            return None
        if not all(math.isfinite(value) for value in values):
            return math.nan
        exact = [Fraction(value) for value in values]
        mean = sum(exact, Fraction(0)) / n_rows
        squares = sum(((value - mean) ** 2 for value in exact), Fraction(0))
        variance = float(squares / (n_rows - form.less))
        return math.sqrt(variance) if form.is_root else variance

    text = "NULL for a single value." if form.less else ""
    return MergedFunction(name, form, summary, text=text, definition=definition)


_VAR_SAMP = _function("VAR_SAMP", Spread(1, is_root=False), "sample variance (n - 1)")
_STDDEV_SAMP = _function(
    "STDDEV_SAMP", Spread(1, is_root=True), "sample standard deviation (n - 1)"
)

FUNCTIONS = (
    _function("VAR_POP", Spread(0, is_root=False), "population variance"),
    _VAR_SAMP,
    _VAR_SAMP.alias("VARIANCE"),
    _function("STDDEV_POP", Spread(0, is_root=True), "population standard deviation"),
    _STDDEV_SAMP,
    _STDDEV_SAMP.alias("STDDEV"),
    _STDDEV_SAMP.alias("STD"),
)
