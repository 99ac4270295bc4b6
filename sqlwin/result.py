"""Results of statements.

Private API, as of Spark 4.3: `optimizedPlan().maxRows()`. Without it, small results arrive in
batches like large ones.
"""

from __future__ import annotations

import html
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from math import inf
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    CalendarIntervalType,
    NullType,
    VariantType,
    YearMonthIntervalType,
)
from rich.console import Console

from runtime.batch.in_process import RowsHere
from runtime.connectors.writing import KIND_COLUMN
from runtime.errors import ExecutionError, MissingPackageError
from runtime.frames.arrow_rows import ArrowRows
from runtime.frames.arrow_tables import arrow_zone, as_of_schema, schema_in_zone, session_zone
from runtime.frames.blobs import numbered, row_blobs
from runtime.frames.scan_counts import StatementScanCounts
from runtime.spark.private import unless_missing
from runtime.spark.session import is_remote
from runtime.spec.figures import counted
from runtime.spec.stream import ROW_KIND
from sqlwin.dataframes import with_translated_errors
from sqlwin.display.html_table import MOST_ROWS, html_table
from sqlwin.display.plan_page import plan_frame
from sqlwin.display.python_values import leaves_calendar, python_rows, python_values
from sqlwin.display.table import DEFAULT_MAX_ROWS, print_table, write_stream_table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    from pyspark.sql.streaming.query import StreamingQuery

    from sqlwin.execution.activity import StatementRun
    from sqlwin.execution.errors import StatementErrors
    from sqlwin.execution.streams.handle import Stream

# Types that Spark does not convert to Arrow, so they are shown as text
_NO_ARROW = (CalendarIntervalType, NullType, VariantType, YearMonthIntervalType)


# Results of at most this many rows are fetched at once, which saves a stage, and a job per
# partition
_AT_ONCE = 100_000


@dataclass(frozen=True)
class OpenStream:
    """A streaming query that is ready to start.

    Attributes:
        start: Starts the query and passes its rows to the given function, one table per
            micro-batch. Returns a text with the reason if there is nothing to run.
        is_bounded: Whether it ends, because its input does or it has a LIMIT.
        status: Returns its status in a line, None before the start.
        notes: Returns notes known at its end: how many rows were dropped, and why.
        take_interrupt: Returns whether the user wants it to stop now; True once per request.
        keys: GROUP BY columns without window columns. None: unknown.
        limit: LIMIT of the query. None: no LIMIT.
        reads_watermark: Whether it calls CURRENT_WATERMARK, which only `start` makes known.
    """

    start: Callable[[Callable[[pa.Table], None]], Stream | str]
    is_bounded: bool
    status: Callable[[], str | None]
    notes: Callable[[], tuple[str, ...]]
    take_interrupt: Callable[[], bool] = lambda: False
    keys: tuple[str, ...] | None = None
    limit: int | None = None
    reads_watermark: bool = False


