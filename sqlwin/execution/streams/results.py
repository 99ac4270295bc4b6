"""What statements over streams give."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from planner.sql.nodes import WINDOW_COLUMNS
from runtime.connectors.writing import KIND_COLUMN
from runtime.sinks.stream_sinks import Take
from runtime.spec.figures import counted
from runtime.streaming.status import status_notes
from sqlwin.catalog.entries import Name
from sqlwin.execution.lowered import LoweredStream
from sqlwin.execution.planning import Plans
from sqlwin.execution.streams.handle import Stream
from sqlwin.execution.streams.sinks import TakeRows
from sqlwin.execution.streams.start import start_stream
from sqlwin.execution.streams.status import status_line
from sqlwin.result import OpenStream, Result

# What rows of a micro-batch are ordered by for whoever looks at them
_WINDOW_COLUMNS = ("window_end", "window_start")


class StreamQuery:
    """A SELECT over streams: a stream is started each time its rows are asked for.

    What runs is what the statement was lowered to. Only if other statements have run since, or
    tables have changed, the query is planned and lowered again: it then reads the tables that
    there are now, under the settings of now.
    """

    def __init__(self, plans: Plans, lowered: LoweredStream, query: exp.Query, text: str) -> None:
        self._plans = plans
        self._lowered = lowered
        self._n_changes = plans.catalog.n_changes
        self._query = query
        self._text = text
        self._run = plans.run
        self._started: list[Stream] = []

    def start(self, take: Take) -> Stream | str:
        """Start a stream whose rows go to a function; or why there is nothing to do.

        Raises:
            SqlwinError: it cannot be started.
        """
        sink = TakeRows(lambda table: take(table if self._lowered.order else by_window(table)))
        with self._plans.lock:
            if self._plans.catalog.n_changes != self._n_changes:
                self._plans.start_statement()
                plan = self._plans.plan(self._query, self._text)
                self._lowered = self._plans.lower_stream(plan, is_taken=True)
                self._n_changes = self._plans.catalog.n_changes
            with self._marked():
                stream = start_stream(self._plans, self._lowered, sink, self._text)
        if isinstance(stream, Stream):
            self._started.append(stream)
            if self._run is not None:
                self._run.started(stream.number)
        return stream

    def _marked(self) -> AbstractContextManager[None]:
        """A block whose Spark jobs are those of the statement, whichever was begun since."""
        run = self._run
        return nullcontext() if run is None else run.marking(run.record.tag, run.record.text)

    def status(self) -> str | None:
        """How the last one stands, in a line; None before one is started."""
        return status_line(self._started[-1]) if self._started else None

    def notes(self) -> tuple[str, ...]:
        """How many rows were dropped, and why."""
        return tuple(
            text
            for stream in self._started
            for text in status_notes(stream.status(), stream.setup.late_table)
        )

    def result(self, take_interrupt: Callable[[], bool]) -> Result:
        """The result of the statement: nothing runs before its rows are asked for.

        Args:
            take_interrupt: whether the user wants it to end now; true once.
        """
        limit = self._lowered.limit
        bounded = self._lowered.is_bounded or limit is not None
        return Result(
            self._text,
            "query",
            frame=self._plans.dataframe(self._lowered),
            errors=self._plans.errors_of(self._text),
            time_zone=self._plans.time_zone,
            open_stream=OpenStream(
                self.start,
                bounded,
                self.status,
                self.notes,
                take_interrupt,
                keys_of(self._query),
                limit,
            ),
        )


def keys_of(query: exp.Query) -> tuple[str, ...] | None:
    """The output columns that a query groups by, but for those of its windows; None: it does not.

    Example:
        >>> from sqlglot import parse_one
        >>> keys_of(parse_one("SELECT k, window_end, SUM(v) AS n FROM t GROUP BY window_end, k"))
        ('k',)
    """
    group = query.args.get("group") if isinstance(query, exp.Select) else None
    if not isinstance(group, exp.Group):
        return None
    grouped = {each.sql() for each in group.walk() if not isinstance(each, exp.Literal)}
    places = {each.name for each in group.expressions if each.is_int}
    return tuple(
        each.alias_or_name
        for place, each in enumerate(query.selects, 1)
        if (each.unalias().sql() in grouped or each.alias in grouped or str(place) in places)
        and each.unalias().name.lower() not in WINDOW_COLUMNS
    )


@dataclass(frozen=True)
class StartedInsert:
    """An INSERT from a stream.

    Attributes:
        name: the table.
        stream: the stream that runs it, or why there is nothing to do.
        number: its number among the INSERTs that the stream runs; None: it is the only one.
    """

    name: Name
    stream: Stream | str
    number: int | None = None


def stop_all(started: Iterable[StartedInsert]) -> None:
    """Stop the streams of INSERTs."""
    for each in started:
        if isinstance(each.stream, Stream):
            each.stream.stop()


def insert_result(plans: Plans, text: str, started: Sequence[StartedInsert]) -> Result:
    """What INSERTs from streams give, which run already; bounded ones are waited for.

    Raises:
        SqlwinError: one failed.
    """
    streams = [each.stream for each in started if isinstance(each.stream, Stream)]
    if plans.run is not None:
        for number in dict.fromkeys(stream.number for stream in streams):
            plans.run.started(number)
    waits = bool(plans.config.get("table.dml-sync"))
    try:
        with plans.jobs_run():
            return _awaited(text, started, waits)
    except BaseException:
        stop_all(started)
        raise


def _awaited(text: str, started: Sequence[StartedInsert], waits: bool) -> Result:
    messages: list[str] = []
    notes: list[str] = []
    counts: list[int | None] = []
    running: Stream | None = None
    for insert in started:
        name, stream, number = ".".join(insert.name), insert.stream, insert.number
        if isinstance(stream, str):
            messages.append(f"INSERT INTO {name}: nothing to do")
            notes.append(stream)
            counts.append(0)
            continue
        if stream.setup.is_bounded or waits:
            stream.wait()
            stream.clean_up()
            count, status = stream.run.n_rows, stream.status()
            if number is not None:
                count = stream.run.written[number]
                status = replace(status, operators=status.operators[number : number + 1])
            written = "done" if count is None else counted(count, "rows")
            messages.append(f"INSERT INTO {name}: {written}")
            counts.append(count)
            found = status_notes(status, stream.setup.late_table)
            notes += found if number is None else [f"{name}: {each}" for each in found]
        else:
            messages.append(f"INSERT INTO {name}: stream {stream.number} runs")
            counts.append(None)
        running = stream
    known = [count for count in counts if count is not None]
    total = sum(known) if len(known) == len(counts) else None
    return Result(
        text,
        "insert",
        "\n".join(messages),
        row_count=total,
        statement_notes=tuple(dict.fromkeys(notes)),
        stream=running,
    )


def by_window(table: pa.Table) -> pa.Table:
    """The rows of a micro-batch by window, then by the other columns from left to right.

    Rows that replace others stay in the order in which they came.
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
