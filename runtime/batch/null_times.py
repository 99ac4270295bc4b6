"""How many rows had no time: counted by the tasks of a scan, told once a statement has run.

A Spark accumulator brings the counts to the driver. Unlike an observed metric in the plan it costs
nothing where there is nothing to tell, and leaves Spark's generated code as it is. What tasks send
are counts by split that replace one another, so that a task that runs twice counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

# (number of the scan, number of the split) -> rows
_Counts = dict[tuple[int, int], int]


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

    def record(self, split: int, n_rows: int) -> None:
        """Tell how many rows of a split had no time."""
        if n_rows:
            self.accumulator.add({(self.scan, split): n_rows})


class NullTimes:
    """The counts of all scans of a session: one accumulator, since Spark never forgets one."""

    def __init__(self, context: SparkContext) -> None:
        self._accumulator = context.accumulator({}, _LastCounts())
        self._scans = count()

    def counter(self) -> ScanCounter:
        """A counter for one more scan."""
        return ScanCounter(next(self._scans), self._accumulator)

    def count_of(self, counter: ScanCounter) -> int:
        """How many rows the scan dropped, as far as it has run."""
        counts = self._accumulator.value
        return sum(n_rows for (scan, _), n_rows in counts.items() if scan == counter.scan)

    def forget(self, counter: ScanCounter) -> None:
        """Let go of the counts of a scan."""
        counts = self._accumulator.value
        for key in [key for key in counts if key[0] == counter.scan]:
            del counts[key]


class StatementNullTimes:
    """The counts of the scans of one statement; they are let go with it."""

    def __init__(self, session: NullTimes) -> None:
        self._session = session
        self._counters: list[tuple[str, ScanCounter]] = []

    def counter(self, column: str) -> ScanCounter:
        """A counter for a scan with windows on `column`."""
        counter = self._session.counter()
        self._counters.append((column, counter))
        return counter

    def counts(self) -> list[tuple[str, int]]:
        """(time column, rows without a time) of each scan that dropped any, as far as it has run.

        Scans of one statement that dropped as many for the same column are told once: they are as
        good as sure to be of the same rows.
        """
        counts = [(column, self._session.count_of(each)) for column, each in self._counters]
        return list(dict.fromkeys(pair for pair in counts if pair[1]))

    def __del__(self) -> None:
        for _, counter in self._counters:
            self._session.forget(counter)
