"""Predict the rows that sessions of a stream drop with a delay, and the sessions that change.

A row belongs to an open session of its partition that it reaches, directly or through other rows of
its micro-batch, and else begins a session. One that has ended at the watermark before the
micro-batch is dropped. Whether a row is dropped depends on rows of the session that it would have
been in if no row were late, so sessions with rows of several micro-batches are played through one
by one. A longer delay never drops more rows.

All times are int64 microseconds, as in `runtime.simulator.delays.aligned`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from runtime.compute.kernels.conversions import BoolArray, Int64Array
from runtime.compute.kernels.session import find_sessions
from runtime.simulator.delays.aligned import NONE_US, Counted, DelayOutcome

_MS_US = 1_000


@dataclass
class _Open:
    """Open session: its last time, the watermark that closes it, and its number."""

    first_us: int
    last_us: int
    closes_us: int
    number: int


@dataclass(frozen=True)
class _Played:
    """Sessions of a stream with a delay.

    Attributes:
        session: int64[rows], number of the session of each row, -1 for dropped rows. Sessions that
            a row has joined have one number.
        changes: int64[micro-batches + 1], by how many the open sessions increase before they close.
    """

    session: Int64Array
    changes: Int64Array


@dataclass(frozen=True)
class CountedSessions(Counted):
    """Rows that SESSION counts. Keys are the partitions of the sessions.

    Attributes:
        gap_us: Gap.
    """

    gap_us: int

    def dropped(self, delay_us: int) -> Int64Array:
        """Return the numbers of the rows that begin no session and reach none with a delay."""
        may_drop = np.zeros(self.n_windows, np.bool_)
        may_drop[self._session[self._late_by_us >= delay_us]] = True
        dropped: Int64Array = self.number[self._play(delay_us, may_drop).session == -1]
        return dropped

    def shortest_delay_us(self, share: float) -> int:
        """Return the shortest delay, in whole milliseconds, that drops at most a share of rows."""
        n_lost = int(share * len(self.number))
        # at most as many rows are dropped as are late on their own
        late_by_us = np.sort(self._late_by_us)[::-1]
        longest_us = int(late_by_us[n_lost]) if n_lost < len(late_by_us) else -1
        low, high = 0, max(longest_us // _MS_US + 1, 0)
        while low < high:
            middle = (low + high) // 2
            if len(self.dropped(middle * _MS_US)) <= n_lost:
                high = middle
            else:
                low = middle + 1
        return low * _MS_US

    def outcome(self, delay_us: int) -> DelayOutcome:
        """Return the effects of a delay. Sessions that change miss rows or are in several parts."""
        played = self._play(delay_us, np.ones(self.n_windows, np.bool_))
        is_late = played.session == -1
        changed = np.unique(self._session[is_late])
        # a pair for each part of each session
        parts = np.unique(np.stack([self._session, played.session])[:, ~is_late], axis=1)
        whole, n_parts = np.unique(parts[0], return_counts=True)
        changed = np.union1d(changed, whole[n_parts > 1])
        n_rows = int(np.isin(self._session, changed).sum())
        of_part = np.unique(played.session[~is_late])
        last_us = np.full(len(of_part), NONE_US)
        if len(of_part):
            place = np.searchsorted(of_part, played.session[~is_late])
            np.maximum.at(last_us, place, self.time_us[~is_late])
        ends = last_us + self.gap_us
        closing = self._closing_batch(self._reached_at_us(ends), delay_us)
        open_ = played.changes - np.bincount(closing, minlength=len(played.changes))
        return DelayOutcome(
            delay_us,
            int(is_late.sum()),
            len(changed),
            float(is_late.sum() / n_rows) if n_rows else 0.0,
            self._waits_of_us(ends, closing),
            int(np.max(np.cumsum(open_), initial=0)),
        )

    @property
    def n_windows(self) -> int:
        """Number of sessions with no row dropped."""
        return int(self._session.max(initial=-1)) + 1

    @cached_property
    def _session(self) -> Int64Array:
        """int64[rows], number of the session of each row if no row is dropped."""
        if not len(self.key):
            return self.key
        return find_sessions(self.key, self.time_us, self.time_us, self.gap_us).session_of_partial()

    @cached_property
    def _closes_us(self) -> Int64Array:
        """int64[rows], watermark of the source that closes a session with this last row."""
        return self._reached_at_us(self.time_us + self.gap_us)

    @cached_property
    def _late_by_us(self) -> Int64Array:
        """int64[rows], longest delay with which each row alone is late; negative: with none."""
        highest_us = self.arrivals.highest_us[self._batch]
        return np.where(highest_us == NONE_US, -1, highest_us - self._closes_us)

    @cached_property
    def _order(self) -> Int64Array:
        """Rows by session, micro-batch and time."""
        return np.lexsort((self.time_us, self._batch, self._session))

    @cached_property
    def _batch_of_session(self) -> Int64Array:
        """int64[sessions], micro-batch with all rows of each session, -1 if there are several."""
        first = np.full(self.n_windows, len(self.arrivals.arrived_us))
        last = np.full(self.n_windows, -1)
        np.minimum.at(first, self._session, self._batch)
        np.maximum.at(last, self._session, self._batch)
        return np.where(first == last, first, -1)

    def _play(self, delay_us: int, of_sessions: BoolArray) -> _Played:
        """Play some sessions through. The rows of others are in the sessions that they are in."""
        session = self._session + len(self.key)
        changes = np.zeros(len(self.arrivals.arrived_us) + 1, np.int64)
        is_one = self._batch_of_session >= 0
        self._play_within_batches(delay_us, of_sessions & is_one, session, changes)
        order = self._order[(of_sessions & ~is_one)[self._session[self._order]]]
        of_rows: list[int] = []
        joined: list[int] = []
        open_: list[_Open] = []
        whole = None
        for next_whole, batch, rows in self._groups(order):
            if next_whole != whole:
                whole, open_ = next_whole, []
            highest = int(self.arrivals.highest_us[batch])
            closed_us = NONE_US if highest == NONE_US else highest - delay_us
            before = [one for one in open_ if one.closes_us > closed_us]
            open_, places = self._merge(before, rows, joined)
            late = {one.number for one in open_ if one.closes_us <= closed_us}
            of_rows += [-1 if number in late else number for number in places]
            open_ = [one for one in open_ if one.number not in late]
            changes[batch] += len(open_) - len(before)
        numbers = np.array(of_rows, np.int64)
        is_counted = numbers >= 0
        numbers[is_counted] = np.array(_roots(joined), np.int64)[numbers[is_counted]]
        session[order] = numbers
        return _Played(session, changes)

    def _play_within_batches(
        self, delay_us: int, of_sessions: BoolArray, session: Int64Array, changes: Int64Array
    ) -> None:
        """Play sessions through whose rows are all in one micro-batch; see `_Played`."""
        closes_us = np.full(self.n_windows, NONE_US)
        np.maximum.at(closes_us, self._session, self._closes_us)
        highest_us = self.arrivals.highest_us[self._batch_of_session]
        is_late = of_sessions & (highest_us != NONE_US) & (closes_us <= highest_us - delay_us)
        session[is_late[self._session]] = -1
        np.add.at(changes, self._batch_of_session[of_sessions & ~is_late], 1)

    def _groups(self, order: Int64Array) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
        """Yield session, micro-batch, and times of rows with the watermarks that close them."""
        if not len(order):
            return
        keys, batches = self._session[order], self._batch[order]
        is_new = np.ones(len(order), np.bool_)
        is_new[1:] = (keys[1:] != keys[:-1]) | (batches[1:] != batches[:-1])
        starts = np.flatnonzero(is_new)
        rows = list(zip(self.time_us[order].tolist(), self._closes_us[order].tolist(), strict=True))
        ends = np.append(starts[1:], len(order)).tolist()
        for start, end in zip(starts.tolist(), ends, strict=True):
            yield int(keys[start]), int(batches[start]), rows[start:end]

    def _merge(
        self, open_: list[_Open], rows: list[tuple[int, int]], joined: list[int]
    ) -> tuple[list[_Open], list[int]]:
        """Return the sessions of open sessions and new rows, and the number of each row's.

        Args:
            open_: Open sessions in order of time.
            rows: Times of new rows in order, and the watermarks that close them.
            joined: By the number of a session, the one that it has become part of; extended.
        """
        merged: list[_Open] = []
        places: list[int] = []
        ahead = iter(open_)
        following = next(ahead, None)
        for time_us, closes_us in rows:
            while following is not None and following.first_us <= time_us:
                self._add(merged, following, joined)
                following = next(ahead, None)
            if merged and time_us - merged[-1].last_us <= self.gap_us:
                last = merged[-1]
                last.last_us = max(last.last_us, time_us)
                last.closes_us = max(last.closes_us, closes_us)
            else:
                joined.append(len(joined))
                merged.append(_Open(time_us, time_us, closes_us, len(joined) - 1))
            places.append(merged[-1].number)
        while following is not None:
            self._add(merged, following, joined)
            following = next(ahead, None)
        return merged, places

    def _add(self, merged: list[_Open], one: _Open, joined: list[int]) -> None:
        """Append an open session, or let it join the last one."""
        if not merged or one.first_us - merged[-1].last_us > self.gap_us:
            merged.append(_Open(one.first_us, one.last_us, one.closes_us, one.number))
            return
        last = merged[-1]
        joined[one.number] = last.number
        last.last_us = max(last.last_us, one.last_us)
        last.closes_us = max(last.closes_us, one.closes_us)


def _roots(joined: list[int]) -> list[int]:
    """Return for each session the one that it is part of in the end."""
    roots = list(joined)
    for number in range(len(roots)):
        root = number
        while roots[root] != root:
            root = roots[root]
        while roots[number] != root:
            roots[number], number = root, roots[number]
    return roots
