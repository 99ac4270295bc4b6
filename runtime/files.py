"""File operations on this machine. `runtime.spark.files` implements them for other file systems.

Internally, paths are resolved: either `/an/absolute/path` on this machine, or a URI with the scheme
of another file system. Only `runtime.spark.files.resolve` resolves paths that users write. Pass
`as_uri` of a path to Spark: without a scheme, Spark would use its default file system, which may be
a different one.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO, Protocol

# Number of parallel renames and deletes; on remote file systems each takes a round trip or more
_AT_A_TIME = 16


def is_local_path(path: str) -> bool:
    """Return whether a resolved path is on this machine."""
    return path.startswith("/")


def as_uri(path: str) -> str:
    """Return a resolved path with its scheme, as Spark expects it. Nothing is escaped."""
    return f"file://{path}" if is_local_path(path) else path


class Files(Protocol):
    """File system. Paths are resolved; failures are OSErrors."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""

    def is_file(self, path: str) -> bool:
        """Return whether the path is a file."""

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""

    def make_private(self, path: str) -> None:
        """Restrict access to the owner, on a file system of this machine."""

    def read_text(self, path: str) -> str:
        """Read a small UTF-8 file."""

    def write_text(self, path: str, text: str) -> None:
        """Write a small file atomically, replacing an existing one."""

    def open(self, path: str) -> BinaryIO:
        """Open a seekable file for reading."""

    def rename(self, path: str, new: str) -> None:
        """Rename a file or directory. The new name must be free and its directory must exist."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its contents; ignore a missing path."""

    def names_in(self, path: str) -> list[str]:
        """List the names in a directory, sorted; none if it does not exist."""

    def files_below(self, path: str) -> Iterator[str]:
        """List the files below a directory recursively, as paths that start with `path`."""

    def size(self, path: str) -> int:
        """Return the total size of the files below a directory in bytes."""

    def expand(self, pattern: str) -> list[str]:
        """Return the files and directories that match a path with wildcards, sorted."""


class LocalFiles:
    """File system of this machine."""

    def exists(self, path: str) -> bool:
        """Return whether a file or directory exists."""
        return os.path.exists(path)

    def is_file(self, path: str) -> bool:
        """Return whether the path is a file."""
        return os.path.isfile(path)

    def is_directory(self, path: str) -> bool:
        """Return whether the path is a directory."""
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        os.makedirs(path, exist_ok=True)

    def make_private(self, path: str) -> None:
        """Restrict access to the owner."""
        os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)

    def read_text(self, path: str) -> str:
        """Read a small UTF-8 file."""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file atomically, replacing an existing one."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def open(self, path: str) -> BinaryIO:
        """Open a seekable file for reading."""
        return open(path, "rb")

    def rename(self, path: str, new: str) -> None:
        """Rename a file or directory. The new name must be free and its directory must exist."""
        os.rename(path, new)

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its contents; ignore a missing path."""
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def names_in(self, path: str) -> list[str]:
        """List the names in a directory, sorted; none if it does not exist."""
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def files_below(self, path: str) -> Iterator[str]:
        """List the files below a directory recursively, as paths that start with `path`."""
        for directory, below, names in os.walk(path):
            below.sort()
            for name in sorted(names):
                yield os.path.join(directory, name)

    def size(self, path: str) -> int:
        """Return the total size of the files below a directory in bytes."""
        return sum(map(os.path.getsize, self.files_below(path)))

    def expand(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern with wildcards and {a,b}, as in Hadoop."""
        match = re.search(r"\{([^{}]*)\}", pattern)
        if match is None:
            return sorted(glob.glob(pattern))
        before, after = pattern[: match.start()], pattern[match.end() :]
        parts = match.group(1).split(",")
        return sorted({file for part in parts for file in self.expand(before + part + after)})


@contextmanager
def lock_directory(path: str, *, without_locks: bool = False) -> Iterator[bool]:
    """Lock a directory of this machine for the block, or until this process ends.

    Args:
        path: Directory.
        without_locks: Result on a file system that has no locks.

    Yields:
        Whether the lock was acquired.
    """
    import fcntl

    directory = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            yield without_locks
            return
        yield True
    finally:
        os.close(directory)


def for_each_file(action: Callable[[str], None], paths: Iterable[str]) -> None:
    """Apply an action to many files in parallel. The first error is raised at the end."""
    every = list(paths)
    if len(every) <= 1:
        for path in every:
            action(path)
        return
    with ThreadPoolExecutor(min(_AT_A_TIME, len(every))) as threads:
        list(threads.map(action, every))


def numbers_in(files: Files, directory: str) -> list[int]:
    """Return the file names in a directory that are numbers, ascending.

    Spark names the files of a checkpoint's `offsets` and `commits` by micro-batch.
    """
    return sorted(int(name) for name in files.names_in(directory) if name.isdecimal())
