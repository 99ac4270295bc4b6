"""Lines of a part of a text file, like Hadoop's reader: ended by LF, CR LF or CR."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedIOBase, BufferedReader, RawIOBase
from typing import TYPE_CHECKING, cast

import numpy as np

from runtime.compute.kernels.columns import Int64Array
from runtime.errors import ExecutionError
from runtime.scan.ranges import FileRange
from runtime.spec.scan import ScanFile

if TYPE_CHECKING:
    from runtime.scan.stores import Store

# Bytes that are parsed at once
PIECE_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_CARRIAGE_RETURN = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True)
class Lines:
    """Lines without their ends.

    Attributes:
        data: UTF-8 with the lines in order.
        starts: Offset of each line.
        ends: Offset after each line.
        is_repaired: Whether bytes that were not UTF-8 have been replaced.
    """

    data: bytes
    starts: Int64Array
    ends: Int64Array
    is_repaired: bool = False

    def text(self, number: int) -> str:
        """Return a line."""
        return self.data[self.starts[number] : self.ends[number]].decode()


def pieces_of(part: FileRange, piece_bytes: int = PIECE_BYTES) -> Iterator[FileRange]:
    """Yield parts of a file part, in order."""
    for start in range(part.start, part.stop, piece_bytes):
        yield FileRange(part.file, start, min(start + piece_bytes, part.stop))


def read_lines(part: FileRange, store: Store | None = None) -> Lines:
    """Return the lines that start in a part of a file, however long the last one is.

    Bytes that are not UTF-8 become replacement characters.

    Args:
        part: Part of the file.
        store: Store of the file. None means this machine.

    Raises:
        ExecutionError: The file cannot be read, or is shorter than when the query was planned.
    """
    with _readable(part.file), _opened(part.file.path, store) as opened:
        start = part.start
        if start:
            opened.seek(start - 1)
            start += len(opened.readline(part.stop - start + 1)) - 1
        data = opened.read(part.stop - start)
        is_shorter = len(data) < part.stop - start
        if data and part.stop < part.file.n_bytes and not data.endswith(b"\n"):
            data += opened.readline(part.file.n_bytes - part.stop)
    if is_shorter:
        raise ExecutionError(f"{part.file.path} has changed since the query was planned")
    if part.start == 0:
        data = data.removeprefix(_BOM)
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        data = _CARRIAGE_RETURN.sub(b"\n", data)
    is_repaired = False
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            data = data.decode(errors="replace").encode()
            is_repaired = True
    characters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    if len(data) and data[-1] != ord("\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    if b"\r" in data:
        before = characters[np.maximum(ends - 1, 0)] == ord("\r")
        ends = ends - (before & (ends > starts))
    return Lines(data, starts, ends, is_repaired)


@contextmanager
def _opened(path: str, store: Store | None) -> Iterator[BufferedIOBase]:
    """Open a file for reading."""
    if store is None:
        with open(path, "rb") as opened:
            yield opened
        return
    from runtime.scan.stores import explain_errors, open_stored

    with explain_errors(store, path), open_stored(store, path) as stored:
        yield BufferedReader(cast(RawIOBase, stored))


class _readable:  # reads like `suppress`
    """Name the file in errors of the file system."""

    def __init__(self, file: ScanFile) -> None:
        self._file = file

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            why = error.strerror or os.strerror(error.errno or 0)
            raise ExecutionError(f"cannot read {self._file.path}: {why}") from error
