"""Descriptions of files that were written, for logs that list them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from runtime.scan.metadata import spark_type
from runtime.scan.pruning import column_range
from runtime.spec.scan import PartitionValue

# Types with statistics. Floats are missing because statistics ignore NaN and readers differ
_RANGED = ("tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz", "string")
# Maximum length of texts in statistics; longer ones are not worth their space in a log
_MAX_BYTES = 32


@dataclass
class WrittenFile:
    """File that a task has written.

    Attributes:
        path: Path relative to the directory of the table.
        partition: Values of the partition columns.
        size: File size in bytes.
        n_rows: Number of rows.
        ranges: Minimum and maximum of columns, as `Constant` holds them; only for some types.
        nulls: Number of NULLs in flat columns.
    """

    path: str
    partition: tuple[PartitionValue, ...] = ()
    size: int = 0
    n_rows: int = 0
    ranges: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)


def add_statistics(file: WrittenFile, footer: pq.FileMetaData) -> None:
    """Add the ranges and NULL counts of flat columns in a footer to the description of a file."""
    for index in range(footer.num_columns):
        column = footer.schema.column(index)
        if column.max_repetition_level or "." in column.path:
            continue
        type_ = spark_type(column) or ""
        groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
        ranges = [
            column_range(group.column(index).statistics, column, type_, group.num_rows)
            for group in groups
        ]
        with_counts = [
            range_ for range_ in ranges if range_ is not None and range_.n_nulls is not None
        ]
        if len(with_counts) < len(groups):
            continue
        file.nulls[column.path] = sum(range_.n_nulls or 0 for range_ in with_counts)
        valued = [range_ for range_ in with_counts if range_.n_nulls != range_.n_rows]
        if type_ not in _RANGED or not valued or any(range_.low is None for range_ in valued):
            continue
        low, high = min(range_.low for range_ in valued), max(range_.high for range_ in valued)
        if not isinstance(low, bytes):
            file.ranges[column.path] = low, high
        elif max(len(low), len(high)) <= _MAX_BYTES:
            file.ranges[column.path] = low.decode(), high.decode()
