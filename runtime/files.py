"""Small things with files, on this machine; `runtime.spark.files` has the twin for elsewhere.

A path that the program works with itself is resolved: it is `/an/absolute/path` of this machine,
or a URI with the scheme of another file system. What users write is resolved in one place,
`runtime.spark.files.resolve`. Spark gets `as_uri` of it: a path without a scheme would be one of
Spark's default file system, which need not be this machine's.
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

# So many files are renamed or deleted at a time: elsewhere each takes a round trip or more
_AT_A_TIME = 16


def is_local_path(path: str) -> bool:
    """Whether a resolved path is one of this machine."""
    return path.startswith("/")


def as_uri(path: str) -> str:
    """A resolved path with its scheme, as Spark takes it; nothing in it is escaped."""
    return f"file://{path}" if is_local_path(path) else path


class Files(Protocol):
    """A file system. Paths are resolved; what goes wrong is an OSError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""

    def make_private(self, path: str) -> None:
        """Let none but the owner see a file or directory, on a file system of this machine."""

    def read_text(self, path: str) -> str:
        """The UTF-8 text in a small file."""

    def write_text(self, path: str, text: str) -> None:
        """Write a small file that appears in whole; one that is there is replaced at once."""

    def open(self, path: str) -> BinaryIO:
        """A file to be read at any place."""

    def rename(self, path: str, new: str) -> None:
        """Give a file or directory another name, which is free, in a directory that is there."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""

    def names_in(self, path: str) -> list[str]:
        """The names of what is in a directory, in order; none if it is not there."""

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""

    def size(self, path: str) -> int:
        """The bytes of all files below a directory."""

    def expand(self, pattern: str) -> list[str]:
        """The files and directories that a path with wildcards stands for, in order."""


class LocalFiles:
    """The file system of this machine."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return os.path.exists(path)

    def is_file(self, path: str) -> bool:
        """Whether there is a file."""
        return os.path.isfile(path)

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory."""
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""
        os.makedirs(path, exist_ok=True)

    def make_private(self, path: str) -> None:
        """Let none but the owner see a file or directory."""
        os.chmod(path, 0o700 if os.path.isdir(path) else 0o600)

    def read_text(self, path: str) -> str:
        """The UTF-8 text in a small file."""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def write_text(self, path: str, text: str) -> None:
        """Write a small file that appears in whole; one that is there is replaced at once."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def open(self, path: str) -> BinaryIO:
        """A file to be read at any place."""
        return open(path, "rb")

    def rename(self, path: str, new: str) -> None:
        """Give a file or directory another name, which is free, in a directory that is there."""
        os.rename(path, new)

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def names_in(self, path: str) -> list[str]:
        """The names of what is in a directory, in order; none if it is not there."""
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""
        for directory, below, names in os.walk(path):
            below.sort()
            for name in sorted(names):
                yield os.path.join(directory, name)

    def size(self, path: str) -> int:
        """The bytes of all files below a directory."""
        return sum(map(os.path.getsize, self.files_below(path)))

    def expand(self, pattern: str) -> list[str]:
        """The files and directories that a path with wildcards stands for; {a,b} as in Hadoop."""
        match = re.search(r"\{([^{}]*)\}", pattern)
        if match is None:
            return sorted(glob.glob(pattern))
        before, after = pattern[: match.start()], pattern[match.end() :]
        parts = match.group(1).split(",")
        return sorted({found for part in parts for found in self.expand(before + part + after)})


@contextmanager
def holding(path: str, *, with_others: bool = False) -> Iterator[bool]:
    """Hold a directory of this machine until the block, or this process, has come to its end.

    Args:
        path: the directory.
        with_others: whether others may hold it too that say the same.

    Yields:
        Whether it does: nobody else holds it, and the file system has locks. Without locks others
        are taken to say the same.
    """
    import fcntl

    directory = os.open(path, os.O_RDONLY)
    try:
        try:
            kind = fcntl.LOCK_SH if with_others else fcntl.LOCK_EX
            fcntl.flock(directory, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        except OSError:
            yield with_others
            return
        yield True
    finally:
        os.close(directory)


def for_each_file(action: Callable[[str], None], paths: Iterable[str]) -> None:
    """Do something with many files, several at a time; the first error is raised at the end."""
    every = list(paths)
    if len(every) <= 1:
        for path in every:
            action(path)
        return
    with ThreadPoolExecutor(min(_AT_A_TIME, len(every))) as threads:
        list(threads.map(action, every))
