"""Check from Parquet footers that a table can be scanned with Spark's semantics.

Functions raise `Refused` where the scan cannot read a file.
"""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NoReturn, TypeVar

import pyarrow as pa

from runtime.compute.arrow.types import arrow_type
from runtime.refusal import Refused, refuse
from runtime.scan.faults import why_unreadable
from runtime.scan.files import NO_FILES, is_hidden, list_files, partition_files
from runtime.scan.stores import Store, explain_errors, open_stored
from runtime.shown_types import shown_type
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column

if TYPE_CHECKING:
    import pyarrow.parquet as pq

T = TypeVar("T")

_READERS = 16
# Maximum number of partitions with files left to Spark's reader
_MAX_GROUPS = 8
# Number of footers read between checks whether most files are unsuitable
_CHECKED_TOGETHER = 256
# Capacity of the footer cache in serialized bytes; footers take several times that in memory
_REMEMBERED_BYTES = 32 << 20
# Bytes read from the end of a stored file; most footers are shorter
_TAIL_BYTES = 64 << 10
# Approximate number of files sampled before a stream starts
_SAMPLED_FILES = 64

# Spark marks files with dates and times in the old hybrid calendar by these keys. Versions before
# 3.0 (3.1 for INT96) wrote such files without a mark.
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_CALENDAR_TYPES = ("date", "timestamp", "timestamp_ntz")

# Spark types of columns without a logical type, by physical type
_PHYSICAL_TYPES = {
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "double",
    "INT96": "timestamp",
    "INT32": "int",
    "INT64": "bigint",
    "BYTE_ARRAY": "binary",
}
# Arrow types that pyarrow may return for a Spark type; other types have exactly one
_ARROW_KINDS = {
    "decimal": (pa.types.is_decimal,),
    "timestamp": (pa.types.is_timestamp,),
    "timestamp_ntz": (pa.types.is_timestamp,),
    "date": (pa.types.is_date,),
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
}


