"""Compare the current files of a base table with those that its slices were built from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runtime.errors import ExecutionError
from runtime.files import is_local_path
from runtime.spec.scan import ScanFile

# First and last slice end of each interval, both inclusive; ascending and disjoint
Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class BaseFile:
    """A file of a base table.

    Attributes:
        path: Path of the file.
        n_bytes: File size in bytes.
        modified_ns: Modification time in nanoseconds since 1970.
        first_us: End of the first slice with rows of the file. None if it has no rows or is not
            read yet.
        last_us: End of the last such slice.
    """

    path: str
    n_bytes: int
    modified_ns: int
    first_us: int | None = None
    last_us: int | None = None

    def is_same(self, other: BaseFile) -> bool:
        """Return whether the other file is this one, unchanged."""
        mine = (self.path, self.n_bytes, self.modified_ns)
        return mine == (other.path, other.n_bytes, other.modified_ns)


def current_file(file: ScanFile) -> BaseFile:
    """Return a file with its size and modification time, as listed by a store or as on disk now.

    Lake files in an object store have no modification time because they are never overwritten.

    Raises:
        ExecutionError: The file does not exist.
    """
    if file.modified_ns or not is_local_path(file.path):
        return BaseFile(file.path, file.n_bytes, file.modified_ns)
    try:
        status = os.stat(file.path)
    except OSError as error:
        raise ExecutionError(
            f"{file.path} was deleted after the query was planned: {error.strerror}"
        ) from error
    return BaseFile(file.path, status.st_size, status.st_mtime_ns)


@dataclass(frozen=True)
class Changes:
    """Work of a refresh.

    Attributes:
        added: Files whose rows are not in the slices, including changed files.
        again: Unchanged files with rows in the intervals to recompute.
        unchanged: All unchanged files, including `again`.
        intervals: Slices to recompute because some of their rows changed or were removed.
        n_changed: Number of changed files with rows in the slices.
        n_gone: Number of removed files with rows in the slices.
    """

    added: tuple[BaseFile, ...]
    again: tuple[BaseFile, ...]
    unchanged: tuple[BaseFile, ...]
    intervals: Intervals
    n_changed: int = 0
    n_gone: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether the files are unchanged."""
        return not (self.added or self.n_changed or self.n_gone)


def changes(
    current_files: Iterable[BaseFile],
    manifest: Iterable[BaseFile],
    widen: Callable[[Intervals], Intervals] = lambda intervals: intervals,
) -> Changes:
    """Return the work that brings slices up to date with the current files.

    Args:
        current_files: Current files of the base table.
        manifest: Files that the slices were built from.
        widen: Extends intervals to whole slices where old slices were merged.
    """
    now = {file.path: file for file in current_files}
    unchanged: list[BaseFile] = []
    stale: list[BaseFile] = []
    for file in manifest:
        current = now.get(file.path)
        if current is not None and file.is_same(current):
            unchanged.append(file)
        else:
            stale.append(file)
    in_already = {file.path for file in unchanged}
    added = tuple(file for path, file in now.items() if path not in in_already)
    intervals = widen(union_of((f.first_us, f.last_us) for f in stale))
    again = tuple(f for f in unchanged if overlaps(intervals, f.first_us, f.last_us))
    n_gone = sum(file.path not in now for file in stale)
    return Changes(added, again, tuple(unchanged), intervals, len(stale) - n_gone, n_gone)


def union_of(pairs: Iterable[tuple[int | None, int | None]]) -> Intervals:
    """Return the union of intervals. Intervals without bounds are empty."""
    intervals: list[tuple[int, int]] = []
    for first, last in sorted((a, b) for a, b in pairs if a is not None and b is not None):
        if intervals and first <= intervals[-1][1]:
            intervals[-1] = (intervals[-1][0], max(last, intervals[-1][1]))
        else:
            intervals.append((first, last))
    return tuple(intervals)


def overlaps(intervals: Intervals, first: int | None, last: int | None) -> bool:
    """Return whether any slice from `first` to `last` is in the intervals. False without bounds."""
    if first is None or last is None:
        return False
    return any(low <= last and first <= high for low, high in intervals)


def covers(intervals: Intervals, first: int, last: int) -> bool:
    """Return whether one interval contains all slices from `first` to `last`."""
    return any(low <= first and last <= high for low, high in intervals)


def even_bounds(first: int, last: int, n_buckets: int) -> tuple[int, ...]:
    """Return the last slice end of each time bucket except the last one, for equal lengths."""
    cuts = [first + (last - first) * i // n_buckets for i in range(1, n_buckets)]
    return tuple(cut for cut, after in pairwise([*cuts, last]) if cut < after)


def set_ranges(
    files: Sequence[BaseFile], ranges: dict[str, tuple[int, int]]
) -> tuple[BaseFile, ...]:
    """Return the files with the first and last slice recorded for each."""
    return tuple(
        BaseFile(f.path, f.n_bytes, f.modified_ns, *ranges.get(f.path, (None, None))) for f in files
    )
