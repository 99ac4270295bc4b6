"""Small things with files, on this machine; `runtime.spark.files` has the twin for elsewhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Protocol


class Files(Protocol):
    """A file system. Paths are absolute."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""

    def make_private(self, path: str) -> None:
        """Let none but the owner see a file or directory, on a file system of this machine."""

    def read_text(self, path: str) -> str:
        """The UTF-8 text in a small file."""

    def write_text(self, path: str, text: str) -> None:
        """Write a small file that appears in whole; one that is there is replaced."""

    def rename(self, path: str, new: str) -> None:
        """Give a file another name, which must be free; its directory is made."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""


class LocalFiles:
    """The file system of this machine."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""
        return os.path.exists(path)

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
        """Write a small file that appears in whole; one that is there is replaced."""
        directory, name = os.path.split(path)
        temporary = os.path.join(directory, f".{name}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    def rename(self, path: str, new: str) -> None:
        """Give a file another name, which must be free; its directory is made."""
        os.makedirs(os.path.dirname(new), exist_ok=True)
        os.rename(path, new)

    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it, if it is there."""
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def files_below(self, path: str) -> Iterator[str]:
        """The files below a directory, by paths that start with `path`."""
        for directory, below, names in os.walk(path):
            below.sort()
            for name in sorted(names):
                yield os.path.join(directory, name)
