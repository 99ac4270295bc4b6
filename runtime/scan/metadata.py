"""What Parquet footers say: whether all files of a table can be scanned with Spark's meaning."""

from __future__ import annotations

import json
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from runtime.compute.arrow.types import arrow_type
from runtime.scan.files import NO_FILES, NotScannable, is_hidden, list_files, partition_files
from runtime.scan.stores import Store, explained, open_stored
from runtime.spec.scan import ScanFile, ScanSource
from runtime.spec.table import Column

T = TypeVar("T")

_READERS = 16
# Of so many partitions Spark may read files that do not fit
_MOST_GROUPS = 8
# So many are looked at before it is asked whether most do not fit
_LOOKED_AT = 256
# Footers are remembered up to so many bytes of theirs; in memory they take a few times as much
_REMEMBERED_BYTES = 32 << 20
# Read at once of a file of a store: the footers of most are shorter
_TAIL_BYTES = 64 << 10
# Of the files of a stream about so many are looked at before it starts
_SAMPLED_FILES = 64

# Spark marks files whose dates and times are on the old hybrid calendar by these keys; versions
# before 3.0 (3.1 for INT96) wrote them without a mark.
_SPARK_VERSION = b"org.apache.spark.version"
_LEGACY_MARKS = (b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96")
_CALENDAR_TYPES = ("date", "timestamp", "timestamp_ntz")

# Spark's types of columns without a logical type, by their physical ones
_PHYSICAL_TYPES = {
    "BOOLEAN": "boolean",
    "FLOAT": "float",
    "DOUBLE": "double",
    "INT96": "timestamp",
    "INT32": "int",
    "INT64": "bigint",
    "BYTE_ARRAY": "binary",
}
# What pyarrow may hand a column out as; one of another type, as its very own alone
_ARROW_KINDS = {
    "decimal": (pa.types.is_decimal,),
    "timestamp": (pa.types.is_timestamp,),
    "timestamp_ntz": (pa.types.is_timestamp,),
    "date": (pa.types.is_date,),
    "string": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
}


class _Footers:
    """The footers that were read last, up to so many bytes of them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self._found: OrderedDict[tuple[str, int, int], pq.FileMetaData] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, int, int]) -> pq.FileMetaData | None:
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
            return self._found.get(key)

    def add(self, key: tuple[str, int, int], footer: pq.FileMetaData) -> None:
        with self._lock:
            if key not in self._found:
                self._n_bytes += footer.serialized_size
            self._found[key] = footer
            while self._n_bytes > self._most_bytes and len(self._found) > 1:
                self._n_bytes -= self._found.popitem(last=False)[1].serialized_size


_footers = _Footers(_REMEMBERED_BYTES)


@dataclass(frozen=True)
class WantedColumns:
    """What is looked for in the footers of a table's files.

    Attributes:
        columns: the columns needed that are in the files.
        in_names: the names in lower case of all columns that directories name.
        store: where the files are; None: on this machine.
    """

    columns: tuple[Column, ...]
    in_names: frozenset[str] = frozenset()
    store: Store | None = None


@dataclass(frozen=True)
class Looked:
    """What the footer of a file says: its rows, and why it cannot be scanned, if it cannot."""

    n_rows: int = 0
    misfit: str | None = None


# Looks at files, in whichever processes
LookAt = Callable[[Sequence[ScanFile], WantedColumns], Sequence[Looked]]


def look_here(files: Sequence[ScanFile], wanted: WantedColumns) -> list[Looked]:
    """What the footers of files say, read in parallel by this process, unless most do not fit."""
    found: list[Looked] = []
    for start in range(0, len(files), _LOOKED_AT):
        part = files[start : start + _LOOKED_AT]
        found += of_footers(part, lambda file: _look_at(file, wanted), wanted.store)
        if are_too_many(sum(each.misfit is not None for each in found), len(found)):
            break
    return found


def of_footers(
    files: Sequence[ScanFile], work: Callable[[ScanFile], T], store: Store | None
) -> list[T]:
    """What is made of the footer of each file; those that are not remembered are read in parallel.

    Args:
        files: the files.
        work: asks `read_footer`.
        store: where the files are; None: on this machine.
    """
    if store is None and all(map(_is_remembered, files)):
        return [work(file) for file in files]
    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(work, files))


def _is_remembered(file: ScanFile) -> bool:
    """Whether the footer of a file of this machine is in memory."""
    try:
        return _footers.get(_footer_key(file, None)) is not None
    except OSError:
        return False


def are_too_many(n_misfits: int, n_files: int) -> bool:
    """Whether so many files do not fit that Spark had better read all of them."""
    return 2 * n_misfits > n_files


def _look_at(file: ScanFile, wanted: WantedColumns) -> Looked:
    footer = read_footer(file, wanted.store)
    if isinstance(footer, NotScannable):
        return Looked(misfit=footer.reason)
    repeated = sorted(wanted.in_names & _file_columns(footer).keys())
    if repeated:
        return Looked(misfit=f"column {repeated[0]} is both in {file.path} and in its path")
    misfit = find_misfit(file.path, footer, wanted.columns)
    return Looked(footer.num_rows, None if misfit is None else misfit.reason)


def find_source(
    path: str,
    roots: Sequence[str],
    columns: Sequence[Column],
    store: Store | None = None,
    look_at: LookAt = look_here,
    *,
    leaves_some: bool = False,
) -> ScanSource | NotScannable:
    """The files of a table as the Arrow scan reads them, or why it cannot.

    Every footer is read, in parallel. Each file must have the columns, flat and of the very types
    given, which are those that Spark found; what Spark would convert, fill with NULL, shift
    between calendars or refuse is left to Spark.

    Args:
        path: what the user wrote.
        roots: the absolute paths that it stands for, on this machine or in a store.
        columns: the columns needed, with Spark's names and types. Those that directories name
            become partition columns.
        store: the store; None: they are of this machine.
        look_at: reads the footers.
        leaves_some: whether Spark can read some of the files beside the scan.
    """
    listing = list_files(roots, store)
    if isinstance(listing, NotScannable):
        return listing
    named = {name.lower() for name in listing.partition_columns}
    in_files = tuple(column for column in columns if column.name.lower() not in named)
    in_names = tuple(column for column in columns if column.name.lower() in named)
    files = partition_files(listing, in_names)
    if isinstance(files, NotScannable):
        return files
    looked = look_at(files, WantedColumns(in_files, frozenset(named), store))
    misfits = [each.misfit for each in looked if each.misfit is not None]
    # where most do not fit, the rest is not looked at
    if misfits and not (leaves_some and len(looked) == len(files)):
        return NotScannable(misfits[0])
    if are_too_many(len(misfits), len(looked)):
        return NotScannable(misfits[0])
    fits = [file for file, each in zip(files, looked, strict=True) if each.misfit is None]
    others = [file for file, each in zip(files, looked, strict=True) if each.misfit is not None]
    is_struct = any("." in column.name for column in in_files)
    if others and (is_struct or len({file.partition_values for file in others}) > _MOST_GROUPS):
        return NotScannable(misfits[0])
    n_rows = sum(each.n_rows for each in looked)
    return ScanSource(path, tuple(fits), in_files, in_names, n_rows=n_rows, others=tuple(others))


def find_stream_source(
    path: str, roots: Sequence[str], columns: Sequence[Column], store: Store | None = None
) -> ScanSource | NotScannable:
    """The same for a directory whose files are read as they come, if files there are like that.

    Files may be there already or not. Of many a sample is looked at: each is once more when it is
    read. A column that a file lacks is NULL there, as to Spark where the columns are declared. The
    source names no files, for it goes to every task of every micro-batch.

    Args:
        path: what the user wrote.
        roots: the absolute paths that it stands for.
        columns: as in `find_source`.
        store: as in `find_source`.
    """
    for column in columns:
        if not is_flat(column.type):
            return NotScannable(f"column {column.name} is {column.type.upper()}")
    if store is None and not any(map(_holds_anything, roots)):
        return ScanSource(path, (), tuple(columns))
    listing = list_files(roots, store)
    if isinstance(listing, NotScannable):
        nothing = store is not None and listing == NotScannable(NO_FILES)
        return ScanSource(path, (), tuple(columns)) if nothing else listing
    if listing.partition_columns:
        return NotScannable("names of directories make partition columns")
    files = [ScanFile(file, (), (), *listing.stamps.get(file, ())) for file, _ in listing.files]
    sampled = files[:: -max(1, len(files) // _SAMPLED_FILES)]
    footers = of_footers(sampled, lambda file: read_footer(file, store), store)
    for file, footer in zip(sampled, footers, strict=True):
        if isinstance(footer, NotScannable):
            return footer
        misfit = find_misfit(file.path, footer, present_columns(footer, columns))
        if misfit is not None:
            return misfit
    return ScanSource(path, (), tuple(columns))


def find_misfit(
    path: str, footer: pq.FileMetaData, columns: Sequence[Column]
) -> NotScannable | None:
    """Why columns of a file cannot be scanned as the table's types; None if they can."""
    found = _file_columns(footer)
    schema = pa.struct(list(footer.schema.to_arrow_schema()))
    for column in columns:
        indices = found.get(column.name.lower(), [])
        problem = _problem(footer, indices, schema, column)
        if problem is not None:
            return NotScannable(f"column {column.name} {problem} in {path}")
    return None


def present_columns(footer: pq.FileMetaData, columns: Sequence[Column]) -> tuple[Column, ...]:
    """Those of some columns that a file has, in whatever type."""
    found = _file_columns(footer)
    return tuple(column for column in columns if column.name.lower() in found)


def column_indices(footer: pq.FileMetaData) -> dict[str, int]:
    """The indices of the columns of a file, by their names in lower case.

    `column.field` is a field of a struct. Columns whose names differ in case alone are left out.
    """
    found = _file_columns(footer).items()
    return {name: indices[0] for name, indices in found if len(indices) == 1}


def spark_type(column: pq.ColumnSchema) -> str | None:
    """Spark's type for a flat Parquet column; None for those that it converts or refuses.

    The table is that of Spark's ParquetToSparkSchemaConverter with its settings at their defaults.
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


def read_footer(file: ScanFile, store: Store | None = None) -> pq.FileMetaData | NotScannable:
    """The footer of a file; that of a file that did not change is remembered."""
    try:
        key = _footer_key(file, store)
    except OSError as error:
        return _unreadable(file.path, error)
    known = _footers.get(key)
    if known is not None:
        return known
    footer = open_footer(file.path, store)
    # of a file of a store that was not listed nobody knows whether it changes
    if key[1] and not isinstance(footer, NotScannable):
        _footers.add(key, footer)
    return footer


def _footer_key(file: ScanFile, store: Store | None) -> tuple[str, int, int]:
    """What changes with a file: its path, its bytes, and when it was written, in ns since 1970.

    Raises:
        OSError: there is no such file on this machine.
    """
    if store is not None:
        return file.path, file.n_bytes, file.modified_ns
    status = os.stat(file.path)
    return file.path, status.st_size, status.st_mtime_ns


def open_footer(path: str, store: Store | None = None) -> pq.FileMetaData | NotScannable:
    """The footer of a file, which is not remembered."""
    if store is None:
        try:
            with pa.OSFile(path) as file:
                return footer_of(file, path)
        except OSError as error:
            return _unreadable(path, error)
    try:
        with explained(store, path), open_stored(store, path) as file:
            return footer_of(file, path)
    except OSError as error:
        return NotScannable(f"cannot read {path}: {error.strerror or error}")


def footer_of(file: pa.NativeFile, path: str) -> pq.FileMetaData | NotScannable:
    """The footer of an open file, which is read at once if it is not long.

    Raises:
        OSError: the file cannot be read.
    """
    n_bytes = file.size()
    n_read = min(n_bytes, _TAIL_BYTES)
    tail = file.read_at(n_read, n_bytes - n_read)
    n_footer = int.from_bytes(tail[-8:-4], "little") + 8
    if n_read < n_footer <= n_bytes and tail[-4:] == b"PAR1":
        tail = file.read_at(n_footer, n_bytes - n_footer)
    if tail[-4:] == b"PARE":
        return NotScannable(f"{path} has encrypted columns")
    try:
        footer = pq.read_metadata(pa.BufferReader(tail))
    except (OSError, pa.ArrowException) as error:
        return _unreadable(path, error)
    if footer.serialized_size != n_footer - 8:
        # A signature follows: columns are encrypted, and pyarrow ends the process if asked about
        # one of them.
        return NotScannable(f"{path} has encrypted columns")
    return footer


def _unreadable(path: str, error: Exception) -> NotScannable:
    # pyarrow's message names the cause in its first sentence: not Parquet, encrypted, ...
    cause = str(error).splitlines()[0] if str(error) else type(error).__name__
    return NotScannable(f"pyarrow cannot open {path}: {cause}")


def _holds_anything(root: str) -> bool:
    """Whether a path is a file, or a directory with something in it that Spark does not skip."""
    return not os.path.isdir(root) or any(not is_hidden(name) for name in os.listdir(root))


def is_flat(type_: str) -> bool:
    """Whether a type of Spark's is neither nested nor one that Arrow lacks."""
    try:
        return not pa.types.is_nested(arrow_type(type_))
    except KeyError:
        return False


def _file_columns(footer: pq.FileMetaData) -> dict[str, list[int]]:
    """Indices of the leaf columns by the name of the top-level column they are in, and by path.

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
    """Why a column of a file cannot be scanned as the table's type, or None.

    Args:
        footer: the file's.
        indices: of the leaf columns that the name stands for.
        schema: the file's columns, as pyarrow hands them out.
        wanted: name and type in the table.
    """
    if not indices:
        return "has a dot in its name or is missing"
    leaves = [footer.schema.column(index) for index in indices]
    is_nested = any(leaf.path.lower() != wanted.name.lower() for leaf in leaves)
    if is_nested or any(leaf.max_repetition_level > 0 for leaf in leaves):
        return "is nested"
    if len(indices) > 1:
        return "has several spellings"
    (leaf,) = leaves
    type_ = spark_type(leaf)
    if type_ is None:
        logical = leaf.logical_type.type.lower()
        return f"is stored as {leaf.physical_type}" + (f" ({logical})" if logical != "none" else "")
    if type_ != wanted.type:
        return f"is {type_.upper()}, and {wanted.type.upper()} in the table,"
    stored = _field_type(schema, leaf.path)
    if stored is None:
        return "has a dot in its name"
    if not _is_kept(stored, type_):
        return "has an Arrow type of its own"
    if footer.num_row_groups:
        codec = footer.row_group(0).column(indices[0]).compression
        if codec != "UNCOMPRESSED" and not pa.Codec.is_available(codec.lower()):
            return f"is compressed by {codec}, which pyarrow does not know,"
    if type_ in _CALENDAR_TYPES and is_on_old_calendar(footer):
        return "may be on the calendar of before 1582"
    return None


def _field_type(stored: pa.DataType, path: str) -> pa.DataType | None:
    """The type of a field, or of one of a field of it; None if a name in the path has dots."""
    for name in path.split("."):
        if not pa.types.is_struct(stored) or stored.get_field_index(name) < 0:
            return None
        stored = stored.field(name).type
    return stored


def _is_kept(stored: pa.DataType, type_: str) -> bool:
    """Whether pyarrow hands a column out as what Spark takes it for.

    A file's writer may have left a schema of Arrow types, such as durations, that pyarrow goes by
    and Spark does not.
    """
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    kinds = _ARROW_KINDS.get(type_.partition("(")[0])
    if kinds is None:
        return bool(stored == arrow_type(type_))
    return any(is_of_kind(stored) for is_of_kind in kinds)


def is_on_old_calendar(footer: pq.FileMetaData) -> bool:
    """Whether a file of Spark's may have times on the calendar of before 1582."""
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
