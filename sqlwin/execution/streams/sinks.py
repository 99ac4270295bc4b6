"""Sinks for the rows of a stream and its late rows, with the mapping of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from planner.lowering.stream.statement_set import StreamSetSteps
from planner.nodes.logical import Sink
from planner.nodes.window_columns import groups_all_time
from planner.sql.build import identifier, to_sql
from planner.streams.update_identity import update_identity
from runtime.connectors.registry import open_table
from runtime.engines.spark_batch.execute import dataframe
from runtime.errors import AnalysisError, nearest
from runtime.materialized.append import InsertedRows, append
from runtime.plan.nodes import PlanNode
from runtime.sinks.late_rows import LateTable, check_late_tables
from runtime.sinks.stream_sinks import (
    SetPart,
    StreamRun,
    Take,
    check_sink,
    check_update_key,
    start_discarding,
    start_for_each,
    start_taking,
    start_writing,
    start_writing_set,
)
from runtime.spec.stream import StreamSource
from runtime.spec.table import LATE_ROWS, MISSED, PeriodicReload, TableSpec, TimedReload
from runtime.streaming.execute.shared import SharedWindows, run_over_windows, shared_windows
from runtime.streaming.options import StreamOptions
from runtime.streaming.source_reads import reads_of_sources
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.execution.inserts import by_position, insert_target
from sqlwin.execution.lowered import LateOutput, LoweredStream
from sqlwin.result.spark import arrow_ready
from sqlwin.statements.nodes import Insert


@dataclass(frozen=True)
class IntoTable:
    """Sink to a session table.

    Attributes:
        table: Target table.
        columns: Columns named in INSERT INTO t (...). Empty: all, by position.
        static: Name and Spark SQL of columns with one value for all rows.
        overwrite: Whether the statement is INSERT OVERWRITE, which streams refuse.
    """

    table: TableSpec
    columns: tuple[str, ...] = ()
    static: tuple[tuple[str, str], ...] = ()
    overwrite: bool = False

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.table.name


@dataclass(frozen=True)
class IntoTables:
    """Sink to the tables of INSERTs that one stream runs.

    Attributes:
        names: Tables as the statements name them.
        tables: Sink of each table.
    """

    names: tuple[str, ...]
    tables: tuple[IntoTable, ...]

    @property
    def name(self) -> str:
        """Names of the tables."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class TakeRows:
    """Sink to a function in this process, which is called with each micro-batch's rows."""

    take: Take
    name = "select"


@dataclass(frozen=True)
class IntoSlices:
    """Sink to the slices of a materialized table, exactly once per micro-batch.

    Attributes:
        into: Table, and how rows become partials.
    """

    into: InsertedRows

    @property
    def name(self) -> str:
        """Name of the table."""
        return self.into.name


@dataclass(frozen=True)
class Discard:
    """Sink that discards the rows."""

    name = "nowhere"


StreamSink = IntoTable | IntoTables | IntoSlices | TakeRows | Discard


def into_table(insert: Insert, table: TableSpec | None) -> IntoTable:
    """Return the sink of an INSERT over a stream.

    Raises:
        AnalysisError: The table belongs to Spark.
    """
    if table is None:
        name = ".".join(insert.name)
        raise AnalysisError(
            f"cannot insert a stream into `{name}`, a table of Spark's catalog",
            subjects=(name,),
            hint=f"use CREATE TABLE {name} (...) WITH ('connector' = 'spark', 'format' = "
            "'...', ...)",
        )
    return IntoTable(table, insert.columns, insert.static, insert.overwrite)


def tables_of(sink: StreamSink) -> tuple[IntoTable, ...]:
    """Return the session tables that a sink writes to, empty for other sinks."""
    if isinstance(sink, IntoTables):
        return sink.tables
    return (sink,) if isinstance(sink, IntoTable) else ()


