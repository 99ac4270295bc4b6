"""How many rows scans have read, and how many of them had no time.

A Spark accumulator brings the counts of a task to the driver when it is done. Unlike an observed
metric in the plan it leaves Spark's generated code as it is. What tasks send are counts by split
that replace one another, so that a task that runs twice counts once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

T = TypeVar("T")

_accumulators_lock = threading.Lock()


def new_accumulator(context: SparkContext, zero: T, param: AccumulatorParam[T]) -> Accumulator[T]:
    """An accumulator of Spark's, whose numbers PySpark hands out to one thread at a time only."""
    with _accumulators_lock:
        return context.accumulator(zero, param)


# (number of the scan, number of the split) -> (rows, those without a time)
_Counts = dict[tuple[int, int], tuple[int, int]]


class _LastCounts(AccumulatorParam[_Counts]):
    def zero(self, value: _Counts) -> _Counts:
        return {}

    def addInPlace(self, value1: _Counts, value2: _Counts) -> _Counts:
        value1.update(value2)
        return value1


@dataclass(frozen=True)
class ScanCounter:
    """What a task of a scan counts with."""

    scan: int
    accumulator: Accumulator[_Counts]

    def record(self, split: int, n_rows: int, n_null_times: int) -> None:
        """Report how many rows a split has, and how many that passed the filters had no time."""
        self.accumulator.add({(self.scan, split): (n_rows, n_null_times)})


class ScanCounts:
    """The counts of all scans of a session: one accumulator, since Spark never forgets one."""

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = new_accumulator(context, {}, _LastCounts())
        self._scans = count()

    def counter(self) -> ScanCounter:
        """A counter for one more scan."""
        return ScanCounter(next(self._scans), self._accumulator)

    def rows_of(self, counter: ScanCounter) -> tuple[int, int]:
        """How many rows the scan has read, and how many had no time, as far as it has run."""
        # a copy: counts come in while it is looked through
        counts = list(self._accumulator.value.items())
        found = [rows for (scan, _), rows in counts if scan == counter.scan]
        return sum(n_rows for n_rows, _ in found), sum(n_null for _, n_null in found)

    def forget(self, counter: ScanCounter) -> None:
        """Let go of the counts of a scan."""
        counts = self._accumulator.value
        for key in [key for key in list(counts) if key[0] == counter.scan]:
            del counts[key]


class StatementScanCounts:
    """The counts of the scans of one statement; they are let go with it."""

    def __init__(self, session: ScanCounts) -> None:
        self._session = session
        self._counters: list[tuple[str, ScanCounter]] = []

    def counter(self, column: str) -> ScanCounter:
        """A counter for a scan with windows on `column`."""
        counter = self._session.counter()
        self._counters.append((column, counter))
        return counter

    def null_times(self) -> list[tuple[str, int]]:
        """(time column, rows without a time) of each scan that dropped any, as far as it has run.

        Scans of one statement that dropped as many for the same column are reported once: they are
        as good as sure to be of the same rows.
        """
        counts = [(column, self._session.rows_of(each)[1]) for column, each in self._counters]
        return list(dict.fromkeys(pair for pair in counts if pair[1]))

    def rows_read(self) -> int:
        """How many rows the scans have read, as far as they have run."""
        return sum(self._session.rows_of(each)[0] for _, each in self._counters)

    def __del__(self) -> None:
        for _, counter in self._counters:
            self._session.forget(counter)
