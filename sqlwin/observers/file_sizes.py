"""Sizes of data files on this machine, for the byte counts of lineage."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runtime.files import LocalFiles

# Size in bytes, modification time and inode of files, by path
FileStates = Mapping[str, tuple[int, int, int]]


@dataclass(frozen=True)
class FilesSize:
    """Number of files and their total size in bytes."""

    n_files: int
    n_bytes: int


def data_files(path: str) -> FileStates:
    """Return the files of a path on this machine, which may have wildcards.

    Names that start with `.` or `_` are not data, as for Spark. A missing path has no files.

    Args:
        path: File, directory or pattern.
    """
    return dict(_data_files(path))


def size_of(files: FileStates, before: FileStates | None = None) -> FilesSize:
    """Return the size of files, or of those that are new or changed since `before`.

    Example:
        >>> size_of({"a": (5, 1, 1), "b": (7, 2, 2)}, {"a": (5, 1, 1)})
        FilesSize(n_files=1, n_bytes=7)
    """
    known = before or {}
    sizes = [state[0] for path, state in files.items() if known.get(path) != state]
    return FilesSize(len(sizes), sum(sizes))


def _data_files(path: str) -> Iterator[tuple[str, tuple[int, int, int]]]:
    for top in LocalFiles().expand(path):
        names = [top] if os.path.isfile(top) else _names_below(top)
        for name in names:
            try:
                status = os.stat(name)
            except OSError:
                continue  # removed meanwhile
            yield name, (status.st_size, status.st_mtime_ns, status.st_ino)


def _names_below(directory: str) -> Iterator[str]:
    for place, below, names in os.walk(directory):
        below[:] = [name for name in below if not name.startswith((".", "_"))]
        for name in names:
            if not name.startswith((".", "_")):
                yield os.path.join(place, name)
