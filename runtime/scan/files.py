"""List the files of a table and parse the partition values in directory names.

Functions raise `Refused` where Spark treats a layout, a name or a value in its own way.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from runtime.commits import committed_files
from runtime.files import LocalFiles
from runtime.refusal import Refusal, Refused, refuse, tried
from runtime.scan.request_cache import get_or_request
from runtime.scan.stores import Store
from runtime.shown_types import shown_type
from runtime.spec.scan import ScanFile
from runtime.spec.table import Column

if TYPE_CHECKING:
    from runtime.scan.stored_files import StoredFiles

_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_INTEGER = re.compile(r"[+-]?\d+")
NO_FILES = "there are no files"
_NULL = "__HIVE_DEFAULT_PARTITION__"
_INTS = range(-(2**31), 2**31)
_INTEGER_BITS = {"int": 32, "bigint": 64}


@dataclass(frozen=True)
class Listing:
    """Files, each with the (column, text) pairs of the directories `column=text` above it.

    `stamps` has size in bytes and modification time in ns since 1970 for files of a store.
    """

    files: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    stamps: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Partition columns from the directory names, outermost first."""
        return tuple(name for name, _ in self.files[0][1]) if self.files else ()


def list_files(
    roots: Sequence[str], store: Store | None = None, *, is_flat: bool = False
) -> Listing:
    """List the files that Spark would read below some paths, sorted by name.

    As in Spark, names that begin with `_` or a dot are ignored, and directories named
    `column=value` are partitions.

    Args:
        roots: Absolute paths without wildcards, on this machine or in a store.
        store: Object store; None for this machine.
        is_flat: Whether directory names in the store are ignored.
    """
    if store is not None:
        from runtime.scan.stored_files import StoredFiles

        key = ("files", store, tuple(roots), is_flat)
        listing = get_or_request(
            key, lambda: tried(_list_stored, roots, StoredFiles(store), is_flat)
        )
        if isinstance(listing, Refusal):
            raise Refused(listing)
        return listing
    files: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    for root in roots:
        if os.path.isfile(root):
            if not is_hidden(os.path.basename(root)):
                files.append((root, ()))
        elif os.path.isdir(root):
            try:
                partitions: _Partitions = {}

                def below(
                    root: str = root, partition_of_path: _Partitions = partitions
                ) -> list[str]:
                    partition_of_path.clear()
                    partition_of_path.update(_below(root, ()))
                    return list(partition_of_path)

                shown = committed_files(LocalFiles(), root, below)
                files += [(path, partitions[path]) for path in shown]
            except OSError as error:
                refuse(f"{error.filename or root}: {error.strerror or error}")
        else:
            refuse(f"{root} is not a local file or directory")
    return _listing(files, {})


def _listing(
    files: Sequence[tuple[str, tuple[tuple[str, str], ...]]],
    stamps: Mapping[str, tuple[int, int]],
) -> Listing:
    if not files:
        refuse(NO_FILES)
    levels = {tuple(name for name, _ in partition) for _, partition in files}
    if len(levels) > 1:
        refuse("its directories have different partition columns")
    return Listing(tuple(files), stamps)


def _list_stored(roots: Sequence[str], files: StoredFiles, is_flat: bool) -> Listing:
    partitions: list[tuple[str, tuple[tuple[str, str], ...]]] = []
    stamps: dict[str, tuple[int, int]] = {}
    try:
        for root in roots:

            def below(root: str = root) -> list[str]:
                infos = files.infos_below(root)
                shown = {files.store.uri(i.path): (i.size, i.mtime_ns or 0) for i in infos}
                stamps.update(shown)
                return [path for path in shown if _is_shown(path.removeprefix(root))]

            if files.is_file(root):
                info = files.info(root)
                stamps[root] = (info.size, info.mtime_ns or 0)
                partitions.append((root, ()))
                continue
            for path in committed_files(files, root, below):
                below_root = path.removeprefix(root).strip("/")
                directories = [] if is_flat else below_root.split("/")[:-1]
                partitions.append((path, tuple(map(partition_pair, directories))))
    except OSError as error:
        refuse(f"{error.filename or roots[0]}: {error.strerror or error}")
    return _listing(partitions, stamps)


