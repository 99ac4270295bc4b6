"""Where the rows of a stream go, micro-batch by micro-batch: to one table, or to several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.connectors.connector import StreamWriter, WriteBatch
from runtime.connectors.registry import (
    check_writable,
    connector_of,
    connectors_that,
    explained_errors,
)
from runtime.connectors.writing import with_named_kind
from runtime.errors import AnalysisError
from runtime.frames.arrow_tables import arrow_table
from runtime.frames.job_properties import hold_watermarks
from runtime.names import quoted
from runtime.sinks.late_rows import LateTable, closed_until_sent, results_among
from runtime.sinks.latest_rows import LatestRows
from runtime.spark.errors import translated_errors
from runtime.spec.ranks import RankOrder
from runtime.spec.table import TableSpec

Take = Callable[[pa.Table], None]


@dataclass
class StreamRun:
    """How a stream is started, and what it has written since.

    Attributes:
        name: what Spark calls it.
        checkpoint: Spark's checkpoint directory.
        trigger_us: the time from the start of a micro-batch to that of the next; 0: none.
        writer: identifies the stream among others that write to the same place.
        n_rows: rows written in this run; None if the sink does not count them.
        written: the same for each table, where there are several.
        reads: how often each of its sources is read, see `reads_of_sources`.
        error: what a micro-batch failed with, as it was raised: Spark keeps its text alone.
        late: where late rows go; None: they are dropped.
        order: by which columns of the results the rows of a micro-batch are sorted; none: they come
            as they are.
        query: the stream, once it is known.
        at_end: what is to be done when the stream is over.
        check: looks at what a micro-batch reads before it runs; raises where it should not.
        find_incomplete: finds the tables of which files are missing, when a micro-batch has run, of
            those that were published together with some that are read; None: it reads no files.
        incomplete: the tables of which some are missing, as of the last micro-batch.
        latest: the rows that it emitted last.
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
    check: Callable[[int], None] = lambda batch: None
    find_incomplete: Callable[[int], tuple[str, ...]] | None = None
    incomplete: tuple[str, ...] = ()
    latest: LatestRows = field(default_factory=LatestRows)


def check_sink(spec: TableSpec, *, overwrite: bool, emits_updates: bool) -> None:
    """Check that a table can take the rows of a stream, before anything starts.

    Raises:
        CatalogError: it is declared wrongly, or is only a source.
        AnalysisError: it cannot be overwritten, or cannot take rows that replace others.
    """
    check_writable(spec, overwrite=False)
    if overwrite:
        raise AnalysisError(
            f"INSERT OVERWRITE of `{spec.name}` cannot take a stream, which never is complete",
            subjects=(spec.name,),
            hint="write INSERT INTO",
        )
    connector = connector_of(spec)
    if emits_updates and not connector.takes_updates:
        raise AnalysisError(
            f"`{spec.name}` (connector '{connector.name}') cannot take updates, and this query "
            "emits windows again: allowed lateness or early firing is on",
            subjects=(f"'{connector.name}'", spec.name),
            hint="RESET 'table.exec.emit.allow-lateness' and the 'table.exec.emit.early-fire' "
            f"settings, or insert into a table of {connectors_that(lambda c: c.takes_updates)}",
        )


def start_writing(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], spec: TableSpec, run: StreamRun
) -> StreamingQuery:
    """Start a stream into a table.

    Args:
        rows: what the stream computes, late rows too where `run.late` says where they go.
        arrange: makes the table's columns of the results, in their order; ROW_KIND stays first
            where rows replace others.
        spec: the table, found right by `check_sink`.
        run: how to start it.

    Raises:
        SqlwinError: Spark or the sink refuses it.
    """
    connector = connector_of(spec)
    if run.order and connector.open_batches is None:
        raise AnalysisError(
            f"Spark writes to `{spec.name}` (connector '{connector.name}') in an order of its own",
            subjects=(spec.name,),
            hint="leave ORDER BY out",
        )
    by_spark = None if connector.in_batches(spec) else connector.write_stream
    if by_spark is not None and run.late is None and not run.order:
        run.n_rows = None
        with explained_errors(connector, spec):
            return _started(by_spark(arrange(rows), spec), run)
    results = rows if run.late is None else results_among(rows)
    write = open_batches(arrange(results), spec, run)
    write = fetching_latest(run, spec, write, persists=run.late is None)
    return _start_arranged(rows, arrange, run, write)


