"""Values of the first or last row in an order."""

from __future__ import annotations

from runtime.functions.aggregates.function import MergedFunction, Picked

_BY_TIME = "In order of the window's time column, then by value. IGNORE NULLS skips NULLs."
_WITHOUT_NULLS = (
    "In order of the window's time column, then by value. NULLs are skipped, as in Flink, unless\n"
    "RESPECT NULLS is given."
)

# FIRST_VALUE and LAST_VALUE are Flink's and skip NULLs, the others are Spark's and keep them
FUNCTIONS = (
    MergedFunction(
        "MIN_BY",
        Picked(is_last=False, by_time=False),
        "x of the row with the minimum y",
        "x, y",
        example="bidder, price",
        drawn="x, y",
    ),
    MergedFunction(
        "MAX_BY",
        Picked(is_last=True, by_time=False),
        "x of the row with the maximum y",
        "x, y",
        example="bidder, price",
        drawn="x, y",
    ),
    MergedFunction(
        "FIRST_VALUE", Picked(is_last=False, skips_nulls=True), "first x", text=_WITHOUT_NULLS
    ),
    MergedFunction(
        "LAST_VALUE", Picked(is_last=True, skips_nulls=True), "last x", text=_WITHOUT_NULLS
    ),
    MergedFunction("FIRST", Picked(is_last=False), "x of the first row", text=_BY_TIME),
    MergedFunction("LAST", Picked(is_last=True), "x of the last row", text=_BY_TIME),
    MergedFunction(
        "ANY_VALUE", Picked(is_last=False), "any x (sqlwin: x of the first row)", text=_BY_TIME
    ),
)