def _is_shown(below: str) -> bool:
    return not any(map(is_hidden, below.strip("/").split("/")))


def partition_files(listing: Listing, columns: Sequence[Column]) -> tuple[ScanFile, ...]:
    """Return the files with their values of some partition columns.

    Args:
        listing: Files.
        columns: Columns of type INT, BIGINT, DATE or STRING; case-insensitive.
    """
    positions = []
    names = [name.lower() for name in listing.partition_columns]
    for column in columns:
        if column.type not in ("int", "bigint", "date", "string"):
            refuse(f"partition column {column.name} is {shown_type(column.type)}")
        positions.append(names.index(column.name.lower()))
    files = []
    for path, partition in listing.files:
        pairs = zip(columns, positions, strict=True)
        values = tuple(_value(partition[position][1], column.type) for column, position in pairs)
        files.append(ScanFile(path, values, (), *listing.stamps.get(path, ())))
    return tuple(files)


# Partition columns and texts of each file, by path
_Partitions = dict[str, tuple[tuple[str, str], ...]]


def _below(
    directory: str, partition: tuple[tuple[str, str], ...]
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    with os.scandir(directory) as entries:
        shown = sorted((e for e in entries if not is_hidden(e.name)), key=lambda e: e.name)
    directories = [entry for entry in shown if entry.is_dir()]
    if directories and len(directories) < len(shown):
        refuse(f"{directory} has both files and directories")
    for entry in shown:
        if not entry.is_dir():
            yield entry.path, partition
            continue
        yield from _below(entry.path, (*partition, partition_pair(entry.name, entry.path)))


def partition_pair(name: str, path: str | None = None) -> tuple[str, str]:
    """Split a directory name into column and text; `path` is for errors."""
    column, equals, text = name.partition("=")
    if not (column and equals):
        refuse(f"the directory {path or name} is not named column=value")
    return _unescape(column), _unescape(text)


def is_hidden(name: str) -> bool:
    """Return whether Spark ignores files and directories with this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def partition_type(values: Iterable[str]) -> str:
    """Return the type that Spark infers for a partition column from its texts."""
    texts = [value for value in values if value != _NULL]
    if texts and all(re.fullmatch(r"[+-]?\d{1,18}", value) for value in texts):
        return "INT" if all(int(value) in _INTS for value in texts) else "BIGINT"
    try:
        if texts and all(date.fromisoformat(value) and len(value) == 10 for value in texts):
            return "DATE"
    except ValueError:
        return "STRING"
    return "STRING"


def _unescape(text: str) -> str:
    """Decode escapes such as `%3A` for `:`; Spark escapes only ASCII characters."""

    def character(match: re.Match[str]) -> str:
        code = int(match[1], 16)
        if code >= 128:
            refuse(f"the directory name {text} contains a non-ASCII escape")
        return chr(code)

    return _ESCAPE.sub(character, text)


def _days(text: str) -> int:
    try:
        if len(text) == len("2024-01-31"):
            return (date.fromisoformat(text) - date(1970, 1, 1)).days
    except ValueError:
        pass
    refuse(f"Spark reads the partition value {text}")


def _value(text: str, type_: str) -> int | str | None:
    if text == _NULL:
        return None
    if type_ == "string":
        return text
    if type_ == "date":
        return _days(text)
    bits = _INTEGER_BITS[type_]
    if _INTEGER.fullmatch(text) is None or not text.isascii():
        refuse(f"the partition value {text} is not a valid {shown_type(type_)}")
    number = int(text)
    if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        refuse(f"the partition value {text} is not a valid {shown_type(type_)}")
    return number
