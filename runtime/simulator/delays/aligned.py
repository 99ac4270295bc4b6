"""Predict the rows that a stream drops with a delay, from rows in their order of arrival.

The watermark before a micro-batch is the highest time in earlier micro-batches minus the delay. A
row whose last window ends at `e` is dropped if that watermark has passed `e`, so each row has a
shortest delay with which it is counted. One pass finds it for all rows and answers for all delays.

All times are int64 microseconds. Times of rows and window ends are on the clock of the watermark:
instants for TIMESTAMP_LTZ, wall-clock times for TIMESTAMP.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import Int64Array, int64_values
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.wall_clock import instants_us, wall_clock_us
from runtime.plan.simulated import SimulatedTable
from runtime.simulator.tables import Moment, TableRows
from runtime.spec.stream import FINAL_US
from runtime.streaming.watermarks import FIRE_LAG_US
from runtime.windows.assigner import SliceAssigner

# Watermark before the first row with a time
NONE_US = -FINAL_US
_MS_US, _MINUTE_US, _DAY_US = 1_000, 60_000_000, 86_400_000_000


@dataclass(frozen=True)
class Arrivals:
    """Rows of a table in their order of arrival.

    Attributes:
        table: Name of the table.
        place: int64[rows], number of each row in its table.
        rows: Rows, with their numbers from 0 as LATE_ROW.
        time: Name of the column that the watermark follows.
        batch: int64[rows], number of each row's micro-batch, ascending from 0 without gaps.
        arrived_us: int64[micro-batches], instant at which the last row of each has arrived.
        zone: Time zone of wall-clock times.
        split: int64[rows], number of each row's partition, from 0. All 0 without partitions.
        splits: Values of the partitions by number.
        all_columns: Rows with all columns of the table. Processing time and the current watermark
            have arbitrary values.
    """

    table: str
    place: Int64Array
    rows: pa.RecordBatch
    time: str
    batch: Int64Array
    arrived_us: Int64Array
    zone: str
    split: Int64Array
    splits: pa.Array
    all_columns: pa.RecordBatch

    @cached_property
    def times_us(self) -> Int64Array:
        """Time of each row, `NONE_US` without one."""
        times = self.rows.column(self.time)
        return np.where(times.is_valid(), int64_values(times.cast(pa.int64())), NONE_US)

    @cached_property
    def highest_us(self) -> Int64Array:
        """int64[micro-batches + 1], watermark without a delay before each one, and after the last.

        It is the lowest of the partitions that have had a row, and never falls.
        """
        lowest = np.where(self._highest == NONE_US, FINAL_US, self._highest).min(axis=1)
        return np.maximum.accumulate(np.where(lowest == FINAL_US, NONE_US, lowest))

    def behind_us(self) -> list[tuple[object, int, int]]:
        """Return each partition, and by how much its time is behind the furthest one's.

        The median and the maximum after each micro-batch from the partition's first row on.
        """
        furthest = self._highest.max(axis=1)
        behind = []
        for number, split in enumerate(self.splits.to_pylist()):
            own = self._highest[:, number]
            gaps = (furthest - own)[own != NONE_US]
            if len(gaps):
                behind.append((split, int(np.median(gaps)), int(gaps.max())))
        return behind

    @cached_property
    def _highest(self) -> Int64Array:
        """int64[micro-batches + 1, partitions], highest time of each so far."""
        highest = np.full((len(self.arrived_us) + 1, max(len(self.splits), 1)), NONE_US)
        np.maximum.at(highest, (self.batch + 1, self.split), self.times_us)
        return np.maximum.accumulate(highest)


@dataclass(frozen=True)
class Counted(ABC):
    """Rows that a window operator counts, in their order of arrival.

    Attributes:
        arrivals: All rows of its table.
        number: int64[rows], number among all rows.
        time_us: int64[rows], time on the wall clock of the windows.
        key: int64[rows], number of the group key, from 0.
        keys: Values of each key column, by number of the group key.
        zone: Time zone of the wall clock if times are instants, else empty.
        lateness_us: How long after their end windows accept rows.
    """

    arrivals: Arrivals
    number: Int64Array
    time_us: Int64Array
    key: Int64Array
    keys: dict[str, pa.Array]
    zone: str
    lateness_us: int

    @abstractmethod
    def dropped(self, delay_us: int) -> Int64Array:
        """Return the numbers of the rows that all their windows miss with a delay."""

    @abstractmethod
    def shortest_delay_us(self, share: float) -> int:
        """Return the shortest delay, in whole milliseconds, that drops at most a share of rows."""

    @abstractmethod
    def outcome(self, delay_us: int) -> DelayOutcome:
        """Return the effects of a delay."""

    @property
    @abstractmethod
    def n_windows(self) -> int:
        """Number of windows with rows, one per group key."""

    @cached_property
    def n_ahead(self) -> int:
        """Rows whose time is more than a minute after their arrival."""
        arrived_us = self.arrivals.arrived_us[self._batch]
        return int(np.count_nonzero(self._instants_us(self.time_us) > arrived_us + _MINUTE_US))

    def large_keys(self, share: float) -> list[tuple[dict[str, object], float]]:
        """Return the group keys that stand out, and their shares of the rows, largest first.

        They have more than `share` of the rows, and more than twice the rows of an average key.
        """
        if not self.keys or not len(self.key):
            return []
        shares = np.bincount(self.key) / len(self.key)
        least = max(share, 2 / len(shares))
        codes = np.argsort(-shares, kind="stable")
        return [
            (
                {name: values[code].as_py() for name, values in self.keys.items()},
                float(shares[code]),
            )
            for code in codes[shares[codes] > least]
        ]

    @cached_property
    def _batch(self) -> Int64Array:
        return self.arrivals.batch[self.number]

    def _waits_of_us(self, ends: Int64Array, closing: Int64Array) -> tuple[int, int] | None:
        """Return the median and the 99th percentile of the waits for results.

        Args:
            ends: Ends of windows.
            closing: Micro-batch that closes each.
        """
        closes = closing < len(self.arrivals.arrived_us)
        if not closes.any():
            return None
        waits = self.arrivals.arrived_us[closing[closes]] - self._instants_us(ends[closes])
        median, most = np.percentile(waits, (50, 99), method="inverted_cdf")
        return int(median), int(most)

    def _closing_batch(self, closed_at_us: Int64Array, delay_us: int) -> Int64Array:
        """Return the micro-batch after which the watermark has passed each window.

        It is the number of micro-batches for windows that no watermark passes.

        Args:
            closed_at_us: Watermarks of the source that close the windows.
            delay_us: Delay.
        """
        return np.searchsorted(self.arrivals.highest_us[1:], closed_at_us + delay_us)

    def _reached_at_us(self, wall_us: Int64Array) -> Int64Array:
        """Return the watermark of the source at which the windows' clock reaches each time."""
        return reached_at_us(wall_us, self.zone) if self.zone else wall_us

    def _instants_us(self, wall_us: Int64Array) -> Int64Array:
        return instants_us(wall_us, self.zone or self.arrivals.zone)


