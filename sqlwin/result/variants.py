"""Results, one class per kind of statement."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from rich.console import Console

from runtime.errors import ErrorKind, ExecutionError, SqlwinError
from runtime.spec.figures import count_text
from sqlwin.display.table import write_stream_table
from sqlwin.result.base import ResultWithRows, ResultWithText
from sqlwin.result.protocol import QueryRows, RunRecord
from sqlwin.result.stream import StartedStream, StreamedRows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from sqlwin.dataframes import Errors


@dataclass(frozen=True, repr=False)
class RowsResult(ResultWithRows):
    """The result of a query.

    Attributes:
        data: Rows, computed when they are requested.
        errors: Translator of errors raised while rows are computed. None: they are not translated.
        run: Execution record of the statement, if there is one.
    """

    kind: ClassVar[str] = "query"

    data: QueryRows
    errors: Errors | None = None
    run: RunRecord | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the result. Some are known only once the rows have been computed."""
        notes = super().notes
        return notes + self.data.opened.notes() if isinstance(self.data, StreamedRows) else notes

    @cached_property
    def dataframe(self) -> DataFrame:
        """Rows as a DataFrame, not computed yet. A streaming DataFrame if a source is a stream.

        Its methods raise SqlwinError where Spark fails.
        """
        # imports PySpark
        from sqlwin.dataframes import translate_errors_of

        with self._translate_errors():
            frame = self.data.dataframe()
        return frame if self.errors is None else translate_errors_of(frame, self.errors)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.data.columns]

    @property
    def types(self) -> list[str]:
        """Spark's types of the columns."""
        return [column.type for column in self.data.columns]

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        with self._translate_errors():
            return self.data.schema

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`, as Arrow batches of bounded size.

        Memory holds at most the setting 'sqlwin.result.max-in-flight', besides the batches that the
        caller keeps. Closing the iterator early cancels the query. A stream yields rows as windows
        close, and stops when the caller stops iterating. Instants are in the session's time zone.
        """
        try:
            yield from self._batches(limit)
        finally:
            if self.run is not None:
                self.run.finish()

    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows and count them."""
        if isinstance(self.data, StreamedRows):  # its errors are translated
            yield from self.data.batches(limit)
            return
        n_rows = 0
        with self._translate_errors():
            for batch in self.data.batches(limit):
                n_rows += batch.num_rows
                yield batch
        if limit is None and self.run is not None:
            self.run.count_rows(n_rows)

    def _check_bounded(self, hint: str) -> None:
        if isinstance(self.data, StreamedRows) and not self.data.opened.is_bounded:
            raise ExecutionError("the query is unbounded", hint=hint)

    def _print(self, max_rows: int | None) -> None:
        if isinstance(self.data, StreamedRows):
            write_stream_table(self.columns, self.batches(max_rows), Console(highlight=False))
        else:
            super()._print(max_rows)

    def _repr_html_(self) -> str:
        if isinstance(self.data, StreamedRows):
            return "<pre>stream: batches() returns its rows as windows are emitted</pre>"
        return super()._repr_html_()

    def _name(self) -> str:
        return "stream" if isinstance(self.data, StreamedRows) else self.kind

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Translate errors raised in the block, including errors of Spark's constant folding.

        Raises:
            SqlwinError: The block raised it, or an error that translates to it.
        """
        try:
            yield
        except Exception as error:
            if self.errors is None:
                raise
            translated = self.errors.translate(error)
            if translated.kind is ErrorKind.DATA:
                # a note about the value or its column knows the file and the line
                notes = (note for note in self.statement_notes if _explains(note, translated))
                translated.hint = next(notes, translated.hint)
            if self.run is not None:
                self.run.record_failure(translated)
            raise translated from error


def _explains(note: str, error: SqlwinError) -> bool:
    """Return whether a note is about the text or a column in the message of an error."""
    texts = re.findall(r"'[^']*'", error.message)
    words = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]*`", error.message))))
    names = re.findall(r"`([^`]+)` is STRING", note)
    return any(f"{text} is not" in note for text in texts) or not words.isdisjoint(names)


@dataclass(frozen=True, repr=False)
class TableResult(ResultWithRows):
    """The result of a statement about the session, such as SHOW or DESCRIBE.

    Attributes:
        table: Rows.
    """

    kind: ClassVar[str] = "table"

    table: pa.Table

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.table.column_names)

    @property
    def types(self) -> list[str]:
        """Types of the columns: all are strings."""
        return ["string"] * self.table.num_columns

    @property
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""
        return self.table.schema

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`."""
        yield from self.table.slice(0, limit).to_batches()

    def _summary(self) -> str:
        return f"{super()._summary()}; {count_text(self.table.num_rows, 'rows')}"


@dataclass(frozen=True, repr=False)
class ExplainResult(ResultWithText):
    """The result of EXPLAIN.

    Attributes:
        text: The explanation.
        document: The explanation as data, see docs/explain.md.
    """

    kind: ClassVar[str] = "explain"
    message: ClassVar[str] = ""

    text: str
    document: dict[str, Any] | None = None

    @property
    def _shown_text(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        if self.document is None:
            return super()._repr_html_()
        from sqlwin.display.plan_page import plan_frame

        return plan_frame(self.document)


@dataclass(frozen=True, repr=False)
class MessageResult(ResultWithText):
    """The result of a statement that only changes the session.

    Attributes:
        message: One line for the user.
    """

    kind: ClassVar[str] = "ok"

    message: str

    @property
    def _shown_text(self) -> str:
        return self.message


@dataclass(frozen=True, repr=False)
class InsertResult(ResultWithText):
    """The result of an INSERT, or of another statement that writes rows, without a stream.

    Attributes:
        message: A line for the user per table.
        row_count: Number of rows written. None: unknown.
    """

    kind: ClassVar[str] = "insert"

    message: str
    row_count: int | None = None

    @property
    def stream(self) -> None:
        """The stream of the INSERT: none was started."""
        return

    @property
    def query(self) -> None:
        """Spark's handle of the stream: none was started."""
        return

    @property
    def _shown_text(self) -> str:
        return self.message


@dataclass(frozen=True, repr=False)
class StreamResult(ResultWithText):
    """The result of INSERTs over streams.

    Attributes:
        message: A line for the user per table.
        stream: Stream that the statement started, the last one of several. A bounded one has ended.
        row_count: Number of rows written. None: unknown, because a stream is still running.
    """

    kind: ClassVar[str] = "insert"

    message: str
    stream: StartedStream
    row_count: int | None = None

    @property
    def query(self) -> StreamingQuery:
        """Spark's handle of the stream."""
        return self.stream.query

    @property
    def _shown_text(self) -> str:
        return self.message
