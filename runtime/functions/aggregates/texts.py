"""Values in order of time: concatenated texts, and arrays."""

from __future__ import annotations

from runtime.functions.aggregates.function import MergedFunction, Texts, WithDistinct

_LISTAGG = MergedFunction(
    "LISTAGG",
    Texts(),
    "texts concatenated in time order",
    "x [, separator]",
    "The default separator is a comma. Texts of the same time are sorted. NULLs\n"
    "are skipped. NULL if every x is NULL.",
    example="bidder, ', '",
    drawn="x, ','",
    definition=lambda values: ",".join(map(str, values)),
    is_exact=False,
    distinct=WithDistinct.OF_SET,
)

_LIST = MergedFunction(
    "COLLECT_LIST",
    Texts(is_joined=False),
    "array of values in time order",
    text="In order of the window's time column, then by value. NULLs are skipped. Where Spark\n"
    "runs the function, the order is any.",
    example="bidder",
    definition=list,
    distinct=WithDistinct.OF_SET,
)

FUNCTIONS = (
    _LISTAGG,
    _LISTAGG.alias(
        "STRING_AGG", "texts concatenated as by LISTAGG, by default without a separator"
    ),
    _LIST,
)