@dataclass(frozen=True, repr=False)
class Result:
    """The result of one statement.

    Attributes:
        statement: Text of the statement.
        kind: `query`, `insert`, `explain`, `table` (rows about the session) or `ok`.
        message: One line for the user. Empty for a query.
        frame: The value of `dataframe`, or a function that creates it.
        here: Rows of a query that this process computes.
        arrow_rows: The same rows as workers hold them. None if Spark computes them.
        table: Rows of kind `table`.
        text: The explanation of kind `explain`.
        document: The explanation as data, see docs/explain.md.
        row_count: Rows that an INSERT wrote, if known.
        time_zone: Session time zone when the statement ran, used for instants. Empty: the time zone
            of the DataFrame's session.
        statement_notes: Notes known before the rows are computed; see `notes`.
        errors: Translator of errors raised while rows are computed.
        scan_counts: Counters of the rows read.
        open_stream: Streaming query, which `rows` and `batches` run.
        stream: Stream that an INSERT started.
        run: Execution record of the statement.
    """

    statement: str
    kind: str
    message: str = ""
    frame: DataFrame | Callable[[], DataFrame] | None = None
    here: RowsHere | None = None
    arrow_rows: ArrowRows | None = None
    table: pa.Table | None = None
    text: str = ""
    document: dict[str, Any] | None = None
    row_count: int | None = None
    time_zone: str = ""
    statement_notes: tuple[str, ...] = ()
    errors: StatementErrors | None = None
    scan_counts: StatementScanCounts | None = None
    open_stream: OpenStream | None = None
    stream: Stream | None = None
    run: StatementRun | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes about the result. Some are known only once the rows have been computed."""
        if self.open_stream is not None:
            return self.statement_notes + self.open_stream.notes()
        if self.scan_counts is None:
            return self.statement_notes
        dropped = tuple(
            f"{counted(n_rows, 'rows')} whose `{column}` is NULL "
            f"{'is' if n_rows == 1 else 'are'} in no window (numNullRowTimeRecordsDropped)"
            for column, n_rows in self.scan_counts.null_times()
        )
        return self.statement_notes + dropped

    @property
    def query(self) -> StreamingQuery | None:
        """Spark's handle of the stream that an INSERT started."""
        return None if self.stream is None else self.stream.query

    @cached_property
    def dataframe(self) -> DataFrame | None:
        """Rows of a query, not computed yet. A streaming DataFrame if a source is a stream.

        Its methods raise SqlwinError where Spark fails.
        """
        with self._failures():
            frame = self._frame
        if frame is None or self.errors is None:
            return frame
        return with_translated_errors(frame, self.errors)

    @cached_property
    def _frame(self) -> DataFrame | None:
        """The same DataFrame, raising Spark's own errors."""
        return self.frame() if callable(self.frame) else self.frame

    @property
    def columns(self) -> list[str]:
        """Names of the output columns."""
        if self.here is not None:
            return [column.name for column in self.here.columns]
        if self._frame is not None:
            kind = ROW_KIND if self.open_stream is not None else None
            return [KIND_COLUMN if name == kind else name for name in self._frame.columns]
        return list(self.table.column_names) if self.table is not None else []

    @property
    def kind_place(self) -> int | None:
        """Index of the row kind column of a stream with updates, else None."""
        is_stream = self.open_stream is not None and KIND_COLUMN in self.columns
        return self.columns.index(KIND_COLUMN) if is_stream else None

    @property
    def types(self) -> list[str]:
        """Spark's types of the output columns."""
        if self.here is not None:
            return [column.type for column in self.here.columns]
        if self._frame is not None:
            return [field.dataType.simpleString() for field in self._frame.schema.fields]
        return ["string"] * len(self.columns)

    @property
    def rows(self) -> list[Row]:
        """All rows, in memory.

        A TIMESTAMP_LTZ is a datetime in the session's time zone, a TIMESTAMP one without a zone. A
        date or time outside Python's years 1 to 9999 is a string.

        Raises:
            ExecutionError: The query is unbounded.
        """
        self._check_bounded("batches() gives its rows as they come; INSERT INTO keeps them")
        return [row for batch in self.batches() for row in python_rows(batch)]

    def batches(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, at most `limit`, as Arrow batches of bounded size.

        Without a limit, partitions are fetched one after another, so memory holds a few of them at
        a time. A stream yields rows as windows close, and stops when the caller stops iterating.
        Instants are in the session's time zone.
        """
        for batch in self._batches(limit):
            if not self.time_zone:
                yield batch
            else:
                zone = arrow_zone(self.time_zone)
                yield as_of_schema(batch, schema_in_zone(batch.schema, zone))

    def _batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the time zones and nullability that each way of running gives."""
        if self.open_stream is not None:
            yield from _streamed(self.open_stream, limit)
            return
        if self.table is not None:
            yield from self.table.slice(0, limit).to_batches()
            return
        n_rows = 0
        with self._failures():
            for batch in self._computed_batches(limit):
                n_rows += batch.num_rows
                yield batch
        if limit is None and self.run is not None:
            self.run.count_rows(n_rows)

    def _computed_batches(self, limit: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a batch query, computed by this process or by a Spark job."""
        if self.here is not None:
            yield from self._here(limit)
            return
        if self._frame is None:
            return
        if limit is None and self.arrow_rows is not None:
            blobs, schema = self.arrow_rows.blobs(), self._arrow_schema()
        else:
            frame, schema = arrow_ready(self._frame), None
            if limit is not None or _most_rows(frame) <= _AT_ONCE:
                frame = frame if limit is None else frame.limit(limit)
                yield from self._computed(frame.toArrow).to_batches()
                return
            blobs = row_blobs(numbered(frame))  # Spark's own Arrow refuses equal names
        rows = self._computed(lambda: blobs.toLocalIterator(prefetchPartitions=True))
        while (row := self._computed(lambda: next(rows, None))) is not None:
            for batch in pa.ipc.open_stream(row.rows):
                if schema is None:
                    yield batch.rename_columns(self.columns)
                else:
                    yield as_of_schema(batch, schema)

    def to_arrow(self, limit: int | None = None) -> pa.Table:
        """Return the rows as an Arrow table, with their SQL types.

        TIMESTAMP_LTZ is a timestamp in the session's time zone, TIMESTAMP one without a zone.
        Decimals, dates, arrays, maps and structs have Arrow's types. Intervals of months and
        VARIANT, which Arrow lacks, become strings. Partitions are fetched one after another, so
        memory holds the table and a few partitions. The message of a statement without rows becomes
        one row.

        Args:
            limit: Maximum number of rows. A stream is stopped after them.

        Raises:
            ExecutionError: The rows are unbounded and `limit` is None.
        """
        if limit is None:
            self._check_bounded("to_arrow(limit=1000) takes the first rows")
        if self.here is None and self._frame is None and self.table is None:
            return pa.table({"result": [self.text or self.message]})
        with self._failures():
            schema = self._arrow_schema()
        if schema is None:
            assert self.table is not None
            return pa.Table.from_batches(self.batches(limit), self.table.schema)
        return pa.Table.from_batches(
            (as_of_schema(batch, schema) for batch in self.batches(limit)), schema
        )

    def to_pandas(self, limit: int | None = None) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame; `limit` as in `to_arrow`.

        Integer columns with NULLs get pandas' nullable types, such as `Int64`.

        Raises:
            MissingPackageError: pandas is not installed.
            ExecutionError: The rows are unbounded and `limit` is None.
        """
        if find_spec("pandas") is None:
            raise _missing("pandas", "to_pandas()")
        return _as_pandas(self.to_arrow(limit))

    def to_polars(self, limit: int | None = None) -> pl.DataFrame:
        """Return the rows as a Polars DataFrame; `limit` as in `to_arrow`.

        Raises:
            MissingPackageError: Polars is not installed.
            ExecutionError: Two columns have the same name, or the rows are unbounded and `limit`
                is None.
        """
        try:
            import polars
        except ImportError as error:
            raise _missing("polars", "to_polars()") from error
        twice = next((name for name in self.columns if self.columns.count(name) > 1), None)
        if twice is not None:
            raise ExecutionError(
                f"two columns are called `{twice}`, which Polars does not take",
                hint="give one of them another name: SELECT ... AS name",
            )
        frame = polars.from_arrow(self.to_arrow(limit))
        assert isinstance(frame, polars.DataFrame)
        return frame

    def show(self, max_rows: int | None = DEFAULT_MAX_ROWS) -> None:
        """Print the result: a table of the first rows, a plan, or a message.

        Args:
            max_rows: Maximum number of rows, None for all. A stream is stopped after them.
        """
        console = Console(highlight=False)
        if self.open_stream is not None:
            write_stream_table(self.columns, self.batches(max_rows), console)
        elif self.columns:
            batches = self.batches(None if max_rows is None else max_rows + 1)
            more = "show(max_rows=None) shows all"
            print_table(self.columns, batches, console, max_rows=max_rows, more=more)
        else:
            print(self.text or self.message)
        for note in self.notes:
            print(f"note: {note}")

    def __repr__(self) -> str:
        """Return the kind and the columns in one line, without computing rows."""
        if self.here is None and self._frame is None and self.table is None:
            lines = (self.message or self.text).strip().splitlines() or [""]
            summary = lines[0] + (" ..." if len(lines) > 1 else "")
        else:
            pairs = list(zip(self.columns, self.types, strict=True))
            named = ", ".join(f"{name} {type_}" for name, type_ in pairs[:_SHOWN_COLUMNS])
            more = len(pairs) - _SHOWN_COLUMNS
            summary = named + (f", and {more} more columns" if more > 0 else "")
            if self.table is not None:
                summary += f"; {counted(self.table.num_rows, 'rows')}"
        kind = "stream" if self.open_stream is not None else self.kind
        return f"<Result of {kind}: {summary}>" if summary else f"<Result of {kind}>"

    def _here(self, limit: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows that this process computes."""
        assert self.here is not None
        rows = self.here.batches(limit)
        while (batch := self._computed(lambda: next(rows, None), has_jobs=False)) is not None:
            yield batch

    def _check_bounded(self, hint: str) -> None:
        if self.open_stream is not None and not self.open_stream.is_bounded:
            raise ExecutionError("this query is unbounded", hint=hint)

    def _arrow_schema(self) -> pa.Schema | None:
        """Return the schema of a query's rows, None for other statements."""
        if self.here is not None:
            return schema_in_zone(self.here.schema, arrow_zone(self.time_zone))
        if self._frame is None:
            return None
        frame = self._frame if self.open_stream is not None else arrow_ready(self._frame)
        zone = arrow_zone(self.time_zone) if self.time_zone else session_zone(frame)
        schema = to_arrow_schema(frame.schema, timezone=zone)
        return pa.schema([f.with_name(n) for f, n in zip(schema, self.columns, strict=True)])

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: a table of the first rows, a plan's picture, or a message."""
        if self.kind == "explain" and self.document is not None:
            return plan_frame(self.document)
        if self.open_stream is not None:
            return "<pre>a stream: its rows come from batches(), as windows close</pre>"
        if self.kind in ("query", "table"):
            return html_table(self.columns, self.batches(MOST_ROWS + 1))
        return f"<pre>{html.escape(self.text or self.message)}</pre>"

    def _computed(self, action: Callable[[], Any], *, has_jobs: bool = True) -> Any:
        """Run an action that computes rows, and count it in the statement's record."""
        return action() if self.run is None else self.run.computed(action, has_jobs=has_jobs)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Translate errors raised in the block, including those of Spark's constant folding.

        Raises:
            SqlwinError: The block raised it, or an error that translates to it.
        """
        try:
            yield
        except Exception as error:
            if self.errors is None:
                raise
            translated = self.errors.translated(error)
            if self.run is not None:
                self.run.failed(translated)
            raise translated from error


# Columns shown in the repr of a result
_SHOWN_COLUMNS = 8


def _missing(package: str, for_what: str) -> MissingPackageError:
    return MissingPackageError(
        f"{for_what} needs {package}, which is not installed", hint=f"pip install {package}"
    )


def _as_pandas(table: pa.Table) -> pd.DataFrame:
    """Convert the table, and release each Arrow column once it is copied."""
    with_nulls = [
        i
        for i in range(table.num_columns)
        if table.column(i).null_count and pa.types.is_integer(table.column(i).type)
    ]
    whole = {i: table.column(i).to_pandas(types_mapper=_nullable_type) for i in with_nulls}
    for i in with_nulls:
        table = table.set_column(i, table.column_names[i], pa.nulls(table.num_rows))
    for i, column in enumerate(table.columns):
        if any(leaves_calendar(chunk) for chunk in column.chunks):
            whole[i] = [value for chunk in column.chunks for value in python_values(chunk)]
            table = table.set_column(i, table.column_names[i], pa.nulls(table.num_rows))
    frame: pd.DataFrame = table.to_pandas(
        split_blocks=True, self_destruct=True, maps_as_pydicts="strict"
    )
    for i, values in whole.items():
        frame.isetitem(i, values)
    return frame


def _nullable_type(type_: pa.DataType) -> object:
    import pandas

    return pandas.api.types.pandas_dtype(f"Int{type_.bit_width}")  # Spark has no unsigned integers


# Micro-batches that may wait for the reader
_WAITING = 8


def _streamed(opened: OpenStream, limit: int | None) -> Iterator[pa.RecordBatch]:
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
    if isinstance(stream, str):
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


def _most_rows(frame: DataFrame) -> float:
    """Return the plan's upper bound on the number of rows; inf if it has none.

    A LIMIT or a global aggregate bounds it.
    """
    if is_remote(frame.sparkSession):
        return inf  # the plan is on the server

    def bound() -> float:
        # private, as of Spark 4.3
        most = frame._jdf.queryExecution().optimizedPlan().maxRows()
        return float(most.get()) if most.isDefined() else inf

    return unless_missing("small results come in as many pieces as large ones", bound, inf)


def arrow_ready(frame: DataFrame) -> DataFrame:
    """Cast columns of types that Arrow lacks to strings."""
    fields = frame.schema.fields
    lacking = [isinstance(field.dataType, _NO_ARROW) for field in fields]
    if not any(lacking):
        return frame
    columns = (
        F.col(f"_{i}").cast("string") if lacks else F.col(f"_{i}")
        for i, lacks in enumerate(lacking)
    )
    return numbered(frame).select(*columns).toDF(*(field.name for field in fields))
