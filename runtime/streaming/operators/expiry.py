"""State time-to-live: groups without a window whose rows have not changed for a time are dropped.

State has the processing time of the last change next to each partial. A micro-batch looks for
expired keys in the parts of its own keys, and in some of the other parts, so that each part is
searched once per time-to-live. An expired key is gone with its emitted result: nothing is emitted,
and its next row is its first.

Deletions of rows that are not known are ignored: a key whose number of rows is zero or less leaves
the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, int64_column
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.streaming.operators.updates import UpdateLog
from runtime.streaming.slices.plain import PlainSlices
from runtime.streaming.state.partial_columns import CHANGED_US
from runtime.windows.all_time import N_PARTS

CHANGED = Merge((CHANGED_US,), MergeOp.MAX)
# Time of a change before any processing time was known. It never expires.
_UNKNOWN_US = -1


@dataclass
class KeyExpiry:
    """Drops the expired keys of one key group.

    Attributes:
        ttl_us: Time-to-live.
        aggregation: Aggregation without a window.
        slices: State of the keys.
        updates: Emitted results.
        searched_us: Processing time up to which expired keys were searched. None at first.
    """

    ttl_us: int
    aggregation: WindowAggregation
    slices: PlainSlices
    updates: UpdateLog
    searched_us: int | None

    def begin(self, partials: Sequence[pa.Table], clock_us: int | None) -> list[pa.Table]:
        """Drop expired keys, and return the partials of a micro-batch with their time of change.

        As long as results wait for early firing, their keys stay.

        Args:
            partials: New partials.
            clock_us: Processing time. None if unknown.
        """
        if not self.updates.has_pending and (clock_us is not None or partials):
            for part in sorted({*self._parts_of(partials), *self._due_parts(clock_us)}):
                self._drop_expired(part, clock_us)
            if clock_us is not None:
                self.searched_us = max(clock_us, _or_unknown(self.searched_us))
        changed_us = _or_unknown(self.searched_us if clock_us is None else clock_us)
        return [
            table.append_column(CHANGED_US, pa.array(np.full(len(table), changed_us, np.int64)))
            for table in partials
        ]

    def _parts_of(self, partials: Sequence[pa.Table]) -> set[int]:
        name = self.aggregation.slice_end
        return {int(end) for table in partials for end in np.unique(int64_column(table, name))}

    def _due_parts(self, clock_us: int | None) -> list[int]:
        """Return the parts whose turn to be searched has come."""
        if clock_us is None or self.searched_us is None or clock_us <= self.searched_us:
            return []
        parts = np.arange(1, N_PARTS + 1)
        phases = parts * self.ttl_us // N_PARTS
        turns = [(us - phases) // self.ttl_us for us in (self.searched_us, clock_us)]
        due: list[int] = parts[turns[1] > turns[0]].tolist()
        return due

    def _drop_expired(self, part: int, clock_us: int | None) -> None:
        expired = self.slices.take(part, lambda table: self._is_expired(table, clock_us))
        if expired is not None:
            self.updates.forget_keys((part - 1, part), expired)

    def _is_expired(self, table: pa.Table, clock_us: int | None) -> BoolArray:
        """Return for each partial, one per key, whether its key leaves the state."""
        changed_us = int64_column(table, CHANGED_US)
        is_expired: BoolArray = np.zeros(len(table), np.bool_)
        if clock_us is not None:
            is_expired = (changed_us != _UNKNOWN_US) & (changed_us + self.ttl_us <= clock_us)
        if self.aggregation.remaining is not None:
            is_expired |= int64_column(table, self.aggregation.remaining) <= 0
        return is_expired


def _or_unknown(time_us: int | None) -> int:
    return _UNKNOWN_US if time_us is None else time_us
