"""Where the rows of a stream go, and its late rows: what can take them, and under which columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from planner.lowering.stream.statement_set import StreamSetSteps
from planner.sql.build import identifier, to_sql
from planner.streams.refusals import StreamRefusal
from runtime.batch.execute import dataframe
from runtime.errors import AnalysisError, nearest
from runtime.sinks.late_rows import MISSED, LateTable, check_late_tables
from runtime.sinks.stream_sinks import (
    SetPart,
    StreamRun,
    Take,
    check_sink,
    for_each,
    start_discarding,
    start_taking,
    start_writing,
    start_writing_set,
)
from runtime.slices.append import InsertedRows, append
from runtime.spec.steps import Step
from runtime.spec.stream import StreamSource
from runtime.spec.table import LATE_ROWS, TableSpec
from runtime.streaming.execute.shared import SharedWindows, of_windows, shared_windows
from runtime.streaming.options import StreamOptions
from runtime.streaming.source_reads import reads_of_sources
from sqlwin.catalog.catalog import SessionCatalog
from sqlwin.execution.inserts import by_position, insert_target
from sqlwin.execution.lowered import LateOutput, LoweredStream
from sqlwin.result import arrow_ready
from sqlwin.statements.nodes import Insert


@dataclass(frozen=True)
class IntoTable:
    """A table of the session.

    Attributes:
        table: the table.
        columns: the columns named in INSERT INTO t (...); none: all, by position.
        static: name and Spark SQL of columns with one value for all rows.
        overwrite: whether INSERT OVERWRITE was written, which no stream can.
    """

    table: TableSpec
    columns: tuple[str, ...] = ()
    static: tuple[tuple[str, str], ...] = ()
    overwrite: bool = False

    @property
    def name(self) -> str:
        """The table's name."""
        return self.table.name


@dataclass(frozen=True)
class IntoTables:
    """The tables of INSERTs that one stream runs.

    Attributes:
        names: the tables as the statements have them.
        tables: what each of them takes.
    """

    names: tuple[str, ...]
    tables: tuple[IntoTable, ...]

    @property
    def name(self) -> str:
        """The tables' names."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class TakeRows:
    """A function of this process, which gets the rows of each micro-batch."""

    take: Take
    name = "select"


@dataclass(frozen=True)
class IntoSlices:
    """A materialized table, whose slices take the rows of each micro-batch once.

    Attributes:
        into: the table, and how rows become partials.
    """

    into: InsertedRows

    @property
    def name(self) -> str:
        """The table's name."""
        return self.into.name


@dataclass(frozen=True)
class Discard:
    """Nowhere: the rows are thrown away."""

    name = "nowhere"


StreamSink = IntoTable | IntoTables | IntoSlices | TakeRows | Discard


def into_table(insert: Insert, table: TableSpec | None) -> IntoTable:
    """The sink of an INSERT from a stream.

    Raises:
        AnalysisError: its table is one of Spark's.
    """
    if table is None:
        name = ".".join(insert.name)
        raise AnalysisError(
            f"a stream cannot be inserted into `{name}`, a table of Spark's",
            subjects=(name,),
            hint=f"CREATE TABLE {name} (...) WITH ('connector' = 'spark', 'format' = '...', ...)",
        )
    return IntoTable(table, insert.columns, insert.static, insert.overwrite)


def tables_of(sink: StreamSink) -> tuple[IntoTable, ...]:
    """The tables of the session that the rows of a stream go to; none: they go elsewhere."""
    if isinstance(sink, IntoTables):
        return sink.tables
    return (sink,) if isinstance(sink, IntoTable) else ()