class _Footers:
    """LRU cache of footers, bounded in bytes."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._by_key: OrderedDict[tuple[str, int, int], pq.FileMetaData] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, int, int]) -> pq.FileMetaData | None:
        with self._lock:
            if key in self._by_key:
                self._by_key.move_to_end(key)
            return self._by_key.get(key)

    def add(self, key: tuple[str, int, int], footer: pq.FileMetaData) -> None:
        with self._lock:
            if key not in self._by_key:
                self._n_bytes += footer.serialized_size
            self._by_key[key] = footer
            while self._n_bytes > self._most_bytes and len(self._by_key) > 1:
                self._n_bytes -= self._by_key.popitem(last=False)[1].serialized_size


_footers = _Footers(_REMEMBERED_BYTES)


@dataclass(frozen=True)
class WantedColumns:
    """Columns required of a table's files.

    Attributes:
        columns: Columns to read from the files.
        in_names: Lower-case names of all partition columns.
        store: Object store of the files; None for this machine.
    """

    columns: tuple[Column, ...]
    in_names: frozenset[str] = frozenset()
    store: Store | None = None


@dataclass(frozen=True)
class FileCheck:
    """Rows of a file, bytes of the texts to read, and the reason if it cannot be scanned."""

    n_rows: int = 0
    misfit: str | None = None
    text_bytes: int = 0


# Inspects the footers of files, in this process or in tasks
CheckFiles = Callable[[Sequence[ScanFile], WantedColumns], Sequence[FileCheck]]


def check_files(files: Sequence[ScanFile], wanted: WantedColumns) -> list[FileCheck]:
    """Inspect footers in this process in parallel; stop early if most files are unsuitable."""
    checks: list[FileCheck] = []
    for start in range(0, len(files), _CHECKED_TOGETHER):
        part = files[start : start + _CHECKED_TOGETHER]
        checks += map_footers(part, lambda file: _check_file(file, wanted), wanted.store)
        if are_too_many(sum(result.misfit is not None for result in checks), len(checks)):
            break
    return checks


def map_footers(
    files: Sequence[ScanFile], work: Callable[[ScanFile], T], store: Store | None
) -> list[T]:
    """Apply a function to the footers of files, reading uncached footers in parallel.

    Args:
        files: Files.
        work: Function of a file; it calls `read_footer`.
        store: Object store of the files; None for this machine.
    """
    if store is None and all(map(_is_remembered, files)):
        return [work(file) for file in files]
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(work, files))


def _is_remembered(file: ScanFile) -> bool:
    """Return whether the footer of a local file is cached."""
    try:
        return _footers.get(_footer_key(file, None)) is not None
    except OSError:
        return False


def are_too_many(n_misfits: int, n_files: int) -> bool:
    """Return whether most files are unsuitable, so that Spark should read the whole table."""
    return 2 * n_misfits > n_files


def _check_file(file: ScanFile, wanted: WantedColumns) -> FileCheck:
    n_rows = 0
    try:
        footer = read_footer(file, wanted.store)
        if repeated := sorted(wanted.in_names & _file_columns(footer).keys()):
            refuse(f"column {repeated[0]} occurs both in {file.path} and in its path")
        n_rows = footer.num_rows
        check_types(file.path, footer, wanted.columns)
    except Refused as refused:
        return FileCheck(n_rows, refused.refusal.reason)
    return FileCheck(n_rows, text_bytes=_text_bytes(footer, wanted.columns))


def _text_bytes(footer: pq.FileMetaData, columns: Sequence[Column]) -> int:
    """Return the uncompressed bytes of strings and binaries, which may be encoded."""
    texts = [c.name.lower() for c in columns if c.type in ("string", "binary")]
    if not texts:
        return 0
    places = _file_columns(footer)
    indices = [index for name in texts for index in places.get(name, ())]
    groups = map(footer.row_group, range(footer.num_row_groups))
    return sum(group.column(i).total_uncompressed_size for group in groups for i in indices)


def find_source(
    path: str,
    roots: Sequence[str],
    columns: Sequence[Column],
    store: Store | None = None,
    check: CheckFiles = check_files,
    *,
    leaves_some: bool = False,
) -> ScanSource:
    """Return the files of a table for the Arrow scan.

    Reads every footer in parallel. Each file must have the columns, flat and with exactly the given
    types, which Spark inferred. Files whose values Spark would convert, fill with NULL, shift
    between calendars or reject are left to Spark.

    Args:
        path: Path as written by the user.
        roots: Absolute paths that it resolves to, on this machine or in a store.
        columns: Columns to read, with Spark's names and types; may include partition columns.
        store: Object store; None for this machine.
        check: Function that checks the footers of files.
        leaves_some: Whether Spark can read some of the files in addition to the scan.
    """
    listing = list_files(roots, store)
    partition_names = {name.lower() for name in listing.partition_columns}
    in_files = tuple(column for column in columns if column.name.lower() not in partition_names)
    in_names = tuple(column for column in columns if column.name.lower() in partition_names)
    files = partition_files(listing, in_names)
    checks = check(files, WantedColumns(in_files, frozenset(partition_names), store))
    misfits = [result.misfit for result in checks if result.misfit is not None]
    # the remaining files were not inspected if most were unsuitable
    if misfits and not (leaves_some and len(checks) == len(files)):
        refuse(misfits[0])
    if are_too_many(len(misfits), len(checks)):
        refuse(misfits[0])
    fits = [file for file, result in zip(files, checks, strict=True) if result.misfit is None]
    others = [file for file, result in zip(files, checks, strict=True) if result.misfit is not None]
    is_struct = any("." in column.name for column in in_files)
    if others and (is_struct or len({file.partition_values for file in others}) > _MAX_GROUPS):
        refuse(misfits[0])
    n_rows = sum(result.n_rows for result in checks)
    text_bytes = sum(result.text_bytes for result in checks)
    return ScanSource(
        path,
        tuple(fits),
        in_files,
        in_names,
        n_rows=n_rows,
        others=tuple(others),
        text_bytes=text_bytes,
    )


def find_stream_source(
    path: str, roots: Sequence[str], columns: Sequence[Column], store: Store | None = None
) -> ScanSource:
    """Return the source of a stream over a directory.

    The directory may still be empty. A sample of the files is checked; each file is checked again
    when it is read. A column missing from a file is NULL, as in Spark for declared columns. The
    source lists no files because it is sent to every task of every micro-batch.

    Args:
        path: Path as written by the user.
        roots: Absolute paths that it resolves to.
        columns: As in `find_source`.
        store: As in `find_source`.
    """
    for column in columns:
        if not is_flat(column.type):
            refuse(f"column {column.name} is {shown_type(column.type)}")
    if store is None and not any(map(_holds_anything, roots)):
        return ScanSource(path, (), tuple(columns))
    try:
        listing = list_files(roots, store)
    except Refused as refused:
        if store is None or refused.refusal.reason != NO_FILES:
            raise
        return ScanSource(path, (), tuple(columns))
    if listing.partition_columns:
        refuse("directory names contain partition columns")
    files = [ScanFile(file, (), (), *listing.stamps.get(file, ())) for file, _ in listing.files]
    sampled = files[:: -max(1, len(files) // _SAMPLED_FILES)]

    def check(file: ScanFile) -> None:
        footer = read_footer(file, store)
        check_types(file.path, footer, present_columns(footer, columns))

    map_footers(sampled, check, store)
    return ScanSource(path, (), tuple(columns))


def check_types(path: str, footer: pq.FileMetaData, columns: Sequence[Column]) -> None:
    """Check that a file's columns can be scanned with the table's types."""
    columns_by_name = _file_columns(footer)
    schema = pa.struct(list(footer.schema.to_arrow_schema()))
    for column in columns:
        indices = columns_by_name.get(column.name.lower(), [])
        problem = _problem(footer, indices, schema, column)
        if problem is not None:
            refuse(f"column {column.name} {problem} in {path}")


def present_columns(footer: pq.FileMetaData, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Return the columns that the file has, with any type."""
    names = _file_columns(footer)
    return tuple(column for column in columns if column.name.lower() in names)


