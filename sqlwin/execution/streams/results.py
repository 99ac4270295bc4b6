"""Results of statements over streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from planner.sql.nodes import WINDOW_COLUMNS
from runtime.refusal import Refusal
from runtime.sinks.stream_sinks import Take
from runtime.spec.figures import count_text
from runtime.spec.stream import KIND_COLUMN
from runtime.streaming.status import status_notes
from sqlwin.catalog.entries import Name
from sqlwin.execution.lowered import LoweredStream
from sqlwin.execution.planning import Plans
from sqlwin.execution.streams.handle import Stream
from sqlwin.execution.streams.sinks import TakeRows
from sqlwin.execution.streams.start import start_stream
from sqlwin.execution.streams.status import status_line
from sqlwin.result import (
    Inserted,
    InsertResult,
    OpenStream,
    RowsResult,
    StreamedRows,
    StreamResult,
)

# Columns by which the rows of a micro-batch are ordered for display
_WINDOW_COLUMNS = ("window_end", "window_start")


class StreamQuery:
    """A SELECT over streams. Each request for its rows starts a stream.

    The stream runs the plan of the statement. If other statements have run or tables have changed
    since, the query is planned again, with the current tables and settings.
    """

    def __init__(self, plans: Plans, lowered: LoweredStream, query: exp.Query, text: str) -> None:
        self._plans = plans
        self._lowered = lowered
        self._n_changes = plans.catalog.n_changes
        self._query = query
        self._text = text
        self._run = plans.run
        self._started: list[Stream] = []

    def start(self, take: Take) -> Stream | Refusal:
        """Start a stream that passes its rows to a function, or return why there is nothing to do.

        Raises:
            SqlwinError: The stream cannot be started.
        """
        sink = TakeRows(lambda table: take(table if self._lowered.order else by_window(table)))
        with self._plans.lock:
            if self._plans.catalog.n_changes != self._n_changes:
                self._plans.start_statement()
                plan = self._plans.plan(self._query, self._text)
                self._lowered = self._plans.lower_stream(plan, is_taken=True)
                self._n_changes = self._plans.catalog.n_changes
            with self._tag_jobs():
                stream = start_stream(self._plans, self._lowered, sink, self._text)
        if isinstance(stream, Stream):
            self._started.append(stream)
            if self._run is not None:
                self._run.record_stream(stream.number)
        return stream

    def _tag_jobs(self) -> AbstractContextManager[None]:
        """Tag the Spark jobs of a block as this statement's, even if another one has begun."""
        run = self._run
        return nullcontext() if run is None else run.marking(run.record.tag, run.record.text)

    def status(self) -> str | None:
        """Return the status of the last stream in one line, or None before the start."""
        return status_line(self._started[-1]) if self._started else None

    def notes(self) -> tuple[str, ...]:
        """Return notes about dropped rows."""
        return tuple(
            text
            for stream in self._started
            for text in status_notes(stream.status(), stream.setup.late_table)
        )

    def result(self, take_interrupt: Callable[[], bool]) -> RowsResult:
        """Return the statement's result. Nothing runs until its rows are requested.

        Args:
            take_interrupt: Returns whether the user asked to stop it; True once per request.
        """
        limit = self._lowered.limit
        bounded = self._lowered.is_bounded or limit is not None
        opened = OpenStream(
            self.start,
            bounded,
            self.status,
            self.notes,
            take_interrupt,
            keys_of(self._query),
            limit,
            self._lowered.reads_watermark,
        )
        frame = self._plans.dataframe(self._lowered)
        planned = self._lowered.plans[0].bound.schema
        rows = StreamedRows(frame, opened, self._plans.time_zone, planned)
        return RowsResult(self._text, rows, self._plans.errors_of(self._text), self._run)


