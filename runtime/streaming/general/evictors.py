"""Evictors: which rows of a window remain when it emits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.streaming.general.windows import TimeWindow

# A row and its time in microseconds
Row = tuple[Any, int]


class Evictor(ABC):
    """Rule that permanently removes rows from a window when it fires.

    Attributes:
        after: Whether rows are removed after the function has run instead of before.
    """

    after: bool = False

    @abstractmethod
    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        """Return the rows that remain, in order. `rows` are in order of arrival."""


@dataclass(frozen=True)
class CountEvictor(Evictor):
    """Evictor that keeps the last `n_rows` rows."""

    n_rows: int
    after: bool = False

    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        return rows[-self.n_rows :] if self.n_rows else []


@dataclass(frozen=True)
class TimeEvictor(Evictor):
    """Evictor that keeps rows less than `size_us` older than the newest one."""

    size_us: int
    after: bool = False

    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        newest_us = max((time_us for _, time_us in rows), default=0)
        return [row for row in rows if row[1] > newest_us - self.size_us]


@dataclass(frozen=True)
class DeltaEvictor(Evictor):
    """Evictor that keeps rows closer than `threshold` to the last row.

    Attributes:
        threshold: Distance at which a row is removed.
        distance: Called with a row and the last row; returns their distance.
    """

    threshold: float
    distance: Callable[[Any, Any], float]
    after: bool = False

    def keep(self, rows: list[Row], window: TimeWindow) -> list[Row]:
        return [row for row in rows if self.distance(row[0], rows[-1][0]) < self.threshold]
