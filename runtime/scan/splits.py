"""Distribute row groups over splits of similar size, dropping those that filters rule out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from runtime.errors import ExecutionError
from runtime.refusal import Refused
from runtime.scan.metadata import column_indices, map_footers, read_footer
from runtime.scan.pruning import ValueRange, can_be_true, column_range, range_of_value
from runtime.scan.ranges import MIN_BYTES, SPLIT_BYTES, FileRange
from runtime.scan.stores import Store
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanFile, ScanSource

if TYPE_CHECKING:
    import pyarrow.parquet as pq

# Earlier and later than all times
_FIRST_US, _LAST_US = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True)
class FilePart:
    """Some row groups of a file.

    Attributes:
        file: File.
        row_groups: Indices of the row groups, ascending.
        columns: The file's own names of the source's columns; None for missing ones, which are
            NULL.
        n_rows: Number of rows in those row groups.
        n_bytes: Uncompressed size of the columns.
        n_rows_in_file: Number of rows in the whole file, to detect that it has changed.
        times_us: First and last time of those rows, if requested and known.
    """

    file: ScanFile
    row_groups: tuple[int, ...]
    columns: tuple[str | None, ...]
    n_rows: int
    n_bytes: int
    n_rows_in_file: int
    times_us: tuple[int, int] | None = None


Split = tuple[FilePart, ...]


def row_groups_in(part: FileRange, footer: pq.FileMetaData) -> tuple[int, ...]:
    """Return the indices of the non-empty row groups of a part of a file."""
    groups = ((n, footer.row_group(n)) for n in range(footer.num_row_groups))
    return tuple(n for n, g in groups if g.num_rows and part.start <= _middle(g) < part.stop)


def _middle(row_group: pq.RowGroupMetaData) -> int:
    """Return the offset of the middle of a row group in its file."""
    chunk = row_group.column(0)
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    chunks = (row_group.column(i) for i in range(row_group.num_columns))
    return int(start + sum(chunk.total_compressed_size for chunk in chunks) // 2)


@dataclass(frozen=True)
class RowGroup:
    """Row group that filters do not rule out.

    Attributes:
        number: Index in the file.
        middle: Offset of its middle in the file, by which a FileRange selects it.
        n_rows: Number of rows.
        compressed_bytes: Compressed size of the source's columns.
        n_bytes: Uncompressed size of the source's columns.
        times_us: First and last time of its rows, if requested and known.
    """

    number: int
    middle: int
    n_rows: int
    compressed_bytes: int
    n_bytes: int
    times_us: tuple[int, int] | None = None


@dataclass(frozen=True)
class FileGroups:
    """Row groups to read from a file.

    Attributes:
        columns: The file's own names of the source's columns; None for missing ones.
        n_rows: Number of rows in the whole file.
        row_groups: Row groups.
    """

    columns: tuple[str | None, ...]
    n_rows: int
    row_groups: tuple[RowGroup, ...]


@dataclass(frozen=True)
class RowGroupCriteria:
    """Columns and filters for which row groups are selected.

    Attributes:
        source: Source with the columns; its files are ignored.
        filters: Conditions, joined by AND.
        store: Object store of the files; None for this machine.
        time: Column for `times_us`; None if not needed.
    """

    source: ScanSource
    filters: tuple[Expression, ...]
    store: Store | None = None
    time: str | None = None


# Function that selects the row groups of files, in this process or in tasks
SelectRowGroups = Callable[[Sequence[ScanFile], RowGroupCriteria], Sequence[FileGroups]]


def select_row_groups(files: Sequence[ScanFile], criteria: RowGroupCriteria) -> list[FileGroups]:
    """Select the row groups of files, reading the footers in this process.

    Raises:
        ExecutionError: A file has changed since planning.
    """
    return map_footers(files, lambda file: _groups_of(file, criteria), criteria.store)


def plan_splits(
    source: ScanSource,
    filters: Sequence[Expression],
    n_splits: int,
    least_bytes: int = MIN_BYTES,
    store: Store | None = None,
    most_bytes: int = SPLIT_BYTES,
    groups_of: SelectRowGroups = select_row_groups,
    time: str | None = None,
) -> list[Split]:
    """Return splits that together contain all rows for which all filters can be true.

    Each split is a contiguous range of row groups, so that rows written together are aggregated
    together.

    Args:
        source: Files.
        filters: Conditions, joined by AND.
        n_splits: Desired number of splits, if there is enough data.
        least_bytes: Minimum bytes per split, except for a single split.
        store: Object store of the files; None for this machine.
        most_bytes: Maximum bytes per split, except for a single larger row group. Large tables
            therefore get more splits than desired.
        groups_of: Function that selects the row groups.
        time: Column for `times_us`.

    Raises:
        ExecutionError: A file has changed since planning.
    """
    criteria = RowGroupCriteria(replace(source, files=()), tuple(filters), store, time)
    groups_of_files = groups_of(source.files, criteria)
    groups = [
        (file, of_file, group)
        for file, of_file in zip(source.files, groups_of_files, strict=True)
        for group in of_file.row_groups
    ]
    total = sum(group.compressed_bytes for _, _, group in groups)
    n_splits = max(1, min(n_splits, total // least_bytes), -(-total // most_bytes))
    splits: list[list[tuple[ScanFile, FileGroups, RowGroup]]] = [[] for _ in range(n_splits)]
    before = 0
    for entry in groups:
        # Assign by the middle of the row group, so that sizes are off by at most half a row group.
        middle = 2 * before + entry[2].compressed_bytes
        splits[min(middle * n_splits // (2 * total), n_splits - 1) if total else 0].append(entry)
        before += entry[2].compressed_bytes
    return [_parts(split) for split in splits if split]


def times_of(parts: Iterable[RowGroup | FilePart]) -> tuple[int, int] | None:
    """Return the first and last time of all parts; None if unknown for any part."""
    times = []
    for part in parts:
        if part.times_us is None:
            return None
        times.append(part.times_us)
    return min(first for first, _ in times), max(last for _, last in times)


@dataclass(frozen=True)
class ExclusiveTimes:
    """Time range of a split, and the part of it without rows of other splits.

    Attributes:
        first_us: Time of the first row.
        last_us: Time of the last row.
        after_us: Other splits have rows at or before this time,
        until_us: Or at or after this one.
    """

    first_us: int
    last_us: int
    after_us: int
    until_us: int


def exclusive_times(splits: Sequence[Split]) -> list[ExclusiveTimes | None]:
    """Return the exclusive times of each split, or None if it has none or they are unknown.

    Splits hardly overlap if rows were written in order of time.
    """
    times = [times_of(split) for split in splits]
    known_times = [span for span in times if span is not None]
    result: list[ExclusiveTimes | None] = [None] * len(splits)
    if len(known_times) < len(splits):
        return result
    order = sorted(range(len(splits)), key=known_times.__getitem__)
    after_us = _FIRST_US
    for position, number in enumerate(order):
        first_us, last_us = known_times[number]
        is_last = position + 1 == len(order)
        until_us = _LAST_US if is_last else known_times[order[position + 1]][0]
        if after_us < until_us:
            result[number] = ExclusiveTimes(first_us, last_us, after_us, until_us)
        after_us = max(after_us, last_us)
    return result


def _groups_of(file: ScanFile, criteria: RowGroupCriteria) -> FileGroups:
    source = criteria.source
    try:
        footer = read_footer(file, criteria.store)
    except Refused as refused:
        raise ExecutionError(f"cannot read {source.path}: {refused}") from refused
    indices = column_indices(footer)
    columns: list[int | None] = []
    for name in file.names or [column.name for column in source.columns]:
        index = None if name is None else indices.get(name.lower())
        if index is None and name is not None:
            raise ExecutionError(f"column {name} no longer exists in {file.path}")
        columns.append(index)
    groups = []
    for number in range(footer.num_row_groups):
        row_group = footer.row_group(number)
        if row_group.num_rows == 0:
            continue
        range_of = _ranges(source, file, footer, columns, number)
        if not all(can_be_true(condition, range_of) for condition in criteria.filters):
            continue
        chunks = [row_group.column(index) for index in columns if index is not None]
        groups.append(
            RowGroup(
                number,
                _middle(row_group),
                row_group.num_rows,
                sum(chunk.total_compressed_size for chunk in chunks),
                sum(chunk.total_uncompressed_size for chunk in chunks),
                None if criteria.time is None else _times_us(range_of(criteria.time)),
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
    """Return a function for the column statistics of one row group."""
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
    file_groups: dict[ScanFile, FileGroups] = {}
    for file, of_file, group in entries:
        by_file.setdefault(file, []).append(group)
        file_groups[file] = of_file
    return tuple(
        FilePart(
            file,
            tuple(group.number for group in groups),
            file_groups[file].columns,
            sum(group.n_rows for group in groups),
            sum(group.n_bytes for group in groups),
            file_groups[file].n_rows,
            times_of(groups),
        )
        for file, groups in by_file.items()
    )
