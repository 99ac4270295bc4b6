"""Write the micro-batches of a stream to one table or to several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.connectors.registry import open_table, open_writable, sink_names
from runtime.errors import AnalysisError
from runtime.frames.arrow_tables import arrow_table, rename_kind_column
from runtime.frames.job_properties import hold_watermarks, set_current_watermark
from runtime.names import quote_name
from runtime.sinks.late_rows import LateTable, results_among, send_closed_windows
from runtime.sinks.latest_rows import LatestRows
from runtime.spark.errors import translate_spark_errors
from runtime.spec.expressions import RankOrder
from runtime.spec.sink import IdentityColumn, SinkMode, StreamWriter, WriteBatch
from runtime.spec.source import InputChecks
from runtime.spec.table import TableSpec

Take = Callable[[pa.Table], None]
_NO_UPDATES = "RESET 'table.exec.emit.allow-lateness' and the 'table.exec.emit.early-fire' settings"


@dataclass
class StreamRun:
    """Options of a stream's start, and its progress since.

    Attributes:
        name: Name of Spark's query.
        checkpoint: Spark's checkpoint directory.
        trigger_us: Minimum time between the starts of two micro-batches. 0 means none.
        writer: Identifies the stream among others that write to the same place.
        n_rows: Rows written in this run. None if the sink does not count them.
        written: The same for each table, if there are several.
        reads: How often each source is read, see `reads_of_sources`.
        error: Exception of a failed micro-batch. Spark keeps only its text.
        late: Table for late rows. None means that they are dropped.
        order: Columns of the results by which the rows of a micro-batch are sorted. Empty means
            unsorted.
        query: The stream, once it is known.
        at_end: Functions to call when the stream has ended.
        checks: Checks of the input of a micro-batch before it runs.
        find_watermark: Function that returns the watermark before a micro-batch in microseconds, or
            None before the first watermark. None if the query does not use it.
        around_batch: Function that returns a context for the work on a micro-batch. None if the
            stream needs none.
        incomplete: Tables with missing files as of the last micro-batch.
        latest: Latest rows.
    """

    name: str
    checkpoint: str
    trigger_us: int
    writer: str
    n_rows: int | None = 0
    error: BaseException | None = None
    late: LateTable | None = None
    order: tuple[RankOrder, ...] = ()
    query: StreamingQuery | None = None
    written: list[int | None] = field(default_factory=list)
    reads: tuple[int, ...] = ()
    at_end: list[Callable[[], None]] = field(default_factory=list)
    checks: tuple[InputChecks, ...] = ()
    find_watermark: Callable[[int], int | None] | None = None
    around_batch: Callable[[], AbstractContextManager[None]] | None = None
    incomplete: tuple[str, ...] = ()
    latest: LatestRows = field(default_factory=LatestRows)


def check_sink(
    spec: TableSpec, *, overwrite: bool, emits_updates: bool, has_windows: bool = True
) -> None:
    """Check that a table can accept the rows of a stream, before anything starts.

    Args:
        spec: Table.
        overwrite: Whether its rows are to be replaced.
        emits_updates: Whether the stream replaces rows that it emitted before.
        has_windows: Whether these are windows, not groups or ranks without a window.

    Raises:
        CatalogError: The declaration is wrong, or the table is only a source.
        AnalysisError: The table cannot be overwritten, does not accept updates, or lacks a key for
            them.
    """
    table = open_writable(spec, overwrite=False)
    if overwrite:
        raise AnalysisError(
            f"INSERT OVERWRITE is not supported on streams: table `{spec.name}`",
            subjects=(spec.name,),
            hint="use INSERT INTO",
        )
    if not emits_updates:
        return
    because, instead, key = (
        ("of allowed lateness or early firing", _NO_UPDATES, "..., window_start, window_end")
        if has_windows
        else (
            "it groups or ranks all rows",
            "group by a window, or rank within one",
            "the columns of GROUP BY or PARTITION BY",
        )
    )
    if table.sink_mode in (None, SinkMode.APPEND):
        upserting = sink_names(SinkMode.UPSERT)
        raise AnalysisError(
            f"`{spec.name}` (connector '{spec.connector}') does not support updates, "
            f"which this query produces because {because}",
            subjects=(f"'{spec.connector}'", spec.name),
            hint=f"{instead}, or insert into a table of {sink_names(SinkMode.CHANGELOG)}"
            + (f", or of {upserting} with a PRIMARY KEY" if upserting else "")
            + "; or insert the changes as rows: TO_CHANGELOG",
        )
    if table.sink_mode is SinkMode.UPSERT and not spec.primary_key:
        raise AnalysisError(
            f"`{spec.name}` (connector '{spec.connector}') needs a PRIMARY KEY for updates, which "
            f"this query produces because {because}",
            subjects=(f"'{spec.connector}'", spec.name),
            hint=f"add PRIMARY KEY ({key}) NOT ENFORCED to `{spec.name}`, or {instead}",
        )


def check_update_key(
    spec: TableSpec, identity: Sequence[IdentityColumn], names: Sequence[str]
) -> None:
    """Check that the PRIMARY KEY of a table distinguishes the rows that a stream updates.

    Args:
        spec: Table that is updated by key.
        identity: Columns that identify the updated rows.
        names: Column of the table for each column of the query.

    Raises:
        AnalysisError: The key lacks one of the columns.
    """
    key = {name.lower() for name in spec.primary_key}
    for column in identity:
        targets = [names[place] for place in column.positions if place < len(names)]
        if not any(name.lower() in key for name in targets):
            raise AnalysisError(
                f"PRIMARY KEY ({', '.join(spec.primary_key)}) of `{spec.name}` does not "
                f"distinguish the rows that this query updates, because it lacks `{column.name}`",
                subjects=(spec.name, column.name),
                hint=f"add `{targets[0] if targets else column.name}` to the PRIMARY KEY"
                + ("" if targets else " and to the columns of the query"),
            )


def start_writing(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], spec: TableSpec, run: StreamRun
) -> StreamingQuery:
    """Start a stream that writes to a table.

    Args:
        rows: Result of the stream, including late rows if `run.late` is set.
        arrange: Converts results to the columns of the table, in order. ROW_KIND stays first if the
            stream emits updates.
        spec: Table that has passed `check_sink`.
        run: How to start the stream.

    Raises:
        SqlwinError: Spark or the sink refuses the stream.
    """
    table = open_table(spec)
    if run.order and table.sink_mode is None:
        raise AnalysisError(
            f"`{spec.name}` (connector '{spec.connector}') does not keep an order, "
            "because Spark writes it",
            subjects=(spec.name,),
            hint="remove ORDER BY",
        )
    if run.find_watermark is not None and table.sink_mode is None:
        raise AnalysisError(
            f"CURRENT_WATERMARK is not available for `{spec.name}` (connector "
            f"'{spec.connector}'), because Spark writes it",
            subjects=(spec.name,),
            hint=f"insert into a table of {sink_names(*SinkMode)}",
        )
    results = arrange(rows if run.late is None else results_among(rows))
    if run.late is None and not run.order and not _calls_at_batches(run):
        with table.errors():
            writer = table.spark_writer(results)
            if writer is not None:
                run.n_rows = None
                return _start(writer, run)
    write = open_target(results, spec, run)
    write = fetching_latest(run, spec, write, persists=run.late is None)
    return _start_arranged(rows, arrange, run, write)


def start_taking(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], run: StreamRun, take: Take
) -> StreamingQuery:
    """Start a stream that passes its rows to a function of this process, per micro-batch.

    Micro-batches without rows are skipped. After a restart the last one may be passed again. For
    `rows` and `arrange` see `start_writing`.
    """

    def write(rows_of_batch: DataFrame, batch: int) -> int:
        table = arrow_table(rename_kind_column(rows_of_batch))
        if table.num_rows:
            run.latest.take("", table)
            take(table)
        return int(table.num_rows)

    return _start_arranged(rows, arrange, run, write)


def _start_arranged(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], run: StreamRun, write: WriteBatch
) -> StreamingQuery:
    """Start a stream whose results go to `write` with the columns of their table."""

    def write_arranged(results: DataFrame, batch: int) -> int | None:
        return write(arrange(_sort(results, run)), batch)

    if run.late is not None:
        return _start_with_late_rows(rows, run, write_arranged)
    if not run.order:
        return start_for_each(arrange(rows), run, write)

    def write_sorted(results: DataFrame, batch: int) -> int | None:
        # Spark sorts by ranges, for which it reads a sample in a separate job.
        with _persisted(results):
            return write_arranged(results, batch)

    return start_for_each(rows, run, write_sorted)


@contextmanager
def _persisted(rows: DataFrame) -> Iterator[None]:
    """Compute the rows of a micro-batch once for all jobs of this block.

    Only one job may write the stream's state.
    """
    rows.persist()
    try:
        yield
    finally:
        rows.unpersist()


def _sort(rows: DataFrame, run: StreamRun) -> DataFrame:
    """Sort the results of a micro-batch as the query asks."""
    if not run.order:
        return rows
    keys = []
    for sort_column in run.order:
        key = F.col(quote_name(sort_column.column))
        if sort_column.is_descending:
            keys.append(
                key.desc_nulls_first() if sort_column.nulls_first else key.desc_nulls_last()
            )
        else:
            keys.append(key.asc_nulls_first() if sort_column.nulls_first else key.asc_nulls_last())
    return rows.orderBy(*keys)


def start_discarding(dataframe: DataFrame, run: StreamRun) -> StreamingQuery:
    """Start a stream whose rows are discarded."""
    run.n_rows = None
    if _calls_at_batches(run):
        return start_for_each(dataframe, run, _discard)
    with translate_spark_errors():
        return _start(dataframe.writeStream.format("noop"), run)


def _calls_at_batches(run: StreamRun) -> bool:
    """Return whether this process has to act in each micro-batch, for any sink."""
    return run.find_watermark is not None or run.around_batch is not None


def _discard(rows: DataFrame, batch: int) -> None:
    rows.write.format("noop").mode("overwrite").save()


def open_target(
    dataframe: DataFrame, spec: TableSpec, run: StreamRun, part: str = ""
) -> WriteBatch:
    """Return a function that writes a stream's micro-batches, with the columns of `dataframe`.

    `part` distinguishes the tables of the stream if there are several.
    """
    writer = StreamWriter(
        run.writer + part, run.checkpoint, is_ordered=bool(run.order) and not part
    )
    sink = open_table(spec).open_sink(dataframe, writer)
    run.at_end.append(sink.commit)
    return sink.write


def fetching_latest(
    run: StreamRun, spec: TableSpec, write: WriteBatch, *, persists: bool = False
) -> WriteBatch:
    """Return a write function that also fetches the latest rows while a page shows the stream.

    Args:
        run: Run of the stream.
        spec: Table that is written.
        write: Writes the rows of a micro-batch.
        persists: Whether this function has to persist the rows because no other code does.
    """

    def write_and_fetch(rows: DataFrame, batch: int) -> int | None:
        if not run.latest.is_due(spec.name):
            return write(rows, batch)
        with _persisted(rows) if persists else nullcontext():
            n_rows = write(rows, batch)
            if n_rows != 0:
                run.latest.fetch(spec.name, rows)
            return n_rows

    return write_and_fetch


def _start_with_late_rows(rows: DataFrame, run: StreamRun, write: WriteBatch) -> StreamingQuery:
    """Start a stream that writes its results with `write`, and its late rows to their table."""
    late = run.late
    assert late is not None
    # Separate from the results, in case both tables are in one directory.
    write_late = open_target(late.rows(rows), late.spec, run, "late")

    def write_both(rows_of_batch: DataFrame, batch: int) -> int | None:
        closed = send_closed_windows(rows_of_batch.sparkSession, late, batch, run.query)
        with closed, _persisted(rows_of_batch):
            n_rows = write(results_among(rows_of_batch), batch)
            late_rows = late.rows(rows_of_batch)
            if late_rows.count():
                write_late(late_rows, batch)
            return n_rows

    return start_for_each(rows, run, write_both)


def start_for_each(dataframe: DataFrame, run: StreamRun, write: WriteBatch) -> StreamingQuery:
    """Start a stream that passes its micro-batches to a function that returns row counts."""

    def write_and_count(rows: DataFrame, batch: int) -> None:
        try:
            for checks in run.checks:
                checks.check(batch)
            found = [checks.find_incomplete(batch) for checks in run.checks]
            of_directories = [names for names in found if names is not None]
            if of_directories:
                run.incomplete = tuple(chain.from_iterable(of_directories))
                hold_watermarks(rows.sparkSession.sparkContext, bool(run.incomplete))
            if run.find_watermark is not None:
                set_current_watermark(rows.sparkSession.sparkContext, run.find_watermark(batch))
            with nullcontext() if run.around_batch is None else run.around_batch():
                n_rows = write(rows, batch)
        except BaseException as error:
            run.error = error
            raise
        run.n_rows = None if n_rows is None or run.n_rows is None else run.n_rows + n_rows

    with translate_spark_errors():
        return _start(dataframe.writeStream.foreachBatch(write_and_count), run)


def _start(writer: DataStreamWriter, run: StreamRun) -> StreamingQuery:
    every: dict[str, Any] = {"processingTime": f"{run.trigger_us // 1_000} milliseconds"}
    writer = writer.queryName(run.name).option("checkpointLocation", run.checkpoint)
    run.query = writer.outputMode("append").trigger(**every).start()
    return run.query


# -- several tables --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetPart:
    """The part of a stream that goes to one of several tables.

    Attributes:
        spec: Table that has passed `check_sink`. Not one that Spark itself streams to.
        rows: Selects the table's rows and columns from a micro-batch.
        none: Empty DataFrame with the same columns.
        late: Table for late rows. None means that they are dropped.
        late_rows: Selects the late rows from a micro-batch.
        none_late: Empty DataFrame with the columns of late rows.
    """

    spec: TableSpec
    rows: Callable[[DataFrame], DataFrame]
    none: DataFrame
    late: LateTable | None = None
    late_rows: Callable[[DataFrame], DataFrame] | None = None
    none_late: DataFrame | None = None


def start_writing_set(rows: DataFrame, parts: Sequence[SetPart], run: StreamRun) -> StreamingQuery:
    """Start a stream that writes to several tables, each with its own rows of a micro-batch.

    Spark runs a micro-batch again if it was not written completely. Every table then treats it as
    in a stream with one table: files of the same micro-batch are replaced.

    Args:
        rows: `reader` INT, the position of a part; `windows`, NULL in rows without results;
            `watermark_us`, not NULL if `windows` holds late rows.
        parts: Parts for the tables.
        run: How to start the stream. `run.written` counts the rows of each part. `run.late` is the
            table of one part's late rows, if parts have any.

    Raises:
        SqlwinError: Spark or a sink refuses it.
    """
    # Separate writers, in case some tables are in one directory.
    writers = [
        fetching_latest(run, part.spec, open_target(part.none, part.spec, run, f"i{number}"))
        for number, part in enumerate(parts)
    ]
    late_writers = [_late_writer(part, run, f"i{number}late") for number, part in enumerate(parts)]
    run.written = [0] * len(parts)
    is_first = True

    def write(rows_of_batch: DataFrame, batch: int) -> int | None:
        nonlocal is_first
        is_late = F.col("watermark_us").isNotNull().alias("is_late")
        with _persisted(rows_of_batch):
            # A row is a blob of windows, so there are few rows.
            kinds = (
                rows_of_batch.where(F.col("windows").isNotNull())
                .select("reader", is_late)
                .collect()
            )
            with_rows = {row.reader for row in kinds if not row.is_late}
            with_late = {row.reader for row in kinds if row.is_late}
            counts = [
                # The first micro-batch may have been interrupted before: replace its leftovers.
                writer(part.rows(rows_of_batch), batch) if is_first or number in with_rows else 0
                for number, (part, writer) in enumerate(zip(parts, writers, strict=True))
            ]
            for number, write_late in enumerate(late_writers):
                if write_late is not None and (is_first or number in with_late):
                    write_late(rows_of_batch, batch)
        is_first = False
        run.written = [
            None if before is None or count is None else before + count
            for before, count in zip(run.written, counts, strict=True)
        ]
        known_counts = [count for count in counts if count is not None]
        return sum(known_counts) if len(known_counts) == len(counts) else None

    def write_with_closed_windows(rows_of_batch: DataFrame, batch: int) -> int | None:
        if run.late is None:
            return write(rows_of_batch, batch)
        with send_closed_windows(rows_of_batch.sparkSession, run.late, batch, run.query):
            return write(rows_of_batch, batch)

    return start_for_each(rows, run, write_with_closed_windows)


def _late_writer(part: SetPart, run: StreamRun, name: str) -> WriteBatch | None:
    """Return a function that writes a part's late rows, or None if they are dropped."""
    late, late_rows, none = part.late, part.late_rows, part.none_late
    if late is None or late_rows is None or none is None:
        return None
    write = open_target(late.rows(none), late.spec, run, name)
    return lambda rows, batch: write(late.rows(late_rows(rows)), batch)
