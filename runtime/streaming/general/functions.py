"""Window functions: how the contents of a window are collected and computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from runtime.streaming.general.evictors import Row
from runtime.streaming.general.windows import TimeWindow

# (key, window, value) -> results. For WholeWindowFunction the value is the list of rows in order
# of arrival.
Process = Callable[[Any, TimeWindow, Any], Iterable[Any]]


class WindowFunction(ABC):
    """Function that collects rows into a window's contents and computes its results.

    `add` and `merge` may modify their arguments.
    """

    @abstractmethod
    def create(self) -> Any:
        """Return the contents of a window without rows."""

    @abstractmethod
    def add(self, contents: Any, row: Row) -> Any:
        """Return the contents with one more row."""

    @abstractmethod
    def merge(self, first: Any, second: Any) -> Any:
        """Return the contents of two windows that were merged."""

    @abstractmethod
    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        """Return the results of a window. Must not modify the contents."""


@dataclass(frozen=True)
class ReduceFunction(WindowFunction):
    """Function that reduces the rows of a window to one row, which is all that a window stores.

    Attributes:
        reduce: Called with the value so far and the next row; returns the new value. Associative.
        process: Called with the key, the window and the value; returns the results. None means that
            the value is the only result.
    """

    reduce: Callable[[Any, Any], Any]
    process: Process | None = None

    def create(self) -> Any:
        return []

    def add(self, contents: Any, row: Row) -> Any:
        return [self.reduce(contents[0], row[0]) if contents else row[0]]

    def merge(self, first: Any, second: Any) -> Any:
        """Reduce both values to one. Either may be missing."""
        return [self.reduce(first[0], second[0])] if first and second else first or second

    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        return contents if self.process is None else self.process(key, window, contents[0])


@dataclass(frozen=True)
class AggregateFunction(WindowFunction):
    """Function that aggregates the rows of a window into one accumulator.

    Attributes:
        zero: Returns a new accumulator.
        accumulate: Called with the accumulator and a row; returns the accumulator.
        combine: Merges two accumulators into one. Called when sessions merge.
        finish: Returns the value of an accumulator. None means the accumulator itself.
        process: Called with the key, the window and the value; returns the results. None means that
            the value is the only result.
    """

    zero: Callable[[], Any]
    accumulate: Callable[[Any, Any], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any], Any] | None = None
    process: Process | None = None

    def create(self) -> Any:
        return self.zero()

    def add(self, contents: Any, row: Row) -> Any:
        return self.accumulate(contents, row[0])

    def merge(self, first: Any, second: Any) -> Any:
        return self.combine(first, second)

    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        value = contents if self.finish is None else self.finish(contents)
        return [value] if self.process is None else self.process(key, window, value)


@dataclass(frozen=True)
class WholeWindowFunction(WindowFunction):
    """Function of all rows of a window at once. A window stores all its rows.

    Attributes:
        process: Called with the key, the window and the list of rows; returns the results.
    """

    process: Process

    def create(self) -> Any:
        return []

    def add(self, contents: Any, row: Row) -> Any:
        contents.append(row[0])
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        return first + second

    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        """Call `process` with a copy of the rows."""
        return self.process(key, window, list(contents))


@dataclass(frozen=True)
class EvictingFunction(WindowFunction):
    """Wrapper that stores rows with their times, so that an evictor can remove some."""

    inner: WindowFunction

    def create(self) -> Any:
        return []

    def add(self, contents: Any, row: Row) -> Any:
        contents.append(row)
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        return first + second

    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        """Run `inner` over the remaining rows."""
        inner = self.inner.create()
        for row in contents:
            inner = self.inner.add(inner, row)
        return self.inner.results(key, window, inner) if contents else []