@dataclass(frozen=True)
class CountedRows(Counted):
    """Rows that TUMBLE, HOP or CUMULATE count.

    Attributes:
        windows: Windows.
        slices: The widths of the slices as text.
    """

    windows: SliceAssigner
    slices: str

    def dropped(self, delay_us: int) -> Int64Array:
        """Return the numbers of the rows that all their windows miss with a delay."""
        return self.number[self._missed_up_to_us(self._last_end) >= delay_us]

    def missing(self, window_end_us: int, delay_us: int) -> Int64Array:
        """Return the numbers of the rows that come after a window has closed with a delay."""
        ends = np.full(len(self.number), window_end_us)
        return self.number[self._missed_up_to_us(ends) >= delay_us]

    def shortest_delay_us(self, share: float) -> int:
        """Return the shortest delay, in whole milliseconds, that drops at most a share of rows."""
        if not len(self.number):
            return 0
        n_lost = int(share * len(self.number))
        longest = np.sort(self._missed_up_to_us(self._last_end))[::-1]
        if n_lost >= len(longest) or longest[n_lost] < 0:
            return 0
        return int(longest[n_lost]) // _MS_US * _MS_US + _MS_US

    def outcome(self, delay_us: int) -> DelayOutcome:
        """Return the effects of a delay."""
        n_short, missing_share = self._short_windows(delay_us)
        return DelayOutcome(
            delay_us,
            len(self.dropped(delay_us)),
            n_short,
            missing_share,
            self._waits_us(delay_us),
            self._peak_partials(delay_us),
        )

    @cached_property
    def n_windows(self) -> int:
        """Number of windows with rows, one per group key."""
        return len(self._windows.key)

    @cached_property
    def n_partials(self) -> int:
        """Number of slices with rows, one per group key."""
        return len(self._slices.key)

    @cached_property
    def _slice_end(self) -> Int64Array:
        return self.windows.slice_end(self.time_us)

    @cached_property
    def _last_end(self) -> Int64Array:
        return self.windows.last_window_end(self._slice_end)

    def _missed_up_to_us(self, window_end: Int64Array) -> Int64Array:
        """Return the longest delay with which each row misses its window; negative: none does."""
        highest_us = self.arrivals.highest_us[self._batch]
        longest_us = highest_us - self._closed_at_us(window_end, self.lateness_us)
        return np.where(highest_us == NONE_US, -1, longest_us)

    @cached_property
    def _windows(self) -> _Windows:
        """The windows with rows, and their numbers of rows."""
        slices = self._slices
        # slices contain the microsecond before their end
        of_slice, ends = self.windows.window_ends(slices.end - 1)
        return _Windows.of(slices.key[of_slice], ends, slices.n_rows[of_slice])

    @cached_property
    def _slices(self) -> _Windows:
        """The slices with rows, and their numbers of rows."""
        return _Windows.of(self.key, self._slice_end, np.ones(len(self.key), np.int64))

    def _short_windows(self, delay_us: int) -> tuple[int, float]:
        """Return the number of windows that miss rows, and the missing share of their rows."""
        first = self.windows.first_window_end(self._slice_end)
        is_late = self._missed_up_to_us(first) >= delay_us
        of_row, ends = self.windows.window_ends(self.time_us[is_late])
        late = np.flatnonzero(is_late)[of_row]
        highest_us = self.arrivals.highest_us[self._batch[late]]
        passed = highest_us - delay_us >= self._closed_at_us(ends, self.lateness_us)
        short = _Windows.of(self.key[late][passed], ends[passed], np.ones(passed.sum(), np.int64))
        if not len(short.key):
            return 0, 0.0
        return len(short.key), float(short.n_rows.sum() / self._windows.rows_in(short).sum())

    def _waits_us(self, delay_us: int) -> tuple[int, int] | None:
        """Return the median and the 99th percentile of the waits for results."""
        ends = np.unique(self._windows.end)
        return self._waits_of_us(ends, self._closing_batch(self._closed_at_us(ends, 0), delay_us))

    def _peak_partials(self, delay_us: int) -> int:
        """Return the most partials, one per group key and slice, in state after a micro-batch."""
        closed_at_us = self._closed_at_us(self._last_end, self.lateness_us)
        closing = self._closing_batch(closed_at_us, delay_us)
        is_counted = closing >= self._batch
        slices = _codes(self.key, self._slice_end, np.unique(self._slice_end))
        _, first = np.unique(slices[is_counted], return_index=True)
        n_batches = len(self.arrivals.arrived_us)
        begun = np.bincount(self._batch[is_counted][first], minlength=n_batches + 1)
        ended = np.bincount(closing[is_counted][first], minlength=n_batches + 1)
        # a slice that closes in the micro-batch in which it begins is in no state
        return int(np.max(np.cumsum(begun - ended), initial=0))

    def _closed_at_us(self, window_end: Int64Array, lateness_us: int) -> Int64Array:
        """Return the watermark of the source that closes each window, on the source's clock."""
        return self._reached_at_us(window_end + lateness_us - FIRE_LAG_US)


