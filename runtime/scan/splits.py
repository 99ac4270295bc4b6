"""Row groups to splits of about the same number of bytes, less those that filters rule out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from runtime.errors import ExecutionError
from runtime.scan.files import NotScannable
from runtime.scan.metadata import column_index, read_footers
from runtime.scan.pruning import Range, can_be_true, column_range, range_of_value
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanFile, ScanSource

# A task that reads less than this is not worth its start.
LEAST_BYTES = 4 << 20


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
    """

    file: ScanFile
    row_groups: tuple[int, ...]
    columns: tuple[str | None, ...]
    n_rows: int
    n_bytes: int
    n_rows_in_file: int


Split = tuple[FilePart, ...]


@dataclass(frozen=True)
class _RowGroup:
    file: ScanFile
    footer: pq.FileMetaData
    columns: tuple[int | None, ...]
    number: int
    compressed_bytes: int
    n_bytes: int


def plan_splits(
    source: ScanSource,
    filters: Sequence[Expression],
    n_splits: int,
    least_bytes: int = LEAST_BYTES,
) -> list[Split]:
    """Splits that together have every row for which all filters can be true.

    Each split is a stretch of the row groups in order, so that rows that were written together
    are aggregated together.

    Args:
        source: the files.
        filters: the conditions, of which all must be true.
        n_splits: how many splits to make at most.
        least_bytes: how much a split reads at least, but the only one.

    Raises:
        ExecutionError: a file is no longer what it was when the query was planned.
    """
    groups = _row_groups(source, filters)
    total = sum(group.compressed_bytes for group in groups)
    n_splits = max(1, min(n_splits, total // least_bytes))
    splits: list[list[_RowGroup]] = [[] for _ in range(n_splits)]
    before = 0
    for group in groups:
        # By the middle of the row group, so that bytes are off by half a row group at most.
        middle = 2 * before + group.compressed_bytes
        splits[min(middle * n_splits // (2 * total), n_splits - 1) if total else 0].append(group)
        before += group.compressed_bytes
    return [_parts(split) for split in splits if split]


def _row_groups(source: ScanSource, filters: Sequence[Expression]) -> list[_RowGroup]:
    footers = read_footers([file.path for file in source.files])
    if isinstance(footers, NotScannable):
        raise ExecutionError(f"cannot read {source.path}: {footers.reason}")
    groups = []
    for file, footer in zip(source.files, footers, strict=True):
        columns: list[int | None] = []
        for name in file.names or [column.name for column in source.columns]:
            index = None if name is None else column_index(footer, name)
            if index is None and name is not None:
                raise ExecutionError(f"column {name} is gone from {file.path}")
            columns.append(index)
        for number in range(footer.num_row_groups):
            row_group = footer.row_group(number)
            if row_group.num_rows == 0:
                continue
            range_of = _ranges(source, file, footer, columns, number)
            if not all(can_be_true(condition, range_of) for condition in filters):
                continue
            chunks = [row_group.column(index) for index in columns if index is not None]
            groups.append(
                _RowGroup(
                    file,
                    footer,
                    tuple(columns),
                    number,
                    sum(chunk.total_compressed_size for chunk in chunks),
                    sum(chunk.total_uncompressed_size for chunk in chunks),
                )
            )
    return groups


def _ranges(
    source: ScanSource,
    file: ScanFile,
    footer: pq.FileMetaData,
    columns: Sequence[int | None],
    number: int,
) -> Callable[[str], Range | None]:
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

    def range_of(name: str) -> Range | None:
        if name in of_path:
            return range_of_value(of_path[name], n_rows)
        if name not in of_file:
            return None
        index, type_ = of_file[name]
        if index is None:
            return Range(None, None, n_rows, n_rows)
        statistics = row_group.column(index).statistics
        return column_range(statistics, footer.schema.column(index), type_, n_rows)

    return range_of


def _parts(groups: Sequence[_RowGroup]) -> Split:
    by_file: dict[ScanFile, list[_RowGroup]] = {}
    for group in groups:
        by_file.setdefault(group.file, []).append(group)
    return tuple(
        FilePart(
            file,
            tuple(group.number for group in part),
            tuple(
                None if index is None else part[0].footer.schema.column(index).path
                for index in part[0].columns
            ),
            sum(part[0].footer.row_group(group.number).num_rows for group in part),
            sum(group.n_bytes for group in part),
            part[0].footer.num_rows,
        )
        for file, part in by_file.items()
    )