def start_taking(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], run: StreamRun, take: Take
) -> StreamingQuery:
    """Start a stream whose rows go to a function of this process, a micro-batch at a time.

    A micro-batch without rows is not handed over. After a restart the last one may come again.
    For `rows` and `arrange` see `start_writing`.
    """

    def write(found: DataFrame, batch: int) -> int:
        table = arrow_table(with_named_kind(found))
        if table.num_rows:
            run.latest.take("", table)
            take(table)
        return int(table.num_rows)

    return _start_arranged(rows, arrange, run, write)


def _start_arranged(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], run: StreamRun, write: WriteBatch
) -> StreamingQuery:
    """Start a stream whose results go to `write` with the columns of their table."""

    def write_arranged(found: DataFrame, batch: int) -> int | None:
        return write(arrange(_sorted(found, run)), batch)

    if run.late is not None:
        return _for_each_with_late(rows, run, write_arranged)
    if run.order:
        return for_each(rows, run, write_arranged)
    return for_each(arrange(rows), run, write)


def _sorted(rows: DataFrame, run: StreamRun) -> DataFrame:
    """The results of a micro-batch in the order that the query asks for."""
    if not run.order:
        return rows
    keys = []
    for each in run.order:
        key = F.col(quoted(each.column))
        if each.is_descending:
            keys.append(key.desc_nulls_first() if each.nulls_first else key.desc_nulls_last())
        else:
            keys.append(key.asc_nulls_first() if each.nulls_first else key.asc_nulls_last())
    return rows.orderBy(*keys)


def start_discarding(dataframe: DataFrame, run: StreamRun) -> StreamingQuery:
    """Start a stream whose rows are thrown away."""
    run.n_rows = None
    with translated_errors():
        return _started(dataframe.writeStream.format("noop"), run)


def open_batches(
    dataframe: DataFrame, spec: TableSpec, run: StreamRun, part: str = ""
) -> WriteBatch:
    """What writes the micro-batches of a stream to a table; they have the columns of `dataframe`.

    `part` tells the tables of the stream apart, if there are several.
    """
    connector = connector_of(spec)
    assert connector.open_batches is not None, f"only Spark writes to '{connector.name}'"
    writer = StreamWriter(run.writer + part, run.checkpoint, run.at_end.append)
    return connector.open_batches(dataframe, spec, writer)


def fetching_latest(
    run: StreamRun, spec: TableSpec, write: WriteBatch, *, persists: bool = False
) -> WriteBatch:
    """The same writing; while somebody looks at the stream, its last rows are fetched too.

    Args:
        run: the stream.
        spec: the table that is written.
        write: writes the rows of a micro-batch.
        persists: whether the rows are to be persisted for that, because nobody has done so.
    """

    def write_and_fetch(rows: DataFrame, batch: int) -> int | None:
        if not run.latest.is_due(spec.name):
            return write(rows, batch)
        if persists:
            # two jobs read it, and the state may be written by one alone
            rows.persist()
        try:
            n_rows = write(rows, batch)
            if n_rows != 0:
                run.latest.fetch(spec.name, rows)
            return n_rows
        finally:
            if persists:
                rows.unpersist()

    return write_and_fetch


def _for_each_with_late(rows: DataFrame, run: StreamRun, write: WriteBatch) -> StreamingQuery:
    """Start a stream that writes its results with `write`, and its late rows to their table."""
    late = run.late
    assert late is not None
    # kept apart from the results, if they should be in one directory
    write_late = open_batches(late.rows(rows), late.spec, run, "late")

    def write_both(found: DataFrame, batch: int) -> int | None:
        with closed_until_sent(found.sparkSession, late, batch, run.query):
            # two jobs read it, and the state may be written by one alone
            found.persist()
            try:
                n_rows = write(results_among(found), batch)
                late_rows = late.rows(found)
                if late_rows.count():
                    write_late(late_rows, batch)
                return n_rows
            finally:
                found.unpersist()

    return for_each(rows, run, write_both)


