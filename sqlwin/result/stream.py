"""Rows of a stream, which starts when they are requested.

Imports PySpark only to compute the schema, so that commands can import this module before Java has
started.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from runtime.refusal import Refusal
from runtime.spec.stream import KIND_COLUMN, ROW_KIND
from runtime.spec.table import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

# Micro-batches that may queue for the reader
_WAITING = 8


class StartedStream(Protocol):
    """A stream that a statement started.

    Attributes:
        number: Number of the stream in the session.
    """

    number: int

    @property
    def query(self) -> StreamingQuery:
        """Spark's handle of the stream."""

    @property
    def state(self) -> str:
        """`running`, `ended`, `stopped` or `failed`."""

    def failure(self) -> str:
        """Return the reason for a failure in one line, or "" without a failure."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait at most `seconds` for the end of the stream, and return whether it has ended.

        Raises:
            SqlwinError: The stream failed.
        """

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the stream: immediately, or after the running micro-batch."""


@dataclass(frozen=True)
class OpenStream:
    """A streaming query that is ready to start.

    Attributes:
        start: Starts the query and passes its rows to the given function, one table per
            micro-batch. Returns why, if there is nothing to run.
        is_bounded: Whether it ends, because of bounded input or a LIMIT.
        status: Returns its status in one line, or None before the start.
        notes: Returns notes known at its end: how many rows were dropped, and why.
        take_interrupt: Returns whether the user asked to stop it; True once per request.
        keys: GROUP BY columns without window columns. None: unknown.
        limit: LIMIT of the query. None: no LIMIT.
        reads_watermark: Whether it calls CURRENT_WATERMARK, whose value is known only after
            `start`.
    """

    start: Callable[[Callable[[pa.Table], None]], StartedStream | Refusal]
    is_bounded: bool
    status: Callable[[], str | None]
    notes: Callable[[], tuple[str, ...]]
    take_interrupt: Callable[[], bool] = lambda: False
    keys: tuple[str, ...] | None = None
    limit: int | None = None
    reads_watermark: bool = False


@dataclass(frozen=True)
class StreamedRows:
    """Rows of a streaming query, which runs while the caller iterates.

    Attributes:
        frame: Streaming DataFrame with the same columns.
        opened: Streaming query to start.
        time_zone: Session time zone. Empty: the time zone of the DataFrame's session.
        planned: Columns as planned, see `SparkRows`.
    """

    frame: DataFrame
    opened: OpenStream
    time_zone: str = ""
    planned: tuple[Column, ...] | None = None

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Names and Spark types of the columns."""
        from sqlwin.result.spark import as_planned

        columns = tuple(
            Column(
                KIND_COLUMN if field.name == ROW_KIND else field.name,
                field.dataType.simpleString(),
                field.nullable,
            )
            for field in self.frame.schema.fields
        )
        if self.kind_place is None:
            return as_planned(columns, self.planned)
        kind, *others = columns  # the kind of a row is not planned
        return (kind, *as_planned(tuple(others), self.planned))

    @cached_property
    def schema(self) -> pa.Schema:
        """Arrow schema, with instants in the session's time zone."""
        from sqlwin.result.spark import arrow_schema

        return arrow_schema(self.frame, self.columns, self.time_zone)

    @property
    def kind_place(self) -> int | None:
        """Index of the row kind column of a stream with updates, or None."""
        names = self.frame.schema.names
        return names.index(ROW_KIND) if ROW_KIND in names else None

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Start the stream, yield at most `limit` rows, and stop it."""
        from runtime.frames.arrow_tables import cast_to_schema

        for batch in _run(self.opened, limit):
            yield cast_to_schema(batch, self.schema)

    def dataframe(self) -> DataFrame:
        """Return the streaming DataFrame, which `writeStream` starts."""
        return self.frame


def _run(opened: OpenStream, limit: int | None) -> Iterator[pa.RecordBatch]:
    """Run a stream while the caller iterates, and yield its rows."""
    waiting: queue.Queue[pa.Table] = queue.Queue(_WAITING)
    is_read = threading.Event()
    is_read.set()

    def take(table: pa.Table) -> None:
        while is_read.is_set():
            try:
                return waiting.put(table, timeout=0.1)
            except queue.Full:
                continue

    left = min(inf if bound is None else bound for bound in (limit, opened.limit))
    if left <= 0:
        return
    stream = opened.start(take)
    if isinstance(stream, Refusal):
        return
    try:
        while left > 0 and not opened.take_interrupt():
            try:
                table = waiting.get(timeout=0.05)
            except queue.Empty:
                if stream.wait(0) and waiting.empty():
                    return
                continue
            table = table.slice(0, None if left == inf else int(left))
            left -= table.num_rows
            yield from table.to_batches()
    finally:
        is_read.clear()
        stream.stop(at_once=True)
