"""Files that the Arrow scan reads."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from runtime.spec.table import Column

# What a task holds of partials before it sends them
DEFAULT_BUFFER_BYTES = 64 << 20

# As a `Constant` holds values: dates are days, times microseconds
PartitionValue: TypeAlias = int | float | bool | str | Decimal | None


@dataclass(frozen=True)
class ScanFile:
    """A file of a table, and the values of the table's partition columns in it.

    Attributes:
        path: the file.
        partition_values: the values, of the partition columns' types; None for NULL.
        names: what it calls the columns that are read, None for those that it lacks and that are
            NULL in it; empty: by the names that the table has.
        n_bytes: of a file of an object store, how long it was when it was listed.
        modified_ns: of such a file, when it was written, in nanoseconds since 1970.
    """

    path: str
    partition_values: tuple[PartitionValue, ...] = ()
    names: tuple[str | None, ...] = ()
    n_bytes: int = 0
    modified_ns: int = 0


@dataclass(frozen=True)
class ScanSource:
    """Files that the Arrow scan reads with Spark's meaning.

    Attributes:
        path: what the user wrote, for messages and EXPLAIN.
        files: the files, in the order of their paths.
        columns: the columns needed, as the files have them; `column.field` of structs.
        partition_columns: the columns needed that stand in the names of directories.
        format: the files' format.
        n_rows: how many rows the files have.
        others: further files, which only Spark's reader reads.
    """

    path: str
    files: tuple[ScanFile, ...]
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    format: str = "parquet"
    n_rows: int = 0
    others: tuple[ScanFile, ...] = ()