def column_indices(footer: pq.FileMetaData) -> dict[str, int]:
    """Return the column indices of a file by lower-case name.

    `column.field` is a field of a struct. Columns that differ only in case are omitted.
    """
    columns_by_name = _file_columns(footer).items()
    return {name: indices[0] for name, indices in columns_by_name if len(indices) == 1}


def spark_type(column: pq.ColumnSchema) -> str | None:
    """Return the Spark type of a flat Parquet column; None if Spark converts or rejects it.

    Follows Spark's ParquetToSparkSchemaConverter with default settings.
    """
    logical = json.loads(column.logical_type.to_json())
    kind, physical = logical["Type"], column.physical_type
    if kind == "Decimal":
        return f"decimal({column.precision},{column.scale})"
    if kind == "None":
        return _PHYSICAL_TYPES.get(physical)
    match physical, kind:
        case "INT32" | "INT64", "Int":
            names = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
            return names.get(logical["bitWidth"]) if logical["isSigned"] else None
        case "INT32", "Date":
            return "date"
        case "INT64", "Timestamp":
            if logical["timeUnit"] not in ("milliseconds", "microseconds"):
                return None
            return "timestamp" if logical["isAdjustedToUTC"] else "timestamp_ntz"
        case "BYTE_ARRAY", "String":
            return "string"
    return None


def read_footer(file: ScanFile, store: Store | None = None) -> pq.FileMetaData:
    """Return the footer of a file, from the cache if the file has not changed."""
    try:
        key = _footer_key(file, store)
    except OSError as error:
        _refuse_unreadable(file.path, error)
    cached = _footers.get(key)
    if cached is not None:
        return cached
    footer = open_footer(file.path, store)
    # Do not cache a stored file without a listing: changes could not be detected.
    if key[1]:
        _footers.add(key, footer)
    return footer


def _footer_key(file: ScanFile, store: Store | None) -> tuple[str, int, int]:
    """Return the cache key of a file: path, size in bytes, modification time in ns since 1970.

    Raises:
        OSError: The file does not exist on this machine.
    """
    if store is not None:
        return file.path, file.n_bytes, file.modified_ns
    status = os.stat(file.path)
    return file.path, status.st_size, status.st_mtime_ns


def open_footer(path: str, store: Store | None = None) -> pq.FileMetaData:
    """Read the footer of a file, bypassing the cache."""
    if store is None:
        try:
            with pa.OSFile(path) as file:
                return footer_of(file, path)
        except OSError as error:
            _refuse_unreadable(path, error)
    try:
        with explain_errors(store, path), open_stored(store, path) as file:
            return footer_of(file, path)
    except OSError as error:
        refuse(f"cannot read {path}: {error.strerror or error}")


