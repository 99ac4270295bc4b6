"""Protocol for writing the micro-batches of a stream to a table.

Connectors implement it (`Table.open_sink`); the streaming runtime knows only this module and
the registry. A sink writes each micro-batch under its number, and commits at the end of the run
the rows that it has held back until then.

There is no abort. A micro-batch that fails ends the run, and the next run of the stream writes it
again under the same number: the sink then replaces the rows of the failed attempt.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Function that writes a micro-batch with its number, and returns the number of rows, if known
WriteBatch = Callable[["DataFrame", int], int | None]


class SinkMode(StrEnum):
    """Rows of a stream that a table accepts."""

    # only final rows
    APPEND = "append"
    # also changes of earlier rows, written as they are; their first column is ROW_KIND
    CHANGELOG = "changelog"
    # also changes of earlier rows, applied to the row with the same PRIMARY KEY
    UPSERT = "upsert"


@dataclass(frozen=True)
class IdentityColumn:
    """Column that distinguishes the rows that a stream updates.

    Attributes:
        name: Name of the grouping key or window column.
        positions: Positions of the query's columns that have its value. Empty if none has.
    """

    name: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class StreamWriter:
    """A stream, or part of one, that writes to a table.

    Attributes:
        name: Identifies the stream among writers to the same place; stable across restarts.
        checkpoint: URI of Spark's part of its checkpoint.
        is_ordered: Whether the rows of a micro-batch have an order. Then the last row of a PRIMARY
            KEY is kept; otherwise several are an error.
    """

    name: str
    checkpoint: str
    is_ordered: bool = False


class StreamSink(Protocol):
    """Table opened for one run of a stream."""

    @abstractmethod
    def write(self, rows: DataFrame, batch: int) -> int | None:
        """Write a micro-batch. Replace rows that an interrupted run wrote for it.

        Compute the rows even if the table has the micro-batch already, because computing them
        stores the state of the stream.

        Args:
            rows: Rows with the columns of the table.
            batch: Number of the micro-batch. It stays the same when the micro-batch runs again.

        Returns:
            Number of rows written, None if unknown.

        Raises:
            SqlwinError: The rows cannot be written.
        """

    def commit(self) -> None:
        """Publish the rows that the sink has held back, if any.

        Called at the end of a run, also after a failed micro-batch: publish only rows of
        micro-batches that the checkpoint lists as committed. May be called twice.

        Raises:
            SqlwinError: The rows cannot be published. The next run of the stream publishes them.
        """
        return


@dataclass(frozen=True)
class FunctionSink(StreamSink):
    """Sink that holds no rows back.

    Attributes:
        function: Writes a micro-batch, see `StreamSink.write`.
    """

    function: WriteBatch

    def write(self, rows: DataFrame, batch: int) -> int | None:
        """Write a micro-batch with the function."""
        return self.function(rows, batch)