def keys_of(query: exp.Query) -> tuple[str, ...] | None:
    """Return the output columns in GROUP BY without window columns, None without GROUP BY.

    Example:
        >>> from sqlglot import parse_one
        >>> keys_of(parse_one("SELECT k, window_end, SUM(v) AS n FROM t GROUP BY window_end, k"))
        ('k',)
    """
    group = query.args.get("group") if isinstance(query, exp.Select) else None
    if not isinstance(group, exp.Group):
        return None
    plain = group.copy()
    plain.set("fill", None)
    grouped = {part.sql() for part in plain.walk() if not isinstance(part, exp.Literal)}
    places = {group_key.name for group_key in group.expressions if group_key.is_int}
    return tuple(
        column.alias_or_name
        for place, column in enumerate(query.selects, 1)
        if (column.unalias().sql() in grouped or column.alias in grouped or str(place) in places)
        and column.unalias().name.lower() not in WINDOW_COLUMNS
    )


@dataclass(frozen=True)
class StartedInsert:
    """An INSERT over a stream.

    Attributes:
        name: Name of the table.
        stream: Stream that runs it, or why there is nothing to do.
        number: Number among the INSERTs of the stream. None: it is the only one.
    """

    name: Name
    stream: Stream | Refusal
    number: int | None = None


def stop_all(started: Iterable[StartedInsert]) -> None:
    """Stop the streams of INSERTs."""
    for insert in started:
        if isinstance(insert.stream, Stream):
            insert.stream.stop()


def insert_result(plans: Plans, text: str, started: Sequence[StartedInsert]) -> Inserted:
    """Return the result of running INSERTs over streams, waiting for bounded ones.

    Raises:
        SqlwinError: An INSERT failed.
    """
    streams = [insert.stream for insert in started if isinstance(insert.stream, Stream)]
    if plans.run is not None:
        for number in dict.fromkeys(stream.number for stream in streams):
            plans.run.record_stream(number)
    waits = bool(plans.config.get("table.dml-sync"))
    try:
        with plans.jobs_run():
            return _await_inserts(text, started, waits)
    except BaseException:
        stop_all(started)
        raise


def _await_inserts(text: str, started: Sequence[StartedInsert], waits: bool) -> Inserted:
    messages: list[str] = []
    notes: list[str] = []
    counts: list[int | None] = []
    running: Stream | None = None
    for insert in started:
        name, stream, number = ".".join(insert.name), insert.stream, insert.number
        if isinstance(stream, Refusal):
            messages.append(f"INSERT INTO {name}: nothing to do")
            notes.append(stream.reason)
            counts.append(0)
            continue
        if stream.setup.is_bounded or waits:
            stream.wait()
            stream.clean_up()
            count, status = stream.run.n_rows, stream.status()
            if number is not None:
                count = stream.run.written[number]
                status = replace(status, operators=status.operators[number : number + 1])
            written = "done" if count is None else count_text(count, "rows")
            messages.append(f"INSERT INTO {name}: {written}")
            counts.append(count)
            stream_notes = status_notes(status, stream.setup.late_table)
            notes += (
                stream_notes if number is None else [f"{name}: {note}" for note in stream_notes]
            )
        else:
            messages.append(f"INSERT INTO {name}: stream {stream.number} is running")
            counts.append(None)
        running = stream
    row_counts = [count for count in counts if count is not None]
    total = sum(row_counts) if len(row_counts) == len(counts) else None
    message, statement_notes = "\n".join(messages), tuple(dict.fromkeys(notes))
    if running is None:
        return InsertResult(text, message, total, statement_notes=statement_notes)
    return StreamResult(text, message, running, total, statement_notes=statement_notes)


def by_window(table: pa.Table) -> pa.Table:
    """Sort the rows of a micro-batch by window, then by the other columns from left to right.

    Rows with row kinds keep their order.
    """
    names = table.column_names
    if KIND_COLUMN in names:
        return table
    first = [names.index(name) for name in _WINDOW_COLUMNS if name in names]
    rest = [
        place
        for place, type_ in enumerate(table.schema.types)
        if place not in first and not pa.types.is_nested(type_) and not pa.types.is_null(type_)
    ]
    keys = [(str(place), "ascending") for place in (*first, *rest)]
    if not keys:
        return table
    numbered = table.rename_columns([str(place) for place in range(len(names))])
    return table.take(pc.sort_indices(numbered, sort_keys=keys))
