"""What is computed of a window."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from runtime.streaming.general.evictors import Row
from runtime.streaming.general.windows import TimeWindow

# What a window gives: (key, window, its value) -> results. For WholeWindowFunction the value is
# the list of rows in the order they came in.
Process = Callable[[Any, TimeWindow, Any], Iterable[Any]]


class WindowFunction(ABC):
    """Contents of a window: rows in, results out. `add` and `merge` may change what they get."""

    @abstractmethod
    def create(self) -> Any:
        """The contents of a window without rows."""

    @abstractmethod
    def add(self, contents: Any, row: Row) -> Any:
        """The contents with one more row."""

    @abstractmethod
    def merge(self, first: Any, second: Any) -> Any:
        """The contents of two windows that have become one."""

    @abstractmethod
    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        """What the window gives; the contents stay as they are."""


@dataclass(frozen=True)
class ReduceFunction(WindowFunction):
    """Two values into one, again and again; a window keeps one value.

    Attributes:
        reduce: associative; gets what there is and the next row.
        process: makes results of the value; None: the value is the result.
    """

    reduce: Callable[[Any, Any], Any]
    process: Process | None = None

    def create(self) -> Any:
        return []

    def add(self, contents: Any, row: Row) -> Any:
        return [self.reduce(contents[0], row[0]) if contents else row[0]]

    def merge(self, first: Any, second: Any) -> Any:
        """Both values, reduced; one may be missing."""
        return [self.reduce(first[0], second[0])] if first and second else first or second

    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        return contents if self.process is None else self.process(key, window, contents[0])


@dataclass(frozen=True)
class AggregateFunction(WindowFunction):
    """An accumulator; a window keeps one.

    Attributes:
        zero: a new accumulator.
        accumulate: the accumulator with one more row.
        combine: two accumulators into one; needed for sessions.
        finish: the value of an accumulator; None: the accumulator itself.
        process: makes results of the value; None: the value is the result.
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
    """All rows of a window at once; a window keeps them all.

    Attributes:
        process: gets the key, the window and the list of its rows.
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
        """What `process` makes of a copy of the rows."""
        return self.process(key, window, list(contents))


@dataclass(frozen=True)
class EvictingFunction(WindowFunction):
    """Keeps the rows with their times, so that some can be dropped before `inner` sees them."""

    inner: WindowFunction

    def create(self) -> Any:
        return []

    def add(self, contents: Any, row: Row) -> Any:
        contents.append(row)
        return contents

    def merge(self, first: Any, second: Any) -> Any:
        return first + second

    def results(self, key: Any, window: TimeWindow, contents: Any) -> Iterable[Any]:
        """What `inner` makes of the rows that are left."""
        inner = self.inner.create()
        for row in contents:
            inner = self.inner.add(inner, row)
        return self.inner.results(key, window, inner) if contents else []
