"""Common base of all results: notes, conversion to tables, display.

Results with rows need `columns`, `types`, `schema` and `batches`; the other methods are built on
these. Results without rows need a text.

Imports PySpark only to convert rows, so that commands can import this module before Java has
started.
"""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from rich.console import Console

from runtime.errors import MissingAttributeError
from runtime.spec.figures import count_text
from sqlwin.display.table import DEFAULT_MAX_ROWS, print_table
from sqlwin.result.tables import pandas_frame, polars_frame

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql import DataFrame, Row
    from pyspark.sql.streaming.query import StreamingQuery

    from runtime.frames.scan_counts import StatementCounts
    from sqlwin.result.stream import StartedStream

# Columns shown in the repr of a result
_SHOWN_COLUMNS = 8
# Attributes that only some results have, and the statements that return these results
_STATEMENTS_WITH = {
    "data": "queries",
    "dataframe": "queries",
    "document": "EXPLAIN",
    "query": "INSERT",
    "row_count": "INSERT",
    "stream": "INSERT",
    "table": "statements such as SHOW or DESCRIBE",
    "text": "EXPLAIN",
}


@dataclass(frozen=True, repr=False)
class StatementResult(ABC):
    """The result of one statement.

    Attributes:
        kind: `query`, `table` (rows about the session), `explain`, `insert` or `ok`.
        message: One line for the user. Empty for results with rows and for EXPLAIN.
        statement: Text of the statement.
        statement_notes: Notes known before the rows are computed; see `notes`.
        scan_counts: Counters of the rows read.
    """

    kind: ClassVar[str]

    statement: str
    statement_notes: tuple[str, ...] = field(default=(), kw_only=True)
    scan_counts: StatementCounts | None = field(default=None, kw_only=True)

    if TYPE_CHECKING:
        # Attributes of some results, declared for users who know the statement; see `__getattr__`
        @property
        def dataframe(self) -> DataFrame:
            """Rows of a query as a Spark DataFrame."""

        @property
        def document(self) -> dict[str, Any] | None:
            """Content of EXPLAIN as data."""

        @property
        def query(self) -> StreamingQuery | None:
            """Spark's handle of the stream that an INSERT started."""

        @property
        def row_count(self) -> int | None:
            """Number of rows that an INSERT wrote, if known."""

        @property
        def stream(self) -> StartedStream | None:
            """Stream that an INSERT started."""

        @property
        def table(self) -> pa.Table:
            """Rows of a statement such as SHOW."""

        @property
        def text(self) -> str:
            """Text of EXPLAIN."""
    else:

        def __getattr__(self, name: str) -> Any:
            """Raise an error that says which results have the attribute.

            Raises:
                MissingAttributeError: The result has no such attribute.
            """
            if name not in _STATEMENTS_WITH:
                raise AttributeError(f"a Result has no attribute `{name}`", name=name, obj=self)
            raise MissingAttributeError(
                f"the result has no attribute `{name}`: its kind is `{self.kind}`",
                hint=f"results of {_STATEMENTS_WITH[name]} have it",
            )

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the result. Some are known only once the rows have been computed."""
        if self.scan_counts is None:
            return self.statement_notes
        dropped = tuple(
            f"{count_text(n_rows, 'rows')} with NULL in `{column}` "
            f"{'is' if n_rows == 1 else 'are'} in no window (numNullRowTimeRecordsDropped)"
            for column, n_rows in self.scan_counts.null_times()
        )
        return self.statement_notes + dropped

    @property
    @abstractmethod
    def columns(self) -> list[str]:
        """Names of the columns, empty for a result without rows."""

    @property
    @abstractmethod
    def types(self) -> list[str]:
        """Spark's types of the columns."""

    @property
    @abstractmethod
    def rows(self) -> list[Row]:
        """All rows, in memory.

        A TIMESTAMP_LTZ is a datetime in the session's time zone, a TIMESTAMP one without a zone. A
        date or time outside Python's years 1 to 9999 is a string.

        Raises:
            ExecutionError: The query is unbounded.
        """

    @abstractmethod
    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`, as Arrow batches of bounded size.

        Memory holds at most the setting 'sqlwin.result.max-in-flight', besides the batches that the
        caller keeps. Closing the iterator early cancels the query. A stream yields rows as windows
        close, and stops when the caller stops iterating. Instants are in the session's time zone.
        """

    @abstractmethod
    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Return the rows as an Arrow table, with their SQL types.

        TIMESTAMP_LTZ is a timestamp in the session's time zone, TIMESTAMP one without a zone.
        Decimals, dates, arrays, maps and structs have Arrow's types. Intervals of months and
        VARIANT, which Arrow lacks, become strings. On one machine a large table is mapped from
        temporary files, whose disk space is free once the table is. The message of a statement
        without rows becomes one row.

        Args:
            limit: Maximum number of rows. A stream is stopped after them.

        Raises:
            ExecutionError: The rows are unbounded and `limit` is None.
        """

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; `limit` as in `to_arrow`.

        Integer columns with NULLs get pandas' nullable types, such as `Int64`.

        Raises:
            MissingPackageError: Pandas is not installed.
            ExecutionError: The rows are unbounded and `limit` is None.
        """
        return pandas_frame(lambda: self.to_arrow(limit))

    def to_polars(self, limit: int | None = None) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame; `limit` as in `to_arrow`.

        Raises:
            MissingPackageError: Polars is not installed.
            ExecutionError: Two columns have the same name, or the rows are unbounded and `limit`
                is None.
        """
        return polars_frame(self.columns, lambda: self.to_arrow(limit))

    def show(self, max_rows: int | None = DEFAULT_MAX_ROWS) -> None:
        """Print the result: a table of the first rows, a plan, or a message.

        Args:
            max_rows: Maximum number of rows, None for all. A stream is stopped after them.
        """
        self._print(max_rows)
        for note in self.notes:
            print(f"note: {note}")

    def __repr__(self) -> str:
        """Return the kind and the columns in one line, without computing rows."""
        summary = self._summary()
        return (
            f"<Result of {self._name()}: {summary}>" if summary else f"<Result of {self._name()}>"
        )

    @abstractmethod
    def _repr_html_(self) -> str:
        """Return HTML for a notebook: a table of the first rows, a plan's picture, or a message."""

    @abstractmethod
    def _print(self, max_rows: int | None) -> None:
        """Print the result without its notes."""

    @abstractmethod
    def _summary(self) -> str:
        """Return a line about the content."""

    def _name(self) -> str:
        """Return the name of the result in its repr."""
        return self.kind


@dataclass(frozen=True, repr=False)
class ResultWithRows(StatementResult):
    """A result with rows."""

    message: ClassVar[str] = ""

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """Arrow schema of the rows."""

    @property
    def rows(self) -> list[Row]:
        """All rows, in memory.

        A TIMESTAMP_LTZ is a datetime in the session's time zone, a TIMESTAMP one without a zone. A
        date or time outside Python's years 1 to 9999 is a string.

        Raises:
            ExecutionError: The query is unbounded.
        """
        from sqlwin.display.python_values import python_rows

        self._check_bounded(
            "use batches() to read rows as they arrive, or INSERT INTO to store them"
        )
        return [row for batch in self.batches() for row in python_rows(batch)]

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Return the rows as an Arrow table, with their SQL types."""
        if limit is None:
            self._check_bounded("use a limit, such as to_arrow(limit=1000)")
        return pa.Table.from_batches(self.batches(limit), self.schema)

    def _check_bounded(self, hint: str) -> None:
        """Raise an error instead of loading an unbounded stream into memory.

        Raises:
            ExecutionError: The rows are unbounded.
        """

    def _print(self, max_rows: int | None) -> None:
        batches = self.batches(None if max_rows is None else max_rows + 1)
        more = "use show(max_rows=None)"
        console = Console(highlight=False)
        print_table(self.columns, batches, console, max_rows=max_rows, more=more)

    def _repr_html_(self) -> str:
        from sqlwin.display.html_table import MAX_ROWS, html_table

        return html_table(self.columns, self.batches(MAX_ROWS + 1))

    def _summary(self) -> str:
        pairs = list(zip(self.columns, self.types, strict=True))
        shown = ", ".join(f"{name} {type_}" for name, type_ in pairs[:_SHOWN_COLUMNS])
        more = len(pairs) - _SHOWN_COLUMNS
        return shown + (f", and {more} more columns" if more > 0 else "")


@dataclass(frozen=True, repr=False)
class ResultWithText(StatementResult):
    """A result without rows."""

    @property
    @abstractmethod
    def _shown_text(self) -> str:
        """The text to print."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns: none."""
        return []

    @property
    def types(self) -> list[str]:
        """Types of the columns: none."""
        return []

    @property
    def rows(self) -> list[Row]:
        """Rows: none."""
        return []

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        return iter(())

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Return a table whose only row is the text."""
        return pa.table({"result": [self._shown_text]})

    def _print(self, max_rows: int | None) -> None:
        print(self._shown_text)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._shown_text)}</pre>"

    def _summary(self) -> str:
        lines = self._shown_text.strip().splitlines() or [""]
        return lines[0] + (" ..." if len(lines) > 1 else "")
