"""Timers of the general operator: what is to be called when, each but once."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from runtime.streaming.general.windows import TimeWindow

# Whose timer it is: a key and a window.
Owner = tuple[Any, TimeWindow]
# So many that do not stand may be in a queue
_FEW = 64


@dataclass
class Timers:
    """Timers of event time or of processing time.

    A queue and a set: the set says which timers stand, the queue in which order they come; what
    was taken back is still in the queue, and skipped there, until `tidy`.
    """

    standing: set[tuple[int, Owner]] = field(default_factory=set)
    _queue: list[tuple[int, int, Owner]] = field(default_factory=list)
    _n_set: int = 0

    def set(self, time_us: int, owner: Owner) -> None:
        """Set a timer; nothing changes if it stands already."""
        if (time_us, owner) in self.standing:
            return
        self.standing.add((time_us, owner))
        # the number keeps timers of one time in the order they were set, and owners uncompared
        heapq.heappush(self._queue, (time_us, self._n_set, owner))
        self._n_set += 1

    def forget(self, time_us: int, owner: Owner) -> None:
        """Take a timer back; it need not stand."""
        self.standing.discard((time_us, owner))
        if len(self._queue) > 2 * len(self.standing) + _FEW:
            self.tidy()

    def tidy(self) -> None:
        """Keep nothing of timers that do not stand."""
        if len(self._queue) != len(self.standing):
            self._queue = [*self._in_order()]

    def of_keys(self, keys: Set[Any]) -> Timers:
        """The timers of some keys, as timers of their own."""
        found = Timers()
        for time_us, _, owner in self._in_order():
            if owner[0] in keys:
                found.set(time_us, owner)
        return found

    def add(self, other: Timers) -> None:
        """Set all timers that stand in another."""
        for time_us, _, owner in other._in_order():
            self.set(time_us, owner)

    def _in_order(self) -> Iterator[tuple[int, int, Owner]]:
        """What the queue has of timers that stand, in order."""
        left = set(self.standing)
        # a timer that was taken back and set again is there twice
        for time_us, number, owner in sorted(self._queue, key=itemgetter(0, 1)):
            if (time_us, owner) in left:
                left.discard((time_us, owner))
                yield time_us, number, owner

    def due(self, until_us: int) -> Iterator[tuple[int, Owner]]:
        """Timers up to a time, in order; those that are set meanwhile too."""
        while self._queue and self._queue[0][0] <= until_us:
            time_us, _, owner = heapq.heappop(self._queue)
            if (time_us, owner) in self.standing:
                self.standing.discard((time_us, owner))
                yield time_us, owner

    @property
    def next_us(self) -> int | None:
        """When the next timer is due."""
        while self._queue and (self._queue[0][0], self._queue[0][2]) not in self.standing:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None
