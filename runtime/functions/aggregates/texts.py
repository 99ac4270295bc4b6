"""Concatenated texts."""

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

FUNCTIONS = (
    _LISTAGG,
    _LISTAGG.alias(
        "STRING_AGG", "texts concatenated as by LISTAGG, by default without a separator"
    ),
)
