"""Read the beginnings of files, decompressed and decoded, as samples for detection."""

from __future__ import annotations

import bz2
import codecs
import errno
import gzip
import io
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from runtime.errors import ExecutionError
from runtime.files import Files

# Decompressed bytes read from the first file, and from each of the others
FIRST_BYTES = 1 << 18
OTHER_BYTES = 1 << 15
MAX_FILES = 8
_MAGIC = {b"PAR1": "parquet", b"ORC": "orc", b"Obj\x01": "avro"}
_MARKS = {
    codecs.BOM_UTF8: "",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


@dataclass(frozen=True)
class Sample:
    """First lines of a file.

    Attributes:
        path: Path of the file.
        text: Complete lines.
        is_whole: Whether the sample is the whole file.
        encoding: Spark's name of the encoding. Empty for UTF-8.
    """

    path: str
    text: str
    is_whole: bool
    encoding: str = ""


def files_to_sample(paths: Sequence[str]) -> list[str]:
    """Return the files to sample: the first, the last, and some spread evenly between them."""
    if len(paths) <= MAX_FILES:
        return list(paths)
    step = (len(paths) - 1) / (MAX_FILES - 1)
    return [paths[round(i * step)] for i in range(MAX_FILES)]


def magic_format(files: Files, path: str) -> str | None:
    """Return the binary format indicated by the first bytes of a file, or None for text."""
    try:
        with _open(files, path) as file:
            head = file.read(4)
    except OSError as error:
        raise unreadable(path, error) from error
    return next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)


def read_sample(files: Files, path: str, n_bytes: int, encoding: str = "") -> Sample:
    """Read the first lines of a text file.

    Args:
        files: File system of the path.
        path: Path of the file.
        n_bytes: Maximum decompressed bytes to read.
        encoding: Declared encoding, if any.

    Raises:
        ExecutionError: The file cannot be read or is not text.
    """
    try:
        with open_text_bytes(files, path) as file:
            data = file.read(n_bytes + 1)
    except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    is_whole = len(data) <= n_bytes
    text, name = _decode(data[:n_bytes], path, encoding)
    if not is_whole:
        end = max(text.rfind("\n"), text.rfind("\r"))
        if end < 0 and text.lstrip()[:1] in ("{", "["):
            return Sample(path, text, is_whole, name)  # JSON is parsed up to where it is cut off
        if end < 0:
            raise ExecutionError(
                f"the first line of {path} is longer than {n_bytes} bytes, so columns "
                "cannot be inferred",
                subjects=(path,),
                hint="declare format and columns in CREATE TABLE",
            )
        text = text[: end + 1]
    return Sample(path, text, is_whole, name)


def open_text_bytes(files: Files, path: str) -> BinaryIO:
    """Open a file as decompressed bytes."""
    return decompressed(_open(files, path), path)


def is_compressed(path: str) -> bool:
    """Return whether a file is compressed, judging by its name."""
    return path.rpartition(".")[2].lower() in _DECOMPRESSED


def decompressed(file: BinaryIO, path: str) -> BinaryIO:
    """Return the decompressed bytes of an open file."""
    opened = _DECOMPRESSED.get(path.rpartition(".")[2].lower())
    return file if opened is None else opened(file)


def _open(files: Files, path: str) -> BinaryIO:
    try:
        return files.open(path)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: str, error: Exception) -> ExecutionError:
    """Return the error for a file that cannot be read."""
    hint = None
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        hint = "remove the symbolic link, which leads to itself"
    why = getattr(error, "strerror", None) or error
    if isinstance(error, gzip.BadGzipFile):
        why = "it is not a gzip file"
    elif isinstance(error, EOFError):
        why = "it is truncated"
    elif isinstance(error, zlib.error):
        why = "its compressed data is corrupt"
    return ExecutionError(f"cannot read {path}: {why}", subjects=(path,), hint=hint)


def _zstd(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))


