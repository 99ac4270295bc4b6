"""Files that the Arrow scan reads."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.table import Column, TableSpec

# What a task holds of partials before it sends them
DEFAULT_BUFFER_BYTES = 64 << 20


@dataclass(frozen=True)
class ScanFile:
    """A file of a table, and the values of the table's partition columns in it.

    Values are of the partition columns' types: int, str, or None for NULL.
    """

    path: str
    partition_values: tuple[int | str | None, ...] = ()


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
    """

    path: str
    files: tuple[ScanFile, ...]
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    format: str = "parquet"
    n_rows: int = 0


@dataclass(frozen=True)
class StreamFiles:
    """Parquet files of a table that come as a stream, and are read as ScanSource says.

    Attributes:
        source: the columns; it names no files.
        table: the table.
    """

    source: ScanSource
    table: TableSpec
