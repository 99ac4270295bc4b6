"""Where results are written: a file that appears only when it is complete."""

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
    """A UTF-8 text file that takes its name when `commit` is called, and not before.

    Until then the text is in a hidden file in the same directory, which is removed if there is no
    commit. What stood under the name stays as it was; its permissions are kept. Something that is
    no regular file, such as a pipe or `/dev/stdout`, is written to directly.

    Raises:
        SetupError: the file cannot be made.
        ExecutionError: it cannot be written, for instance since the disk is full.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # The link stays a link, and the file that it leads to is replaced.
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
                hint="--output takes a file in a directory that exists and can be written.",
            ) from error
        if mode is not None and self._temporary is not None:
            self._temporary.chmod(stat.S_IMODE(mode))

    def __enter__(self) -> AtomicFile:
        return self

    def write(self, text: str) -> None:
        """Append `text`."""
        with writing(self.path):
            self.stream.write(text)

    def commit(self) -> None:
        """Give the file its name, with all that was written."""
        with writing(self.path):
            self.stream.flush()
            if self._temporary is not None:
                # Else a crash of the machine could leave an empty file under the name.
                os.fsync(self.stream.fileno())
            self.stream.close()
            if self._temporary is not None:
                self._temporary.replace(self._target)
        self._temporary = None

    def __exit__(self, *_: object) -> None:
        """Remove what was written, unless it was committed."""
        try:
            with writing(self.path):
                self.stream.close()
        except ExecutionError:
            # The text that could not be flushed is thrown away in any case; a pipe's is not.
            if self._temporary is None:
                raise
        finally:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
                self._temporary = None


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raise what goes wrong with a file inside, such as a full disk, as an error of sqlwin's.

    Raises:
        ExecutionError: the file cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise ExecutionError(f"cannot write {path}: {error.strerror or error}") from error
