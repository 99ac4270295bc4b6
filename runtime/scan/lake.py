"""Lake tables: files listed by a log or manifest, with columns matched by ID or name.

Functions raise `Refused` where the scan cannot read a file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pyarrow.parquet as pq

from runtime.refusal import Refused, refuse
from runtime.scan.metadata import check_types, is_flat, map_footers, read_footer
from runtime.scan.pruning import ValueRange, can_be_true, range_of_value
from runtime.scan.stores import Store
from runtime.shown_types import shown_type
from runtime.spec.expressions import Expression
from runtime.spec.scan import PartitionValue, ScanFile, ScanSource
from runtime.spec.table import Column

_FIELD_ID = b"PARQUET:field_id"
# Number of footers read in parallel while columns are searched
_FOOTERS = 64


@dataclass(frozen=True)
class LakeColumn:
    """Column of a lake table.

    Attributes:
        name: Name in the table.
        type: Spark type in DDL spelling.
        stored: Possible names in files without field IDs.
        field_id: Field ID, for files that have them. None: match by `stored` only.
    """

    name: str
    type: str
    stored: tuple[str, ...]
    field_id: int | None = None


@dataclass(frozen=True)
class LakeFile:
    """File of a lake table.

    Attributes:
        path: Absolute path on this machine, or URI in an object store.
        partition: Values of the partition columns, as in `ScanFile`.
        n_rows: Number of rows according to the log; None if unknown.
        ranges: Column statistics from the log, by column name.
        needed: Columns that are not NULL if missing from the file, because the log has their
            values.
        n_bytes: Size according to the log; 0 if unknown.
    """

    path: str
    partition: tuple[PartitionValue, ...] = ()
    n_rows: int | None = None
    ranges: Mapping[str, ValueRange] = field(default_factory=dict, hash=False)
    needed: frozenset[str] = frozenset()
    n_bytes: int = 0


@dataclass(frozen=True)
class Snapshot:
    """Version of a lake table.

    Attributes:
        path: Table path as written by the user.
        version: Version for messages.
        columns: Columns in order, including partition columns.
        partition_columns: Names of columns whose values are in the log, per file.
        files: Files.
    """

    path: str
    version: str
    columns: tuple[LakeColumn, ...]
    partition_columns: tuple[str, ...]
    files: tuple[LakeFile, ...]

    @property
    def stored_columns(self) -> tuple[LakeColumn, ...]:
        """Columns stored in the files."""
        return tuple(c for c in self.columns if c.name not in self.partition_columns)

    def prune(self, filters: Sequence[Expression]) -> Snapshot:
        """Remove the files for which the log's statistics rule out a filter."""
        files = tuple(
            file
            for file in self.files
            if all(can_be_true(condition, self._ranges(file).get) for condition in filters)
        )
        return replace(self, files=files)

    def _ranges(self, file: LakeFile) -> dict[str, ValueRange]:
        n_rows = 1 if file.n_rows is None else file.n_rows
        of_partition = {
            name: range_of_value(value, n_rows)
            for name, value in zip(self.partition_columns, file.partition, strict=True)
        }
        return {**file.ranges, **of_partition}


def scan_source_of(
    snapshot: Snapshot,
    columns: Sequence[Column],
    filters: Sequence[Expression] = (),
    store: Store | None = None,
) -> ScanSource:
    """Return the files of a snapshot for the Arrow scan.

    Reads the footer of every file not ruled out. A column missing from a file is NULL; other
    columns must be flat and of the table's type.

    Args:
        snapshot: Table version.
        columns: Columns to read, with Spark's names and types; `column.field` for structs.
        filters: Conditions, joined by AND.
        store: Object store of the files; None for this machine.
    """
    column_of_name = {column.name.lower(): column for column in snapshot.columns}
    names = [name.lower() for name in snapshot.partition_columns]
    in_files: list[Column] = []
    in_names: list[Column] = []
    for column in columns:
        if column.name.lower() not in column_of_name:
            refuse(f"{column.name} is a field of a struct")
        if not is_flat(column.type):
            refuse(f"column {column.name} is {shown_type(column.type)}")
        (in_names if column.name.lower() in names else in_files).append(column)
    lake_files = snapshot.prune(filters).files
    footers = read_footers([file.path for file in lake_files], store)
    positions = [names.index(column.name.lower()) for column in in_names]
    lake_columns = [column_of_name[column.name.lower()] for column in in_files]
    files, n_rows = [], 0
    for file, footer in zip(lake_files, footers, strict=True):
        stored = stored_names(file.path, footer, lake_columns, file.needed)
        as_stored = [
            Column(name, column.type)
            for column, name in zip(in_files, stored, strict=True)
            if name is not None
        ]
        check_types(file.path, footer, as_stored)
        n_rows += footer.num_rows
        values = tuple(file.partition[position] for position in positions)
        files.append(ScanFile(file.path, values, stored))
    return ScanSource(snapshot.path, tuple(files), tuple(in_files), tuple(in_names), n_rows=n_rows)


def read_footers(paths: Sequence[str], store: Store | None = None) -> list[pq.FileMetaData]:
    """Read the footers of files in parallel."""
    return map_footers([*map(ScanFile, paths)], lambda file: read_footer(file, store), store)


def columns_in_no_file(snapshot: Snapshot, store: Store | None = None) -> tuple[LakeColumn, ...]:
    """Return the stored columns that no file has. Usually the first file has them all.

    Args:
        snapshot: Table version with all its files.
        store: Object store of the files; None for this machine.
    """
    missing = snapshot.stored_columns
    paths = [file.path for file in snapshot.files]
    for start, end in pairwise([0, 1, *range(_FOOTERS, len(paths), _FOOTERS), len(paths)]):
        part = paths[start:end]
        try:
            for path, footer in zip(part, read_footers(part, store), strict=True):
                names = stored_names(path, footer, missing)
                missing = tuple(c for c, name in zip(missing, names, strict=True) if name is None)
        except Refused:
            return ()  # reading the table reports the reason
        if not missing:
            break
    return missing if paths else ()


def stored_names(
    path: str, footer: pq.FileMetaData, columns: Sequence[LakeColumn], needed: Collection[str] = ()
) -> tuple[str | None, ...]:
    """Return the file's own names of some columns; None for missing ones.

    Args:
        path: Path of the file, for refusals.
        footer: Footer of the file.
        columns: Columns.
        needed: Names of columns that must not be missing.
    """
    schema = footer.schema.to_arrow_schema()
    by_id: dict[int, str] = {}
    for arrow_field in schema:
        number = (arrow_field.metadata or {}).get(_FIELD_ID)
        if number is not None:
            by_id[int(number)] = arrow_field.name
    spelled: dict[str, list[str]] = {}
    for name in schema.names:
        spelled.setdefault(name.lower(), []).append(name)
    stored: list[str | None] = []
    for column in columns:
        if column.field_id is not None and by_id:
            names = [by_id[column.field_id]] if column.field_id in by_id else []
        elif column.field_id is not None and not column.stored:
            refuse(f"column {column.name} has neither a field id nor a name in {path}")
        else:
            names = [
                name for spelling in column.stored for name in spelled.get(spelling.lower(), [])
            ]
        if len(names) > 1:
            refuse(f"column {column.name} occurs with several spellings in {path}")
        if not names and column.name in needed:
            refuse(f"column {column.name} is missing in {path}")
        stored.append(names[0] if names else None)
    return tuple(stored)
