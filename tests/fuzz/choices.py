"""Recorded random choices, so that a failing draw can be shrunk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """A sequence of random numbers.

    Args:
        seed: Seed of the numbers.
        given: Numbers to return first. Zeros follow them.

    Attributes:
        made: Numbers so far. The same numbers as `given` make the same draw.
    """

    def __init__(self, seed: int, given: Sequence[int] | None = None) -> None:
        self._random = random.Random(seed)
        self._given = given
        self.made: list[int] = []

    def pick(self, n: int) -> int:
        """Return a number from 0 to n - 1. 0 makes the simplest draw."""
        if self._given is None:
            number = self._random.randrange(n)
        elif len(self.made) < len(self._given):
            number = min(self._given[len(self.made)], n - 1)
        else:
            number = 0
        self.made.append(number)
        return number

    def between(self, low: int, high: int) -> int:
        """Return a number from `low` to `high` - 1."""
        return low + self.pick(high - low)

    def one_of(self, items: Sequence[T]) -> T:
        """Return an item. The first is the simplest."""
        return items[self.pick(len(items))]

    def chance(self, percent: int) -> bool:
        """Return True with a probability."""
        return self.pick(100) >= 100 - percent

    def sample(self, items: Sequence[T], n: int) -> list[T]:
        """Return n of the items in any order."""
        left = list(items)
        return [left.pop(self.pick(len(left))) for _ in range(n)]


def shrink_choices(
    made: Sequence[int], fails: Callable[[Sequence[int]], Sequence[int] | None], most: int = 1_500
) -> Sequence[int]:
    """Return smaller choices that still fail.

    Args:
        made: Choices of a draw that fails.
        fails: Runs a draw and returns its choices if it fails, else None.
        most: Maximum number of runs.

    Example:
        >>> shrink_choices([7, 9, 4, 8], lambda c: c if sum(c) > 10 else None)
        [3, 8]
    """
    best, is_smaller = list(made), True
    while is_smaller:
        is_smaller = False
        for smaller in _smaller(best):
            if most == 0:
                return best
            most -= 1
            again = fails(smaller)
            if again is not None and (len(again), list(again)) < (len(best), best):
                best, is_smaller = list(again), True
                break
    return best


def _smaller(made: list[int]) -> Iterator[list[int]]:
    """Yield choices without a span, then with a smaller number."""
    width = len(made) // 2
    while width:
        for at in range(0, len(made), width):
            yield made[:at] + made[at + width :]
        width //= 2
    for at, number in enumerate(made):
        for smaller in sorted({0, number // 2, number - 1}):
            if 0 <= smaller < number:
                yield [*made[:at], smaller, *made[at + 1 :]]
