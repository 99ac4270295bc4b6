"""Output files that appear only when complete."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from runtime.errors import ExecutionError, SetupError


class AtomicFile:
    """UTF-8 text file that appears under its name only on `commit`.

    Until then the text is in a hidden file in the same directory, which is deleted if there is no
    commit. An existing file is replaced on `commit`, with the same permissions. Anything but a
    regular file, such as a pipe or `/dev/stdout`, is written to directly.

    Raises:
        SetupError: The file cannot be created.
        ExecutionError: The file cannot be written, for example because the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Keep a symbolic link and replace its target.
        self._target = Path(os.path.realpath(path))
        try:
            mode = self._target.stat().st_mode
        except OSError:
            mode = None
        self._temporary: Path | None = None
        try:
            if mode is not None and not stat.S_ISREG(mode):
                self.stream: TextIO = path.open("w", encoding="utf-8", newline="")
            else:
                temporary = self._target.parent / f".sqlwin-{secrets.token_hex(8)}.tmp"
                self.stream = temporary.open("x", encoding="utf-8", newline="")
                self._temporary = temporary
        except OSError as error:
            raise SetupError(
                f"cannot write {path}: {error.strerror}",
                hint="--output requires a file in an existing, writable directory",
            ) from error
        if mode is not None and self._temporary is not None:
            self._temporary.chmod(stat.S_IMODE(mode))

    def __enter__(self) -> AtomicFile:
        return self

    def write(self, text: str) -> None:
        """Append text."""
        with writing(self.path):
            self.stream.write(text)

    def commit(self) -> None:
        """Rename the complete file to its final name."""
        with writing(self.path):
            self.stream.flush()
            if self._temporary is not None:
                # Otherwise a system crash could leave an empty file under the final name.
                os.fsync(self.stream.fileno())
            self.stream.close()
            if self._temporary is not None:
                self._temporary.replace(self._target)
        self._temporary = None

    def __exit__(self, *_: object) -> None:
        """Remove the file unless it was committed."""
        try:
            with writing(self.path):
                self.stream.close()
        except ExecutionError:
            # Discarding a temporary file needs no flush; a pipe does.
            if self._temporary is None:
                raise
        finally:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
                self._temporary = None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Translate operating system errors in a block, such as a full disk.

    Raises:
        ExecutionError: The file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
