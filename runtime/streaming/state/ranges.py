"""Windows as ranges of time, by their ends: of those that rows came for, and of those in a blob."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from runtime.spec.stream import FINAL_US

# Windows with an end above the first and up to the second
Range = tuple[int, int]


def union(ranges: Iterable[Range]) -> list[Range]:
    """What is in any of some ranges, in order and apart."""
    found: list[Range] = []
    for after, until in sorted(ranges):
        if found and after <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], until)
        else:
            found.append((after, until))
    return found


def within(ranges: Iterable[Range], after_us: int, until_us: int) -> list[Range]:
    """What of ranges is in another one."""
    cut = ((max(after, after_us), min(until, until_us)) for after, until in ranges)
    return [(after, until) for after, until in cut if after < until]


def without(ranges: Sequence[Range], after_us: int, until_us: int) -> list[Range]:
    """What of ranges is not in another one, which is not empty."""
    return [*within(ranges, -FINAL_US, after_us), *within(ranges, until_us, FINAL_US)]
