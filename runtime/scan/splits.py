"""Row groups to splits of about the same number of bytes, less those that filters rule out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from runtime.errors import ExecutionError
from runtime.scan.files import NotScannable
from runtime.scan.metadata import column_indices, of_footers, read_footer
from runtime.scan.pruning import ValueRange, can_be_true, column_range, range_of_value
from runtime.scan.stores import Store
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanFile, ScanSource

# A task that reads less than this is not worth its start.
LEAST_BYTES = 4 << 20
# One that reads more is long to do again, and holds up the rest.
SPLIT_BYTES = 128 << 20
# Before and after all times
_FIRST_US, _LAST_US = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class FilePart:
    """Some row groups of a file.

    Attributes:
        file: the file.
        row_groups: their numbers, ascending.
        columns: what the file calls the columns of the source; None: it has none, all are NULL.
        n_rows: the rows of those row groups.
        n_bytes: what their columns take up when decompressed.
        n_rows_in_file: the rows of the whole file, by which a file that changed is found out.
        times_us: the first and the last time of those rows, if they are known and asked for.
    """

    file: ScanFile
    row_groups: tuple[int, ...]
    columns: tuple[str | None, ...]
    n_rows: int
    n_bytes: int
    n_rows_in_file: int
    times_us: tuple[int, int] | None = None


Split = tuple[FilePart, ...]


@dataclass(frozen=True)
class FileRange:
    """The row groups of a file whose middle is within a range of its bytes.

    So tasks that read parts of a file need neither its footer beforehand nor each other's parts.
    """

    file: ScanFile
    start: int
    stop: int

    def text(self) -> str:
        """Return the range as the text of a split; `of` reads it."""
        file = self.file
        return json.dumps([file.path, file.n_bytes, file.modified_ns, self.start, self.stop])

    @classmethod
    def of(cls, text: str) -> FileRange:
        """Return the range that `text` has written."""
        path, n_bytes, modified_ns, start, stop = json.loads(text)
        return cls(ScanFile(path, (), (), n_bytes, modified_ns), start, stop)

    def row_groups(self, footer: pq.FileMetaData) -> tuple[int, ...]:
        """The numbers of the row groups that have rows."""
        groups = ((n, footer.row_group(n)) for n in range(footer.num_row_groups))
        return tuple(n for n, g in groups if g.num_rows and self.start <= _middle(g) < self.stop)


def _middle(row_group: pq.RowGroupMetaData) -> int:
    """The byte of the file that is in the middle of a row group."""
    chunk = row_group.column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    chunks = (row_group.column(i) for i in range(row_group.num_columns))
    return int(start + sum(chunk.total_compressed_size for chunk in chunks) // 2)


@dataclass(frozen=True)
class RowGroup:
    """A row group in which filters can be true.

    Attributes:
        number: its number in the file.
        n_rows: its rows.
        compressed_bytes: what the columns of the source take up in the file.
        n_bytes: what they take up when decompressed.
        times_us: the first and the last time of its rows, if they are known and asked for.
    """

    number: int
    n_rows: int
    compressed_bytes: int
    n_bytes: int
    times_us: tuple[int, int] | None = None


@dataclass(frozen=True)
class FileGroups:
    """What is to be read of a file.

    Attributes:
        columns: what the file calls the columns of the source; None: it has none.
        n_rows: the rows of the whole file.
        row_groups: the row groups.
    """

    columns: tuple[str | None, ...]
    n_rows: int
    row_groups: tuple[RowGroup, ...]


@dataclass(frozen=True)
class Sought:
    """What is sought in the files of a source.

    Attributes:
        source: the columns; its files do not matter.
        filters: the conditions, of which all must be true.
        store: where the files are; None: on this machine.
        time: the column whose first and last values are wanted; None: of none.
    """

    source: ScanSource
    filters: tuple[Expression, ...]
    store: Store | None = None
    time: str | None = None


# Finds the row groups of files, in whichever processes
GroupsOf = Callable[[Sequence[ScanFile], Sought], Sequence[FileGroups]]


def groups_here(files: Sequence[ScanFile], sought: Sought) -> list[FileGroups]:
    """The row groups of files, whose footers this process reads.

    Raises:
        ExecutionError: a file is no longer what it was when the query was planned.
    """
    return of_footers(files, lambda file: _groups_of(file, sought), sought.store)


def plan_splits(
    source: ScanSource,
    filters: Sequence[Expression],
    n_splits: int,
    least_bytes: int = LEAST_BYTES,
    store: Store | None = None,
    most_bytes: int = SPLIT_BYTES,
    groups_of: GroupsOf = groups_here,
    time: str | None = None,
) -> list[Split]:
    """Splits that together have every row for which all filters can be true.

    Each split is a stretch of the row groups in order, so that rows that were written together
    are aggregated together.

    Args:
        source: the files.
        filters: the conditions, of which all must be true.
        n_splits: how many splits are wanted, if there is enough to read for as many.
        least_bytes: how much a split reads at least, but the only one.
        store: where the files are; None: on this machine.
        most_bytes: how much a split reads at most, unless its only row group has more: of large
            tables there are more splits than are wanted.
        groups_of: reads the footers.
        time: the column of which `times_us` is wanted.

    Raises:
        ExecutionError: a file is no longer what it was when the query was planned.
    """
    sought = Sought(replace(source, files=()), tuple(filters), store, time)
    found = groups_of(source.files, sought)
    groups = [
        (file, of_file, group)
        for file, of_file in zip(source.files, found, strict=True)
        for group in of_file.row_groups
    ]
    total = sum(group.compressed_bytes for _, _, group in groups)
    n_splits = max(1, min(n_splits, total // least_bytes), -(-total // most_bytes))
    splits: list[list[tuple[ScanFile, FileGroups, RowGroup]]] = [[] for _ in range(n_splits)]
    before = 0
    for entry in groups:
        # By the middle of the row group, so that bytes are off by half a row group at most.
        middle = 2 * before + entry[2].compressed_bytes
        splits[min(middle * n_splits // (2 * total), n_splits - 1) if total else 0].append(entry)
        before += entry[2].compressed_bytes
    return [_parts(split) for split in splits if split]


def times_of(parts: Iterable[RowGroup | FilePart]) -> tuple[int, int] | None:
    """The first and the last time of all of them; None if that of one is not known."""
    known = []
    for part in parts:
        if part.times_us is None:
            return None
        known.append(part.times_us)
    return min(first for first, _ in known), max(last for _, last in known)


@dataclass(frozen=True)
class OwnTimes:
    """When a split has rows, and when no other split has any.

    Attributes:
        first_us: its first row's time.
        last_us: that of its last one.
        after_us: rows of other splits are at this time or before it,
        until_us: or at this one or after it.
    """

    first_us: int
    last_us: int
    after_us: int
    until_us: int


def own_times(splits: Sequence[Split]) -> list[OwnTimes | None]:
    """The times that are each split's alone; None for a split that has none, or none for sure.

    Rows that were written in the order of time are in splits that hardly overlap.
    """
    times = [times_of(split) for split in splits]
    known = [each for each in times if each is not None]
    own: list[OwnTimes | None] = [None] * len(splits)
    if len(known) < len(splits):
        return own
    order = sorted(range(len(splits)), key=known.__getitem__)
    after_us = _FIRST_US
    for position, number in enumerate(order):
        first_us, last_us = known[number]
        is_last = position + 1 == len(order)
        until_us = _LAST_US if is_last else known[order[position + 1]][0]
        if after_us < until_us:
            own[number] = OwnTimes(first_us, last_us, after_us, until_us)
        after_us = max(after_us, last_us)
    return own


def _groups_of(file: ScanFile, sought: Sought) -> FileGroups:
    source = sought.source
    footer = read_footer(file, sought.store)
    if isinstance(footer, NotScannable):
        raise ExecutionError(f"cannot read {source.path}: {footer.reason}")
    indices = column_indices(footer)
    columns: list[int | None] = []
    for name in file.names or [column.name for column in source.columns]:
        index = None if name is None else indices.get(name.lower())
        if index is None and name is not None:
            raise ExecutionError(f"column {name} is gone from {file.path}")
        columns.append(index)
    groups = []
    for number in range(footer.num_row_groups):
        row_group = footer.row_group(number)
        if row_group.num_rows == 0:
            continue
        range_of = _ranges(source, file, footer, columns, number)
        if not all(can_be_true(condition, range_of) for condition in sought.filters):
            continue
        chunks = [row_group.column(index) for index in columns if index is not None]
        groups.append(
            RowGroup(
                number,
                row_group.num_rows,
                sum(chunk.total_compressed_size for chunk in chunks),
                sum(chunk.total_uncompressed_size for chunk in chunks),
                None if sought.time is None else _times_us(range_of(sought.time)),
            )
        )
    paths = tuple(None if i is None else footer.schema.column(i).path for i in columns)
    return FileGroups(paths, footer.num_rows, tuple(groups))


def _ranges(
    source: ScanSource,
    file: ScanFile,
    footer: pq.FileMetaData,
    columns: Sequence[int | None],
    number: int,
) -> Callable[[str], ValueRange | None]:
    """What is known of the columns in one row group."""
    row_group = footer.row_group(number)
    n_rows = row_group.num_rows
    of_file = {
        column.name: (index, column.type)
        for column, index in zip(source.columns, columns, strict=True)
    }
    of_path = {
        column.name: value
        for column, value in zip(source.partition_columns, file.partition_values, strict=True)
    }

    def range_of(name: str) -> ValueRange | None:
        if name in of_path:
            return range_of_value(of_path[name], n_rows)
        if name not in of_file:
            return None
        index, type_ = of_file[name]
        if index is None:
            return ValueRange(None, None, n_rows, n_rows)
        statistics = row_group.column(index).statistics
        return column_range(statistics, footer.schema.column(index), type_, n_rows)

    return range_of


def _times_us(values: ValueRange | None) -> tuple[int, int] | None:
    if values is None or not isinstance(values.low, int) or not isinstance(values.high, int):
        return None
    return values.low, values.high


def _parts(entries: Sequence[tuple[ScanFile, FileGroups, RowGroup]]) -> Split:
    by_file: dict[ScanFile, list[RowGroup]] = {}
    whole: dict[ScanFile, FileGroups] = {}
    for file, of_file, group in entries:
        by_file.setdefault(file, []).append(group)
        whole[file] = of_file
    return tuple(
        FilePart(
            file,
            tuple(group.number for group in groups),
            whole[file].columns,
            sum(group.n_rows for group in groups),
            sum(group.n_bytes for group in groups),
            whole[file].n_rows,
            times_of(groups),
        )
        for file, groups in by_file.items()
    )