def write_stream(
    spark: SparkSession,
    lowered: LoweredStream,
    sink: StreamSink,
    late: Sequence[LateTable | None],
    options: StreamOptions,
) -> Callable[[StreamRun], StreamingQuery]:
    """What starts the rows of a stream into a sink, which can take them, all but ready.

    `late` has for each plan of the stream the table that late rows go to; see `late_tables`.

    Raises:
        SqlwinError: Spark refuses the query, or it does not fit the table.
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
                return for_each(
                    rows, run, lambda found, batch: append(found, sink.into, (writer, batch))
                )
            case TakeRows():
                return start_taking(rows, arrow_ready, run, sink.take)
            case Discard():
                return start_discarding(rows, run)

    return start


def _write_set(
    spark: SparkSession,
    lowered: LoweredStream,
    sink: IntoTables,
    late: Sequence[LateTable | None],
    options: StreamOptions,
) -> Callable[[StreamRun], StreamingQuery]:
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

    return start


def _set_part(
    spark: SparkSession,
    sink: IntoTable,
    step: Step,
    shared: SharedWindows,
    number: int,
    late: LateTable | None,
) -> SetPart:
    def made(windows: DataFrame) -> DataFrame:
        return _by_position(of_windows(step, windows, dataframe), sink)

    def rows(found: DataFrame) -> DataFrame:
        return made(shared.of(found, number))

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
    """For each plan of a stream the table that its late rows go to; None: they are dropped.

    Raises:
        SqlwinError: late rows cannot be kept, or not in that table.
    """
    if isinstance(sink, Discard):
        return (None,)
    tables: list[TableSpec | None] = [each.table for each in tables_of(sink)]
    return tuple(
        _late_table(catalog, output, table)
        for output, table in zip(lowered.late, tables or [None], strict=True)
    )


def _late_table(
    catalog: SessionCatalog,
    output: LateOutput | StreamRefusal | None,
    sink: TableSpec | None,
) -> LateTable | None:
    if output is None:
        return None
    if isinstance(output, StreamRefusal):
        raise output
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
    """The table of a name that `late-rows` has.

    Raises:
        SqlwinError: there is no such table of sqlwin's, or the windows read it.
    """
    origin = next(s.name for s in sources)
    parts = tuple(name.strip().split("."))
    found = insert_target(catalog, parts)
    if found is None:
        close = nearest(name, catalog.names())
        what = f"did you mean `{close}`? Or " if close else ""
        raise AnalysisError(
            f"late rows of `{origin}` go to `{name}`, and there is no such table",
            subjects=(origin, name),
            hint=f"{what}CREATE TABLE {name} (..., {MISSED} TIMESTAMP(3)) WITH ('connector' = ...)",
        )
    # whatever options the statement gives to them
    read = {source.name.lower().partition(" /*+ ")[0] for source in sources}
    if found.name.lower() in read:
        raise AnalysisError(
            f"late rows of `{origin}` cannot go back to `{found.name}`, which the windows read",
            subjects=(origin, found.name),
            hint=f"'{LATE_ROWS}' takes the name of another table",
        )
    return found


def _late_columns(rows: DataFrame, table: TableSpec) -> DataFrame:
    """Late rows under the columns of their table, by name; a table without columns takes all.

    Raises:
        AnalysisError: the table has a column that late rows have not, or of a type that does not
            fit.
    """
    declared = [c for c in table.columns if c.computed is None and c.metadata is None]
    if not declared:
        return rows
    known = {name.lower(): name for name in rows.columns}
    for column in declared:
        if column.name.lower() not in known:
            close = nearest(column.name, rows.columns)
            raise AnalysisError(
                f"`{table.name}` takes late rows, and they have no column `{column.name}`",
                subjects=(table.name, column.name),
                hint=f"did you mean `{close}`?"
                if close
                else f"they have {', '.join(rows.columns)}",
            )
    chosen = [F.col(to_sql(identifier(known[c.name.lower()]))) for c in declared]
    try:
        return by_position(rows.select(*chosen), table, ())
    except AnalysisError as error:
        error.hint = "late rows go there as they were read: declare the column as their table does"
        raise
