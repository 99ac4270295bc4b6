"""Which rows of a window its function does not get to see any more."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.streaming.general.windows import TimeWindow

# A row of a window, and its time in microseconds.
Row = tuple[Any, int]


class Evictor(ABC):
    """Drops rows of a window when it fires; what it drops is gone for good.

    Attributes:
        after: drop them after the function has seen them, and not before.
    """

    after: bool = False

    @abstractmethod
    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        """The rows that stay, in their order; `rows` are in the order they came in."""


@dataclass(frozen=True)
class CountEvictor(Evictor):
    """The last `n_rows` rows stay."""

    n_rows: int
    after: bool = False

    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        return rows[-self.n_rows :] if self.n_rows else []


@dataclass(frozen=True)
class TimeEvictor(Evictor):
    """Rows stay that are less than `size_us` older than the newest one."""

    size_us: int
    after: bool = False

    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        newest_us = max((time_us for _, time_us in rows), default=0)
        return [row for row in rows if row[1] > newest_us - self.size_us]


@dataclass(frozen=True)
class DeltaEvictor(Evictor):
    """Rows stay that lie less than `threshold` from the one that came last.

    Attributes:
        threshold: the distance.
        distance: of a row and the one that came last.
    """

    threshold: float
    distance: Callable[[Any, Any], float]
    after: bool = False

    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        return [row for row in rows if self.distance(row[0], rows[-1][0]) < self.threshold]
