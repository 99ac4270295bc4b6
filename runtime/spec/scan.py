"""The local stage inside a scan of files, in place of SqlStep and LocalStep."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.spec.expressions import Expression
from runtime.spec.table import Column, TableSpec
from runtime.spec.windows import Window

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
        path: what the person wrote, for messages and EXPLAIN.
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
class ArrowPartial:
    """The partial columns of one accumulator, aggregated from rows without Spark.

    Attributes:
        function: `count` (rows in which no argument is NULL; all rows without arguments), `sum`,
            `min`, `max`, `bit_and`, `bit_or`, `bit_xor`, `moments` (of the argument as DOUBLE),
            `first`, `last` (arguments: order, value), `set` (the distinct values of the argument,
            or of several as structs, in a list; rows where one is NULL have none), `registers`
            (the argument's distinct HyperLogLog registers, each with its largest rank). They mean
            what an `Accumulator` of that kind means, and its partial columns are what they yield;
            `set` and `registers` are what distinct accumulators read.
        args: the arguments.
        condition: the FILTER; rows where it is not TRUE do not take part.
        columns: the partial columns: one; for `moments` count, mean and M2; for `first` and
            `last` order and value.
    """

    function: str
    args: tuple[Expression, ...]
    condition: Expression | None
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class ScanLocalStep:
    """Rows of files to partials: keys, `slice_end` as BIGINT microseconds, partial columns.

    For sessions slices are their cells, and FIRST_TIME and LAST_TIME stand last.

    Attributes:
        source: the files.
        window: the window.
        time_column: what the query calls the column that windows are on.
        time: what that column is made of.
        time_type: `timestamp_ntz` or `timestamp`; rows with a NULL time are dropped.
        time_zone: the session's zone, on whose wall clock a `timestamp` is sliced.
        filters: conditions of which all must be TRUE for a row to count.
        keys: name and expression of each group key.
        partials: the accumulators' partial columns.
        slice_end: the name of the slice end column.
        buffer_bytes: how much a task's buffer of partials may hold.
        label: the operator under which EXPLAIN ANALYZE counts.
    """

    source: ScanSource
    window: Window
    time_column: str
    time: Expression
    time_type: str
    time_zone: str
    filters: tuple[Expression, ...]
    keys: tuple[tuple[str, Expression], ...]
    partials: tuple[ArrowPartial, ...]
    slice_end: str
    buffer_bytes: int = DEFAULT_BUFFER_BYTES
    label: str = ""


@dataclass(frozen=True)
class StreamFiles:
    """Parquet files of a table that come as a stream, and are read as ScanSource says.

    Attributes:
        source: the columns; it names no files.
        table: the table.
    """

    source: ScanSource
    table: TableSpec


@dataclass(frozen=True)
class StreamScan:
    """How the local stage of a stream reads new files itself.

    Attributes:
        step: what is made of their rows.
        table: the table that they are of.
        delay_us: how far the watermark of a row is before its time.
    """

    step: ScanLocalStep
    table: TableSpec
    delay_us: int
