"""Counts of rows and of distinct values."""

from __future__ import annotations

from runtime.functions.aggregates.function import (
    Merged,
    MergedFunction,
    Registers,
    Takes,
    TakesBack,
    WithDistinct,
)
from runtime.spec.aggregates import MergeOp

FUNCTIONS = (
    MergedFunction(
        "COUNT",
        Merged(MergeOp.COUNT, Takes.ANY),
        "number of rows",
        "*",
        "COUNT(x) counts rows in which x is not NULL, COUNT(DISTINCT x) distinct values.",
        example="*",
        drawn="*",
        definition=len,
        distinct=WithDistinct.OF_SET,
        takes_back=TakesBack.SUBTRACTED,
    ),
    MergedFunction(
        "COUNT_IF",
        Merged(MergeOp.COUNT, Takes.ANY),
        "number of rows that meet a condition",
        "condition",
        example="price > 100",
        drawn="x > 2",
        definition=sum,
        takes_back=TakesBack.SUBTRACTED,
    ),
    MergedFunction(
        "APPROX_COUNT_DISTINCT",
        Registers(),
        "approximate number of distinct values",
        "x [, error]",
        "The average error is 5 %, or the error given as an argument, as in Spark.",
        example="bidder",
        definition=lambda values: len(set(values)),
        is_exact=False,
    ),
)
