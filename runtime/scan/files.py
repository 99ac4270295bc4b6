"""The files of a table, and what the names of its directories say."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from runtime.commits import committed_files
from runtime.files import LocalFiles
from runtime.scan.asked_once import asked
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store
from runtime.spec.scan import ScanFile
from runtime.spec.table import Column

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"[+-]?\d+")
NO_FILES = "there are no files"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTS = range(-(2**31), 2**31)
_INTEGER_BITS = {"int": 32, "bigint": 64}


@dataclass(frozen=True)
class NotScannable:
    """Why the Arrow scan cannot read a table, as EXPLAIN says it. Catalyst then does."""

    reason: str


@dataclass(frozen=True)
class Listing:
    """Files, and (column, text) of each directory `column=text` above them.

    Of the files of a store also their bytes, and when they were written in ns since 1970.
    """

    files: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """The columns that the directories name, outermost first."""
        return tuple(name for name, _ in self.files[0][1]) if self.files else ()


def list_files(
    roots: Sequence[str], store: Store | None = None, *, is_flat: bool = False
) -> Listing | NotScannable:
    """The files that Spark reads for some files and directories, in the order of their names.

    As in Spark, names that begin with `_` or a dot are left out, and directories named
    `column=value` make partition columns. Layouts that Spark reads in ways of its own (other
    directories below, files beside partition directories) are not scannable.

    Args:
        roots: absolute paths without wildcards, of this machine or of a store.
        store: the store; None: they are of this machine.
        is_flat: whether directories in the store say nothing.
    """
    if store is not None:
        key = ("files", store, tuple(roots), is_flat)
        return asked(key, lambda: _list_stored(roots, StoredFiles(store), is_flat))
    files: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    for root in roots:
        if os.path.isfile(root):
            if not is_hidden(os.path.basename(root)):
                files.append((root, ()))
        elif os.path.isdir(root):
            try:
                partitions: _Partitions = {}

                def below(root: str = root, found: _Partitions = partitions) -> list[str]:
                    found.clear()
                    found.update(_below(root, ()))
                    return list(found)

                shown = committed_files(LocalFiles(), root, below)
                files += [(path, partitions[path]) for path in shown]
            except _OwnLayoutError as layout:
                return NotScannable(str(layout))
            except OSError as error:
                return NotScannable(f"{error.filename or root}: {error.strerror or error}")
        else:
            return NotScannable(f"{root} is no file or directory of this machine")
    return _listing(files, {})


def _listing(
    files: Sequence[tuple[str, tuple[tuple[str, str], ...]]],
    stamps: Mapping[str, tuple[int, int]],
) -> Listing | NotScannable:
    if not files:
        return NotScannable(NO_FILES)
    levels = {tuple(name for name, _ in partition) for _, partition in files}
    if len(levels) > 1:
        return NotScannable("its directories have different partition columns")
    return Listing(tuple(files), stamps)


def _list_stored(roots: Sequence[str], files: StoredFiles, is_flat: bool) -> Listing | NotScannable:
    found: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    stamps: dict[str, tuple[int, int]] = {}
    try:
        for root in roots:

            def below(root: str = root) -> list[str]:
                infos = files.listed_below(root)
                shown = {files.store.uri(i.path): (i.size, i.mtime_ns or 0) for i in infos}
                stamps.update(shown)
                return [path for path in shown if _is_shown(path.removeprefix(root))]

            if files.is_file(root):
                info = files.info(root)
                stamps[root] = (info.size, info.mtime_ns or 0)
                found.append((root, ()))
                continue
            for path in committed_files(files, root, below):
                below_root = path.removeprefix(root).strip("/")
                directories = [] if is_flat else below_root.split("/")[:-1]
                found.append((path, tuple(map(partition_pair, directories))))
    except _OwnLayoutError as layout:
        return NotScannable(str(layout))
    except OSError as error:
        return NotScannable(f"{error.filename or roots[0]}: {error.strerror or error}")
    return _listing(found, stamps)


def _is_shown(below: str) -> bool:
    return not any(map(is_hidden, below.strip("/").split("/")))


def partition_files(
    listing: Listing, columns: Sequence[Column]
) -> tuple[ScanFile, ...] | NotScannable:
    """The files with the values of some partition columns in each.

    Args:
        listing: the files.
        columns: the columns wanted, of types INT, BIGINT or STRING; case does not matter.
    """
    positions = []
    names = [name.lower() for name in listing.partition_columns]
    for column in columns:
        if column.type not in ("int", "bigint", "string"):
            return NotScannable(f"partition column {column.name} is {column.type.upper()}")
        positions.append(names.index(column.name.lower()))
    files = []
    for path, partition in listing.files:
        values = []
        for column, position in zip(columns, positions, strict=True):
            value = _value(partition[position][1], column.type)
            if isinstance(value, NotScannable):
                return value
            values.append(value)
        files.append(ScanFile(path, tuple(values), (), *listing.stamps.get(path, ())))
    return tuple(files)


# What the names of directories above a file say, by its path
_Partitions = dict[str, tuple[tuple[str, str], ...]]


class _OwnLayoutError(Exception):
    """A layout of directories that is Spark's to understand."""


def _below(
    directory: str, partition: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    with os.scandir(directory) as entries:
        shown = sorted((e for e in entries if not is_hidden(e.name)), key=lambda e: e.name)
    directories = [entry for entry in shown if entry.is_dir()]
    if directories and len(directories) < len(shown):
        raise _OwnLayoutError(f"{directory} has both files and directories")
    for entry in shown:
        if not entry.is_dir():
            yield entry.path, partition
            continue
        yield from _below(entry.path, (*partition, partition_pair(entry.name, entry.path)))


def partition_pair(name: str, path: str | None = None) -> tuple[str, str]:
    """The column and the text that the name of a directory says, of some path."""
    column, equals, text = name.partition("=")
    if not (column and equals):
        raise _OwnLayoutError(f"{path or name} is a directory not named column=value")
    return _unescaped(column), _unescaped(text)


def is_hidden(name: str) -> bool:
    """Whether Spark skips files and directories of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def partition_type(values: Iterable[str]) -> str:
    """The type that Spark gives to a column that directories name."""
    found = [value for value in values if value != _NULL]
    if found and all(re.fullmatch(r"[+-]?\d{1,18}", value) for value in found):
        return "INT" if all(int(value) in _INTS for value in found) else "BIGINT"
    try:
        if found and all(date.fromisoformat(value) and len(value) == 10 for value in found):
            return "DATE"
    except ValueError:
        return "STRING"
    return "STRING"


def _unescaped(text: str) -> str:
    """`%3A` as `:`; Spark escapes nothing beyond ASCII."""

    def character(match: re.Match[str]) -> str:
        code = int(match[1], 16)
        if code >= 128:
            raise _OwnLayoutError(f"the directory name {text} has an escape beyond ASCII")
        return chr(code)

    return _ESCAPE.sub(character, text)


def _value(text: str, type_: str) -> int | str | NotScannable | None:
    if text == _NULL:
        return None
    if type_ == "string":
        return text
    bits = _INTEGER_BITS[type_]
    if _INTEGER.fullmatch(text) is None or not text.isascii():
        return NotScannable(f"the partition value {text} is no {type_.upper()}")
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        return NotScannable(f"the partition value {text} is no {type_.upper()}")
    return number