class _Deflated(io.RawIOBase):
    """Reader of a zlib stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflater = zlib.decompressobj()
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]  # its own protocol
        while not self._ready and (chunk := self._file.read(1 << 16)):
            self._ready = self._inflater.decompress(chunk)
        part, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def _inflate(file: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, _Deflated(file))))


def _refuse_framed(file: BinaryIO) -> BinaryIO:
    file.close()
    raise OSError(
        "Hadoop's snappy and lz4 are not supported here; declare format and columns in CREATE TABLE"
    )


_DECOMPRESSED: dict[str, Callable[[BinaryIO], BinaryIO]] = {
    "gz": lambda file: cast(BinaryIO, gzip.GzipFile(fileobj=file)),
    "bz2": lambda file: cast(BinaryIO, bz2.BZ2File(file)),
    "zst": _zstd,
    "deflate": _inflate,
    "snappy": _refuse_framed,
    "lz4": _refuse_framed,
}


# Hints for files that are not tables, by their first bytes
_AS_CSV = "save the sheet as CSV (UTF-8) and read that file"
_UNPACK = "extract it, and read the files in it; sqlwin reads .gz, .bz2 and .zst directly"
_AS_PARQUET = "convert it to Parquet or CSV and read that file"
_OTHER_KINDS = {
    b"\xd0\xcf\x11\xe0": ("an Excel workbook", _AS_CSV),
    b"PK\x03\x04": ("a ZIP archive", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"Rar!": ("a RAR archive", _UNPACK),
    b"\xfd7zXZ": ("compressed with xz", "decompress it with unxz, and read the result"),
    b"SQLite format 3\0": ("a SQLite database", "export the table as CSV and read that file"),
    b"ARROW1": ("an Arrow or Feather file", _AS_PARQUET),
    b"FEA1": ("a Feather file", _AS_PARQUET),
    b"\xff\xff\xff\xff": ("an Arrow stream", _AS_PARQUET),
    b"\x89HDF": ("an HDF5 file", _AS_PARQUET),
    b"%PDF-": ("a PDF", "export the table as CSV and read that file"),
}
_SPREADSHEET = re.compile(rb"xl/|\[Content_Types\]\.xml|mimetypeapplication/vnd\.oasis")


def _kind_of(data: bytes) -> tuple[str, str] | None:
    """Return what a file is and what to do with it, None if it may be text."""
    kind = next((kind for magic, kind in _OTHER_KINDS.items() if data.startswith(magic)), None)
    if kind is not None and data.startswith(b"PK") and _SPREADSHEET.search(data):
        return "a spreadsheet", _AS_CSV
    if kind is None and data[257:262] == b"ustar":
        return "a tar archive", _UNPACK
    return kind


def _decode(data: bytes, path: str, declared: str) -> tuple[str, str]:
    """Decode bytes that may end within a character; return text and Spark's encoding name."""
    mark = next((mark for mark in _MARKS if data.startswith(mark)), None)
    name = declared or ("" if mark is None else _MARKS[mark])
    if (kind := _kind_of(data)) is not None:
        what, hint = kind
        raise ExecutionError(f"{path} is {what}", subjects=(path,), hint=hint)
    if b"\0" in data[:4096] and not name:
        raise ExecutionError(
            f"{path} is not a text file",
            subjects=(path,),
            hint="convert it to Parquet, ORC, Avro, CSV, JSON or text, which sqlwin reads",
        )
    try:
        decoder = codecs.getincrementaldecoder(name or "utf-8")()
    except LookupError as error:
        raise ExecutionError(f"unknown encoding {name}", subjects=(f"'{name}'",)) from error
    try:
        return decoder.decode(data).lstrip("\ufeff"), name
    except UnicodeDecodeError as error:
        if name:
            raise ExecutionError(
                f"{path} is not valid {name}: byte {error.start}", subjects=(path,)
            ) from error
        return data.decode("cp1252", errors="replace"), "windows-1252"