@dataclass(frozen=True)
class _Windows:
    """Windows of group keys: parallel arrays, ordered by key and end, without duplicates."""

    key: Int64Array
    end: Int64Array
    n_rows: Int64Array

    @classmethod
    def of(cls, key: Int64Array, end: Int64Array, n_rows: Int64Array) -> _Windows:
        """Return windows with the sums of their rows."""
        ends = np.unique(end)
        codes, place = np.unique(_codes(key, end, ends), return_inverse=True)
        totals = np.zeros(len(codes), np.int64)
        np.add.at(totals, place, n_rows)
        return cls(codes // max(len(ends), 1), ends[codes % max(len(ends), 1)], totals)

    def rows_in(self, others: _Windows) -> Int64Array:
        """Return the numbers of rows of other windows, which are among these."""
        ends = np.unique(self.end)
        codes = _codes(self.key, self.end, ends)
        return self.n_rows[np.searchsorted(codes, _codes(others.key, others.end, ends))]


def _codes(key: Int64Array, end: Int64Array, ends: Int64Array) -> Int64Array:
    """Return a number for each key and end, ascending with both; `ends` are the distinct ends."""
    return key * len(ends) + np.searchsorted(ends, end)


@dataclass(frozen=True)
class DelayOutcome:
    """Effects of a delay on a stream.

    Attributes:
        delay_us: Delay.
        n_dropped: Rows that all their windows miss.
        n_short: Windows, one per group key, that miss rows.
        missing_share: Share of the rows of these windows that they miss.
        waits_us: Median and 99th percentile of the time between the end of a window and its result.
            None if no window closes before the end of the rows.
        peak_partials: Most partials, one per group key and slice, that are in state at a time.
    """

    delay_us: int
    n_dropped: int
    n_short: int
    missing_share: float
    waits_us: tuple[int, int] | None
    peak_partials: int


def arrivals_of(
    table: SimulatedTable,
    rows: pa.Table,
    arrived_us: Int64Array,
    splits: pa.ChunkedArray | None,
    every_us: int,
    zone: str,
) -> Arrivals:
    """Return the rows of a table that is not empty, in their order of arrival.

    Args:
        table: Table.
        rows: Its rows.
        arrived_us: int64[rows], instant at which each has arrived.
        splits: Partition of each row. None without partitions.
        every_us: Time between micro-batches. 0: all rows with one time of arrival are one.
        zone: Time zone of wall-clock times.
    """
    place = np.argsort(arrived_us, kind="stable")
    arrived_us = arrived_us[place]
    moments = arrived_us // every_us if every_us else arrived_us
    starts = np.flatnonzero(np.diff(moments, prepend=moments[0] - 1))
    sizes = np.diff(starts, append=len(place))
    codes, values = encode_keys(
        [] if splits is None else [splits.take(pa.array(place))], len(place)
    )
    ordered = TableRows(table, rows.take(pa.array(place)), 0)
    moment = Moment(int(arrived_us[0]), None)
    assert table.time is not None, "windows on event time follow a column"
    return Arrivals(
        table.name,
        place,
        ordered.rows,
        table.time,
        np.repeat(np.arange(len(starts)), sizes),
        arrived_us[starts + sizes - 1],
        zone,
        codes,
        values[0] if values else pa.nulls(1),
        ordered.at(ordered.numbers, defaultdict(lambda: moment)),
    )


def reached_at_us(wall_us: Int64Array, zone: str) -> Int64Array:
    """Return the instants at which watermarks reach wall-clock times.

    An hour that clocks repeat is reached when it is over for the first time, so its times are the
    later instants. A time that clocks skip is reached at the change.

    Raises:
        ExecutionError: The zone is unknown on this machine.
    """
    at_us = instants_us(wall_us, zone)
    later = at_us + wall_us - wall_clock_us(at_us + _DAY_US, zone) + _DAY_US
    at_us = np.where(wall_clock_us(later, zone) == wall_us, np.maximum(at_us, later), at_us)
    skipped = np.flatnonzero(wall_clock_us(at_us, zone) != wall_us)
    before, after = at_us[skipped] - _DAY_US, at_us[skipped]
    while np.any(after - before > 1):
        middle = (before + after) // 2
        has_reached = wall_clock_us(middle, zone) >= wall_us[skipped]
        before, after = np.where(has_reached, before, middle), np.where(has_reached, middle, after)
    at_us[skipped] = after
    return at_us