def footer_of(file: pa.NativeFile, path: str) -> pq.FileMetaData:
    """Read the footer of an open file, in a single request unless it is long.

    Raises:
        OSError: The file cannot be read.
        Refused: It is not a Parquet file that the scan can read.
    """
    n_bytes = file.size()
    n_read = min(n_bytes, _TAIL_BYTES)
    tail = file.read_at(n_read, n_bytes - n_read)
    n_footer = int.from_bytes(tail[-8:-4], "little") + 8
    if n_read < n_footer <= n_bytes and tail[-4:] == b"PAR1":
        tail = file.read_at(n_footer, n_bytes - n_footer)
    if tail[-4:] == b"PARE":
        refuse(f"{path} has encrypted columns")
    try:
        import pyarrow.parquet as pq

        footer = pq.read_metadata(pa.BufferReader(tail))
    except (OSError, pa.ArrowException) as error:
        _refuse_unreadable(path, error)
    if footer.serialized_size != n_footer - 8:
        # A signature follows the footer: columns are encrypted, and pyarrow would abort the process
        # when accessing one.
        refuse(f"{path} has encrypted columns")
    return footer


def _refuse_unreadable(path: str, error: Exception) -> NoReturn:
    refuse(f"cannot read {path}: {why_unreadable(error)}")


def _holds_anything(root: str) -> bool:
    """Return whether a path is a file, or a directory with an entry that Spark does not ignore."""
    return not os.path.isdir(root) or any(not is_hidden(name) for name in os.listdir(root))


def is_flat(type_: str) -> bool:
    """Return whether Arrow has the Spark type and it is not nested."""
    try:
        return not pa.types.is_nested(arrow_type(type_))
    except KeyError:
        return False


def _file_columns(footer: pq.FileMetaData) -> dict[str, list[int]]:
    """Return the indices of the leaf columns by top-level column name and by path.

    Names are in lower case.
    """
    columns: dict[str, list[int]] = {}
    for index in range(footer.num_columns):
        path = footer.schema.column(index).path.lower()
        for name in {path, path.split(".")[0]}:
            columns.setdefault(name, []).append(index)
    return columns


def _problem(
    footer: pq.FileMetaData, indices: Sequence[int], schema: pa.StructType, wanted: Column
) -> str | None:
    """Return why a file's column cannot be scanned with the table's type, or None.

    Args:
        footer: Footer of the file.
        indices: Indices of the leaf columns with this name.
        schema: Columns of the file as pyarrow returns them.
        wanted: Name and type in the table.
    """
    if not indices:
        return "does not exist or has a dot in its name"
    leaves = [footer.schema.column(index) for index in indices]
    is_nested = any(leaf.path.lower() != wanted.name.lower() for leaf in leaves)
    if is_nested or any(leaf.max_repetition_level > 0 for leaf in leaves):
        return "is nested"
    if len(indices) > 1:
        return "occurs with several spellings"
    (leaf,) = leaves
    type_ = spark_type(leaf)
    if type_ is None:
        logical = leaf.logical_type.type.lower()
        return f"is stored as {leaf.physical_type}" + (f" ({logical})" if logical != "none" else "")
    if type_ != wanted.type:
        return f"is {shown_type(type_)}, but {shown_type(wanted.type)} in the table,"
    stored = _field_type(schema, leaf.path)
    if stored is None:
        return "has a dot in its name"
    if not _is_readable_as(stored, type_):
        return "has a special Arrow type"
    if type_ in _CALENDAR_TYPES and is_on_old_calendar(footer):
        return "may use the Julian calendar (before 1582)"
    return None


def _field_type(stored: pa.DataType, path: str) -> pa.DataType | None:
    """Return the type of a field by path; None if a name in the path contains dots."""
    for name in path.split("."):
        if not pa.types.is_struct(stored) or stored.get_field_index(name) < 0:
            return None
        stored = stored.field(name).type
    return stored


def _is_readable_as(stored: pa.DataType, type_: str) -> bool:
    """Return whether pyarrow reads a column with a type that Spark's type allows.

    A file may embed a schema of Arrow types, such as durations, which pyarrow follows and Spark
    ignores.
    """
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    kinds = _ARROW_KINDS.get(type_.partition("(")[0])
    if kinds is None:
        return bool(stored == arrow_type(type_))
    return any(is_of_kind(stored) for is_of_kind in kinds)


def is_on_old_calendar(footer: pq.FileMetaData) -> bool:
    """Return whether Spark may have written the file's times in the calendar used before 1582."""
    marks = footer.metadata or {}
    if any(mark in marks for mark in _LEGACY_MARKS):
        return True
    version = marks.get(_SPARK_VERSION)
    if version is None:
        return False
    major, _, rest = version.decode(errors="replace").partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdigit() and minor.isdigit()):
        return True
    return (int(major), int(minor)) < (3, 1)
