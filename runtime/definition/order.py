"""Equality and order of values, as the semantics define them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cmp_to_key
from typing import Any

from runtime.spec.expressions import RankOrder

# NaN equals itself
_NAN = "NaN"


def key_of(value: Any) -> Any:
    """Return a value that is equal for equal keys: NaN equals NaN, and -0.0 equals 0.0."""
    if isinstance(value, float):
        return (_NAN,) if math.isnan(value) else value + 0.0
    return tuple(map(key_of, value)) if isinstance(value, list) else value


def compare(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 for values that are not NULL. NaN is greater than every number."""
    is_nan = [isinstance(value, float) and math.isnan(value) for value in (one, other)]
    if any(is_nan):
        return int(is_nan[0]) - int(is_nan[1])
    return int(one > other) - int(one < other)


def compare_rows(order: Sequence[RankOrder], one: Sequence[Any], other: Sequence[Any]) -> int:
    """Compare two rows by their values of the sort keys.

    Args:
        order: Sort keys.
        one: Values of one row.
        other: Values of the other row.
    """
    for key, a, b in zip(order, one, other, strict=True):
        if a is None or b is None:
            result = 0 if a is b else -1 if (a is None) == key.nulls_first else 1
        else:
            result = -compare(a, b) if key.is_descending else compare(a, b)
        if result:
            return result
    return 0


def sorted_places(order: Sequence[RankOrder], rows: Sequence[Sequence[Any]]) -> list[int]:
    """Return the places of rows in the order of their sort keys; equal rows keep theirs."""

    def in_order(one: int, other: int) -> int:
        return compare_rows(order, rows[one], rows[other])

    return sorted(range(len(rows)), key=cmp_to_key(in_order))