def check_tables(lowered: LoweredStream, sink: StreamSink, *, emits_updates: bool) -> None:
    """Check that the tables of a sink can accept the rows of a stream, before anything starts.

    Args:
        lowered: Lowered stream.
        sink: Sink of its rows.
        emits_updates: Whether the stream replaces rows that it emitted before.

    Raises:
        CatalogError: A declaration is wrong, or a table is only a source.
        AnalysisError: A table cannot be overwritten, does not accept updates, or its PRIMARY KEY
            does not distinguish the rows that are updated.
    """
    for into, plan in zip(tables_of(sink), lowered.plans, strict=False):
        check_sink(
            into.table,
            overwrite=into.overwrite,
            emits_updates=emits_updates,
            has_windows=not groups_all_time(plan.physical),
        )
        if not (emits_updates and open_table(into.table).is_updated_by_key):
            continue
        physical = plan.physical
        identity = update_identity(physical.input if isinstance(physical, Sink) else physical)
        static = {name.lower() for name, _ in into.static}
        declared = [column.name for column in into.table.physical_columns]
        names = into.columns or [name for name in declared if name.lower() not in static]
        if identity is not None and names:
            check_update_key(into.table, identity, names)


def replaces_rows(lowered: LoweredStream, options: StreamOptions) -> bool:
    """Return whether a stream replaces rows that it emitted before.

    Only windows and groups are emitted more than once; other rows are final.
    """
    emits_updates = lowered.options(options).emits_updates and not lowered.only_inserts
    return emits_updates and bool(lowered.local_stages)


def explain_sink(sink: StreamSink, *, emits_updates: bool) -> str:
    """Return EXPLAIN's lines about tables that replace rows by key."""
    lines = []
    for into in tables_of(sink):
        table = into.table
        if open_table(table).is_updated_by_key:
            folds = "; the changes of a micro-batch are folded to one upsert or delete per key"
            lines.append(
                f"sink: upserts into {table.name} by PRIMARY KEY ({', '.join(table.primary_key)})"
                f"{folds if emits_updates else ''}\n"
            )
    return "".join(lines)


def explain_caches(lowered: LoweredStream, catalog: SessionCatalog) -> str:
    """Return EXPLAIN's lines about cached tables that are joined to the stream.

    Raises:
        AnalysisError: Tasks read a cached table without its cache.
    """
    lines = []
    for name, reload in lowered.reloads(catalog).items():
        match reload:
            case PeriodicReload():
                when = f"{reload.text} after each reading"
            case TimedReload(days=1):
                when = f"every day at {reload.text}"
            case TimedReload():
                when = f"every {reload.days} days at {reload.text}"
        entry = catalog.readable(name)
        table = entry.name if isinstance(entry, TableSpec) else ".".join(name)
        lines.append(f"cache: all rows of {table}, read again {when}, between micro-batches\n")
    return "".join(lines)


@dataclass(frozen=True)
class StreamWriting:
    """How the rows of a stream are written.

    Attributes:
        rows: Streaming DataFrame that reads all sources of the stream.
        start: Starts the stream.
    """

    rows: DataFrame
    start: Callable[[StreamRun], StreamingQuery]


def write_stream(
    spark: SparkSession,
    lowered: LoweredStream,
    sink: StreamSink,
    late: Sequence[LateTable | None],
    options: StreamOptions,
) -> StreamWriting:
    """Return how the rows of a stream are written to a sink.

    `late` has the table for late rows of each plan, see `late_tables`.

    Raises:
        SqlwinError: Spark refuses the query, or its rows do not fit the table.
    """
    if isinstance(sink, IntoTables):
        return _write_set(spark, lowered, sink, late, options)
    rows = lowered.dataframe(spark, options, keeps_late_rows=late[0] is not None)

    def start(run: StreamRun) -> StreamingQuery:
        run.reads = reads_of_sources(rows)
        match sink:
            case IntoTable():
                return start_writing(rows, partial(_by_position, sink=sink), sink.table, run)
            case IntoSlices():
                writer = f"sqlwin-{run.writer}"
                return start_for_each(
                    rows,
                    run,
                    lambda rows_in, batch: append(rows_in, sink.into, (writer, batch)),
                )
            case TakeRows():
                return start_taking(rows, arrow_ready, run, sink.take)
            case Discard():
                return start_discarding(rows, run)

    return StreamWriting(rows, start)


def _write_set(
    spark: SparkSession,
    lowered: LoweredStream,
    sink: IntoTables,
    late: Sequence[LateTable | None],
    options: StreamOptions,
) -> StreamWriting:
    steps = lowered.steps
    assert isinstance(steps, StreamSetSteps)
    shared = shared_windows(spark, steps.shared, options, dataframe)
    parts = [
        _set_part(spark, table, step, shared, number, late[number])
        for number, (table, step) in enumerate(zip(sink.tables, steps.results, strict=True))
    ]

    def start(run: StreamRun) -> StreamingQuery:
        run.reads = reads_of_sources(shared.rows)
        return start_writing_set(shared.rows, parts, run)

    return StreamWriting(shared.rows, start)


