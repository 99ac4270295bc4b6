"""Tables of a lake: files that a log or a manifest lists, with columns by number or by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow.parquet as pq

from runtime.scan.files import NotScannable
from runtime.scan.metadata import find_misfit, is_flat, of_footers, read_footer
from runtime.scan.pruning import ValueRange, can_be_true, range_of_value
from runtime.scan.stores import Store
from runtime.spec.expressions import Expression
from runtime.spec.scan import PartitionValue, ScanFile, ScanSource
from runtime.spec.table import Column

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class LakeColumn:
    """A column of a table.

    Attributes:
        name: its name in the table.
        type: Spark's DDL spelling.
        stored: what files may call it that do not number their columns.
        field_id: its number in files that do; None: `stored` alone counts.
    """

    name: str
    type: str
    stored: tuple[str, ...]
    field_id: int | None = None


@dataclass(frozen=True)
class LakeFile:
    """A file of a table.

    Attributes:
        path: absolute, on this machine, or a URI in an object store.
        partition: the values of the partition columns, as `ScanFile` holds them.
        n_rows: how many rows the log says it has; None: it does not say.
        ranges: what the log says of columns, by their names.
        needed: columns that are not NULL where the file lacks them: the log has their values.
        n_bytes: how long the log says it is; 0: it does not say.
    """

    path: str
    partition: tuple[PartitionValue, ...] = ()
    n_rows: int | None = None
    ranges: Mapping[str, ValueRange] = field(default_factory=dict, hash=False)
    needed: frozenset[str] = frozenset()
    n_bytes: int = 0


@dataclass(frozen=True)
class Snapshot:
    """A table as it is in one version.

    Attributes:
        path: the table, as the user wrote it.
        version: which version it is, for messages.
        columns: the columns, those of partitions among them, in their order.
        partition_columns: names of the columns whose values the log says, file by file.
        files: the files.
    """

    path: str
    version: str
    columns: tuple[LakeColumn, ...]
    partition_columns: tuple[str, ...]
    files: tuple[LakeFile, ...]

    @property
    def in_files(self) -> tuple[LakeColumn, ...]:
        """The columns that are in the files."""
        return tuple(c for c in self.columns if c.name not in self.partition_columns)

    def pruned(self, filters: Sequence[Expression]) -> Snapshot:
        """The files in which all filters can be true, by what the log says of them."""
        kept = tuple(
            file
            for file in self.files
            if all(can_be_true(condition, self._ranges(file).get) for condition in filters)
        )
        return replace(self, files=kept)

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
) -> ScanSource | NotScannable:
    """The files of a snapshot as the Arrow scan reads them, or why it cannot.

    Every footer of the files that are left is read. A column that a file lacks is NULL in it; one
    that it has must be flat and of the type that the table has.

    Args:
        snapshot: the table.
        columns: the columns needed, with Spark's names and types; `column.field` of structs.
        filters: conditions of which all must be true for a row to count.
        store: the object store that the files are in; None: they are on this machine.
    """
    known = {column.name.lower(): column for column in snapshot.columns}
    names = [name.lower() for name in snapshot.partition_columns]
    in_files: list[Column] = []
    in_names: list[Column] = []
    for column in columns:
        if column.name.lower() not in known:
            return NotScannable(f"{column.name} is a field of a column")
        if not is_flat(column.type):
            return NotScannable(f"column {column.name} is {column.type.upper()}")
        (in_names if column.name.lower() in names else in_files).append(column)
    kept = snapshot.pruned(filters).files
    footers = read_footers([file.path for file in kept], store)
    if isinstance(footers, NotScannable):
        return footers
    positions = [names.index(column.name.lower()) for column in in_names]
    wanted = [known[column.name.lower()] for column in in_files]
    files, n_rows = [], 0
    for file, footer in zip(kept, footers, strict=True):
        stored = stored_names(footer, wanted, file.needed)
        if isinstance(stored, NotScannable):
            return NotScannable(f"{stored.reason} in {file.path}")
        as_stored = [
            Column(name, column.type)
            for column, name in zip(in_files, stored, strict=True)
            if name is not None
        ]
        misfit = find_misfit(file.path, footer, as_stored)
        if misfit is not None:
            return misfit
        n_rows += footer.num_rows
        values = tuple(file.partition[position] for position in positions)
        files.append(ScanFile(file.path, values, stored))
    return ScanSource(snapshot.path, tuple(files), tuple(in_files), tuple(in_names), n_rows=n_rows)


def read_footers(
    paths: Sequence[str], store: Store | None = None
) -> list[pq.FileMetaData] | NotScannable:
    """The footers of files, read in parallel; the first that cannot be says why."""
    footers = of_footers([*map(ScanFile, paths)], lambda file: read_footer(file, store), store)
    unread = (footer for footer in footers if isinstance(footer, NotScannable))
    return next(unread, footers)


def stored_names(
    footer: pq.FileMetaData, columns: Sequence[LakeColumn], needed: Collection[str] = ()
) -> tuple[str | None, ...] | NotScannable:
    """What a file calls some columns of its table; None for those that it lacks.

    Args:
        footer: the file's.
        columns: the columns.
        needed: those that it may not lack.
    """
    schema = footer.schema.to_arrow_schema()
    by_id: dict[int, str] = {}
    for each in schema:
        number = (each.metadata or {}).get(_FIELD_ID)
        if number is not None:
            by_id[int(number)] = each.name
    spelled: dict[str, list[str]] = {}
    for name in schema.names:
        spelled.setdefault(name.lower(), []).append(name)
    found: list[str | None] = []
    for column in columns:
        if column.field_id is not None and by_id:
            names = [by_id[column.field_id]] if column.field_id in by_id else []
        elif column.field_id is not None and not column.stored:
            return NotScannable(f"column {column.name} has neither a number nor a name")
        else:
            names = [name for each in column.stored for name in spelled.get(each.lower(), [])]
        if len(names) > 1:
            return NotScannable(f"column {column.name} has several spellings")
        if not names and column.name in needed:
            return NotScannable(f"column {column.name} is missing")
        found.append(names[0] if names else None)
    return tuple(found)