def for_each(dataframe: DataFrame, run: StreamRun, write: WriteBatch) -> StreamingQuery:
    """Start a stream whose micro-batches go to a function, which returns how many rows they had."""

    def counted(rows: DataFrame, batch: int) -> None:
        try:
            run.check(batch)
            if run.find_incomplete is not None:
                run.incomplete = run.find_incomplete(batch)
                hold_watermarks(rows.sparkSession.sparkContext, bool(run.incomplete))
            n_rows = write(rows, batch)
        except BaseException as error:
            run.error = error
            raise
        run.n_rows = None if n_rows is None or run.n_rows is None else run.n_rows + n_rows

    with translated_errors():
        return _started(dataframe.writeStream.foreachBatch(counted), run)


def _started(writer: DataStreamWriter, run: StreamRun) -> StreamingQuery:
    every: dict[str, Any] = {"processingTime": f"{run.trigger_us // 1_000} milliseconds"}
    writer = writer.queryName(run.name).option("checkpointLocation", run.checkpoint)
    run.query = writer.outputMode("append").trigger(**every).start()
    return run.query


# -- several tables --------------------------------------------------------------------------------


@dataclass(frozen=True)
class SetPart:
    """What one of the tables gets.

    Attributes:
        spec: the table, found right by `check_sink`; not one that Spark itself streams to.
        rows: its rows of a micro-batch, of those of all: its columns, in their order.
        none: the same columns without rows.
        late: where its late rows go; None: they are dropped.
        late_rows: these, of the rows of all.
        none_late: the same columns without rows.
    """

    spec: TableSpec
    rows: Callable[[DataFrame], DataFrame]
    none: DataFrame
    late: LateTable | None = None
    late_rows: Callable[[DataFrame], DataFrame] | None = None
    none_late: DataFrame | None = None


def start_writing_set(rows: DataFrame, parts: Sequence[SetPart], run: StreamRun) -> StreamingQuery:
    """Start a stream into several tables: each gets its own rows of a micro-batch.

    Spark computes a micro-batch anew that was not written whole, and every table then takes it as
    one stream's table would: files of the same micro-batch are replaced, table by table.

    Args:
        rows: `reader` INT, the position of a part, `windows`, NULL where there is nothing, and
            `watermark_us`, not NULL where these are late rows.
        parts: the tables.
        run: how to start it; `run.written` counts the rows of each part. `run.late` is of one
            part's late rows, where parts have any.

    Raises:
        SqlwinError: Spark or a sink refuses it.
    """
    # kept apart, if some should be in one directory
    writers = [
        fetching_latest(run, part.spec, open_batches(part.none, part.spec, run, f"i{number}"))
        for number, part in enumerate(parts)
    ]
    late_writers = [_late_writer(part, run, f"i{number}late") for number, part in enumerate(parts)]
    run.written = [0] * len(parts)
    is_first = True

    def write(found: DataFrame, batch: int) -> int | None:
        nonlocal is_first
        is_late = F.col("watermark_us").isNotNull().alias("is_late")
        # several jobs read it, and the state may be written by one alone
        found.persist()
        try:
            # a row is a blob of windows: they are few
            kinds = found.where(F.col("windows").isNotNull()).select("reader", is_late).collect()
            with_rows = {row.reader for row in kinds if not row.is_late}
            with_late = {row.reader for row in kinds if row.is_late}
            counts = [
                # a first micro-batch may be one that was cut short: what it left is replaced
                writer(part.rows(found), batch) if is_first or number in with_rows else 0
                for number, (part, writer) in enumerate(zip(parts, writers, strict=True))
            ]
            for number, write_late in enumerate(late_writers):
                if write_late is not None and (is_first or number in with_late):
                    write_late(found, batch)
        finally:
            found.unpersist()
        is_first = False
        run.written = [
            None if before is None or count is None else before + count
            for before, count in zip(run.written, counts, strict=True)
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def counted_with_closed(found: DataFrame, batch: int) -> int | None:
        if run.late is None:
            return write(found, batch)
        with closed_until_sent(found.sparkSession, run.late, batch, run.query):
            return write(found, batch)

    return for_each(rows, run, counted_with_closed)


def _late_writer(part: SetPart, run: StreamRun, name: str) -> WriteBatch | None:
    """What writes a part's late rows, of the rows of all; None: they are dropped."""
    late, late_rows, none = part.late, part.late_rows, part.none_late
    if late is None or late_rows is None or none is None:
        return None
    write = open_batches(late.rows(none), late.spec, run, name)
    return lambda found, batch: write(late.rows(late_rows(found)), batch)
