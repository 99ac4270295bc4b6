"""Timers of the general window operator. A timer that is given twice fires once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from runtime.streaming.general.windows import TimeWindow

# Owner of a timer: a key and a window
Owner = tuple[Any, TimeWindow]
# Cancelled timers in a queue beyond which it is tidied
_FEW = 64


@dataclass
class Timers:
    """Timers in event time or in processing time.

    `standing` holds the active timers, `_queue` their order. Cancelled timers stay in the queue and
    are skipped until `tidy` removes them.
    """

    standing: set[tuple[int, Owner]] = field(default_factory=set)
    _queue: list[tuple[int, int, Owner]] = field(default_factory=list)
    _n_set: int = 0

    def set(self, time_us: int, owner: Owner) -> None:
        """Set a timer. Does nothing if it is set already."""
        if (time_us, owner) in self.standing:
            return
        self.standing.add((time_us, owner))
        # the number keeps timers of one time in order of setting, and avoids comparing owners
        heapq.heappush(self._queue, (time_us, self._n_set, owner))
        self._n_set += 1

    def forget(self, time_us: int, owner: Owner) -> None:
        """Cancel a timer. Does nothing if it is not set."""
        self.standing.discard((time_us, owner))
        if len(self._queue) > 2 * len(self.standing) + _FEW:
            self.tidy()

    def tidy(self) -> None:
        """Remove cancelled timers from the queue."""
        if len(self._queue) != len(self.standing):
            self._queue = [*self._firing_order()]

    def select_keys(self, keys: Set[Any]) -> Timers:
        """Return a copy of the timers of some keys."""
        timers = Timers()
        for time_us, _, owner in self._firing_order():
            if owner[0] in keys:
                timers.set(time_us, owner)
        return timers

    def add(self, other: Timers) -> None:
        """Set all active timers of another."""
        for time_us, _, owner in other._firing_order():
            self.set(time_us, owner)

    def _firing_order(self) -> Iterator[tuple[int, int, Owner]]:
        """Yield the active timers in the order in which they fire."""
        left = set(self.standing)
        # a timer that was cancelled and set again is in the queue twice
        for time_us, number, owner in sorted(self._queue, key=itemgetter(0, 1)):
            if (time_us, owner) in left:
                left.discard((time_us, owner))
                yield time_us, number, owner

    def due(self, until_us: int) -> Iterator[tuple[int, Owner]]:
        """Remove and yield timers up to a time, in order, including those set in the meantime."""
        while self._queue and self._queue[0][0] <= until_us:
            time_us, _, owner = heapq.heappop(self._queue)
            if (time_us, owner) in self.standing:
                self.standing.discard((time_us, owner))
                yield time_us, owner

    @property
    def next_us(self) -> int | None:
        """Time of the next timer, or None."""
        while self._queue and (self._queue[0][0], self._queue[0][2]) not in self.standing:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None
