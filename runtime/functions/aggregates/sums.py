"""Sums and means."""

from __future__ import annotations

from runtime.functions.aggregates.function import (
    Mean,
    Merged,
    MergedFunction,
    Takes,
    TakesBack,
    WithDistinct,
)
from runtime.spec.aggregates import MergeOp

_SUM = MergedFunction(
    "SUM",
    Merged(MergeOp.SUM, Takes.NUMBERS),
    "sum",
    text="NULL if every x is NULL. Integer overflow is an error.\n"
    "SUM(DISTINCT x) adds each value once.",
    definition=sum,
    distinct=WithDistinct.OF_SET,
    takes_back=TakesBack.SUBTRACTED_IF_EXACT,
)
_AVG = MergedFunction(
    "AVG",
    Mean(),
    "mean",
    text="NULL if every x is NULL. AVG(DISTINCT x) uses each value once.",
    definition=lambda values: sum(values) / len(values),
    distinct=WithDistinct.OF_SET,
    takes_back=TakesBack.SUBTRACTED_IF_EXACT,
)

FUNCTIONS = (_SUM, _AVG, _AVG.alias("MEAN", "mean; alias of AVG"))
