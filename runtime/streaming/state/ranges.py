"""Ranges of windows, by their ends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.spec.stream import FINAL_US

# Windows with `Range[0]` < window end <= `Range[1]`
Range = tuple[int, int]


def union(ranges: Iterable[Range]) -> list[Range]:
    """Return the union of ranges, sorted and disjoint."""
    merged: list[Range] = []
    for after, until in sorted(ranges):
        if merged and after <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], until)
        else:
            merged.append((after, until))
    return merged


def within(ranges: Iterable[Range], after_us: int, until_us: int) -> list[Range]:
    """Return the intersection of ranges with another one."""
    cut = ((max(after, after_us), min(until, until_us)) for after, until in ranges)
    return [(after, until) for after, until in cut if after < until]


def without(ranges: Sequence[Range], after_us: int, until_us: int) -> list[Range]:
    """Return ranges minus another one, which must not be empty."""
    return [*within(ranges, -FINAL_US, after_us), *within(ranges, until_us, FINAL_US)]