def _set_part(
    spark: SparkSession,
    sink: IntoTable,
    step: PlanNode,
    shared: SharedWindows,
    number: int,
    late: LateTable | None,
) -> SetPart:
    def made(windows: DataFrame) -> DataFrame:
        return _by_position(run_over_windows(step, windows, dataframe), sink)

    def rows(windows: DataFrame) -> DataFrame:
        return made(shared.of(windows, number))

    part = SetPart(sink.table, rows, made(shared.none_of(spark, number)))
    if late is None:
        return part
    late_rows = partial(shared.late_of, reader=number)
    return replace(part, late=late, late_rows=late_rows, none_late=shared.none_late(spark))


def _by_position(rows: DataFrame, sink: IntoTable) -> DataFrame:
    return by_position(rows, sink.table, sink.columns, sink.static)


# -- late rows -------------------------------------------------------------------------------------


def late_tables(
    catalog: SessionCatalog, lowered: LoweredStream, sink: StreamSink
) -> tuple[LateTable | None, ...]:
    """Return the table for late rows of each plan, None where they are dropped.

    Raises:
        SqlwinError: Late rows cannot be kept, or not in that table.
    """
    if isinstance(sink, Discard):
        return (None,)
    tables: list[TableSpec | None] = [target.table for target in tables_of(sink)]
    return tuple(
        _late_table(catalog, output, table)
        for output, table in zip(lowered.late, tables or [None], strict=True)
    )


def _late_table(
    catalog: SessionCatalog,
    output: LateOutput | None,
    sink: TableSpec | None,
) -> LateTable | None:
    if output is None:
        return None
    late = _late_target(catalog, output.table, output.sources)
    check_sink(late, overwrite=False, emits_updates=False)
    check_late_tables(sink, late)
    return LateTable(
        late,
        partial(_late_columns, table=late),
        "select" if sink is None else sink.name,
        output.operators,
    )


def _late_target(catalog: SessionCatalog, name: str, sources: Sequence[StreamSource]) -> TableSpec:
    """Return the table that the option `late-rows` names.

    Raises:
        SqlwinError: Sqlwin has no such table, or the windows read it.
    """
    origin = next(s.name for s in sources)
    parts = tuple(name.strip().split("."))
    table = insert_target(catalog, parts)
    if table is None:
        close = nearest(name, catalog.names())
        what = f"did you mean `{close}`? Otherwise " if close else ""
        raise AnalysisError(
            f"table `{name}` for the late rows of `{origin}` does not exist",
            subjects=(origin, name),
            hint=f"{what}CREATE TABLE {name} (..., {MISSED} TIMESTAMP(3)) WITH ('connector' = ...)",
        )
    # Options in the statement do not change which table it is.
    read = {source.name.lower().partition(" /*+ ")[0] for source in sources}
    if table.name.lower() in read:
        raise AnalysisError(
            f"late rows of `{origin}` cannot be written to `{table.name}`, which the windows read",
            subjects=(origin, table.name),
            hint=f"name another table in '{LATE_ROWS}'",
        )
    return table


def _late_columns(rows: DataFrame, table: TableSpec) -> DataFrame:
    """Map late rows to the columns of their table by name. A table without columns takes all.

    Raises:
        AnalysisError: Late rows lack a column of the table, or a type does not fit.
    """
    declared = [c for c in table.columns if c.computed is None and c.metadata is None]
    if not declared:
        return rows
    spellings = {name.lower(): name for name in rows.columns}
    for column in declared:
        if column.name.lower() not in spellings:
            close = nearest(column.name, rows.columns)
            raise AnalysisError(
                f"`{table.name}` receives late rows, which have no column `{column.name}`",
                subjects=(table.name, column.name),
                hint=f"did you mean `{close}`?"
                if close
                else f"available columns: {', '.join(rows.columns)}",
            )
    chosen = [F.col(to_sql(identifier(spellings[c.name.lower()]))) for c in declared]
    try:
        return by_position(rows.select(*chosen), table, ())
    except AnalysisError as error:
        error.hint = (
            "late rows are written as they were read: declare the column as in their source table"
        )
        raise
