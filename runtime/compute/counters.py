"""Counters of the current task, active only while it is measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_counted: dict[str, int] | None = None


def count(name: str, amount: int) -> None:
    """Add to a counter, if the task is measured."""
    if _counted is not None:
        _counted[name] = _counted.get(name, 0) + amount


def is_counting() -> bool:
    """Return whether the task is measured."""
    return _counted is not None


@contextmanager
def count_into(counters: dict[str, int]) -> Iterator[None]:
    """Let `count` add to `counters` within the block."""
    global _counted
    before, _counted = _counted, counters
    try:
        yield
    finally:
        _counted = before
