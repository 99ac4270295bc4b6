"""Files for the Arrow scan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TypeAlias

from runtime.spec.table import Column

# Maximum bytes of partials that a task buffers before it sends them
DEFAULT_BUFFER_BYTES = 64 << 20

# In the form of `Constant`: dates are days, times microseconds
PartitionValue: TypeAlias = int | float | bool | str | Decimal | None


@dataclass(frozen=True)
class ScanFile:
    """File of a table with its partition values.

    Attributes:
        path: Path of the file.
        partition_values: Values of the partition columns' types; None for NULL.
        names: The file's own names of the columns to read, None for missing columns (NULL). Empty:
            as in the table.
        n_bytes: Size when listed, for files in object stores.
        modified_ns: Modification time in nanoseconds since 1970, for files in object stores.
    """

    path: str
    partition_values: tuple[PartitionValue, ...] = ()
    names: tuple[str | None, ...] = ()
    n_bytes: int = 0
    modified_ns: int = 0


@dataclass(frozen=True)
class ScanSource:
    """Files that the Arrow scan reads with Spark's semantics.

    Attributes:
        path: Path as written by the user, for messages and EXPLAIN.
        files: Files, in the order of their paths.
        columns: Columns to read, with the types of the files; `column.field` for structs.
        partition_columns: Columns to read that come from directory names.
        format: File format.
        n_rows: Total number of rows.
        others: Additional files that only Spark's reader supports.
        text_bytes: Uncompressed bytes of the strings and binaries to read, 0 if unknown.
    """

    path: str
    files: tuple[ScanFile, ...]
    columns: tuple[Column, ...]
    partition_columns: tuple[Column, ...] = ()
    format: str = "parquet"
    n_rows: int = 0
    others: tuple[ScanFile, ...] = ()
    text_bytes: int = 0

    @property
    def bytes_of_rows(self) -> int:
        """Estimated bytes of the rows in memory."""
        return self.n_rows * 8 * len(self.columns) + self.text_bytes

    def without_files(self) -> ScanSource:
        """Return the source for tasks, whose splits name their files."""
        return replace(self, files=(), others=())
