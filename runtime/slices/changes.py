"""What has become of the files of a table since slices were made of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from runtime.errors import ExecutionError
from runtime.files import is_local_path
from runtime.spec.scan import ScanFile

# First and last slice end of each, both included; ascending, none touches another
Intervals = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class BaseFile:
    """A file of a base table.

    Attributes:
        path: the file.
        n_bytes: its size.
        modified_ns: when it was written, in nanoseconds since 1970.
        first_us: the end of the first slice that it has rows in; None: of none, or not known yet.
        last_us: the end of the last one.
    """

    path: str
    n_bytes: int
    modified_ns: int
    first_us: int | None = None
    last_us: int | None = None

    def is_same(self, other: BaseFile) -> bool:
        """Whether the other one is this file, unchanged."""
        mine = (self.path, self.n_bytes, self.modified_ns)
        return mine == (other.path, other.n_bytes, other.modified_ns)


def as_it_is(file: ScanFile) -> BaseFile:
    """A file with its size and time, as it was listed in an object store, or is on the disk now.

    What a lake has in an object store has no time: it is never written again under its name.

    Raises:
        ExecutionError: it is not there.
    """
    if file.modified_ns or not is_local_path(file.path):
        return BaseFile(file.path, file.n_bytes, file.modified_ns)
    try:
        found = os.stat(file.path)
    except OSError as error:
        raise ExecutionError(
            f"{file.path} was there when the query was planned, and is not: {error.strerror}"
        ) from error
    return BaseFile(file.path, found.st_size, found.st_mtime_ns)


@dataclass(frozen=True)
class Changes:
    """What a refresh has to do.

    Attributes:
        added: files of which no row is in the slices, those that changed too.
        again: files that are in, and have rows in slices that are computed anew.
        kept: all files that are in and stay, those of `again` too.
        intervals: the slices that are computed anew, since rows of theirs changed or are gone.
        n_changed: how many of the files in the slices have changed, and
        n_gone: how many are not there any more.
    """

    added: tuple[BaseFile, ...]
    again: tuple[BaseFile, ...]
    kept: tuple[BaseFile, ...]
    intervals: Intervals
    n_changed: int = 0
    n_gone: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether slices and files are as they were."""
        return not (self.added or self.n_changed or self.n_gone)


def changes(
    listed: Iterable[BaseFile],
    manifest: Iterable[BaseFile],
    widened: Callable[[Intervals], Intervals] = lambda intervals: intervals,
) -> Changes:
    """What to do so that slices hold the rows of the files that are there now.

    Args:
        listed: the files that are there.
        manifest: the files that are in the slices.
        widened: makes intervals of whole slices of them, where old ones were merged.
    """
    now = {file.path: file for file in listed}
    kept: list[BaseFile] = []
    lost: list[BaseFile] = []
    for file in manifest:
        found = now.get(file.path)
        if found is not None and file.is_same(found):
            kept.append(file)
        else:
            lost.append(file)
    in_already = {file.path for file in kept}
    added = tuple(file for path, file in now.items() if path not in in_already)
    intervals = widened(united((f.first_us, f.last_us) for f in lost))
    again = tuple(f for f in kept if overlaps(intervals, f.first_us, f.last_us))
    n_gone = sum(file.path not in now for file in lost)
    return Changes(added, again, tuple(kept), intervals, len(lost) - n_gone, n_gone)


def united(pairs: Iterable[tuple[int | None, int | None]]) -> Intervals:
    """The slices that are in any of some intervals; those without bounds are empty."""
    found: list[tuple[int, int]] = []
    for first, last in sorted((a, b) for a, b in pairs if a is not None and b is not None):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def overlaps(intervals: Intervals, first: int | None, last: int | None) -> bool:
    """Whether some slices from a first to a last one are in the intervals; no bounds: none are."""
    if first is None or last is None:
        return False
    return any(low <= last and first <= high for low, high in intervals)


def covers(intervals: Intervals, first: int, last: int) -> bool:
    """Whether all slices from a first to a last one are in one of the intervals."""
    return any(low <= first and last <= high for low, high in intervals)


def even_bounds(first: int, last: int, n_buckets: int) -> tuple[int, ...]:
    """The last slice end of each bucket of time but the last one, of about the same length."""
    cuts = [first + (last - first) * i // n_buckets for i in range(1, n_buckets)]
    return tuple(cut for cut, after in pairwise([*cuts, last]) if cut < after)


def with_ranges(
    files: Sequence[BaseFile], ranges: dict[str, tuple[int, int]]
) -> tuple[BaseFile, ...]:
    """Files with the first and the last slice that was found in each."""
    return tuple(
        BaseFile(f.path, f.n_bytes, f.modified_ns, *ranges.get(f.path, (None, None))) for f in files
    )
