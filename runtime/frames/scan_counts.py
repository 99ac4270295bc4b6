"""Counts of rows that scans have read, and of rows without a time.

A Spark accumulator brings the counts of a finished task to the driver. Unlike an observed metric in
the plan, it leaves Spark's generated code unchanged. Tasks send counts by split that replace
earlier ones, so a task that runs twice counts once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator, AccumulatorParam
    from pyspark.sql import SparkSession

T = TypeVar("T")

_accumulators_lock = threading.Lock()


def new_accumulator(context: SparkContext, zero: T, param: AccumulatorParam[T]) -> Accumulator[T]:
    """Return a new Spark accumulator.

    The lock is needed because PySpark numbers them without one.
    """
    with _accumulators_lock:
        return context.accumulator(zero, param)


# PySpark calls only these two methods, so a parameter may be of any class
if TYPE_CHECKING:
    _DictParam = AccumulatorParam[dict[Any, Any]]
else:
    _DictParam = object


class LastWins(_DictParam):
    """Merge of task reports by key, in which a retried task replaces its earlier report."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        """Return an empty report."""
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:
        """Merge two reports; `value2` wins for keys in both."""
        value1.update(value2)
        return value1


# (scan number, split number) -> (rows, rows without a time)
_Counts = dict[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class ScanCounter:
    """Counter that a task of a scan reports to."""

    scan: int
    accumulator: Accumulator[_Counts]

    def record(self, split: int, n_rows: int, n_null_times: int) -> None:
        """Report a split's row count, and how many rows that passed the filters had no time."""
        self.accumulator.add({(self.scan, split): (n_rows, n_null_times)})


class ScanCounts:
    """Counts of all scans of a session, in one accumulator because Spark never frees one.

    Args:
        spark: Spark session. The accumulator is created for the first scan.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._scans = count()

    @cached_property
    def _accumulator(self) -> Accumulator[_Counts]:
        return new_accumulator(self._spark.sparkContext, {}, LastWins())

    def counter(self) -> ScanCounter:
        """Return a counter for another scan."""
        return ScanCounter(next(self._scans), self._accumulator)

    def rows_of(self, counter: ScanCounter) -> tuple[int, int]:
        """Return the rows read by the scan so far, and how many of them had no time."""
        # copied because counts may arrive during the iteration
        counts = list(self._accumulator.value.items())
        splits = [rows for (scan, _), rows in counts if scan == counter.scan]
        return sum(n_rows for n_rows, _ in splits), sum(n_null for _, n_null in splits)

    def forget(self, counter: ScanCounter) -> None:
        """Drop the counts of a scan."""
        counts = self._accumulator.value
        for key in [key for key in list(counts) if key[0] == counter.scan]:
            del counts[key]


class StatementCounts(Protocol):
    """Counts of the scans of one statement, wherever they run."""

    def null_times(self) -> list[tuple[str, int]]:
        """Return the time column, and the number of rows without a time, of scans that had any."""

    def rows_read(self) -> int:
        """Return the rows read by all scans so far."""


class StatementScanCounts:
    """Counts of the scans of one statement, dropped together with the object."""

    def __init__(self, session: ScanCounts) -> None:
        self._session = session
        self._counters: list[tuple[str, ScanCounter]] = []

    def counter(self, column: str) -> ScanCounter:
        """Return a counter for a scan with windows on `column`."""
        counter = self._session.counter()
        self._counters.append((column, counter))
        return counter

    def null_times(self) -> list[tuple[str, int]]:
        """Return (time column, rows without a time) for each scan that has dropped rows so far.

        Scans of a statement with equal counts for the same column almost certainly read the same
        rows, and are reported once.
        """
        counts = [(column, self._session.rows_of(counter)[1]) for column, counter in self._counters]
        return list(dict.fromkeys(pair for pair in counts if pair[1]))

    def rows_read(self) -> int:
        """Return the rows read by all scans so far."""
        return sum(self._session.rows_of(counter)[0] for _, counter in self._counters)

    def __del__(self) -> None:
        for _, counter in self._counters:
            self._session.forget(counter)
