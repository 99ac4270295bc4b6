"""Extrema of values, of conditions and of bits."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_, xor

from runtime.functions.aggregates.function import (
    Merged,
    MergedFunction,
    Takes,
    WithDistinct,
)
from runtime.spec.aggregates import MergeOp

FUNCTIONS = (
    MergedFunction(
        "MIN",
        Merged(MergeOp.MIN, Takes.FLAT),
        "minimum",
        definition=min,
        distinct=WithDistinct.SAME,
    ),
    MergedFunction(
        "MAX",
        Merged(MergeOp.MAX, Takes.FLAT),
        "maximum",
        definition=max,
        distinct=WithDistinct.SAME,
    ),
)

_BOOL_AND = MergedFunction(
    "BOOL_AND",
    Merged(MergeOp.MIN, Takes.FLAT, "MIN"),
    "whether every x is true",
    text="NULLs are skipped.",
    example="price > 100",
    drawn="x > 2",
    definition=all,
    distinct=WithDistinct.SAME,
)
_BOOL_OR = MergedFunction(
    "BOOL_OR",
    Merged(MergeOp.MAX, Takes.FLAT, "MAX"),
    "whether any x is true",
    text="NULLs are skipped.",
    example="price > 100",
    drawn="x > 2",
    definition=any,
    distinct=WithDistinct.SAME,
)

BOOLEANS = (
    _BOOL_AND,
    _BOOL_AND.alias("EVERY"),
    _BOOL_OR,
    _BOOL_OR.alias("SOME"),
    _BOOL_OR.alias("ANY"),
)

BITS = (
    MergedFunction(
        "BIT_AND",
        Merged(MergeOp.BIT_AND, Takes.INTEGERS),
        "bitwise AND of integers",
        example="flags",
        definition=lambda values: reduce(and_, values),
        distinct=WithDistinct.SAME,
    ),
    MergedFunction(
        "BIT_OR",
        Merged(MergeOp.BIT_OR, Takes.INTEGERS),
        "bitwise OR of integers",
        example="flags",
        definition=lambda values: reduce(or_, values),
        distinct=WithDistinct.SAME,
    ),
    MergedFunction(
        "BIT_XOR",
        Merged(MergeOp.BIT_XOR, Takes.INTEGERS),
        "bitwise exclusive OR of integers",
        example="flags",
        definition=lambda values: reduce(xor, values),
    ),
)
