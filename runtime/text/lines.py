"""Lines of a part of a text file, like Hadoop's reader: ended by LF, CR LF or CR."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from runtime.compute.kernels.columns import Int64Array
from runtime.errors import ExecutionError
from runtime.spec.scan import ScanFile

# Bytes that a thread parses at once
PART_BYTES = 8 << 20
_BOM = b"\xef\xbb\xbf"
_CARRIAGE_RETURN = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True)
class LineRange:
    """Whole lines of a file.

    Attributes:
        file: File.
        start: Offset of the first byte.
        stop: Offset after the last byte.
    """

    file: ScanFile
    start: int
    stop: int


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


def parts_of(file: ScanFile, part_bytes: int = PART_BYTES) -> Iterator[LineRange]:
    """Yield parts of a file that end with a line, in order.

    Raises:
        ExecutionError: The file cannot be read.
    """
    with _readable(file), open(file.path, "rb") as opened:
        start = 0
        while start < file.n_bytes:
            stop = min(start + part_bytes, file.n_bytes)
            opened.seek(stop)
            # to the end of the line, however long
            rest = opened.readline(file.n_bytes - stop) if stop < file.n_bytes else b""
            yield LineRange(file, start, stop + len(rest))
            start = stop + len(rest)


def read_lines(part: LineRange) -> Lines:
    """Return the lines of a part. Bytes that are not UTF-8 become replacement characters.

    Raises:
        ExecutionError: The file cannot be read, or is shorter than when the query was planned.
    """
    with _readable(part.file), open(part.file.path, "rb") as opened:
        opened.seek(part.start)
        data = opened.read(part.stop - part.start)
    if len(data) < part.stop - part.start:
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
