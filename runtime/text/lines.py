"""Lines of a part of a text file, like Hadoop's reader: ended by LF, CR LF or CR."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BufferedIOBase, BufferedReader, BytesIO, RawIOBase, TextIOWrapper
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, Int64Array
from runtime.detection.sample import decompressed, is_compressed, unreadable
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
        is_start: Whether the file begins with these lines.
    """

    data: bytes
    starts: Int64Array
    ends: Int64Array
    is_repaired: bool = False
    is_start: bool = True

    def text(self, number: int) -> str:
        """Return a line."""
        return self.data[self.starts[number] : self.ends[number]].decode()

    def select(self, lines: BoolArray | slice) -> Lines:
        """Return some of the lines."""
        return replace(self, starts=self.starts[lines], ends=self.ends[lines])


NO_LINES = Lines(b"", np.empty(0, np.int64), np.empty(0, np.int64))


def pieces_of(part: FileRange, piece_bytes: int = PIECE_BYTES) -> Iterator[FileRange]:
    """Yield parts of a file part, in order."""
    for start in range(part.start, part.stop, piece_bytes):
        yield FileRange(part.file, start, min(start + piece_bytes, part.stop))


def read_pieces(
    part: FileRange,
    store: Store | None = None,
    *,
    encoding: str = "",
    is_whole: bool = False,
    content: bytes | None = None,
) -> Iterator[Lines]:
    """Yield the lines that start in a part of a file, some megabytes at a time.

    The first part has all lines if the file is compressed, or if its encoding has other line ends
    than ASCII.

    Args:
        part: Part of the file.
        store: Store of the file. None means this machine.
        encoding: Encoding of the file, for Python. Empty for UTF-8.
        is_whole: Whether the first part has all lines at once.
        content: Bytes of the file. None to open it.

    Raises:
        ExecutionError: The file cannot be read, or is shorter than when the query was planned.
    """
    is_wide = bool(encoding) and "\n".encode(encoding) != b"\n"
    if not (is_whole or is_wide or is_compressed(part.file.path) or content is not None):
        for piece in pieces_of(part):
            yield read_lines(piece, store, encoding)
    elif not part.start:
        size = -1 if is_whole else PIECE_BYTES
        try:
            with _opened(part.file.path, store, content) as opened:
                file = decompressed(cast(BinaryIO, opened), part.file.path)
                yield from _streamed(file, size, encoding, is_wide=is_wide)
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            raise unreadable(part.file.path, error) from error


def read_lines(part: FileRange, store: Store | None = None, encoding: str = "") -> Lines:
    """Return the lines that start in a part of a file, however long the last one is.

    Bytes outside the encoding become replacement characters.

    Args:
        part: Part of the file.
        store: Store of the file. None means this machine.
        encoding: Encoding of the file, for Python, with the line ends of ASCII. Empty for UTF-8.

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
    return _lines_in(data, encoding, is_start=part.start == 0)


def _streamed(file: BinaryIO, size: int, encoding: str, *, is_wide: bool) -> Iterator[Lines]:
    """Yield the lines of a file about that many bytes at a time, or all at once if negative."""
    is_start = True
    text = TextIOWrapper(file, encoding, errors="replace", newline="") if is_wide else None
    while True:
        if text is not None:
            data = (text.read(size) + text.readline()).encode()
        else:
            data = file.read(size) + file.readline()
        if data:
            yield _lines_in(data, "" if is_wide else encoding, is_start=is_start)
        if not data or size < 0:
            return
        is_start = False


def _lines_in(data: bytes, encoding: str, *, is_start: bool) -> Lines:
    """Split bytes into lines."""
    is_repaired = False
    if not data.isascii():
        try:
            decoded = data.decode(encoding or "utf-8")
        except UnicodeDecodeError:
            decoded = data.decode(encoding or "utf-8", errors="replace")
            is_repaired = True
        if encoding or is_repaired:
            data = decoded.encode(errors="replace")
    if is_start:
        data = data.removeprefix(_BOM)
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        data = _CARRIAGE_RETURN.sub(b"\n", data)
    characters = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(characters == ord("\n"))
    if len(data) and data[-1] != ord("\n"):
        ends = np.append(ends, len(data))
    starts = np.concatenate([np.zeros(min(1, len(ends)), np.int64), ends[:-1] + 1])
    if b"\r" in data:
        before = characters[np.maximum(ends - 1, 0)] == ord("\r")
        ends = ends - (before & (ends > starts))
    return Lines(data, starts, ends, is_repaired, is_start)


@contextmanager
def _opened(
    path: str, store: Store | None, content: bytes | None = None
) -> Iterator[BufferedIOBase]:
    """Open a file for reading, or its content."""
    if content is not None:
        yield BytesIO(content)
        return
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
