"""Read files in this process: splits on all cores, and counts of their rows."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from runtime.spec.expressions import Expression
from runtime.spec.text import FileSource, TextSource

if TYPE_CHECKING:
    from runtime.frames.scan_counts import StatementCounts
    from runtime.local.scan_rows import ScanRows
    from runtime.scan.stores import Store

P = TypeVar("P")
T = TypeVar("T")

# Function that returns the store of a scan's files; None for this machine
StoreOf = Callable[[FileSource], "Store | None"]
# Splits per core, so that a LIMIT need not read all rows and one large split delays the rest less
_SPLITS_PER_CORE = 4


def no_store(source: FileSource) -> Store | None:
    """Return None: the files are on this machine."""
    return None


class RowCounts:
    """Number of rows read by scans of files in this process."""

    def __init__(self) -> None:
        self._scans: list[tuple[str, ScanRows]] = []
        self._n_rows: list[int] = []

    def clear(self) -> None:
        """Begin a new run."""
        self._scans, self._n_rows = [], []

    def add(self, time_column: str, scan: ScanRows) -> None:
        """Count the rows of a scan that aggregates them into windows on a time column."""
        self._scans.append((time_column, scan))

    def count(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield batches of files unchanged, counting their rows."""
        for batch in batches:
            self.add_rows(batch.num_rows)
            yield batch

    def add_rows(self, n_rows: int) -> None:
        """Count rows of files."""
        self._n_rows.append(n_rows)  # atomic, because several threads read

    def include(self, counts: RowCounts) -> None:
        """Add the counts of other scans."""
        self._scans += counts._scans
        self._n_rows += counts._n_rows

    def rows_read(self) -> int:
        """Return the number of rows read."""
        return sum(self._n_rows) + sum(rows.n_rows for _, rows in self._scans)

    def null_times(self) -> list[tuple[str, int]]:
        """Return the time column, and the number of rows dropped because they have no time."""
        n_rows: Counter[str] = Counter()
        for column, rows in self._scans:
            n_rows[column] += rows.n_null_times
        return [(column, n) for column, n in n_rows.items() if n]


@dataclass(frozen=True)
class RowCountsOfSet:
    """Joint row counts of the statements of a set."""

    parts: Sequence[StatementCounts]

    def rows_read(self) -> int:
        """Return the number of rows read."""
        return sum(part.rows_read() for part in self.parts)

    def null_times(self) -> list[tuple[str, int]]:
        """Return the time column, and the number of rows dropped because they have no time."""
        n_rows: Counter[str] = Counter()
        for part in self.parts:
            n_rows.update(dict(part.null_times()))
        return list(n_rows.items())


def map_splits(
    files: FileSource,
    filters: Sequence[Expression],
    store: Store | None,
    read: Callable[[Any], T],
    *,
    per_core: int = _SPLITS_PER_CORE,
) -> Iterator[T]:
    """Yield the result of a function for each split of files, in order, computed on all cores.

    Args:
        files: Files to read.
        filters: Conditions; row groups without a row that satisfies them are skipped.
        store: Store of the files.
        read: Function to call, in several threads.
        per_core: Approximate number of splits per core.

    Raises:
        ExecutionError: A file has changed since the query was planned.
    """
    n_splits = len(os.sched_getaffinity(0)) * per_core
    if isinstance(files, TextSource):
        from runtime.text.read import text_splits

        yield from map_in_threads(text_splits(files, filters, n_splits), read)
        return
    from runtime.scan.splits import plan_splits

    yield from map_in_threads(plan_splits(files, filters, n_splits, store=store), read)


def map_in_threads(parts: Iterable[P], read: Callable[[P], T]) -> Iterator[T]:
    """Yield the result of a function for each part, in order, computed on all cores.

    A single part is computed in the calling thread. Only a few results are buffered for the caller.
    """
    n_cores = len(os.sched_getaffinity(0))
    left = iter(parts)
    first = list(islice(left, 2))
    if len(first) < 2:
        yield from map(read, first)
        return
    left = chain(first, left)
    with ThreadPoolExecutor(n_cores) as readers:
        pending: deque[Future[T]] = deque()
        try:
            while True:
                for part in islice(left, n_cores + 1 - len(pending)):
                    pending.append(readers.submit(read, part))
                if not pending:
                    return
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()
