"""Protocol for reading a table split by split in tasks.

A split is the unit that one task reads at a time: a file, a part of a file, or a range of messages
of a partition, encoded as text. Connectors implement the protocol (`Table.splits`); the local
stage and the streaming runtime know only this module.

A reader leaves rows undecoded if it cannot guarantee Spark's result for them. It returns them in
separate batches with the columns of `undecoded_ddl`, and Spark decodes them between two passes of
the local stage.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from runtime.spec.expressions import Expression
from runtime.spec.table import Column, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

# Column of rows left to Spark with the number of their watermark split
WATERMARK_SPLIT = "$split"
# Option of a Spark source whose rows name splits; tasks count the rows of the splits
BRINGS_SPLITS = "sqlwinBringsSplits"


@dataclass(frozen=True)
class SplitTable:
    """Table that tasks read split by split.

    Attributes:
        table: Table definition.
        path: Location, for messages and EXPLAIN.
        columns: Columns to read, with Spark types; `column.field` for structs.
        is_exclusive: Whether a query must read the table either in tasks or through Spark, never
            both, because a checkpoint holds one position in it.
        filters: Conditions of the query; rows that do not satisfy them may be left out.
        is_read_in_process: Whether this process can read it without Spark, too.
    """

    table: TableSpec
    path: str
    columns: tuple[Column, ...]
    is_exclusive: bool = False
    filters: tuple[Expression, ...] = ()
    is_read_in_process: bool = False


class SplitReader(Protocol):
    """Reader of splits, pickled and run in tasks."""

    @property
    def undecoded_ddl(self) -> str | None:
        """Columns of the rows left to Spark, as the DDL of a STRUCT; None if no rows are left.

        The last one is WATERMARK_SPLIT, an INT.
        """
        return None

    @abstractmethod
    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Read splits one after the other.

        Args:
            splits: Splits.
            dictionaries: Names of string and binary columns to return dictionary-encoded.

        Yields:
            Batches with the table's columns, or with the columns of `undecoded_ddl`.

        Raises:
            ExecutionError: A split cannot be read or is incomplete.
        """

    def watermark_split(self, split: str) -> int | None:
        """Return the number of the watermark split that the rows of a split belong to.

        None if the table's splits have no watermarks of their own.
        """
        return None

    def watermark_limit_us(self, split: str) -> int | None:
        """Return how far the rows of a split may advance the watermark at most.

        None if nothing but their times limits it.
        """
        return None


class SplitOffsets(Protocol):
    """Position of a stream in a table, pickled and used in the process of Spark's source.

    An offset is a JSON value. It is stored in Spark's checkpoint.
    """

    @abstractmethod
    def start(self) -> Any:
        """Return the offset of a stream that has read nothing."""

    @abstractmethod
    def latest(self, last: Any) -> Any:
        """Return the end of the micro-batch that begins at `last`; `last` if nothing is new."""

    @abstractmethod
    def splits(self, start: Any, end: Any) -> Sequence[str]:
        """Return the splits of a micro-batch, each time the same. `start` is None for the first."""

    @abstractmethod
    def end_now(self) -> None:
        """Let the stream end with the rows that the table has now."""

    def stop(self) -> None:
        """Close connections."""
        return


class SplitSearch(Protocol):
    """Search for new splits of a stream that Spark does not list itself."""

    def start(self, failed: Callable[[BaseException], None], is_over: Callable[[], bool]) -> None:
        """Start looking for new splits.

        Args:
            failed: Callback for the error that ends the search.
            is_over: Function that returns whether the stream has ended.
        """

    def stop(self) -> None:
        """Stop looking for new splits. May be called twice."""


class SplitStream(NamedTuple):
    """Splits of a stream as they arrive.

    Attributes:
        splits: Streaming DataFrame whose first column is the text of a split.
        search: Search for new splits. None if Spark finds them.
        source: Source whose readers read these splits. None: any source of the table.
    """

    splits: DataFrame
    search: SplitSearch | None = None
    source: SplitSource | None = None


class SplitSource(Protocol):
    """Table read split by split, on the driver.

    A source has the methods for what its table supports: streams, batch queries, or readers that
    leave rows to Spark.
    """

    @abstractmethod
    def reader(self, columns: Sequence[Column], *, is_stream: bool) -> SplitReader:
        """Return a reader of the columns for tasks."""

    def read_with(self, sources: Sequence[SplitSource]) -> SplitSource:
        """Return this source for a stream that reads several, `sources` with this one.

        A source that reads ranges of time reads them at the pace of the others.
        """
        return self

    def stream(self, directory: str | None) -> SplitStream:
        """Return the splits of a stream as they arrive.

        Args:
            directory: Checkpoint directory for the source's own records; None: no checkpoint.

        Raises:
            ExecutionError: The source cannot be listed.
        """
        raise AssertionError("no stream reads the table")

    def offsets(self, directory: str) -> SplitOffsets:
        """Return the offsets of a stream for a source that reads several tables.

        Args:
            directory: Directory in the checkpoint for the table's own records.

        Raises:
            SqlwinError: The table cannot be read in this way.
        """
        raise AssertionError("the table is no part of another one")

    def batch_splits(
        self, n_tasks: int, filters: Sequence[Expression] = ()
    ) -> Sequence[tuple[str, ...]]:
        """Return the splits of each task for a batch that begins now.

        Args:
            n_tasks: Desired number of tasks; small tables get fewer, large ones more.
            filters: Conditions of the query; rows that do not satisfy them may be left out.

        Raises:
            ExecutionError: The source is missing or unreachable.
        """
        raise AssertionError("no batch reads splits of the table")

    def with_decoded(self, rows: DataFrame, column: str, columns: Sequence[Column]) -> DataFrame:
        """Let Spark decode the rows that a reader left.

        Args:
            rows: Rows with `column`, a STRUCT of `undecoded_ddl` or NULL.
            column: Name of that column, which is dropped.
            columns: Columns of the table to decode.

        Returns:
            `columns`, WATERMARK_SPLIT, and the other columns of `rows`, named `$0`, `$1` and so on.
        """
        raise AssertionError("readers of the table leave no rows")


class FileLog(Protocol):
    """Spark's log of the files that a stream reads, by micro-batch."""

    def planned_batches(self) -> frozenset[int]:
        """Return the numbers of the micro-batches that have a plan."""

    def files_of_batch(self, batch: int) -> dict[str, int]:
        """Return the files that a planned micro-batch reads.

        Returns:
            Modification time of each URI as Spark listed it, in milliseconds since 1970.
        """

    def files_so_far(self) -> set[str]:
        """Return the URIs of the files that all micro-batches so far have read."""


class InputChecks(Protocol):
    """Checks of a stream's input, before each micro-batch."""

    def check(self, batch: int) -> None:
        """Raise an error if the micro-batch must not run, such as for a truncated file."""

    def find_incomplete(self, batch: int) -> tuple[str, ...] | None:
        """Return the tables with missing files: files published together with files already read.

        None if the stream reads no directories.
        """
