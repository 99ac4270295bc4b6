"""Sizes of data files, for the byte counts of lineage."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyarrow import fs

from runtime.files import LocalFiles
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store, filesystem_of

# Size in bytes, modification time and inode of files, by path
FileStates = Mapping[str, tuple[int, int, int]]
# Function that returns the data files of a path or URI, None if they cannot be listed
ListFiles = Callable[[str], FileStates | None]


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


def stored_data_files(store: Store, uri: str) -> FileStates:
    """Return the files of a URI in an object store or on HDFS, as `data_files` does.

    Args:
        store: Store of the files.
        uri: File, directory or pattern.

    Raises:
        OSError: The store does not answer, or refuses.
    """
    states: dict[str, tuple[int, int, int]] = {}
    files = filesystem_of(store)
    wild = any(character in uri for character in "*?[{")
    for top in StoredFiles(store).expand(uri) if wild else [uri]:
        path = store.path(top)
        info = files.get_file_info(path)
        selector = fs.FileSelector(path, allow_not_found=True, recursive=True)
        for file in [info] if info.is_file else files.get_file_info(selector):
            below = file.path[len(path) :].strip("/").split("/")
            if file.is_file and not any(name.startswith((".", "_")) for name in below):
                states[file.path] = (file.size, file.mtime_ns or 0, 0)
    return states


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
