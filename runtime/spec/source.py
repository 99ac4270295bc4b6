"""The protocol by which tasks read a table split by split.

A split is what one task reads at a time, written as text: a file, a part of a file, or a range of
messages of a partition. Connectors implement the protocol (`Connector.splits`); the local stage and
the streaming runtime know only what stands here.

A reader may leave rows that it cannot be sure to decode as Spark does. They come in batches of
their own, in the columns of `left_ddl`, and Spark decodes them between two passes of the local
stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.spec.table import Column, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

# Number of the watermark split that a row belongs to, a column of rows that are left to Spark
WATERMARK_SPLIT = "$split"
# Option of a Spark source whose rows name splits; their own rows are counted by the tasks
BRINGS_SPLITS = "sqlwinBringsSplits"


@dataclass(frozen=True)
class SplitTable:
    """A table that tasks read split by split.

    Attributes:
        table: the table.
        path: where it is, for messages and EXPLAIN.
        columns: the columns that are read, with Spark's types; `column.field` of structs.
        is_exclusive: whether a query reads the table either by tasks or by Spark, never by both,
            because a checkpoint holds one position in it.
    """

    table: TableSpec
    path: str
    columns: tuple[Column, ...]
    is_exclusive: bool = False


class SplitReader(Protocol):
    """Reads splits in a task, with which it is pickled."""

    @property
    def left_ddl(self) -> str | None:
        """Columns of rows that are left to Spark, as in a STRUCT's DDL; None: none are left.

        The last one is WATERMARK_SPLIT, an INT.
        """

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read splits one after the other.

        Args:
            splits: the splits.
            dictionaries: names of string and binary columns to return dictionary-encoded.

        Yields:
            Batches with the table's columns, or with those of `left_ddl`.

        Raises:
            ExecutionError: a split cannot be read, or is no longer complete.
        """

    def watermark_split(self, split: str) -> int | None:
        """Return the number of the watermark split that the rows of a split belong to.

        None if the table has no splits with watermarks of their own.
        """


class SplitStream(Protocol):
    """The splits of a stream as they arrive."""

    @property
    def splits(self) -> DataFrame:
        """A streaming DataFrame whose first column is the text of a split."""

    def start(self, failed: Callable[[BaseException], None], is_over: Callable[[], bool]) -> None:
        """Begin to look for new splits, where Spark does not.

        Args:
            failed: called with the error that ends the search.
            is_over: whether the stream has ended.
        """

    def stop(self) -> None:
        """Stop looking for new splits. May be called twice."""


class SplitSource(Protocol):
    """A table that is read split by split, on the driver."""

    def reader(self, columns: Sequence[Column], *, is_stream: bool) -> SplitReader:
        """Return what reads the columns in tasks."""

    def stream(self, directory: str | None) -> SplitStream:
        """Return the splits of a stream as they arrive.

        Args:
            directory: a directory of the checkpoint for the source's own records; None: the
                stream has no checkpoint.

        Raises:
            ExecutionError: the source cannot be listed.
        """


class MessageSource(SplitSource, Protocol):
    """A table of messages, which are read split by split in a batch too."""

    def batch_splits(self, n_tasks: int) -> Sequence[tuple[str, ...]]:
        """Return the splits of each task of a batch that begins now.

        Args:
            n_tasks: wanted number of tasks; small tables get fewer, large ones more.

        Raises:
            ExecutionError: the source is not there or does not answer.
        """

    def with_decoded(self, rows: DataFrame, column: str, columns: Sequence[Column]) -> DataFrame:
        """Let Spark decode rows that a reader has left.

        Args:
            rows: rows with `column`, a STRUCT of `left_ddl` or NULL.
            column: its name; it is dropped.
            columns: the table's columns to decode.

        Returns:
            `columns`, WATERMARK_SPLIT, and the other columns of `rows`, named `$0`, `$1` and so on.
        """
