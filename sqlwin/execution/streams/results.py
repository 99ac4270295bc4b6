"""What statements over streams give."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from planner.plan import Plan
from runtime.connectors.stream_sinks import KIND_COLUMN, Take
from runtime.errors import AnalysisError
from runtime.spec.table import TableSpec
from runtime.streaming.status import remarks
from sqlwin.execution.errors import StatementErrors
from sqlwin.execution.streams.handle import Stream, StreamPart
from sqlwin.execution.streams.planning import Measuring
from sqlwin.execution.streams.start import StreamQueries
from sqlwin.execution.streams.status import status_line
from sqlwin.result import OpenStream, Result
from sqlwin.statements.parse import Insert

# What rows of a micro-batch are ordered by for whoever looks at them
_WINDOW_COLUMNS = ("window_end", "window_start")


def stream_query(
    queries: StreamQueries,
    plan: Plan,
    replan: Callable[[], Plan],
    text: str,
    errors: StatementErrors,
    take_interrupt: Callable[[], bool],
) -> Result:
    """A query over streams: nothing runs before its rows are asked for.

    Args:
        queries: starts it.
        plan: its plan.
        replan: plans it again, for the moment at which its rows are asked for.
        text: the statement.
        errors: translates what it fails with.
        take_interrupt: whether a person wants it to end now; told once.
    """
    started: list[Stream] = []

    def start(take: Take) -> Stream | str:
        def take_sorted(table: pa.Table) -> None:
            take(by_window(table))

        stream = queries.select(replan(), text, take_sorted, errors)
        if isinstance(stream, Stream):
            started.append(stream)
        return stream

    def status() -> str | None:
        return status_line(started[-1]) if started else None

    def dropped() -> tuple[str, ...]:
        return tuple(
            text for stream in started for text in remarks(stream.status(), stream.setup.late_table)
        )

    opened = OpenStream(start, queries.plans.ends(plan), status, dropped, take_interrupt)
    return Result(
        text,
        "query",
        dataframe=queries.plans.dataframe(plan),
        errors=errors,
        open_stream=opened,
    )


def start_insert(
    queries: StreamQueries,
    plan: Plan,
    statement: Insert,
    table: TableSpec | None,
    errors: StatementErrors,
    measuring: Measuring | None = None,
) -> Stream | str:
    """Start an INSERT from a stream.

    Raises:
        SqlwinError: it cannot be started.
    """
    name = ".".join(statement.name)
    if table is None:
        raise AnalysisError(
            f"a stream cannot be inserted into `{name}`, a table of Spark's",
            subjects=(name,),
            hint=f"CREATE TABLE {name} (...) WITH ('connector' = 'spark', 'format' = '...', ...)",
        )
    return queries.insert(
        plan,
        statement.text,
        table,
        statement.columns,
        statement.overwrite,
        errors,
        measuring,
        statement.static,
    )


def insert_result(
    text: str, started: Sequence[tuple[str, Stream | StreamPart | str]], *, waits: bool
) -> Result:
    """What INSERTs from streams give, which run already.

    Those whose input ends are waited for.

    Args:
        text: the statement.
        started: the target and the stream of each, or its part of one, or why there is none.
        waits: whether streams without an end are waited for too.

    Raises:
        SqlwinError: one failed.
    """
    messages: list[str] = []
    notes: list[str] = []
    counts: list[int | None] = []
    running: Stream | None = None
    try:
        for name, part in started:
            if isinstance(part, str):
                messages.append(f"INSERT INTO {name}: nothing to do")
                notes.append(part)
                counts.append(0)
                continue
            stream = part.stream if isinstance(part, StreamPart) else part
            if stream.setup.ends or waits:
                stream.wait()
                stream.clean_up()
                count = part.n_rows if isinstance(part, StreamPart) else stream.run.n_rows
                written = "done" if count is None else f"{count:,} row{'' if count == 1 else 's'}"
                messages.append(f"INSERT INTO {name}: {written}")
                counts.append(count)
                told = remarks(part.status(), stream.setup.late_table)
                notes += (
                    [f"{name}: {each}" for each in told] if isinstance(part, StreamPart) else told
                )
            else:
                messages.append(f"INSERT INTO {name}: stream {stream.number} runs")
                counts.append(None)
            running = stream
    except BaseException:
        for _, part in started:
            if not isinstance(part, str):
                (part.stream if isinstance(part, StreamPart) else part).stop()
        raise
    known = [count for count in counts if count is not None]
    total = sum(known) if len(known) == len(counts) else None
    return Result(
        text,
        "insert",
        "\n".join(messages),
        row_count=total,
        notes=tuple(dict.fromkeys(notes)),
        stream=running,
    )


def by_window(table: pa.Table) -> pa.Table:
    """The rows of a micro-batch by window, then by the other columns from left to right.

    Rows that replace others stay in the order in which they came.
    """
    names = table.column_names
    if KIND_COLUMN in names or len(set(names)) < len(names):
        return table
    first = [name for name in _WINDOW_COLUMNS if name in names]
    rest = [
        name
        for name, type_ in zip(names, table.schema.types, strict=True)
        if name not in first and not pa.types.is_nested(type_) and not pa.types.is_null(type_)
    ]
    keys = [(name, "ascending") for name in (*first, *rest)]
    return table.take(pc.sort_indices(table, sort_keys=keys)) if keys else table
