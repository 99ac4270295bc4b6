"""Where the rows of a stream go, micro-batch by micro-batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TextIO

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.connectors import kafka, memory
from runtime.connectors.filesystem.stream_write import FileSink
from runtime.connectors.late_rows import LateTable, LateWriter, Write, results
from runtime.connectors.print import print_rows
from runtime.connectors.registry import CONNECTORS, validate_table
from runtime.connectors.sinks import as_declared, output_of, write_table
from runtime.connectors.spark import source_format
from runtime.errors import AnalysisError, CatalogError, SqlwinError
from runtime.spark.errors import translate
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import TableSpec

# Connectors that take rows which replace others
_TAKE_UPDATES = ("print", "blackhole", "memory")
# The column of a row kind, where a person or a table sees it; Flink's client calls it so
KIND_COLUMN = "op"

Take = Callable[[pa.Table], None]


@dataclass
class StreamRun:
    """How a stream is started, and what it has written since.

    Attributes:
        name: what Spark calls it.
        checkpoint: Spark's checkpoint directory.
        trigger_us: the time from the start of a micro-batch to that of the next; 0: none.
        writer: tells the stream from others that write to the same place.
        n_rows: rows written in this run; None if the sink does not tell.
        written: the same for each table, where there are several.
        reads: how often each of its sources is read, see `reads_of_sources`.
        error: what a micro-batch failed with, as it was raised: Spark keeps its text alone.
        late: where late rows go; None: they are dropped.
        query: the stream, once it is known.
    """

    name: str
    checkpoint: str
    trigger_us: int
    writer: str
    n_rows: int | None = 0
    error: BaseException | None = None
    late: LateTable | None = None
    query: StreamingQuery | None = None
    written: list[int | None] = field(default_factory=list)
    reads: tuple[int, ...] = ()


def check_sink(spec: TableSpec, *, overwrite: bool, emits_updates: bool) -> None:
    """Check that a table can take the rows of a stream, before anything starts.

    Raises:
        CatalogError: it is declared wrongly, or cannot be written.
        AnalysisError: it cannot be overwritten, or cannot take rows that replace others.
    """
    validate_table(spec)
    connector = spec.connector.lower()
    if connector in ("datagen", "socket"):
        raise CatalogError(
            f"table `{spec.name}` cannot be written: connector '{connector}' only makes rows",
            subjects=(f"'{connector}'", spec.name),
        )
    if overwrite:
        raise AnalysisError(
            f"INSERT OVERWRITE of `{spec.name}` cannot take a stream, which never is complete",
            subjects=(spec.name,),
            hint="write INSERT INTO",
        )
    if emits_updates and connector not in _TAKE_UPDATES:
        raise AnalysisError(
            f"`{spec.name}` (connector '{connector}') cannot take updates, and this query puts "
            "windows out again: allowed lateness or early firing is on",
            subjects=(f"'{connector}'", spec.name),
            hint="RESET 'table.exec.emit.allow-lateness' and the 'table.exec.emit.early-fire' "
            f"settings, or insert into a table of {', '.join(_TAKE_UPDATES)}",
        )


def start_writing(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], spec: TableSpec, run: StreamRun
) -> StreamingQuery:
    """Start a stream into a table.

    Args:
        rows: what the stream computes, late rows too where `run.late` tells where they go.
        arrange: makes the table's columns of the results, in their order; ROW_KIND stays first
            where rows replace others.
        spec: the table, found right by `check_sink`.
        run: how to start it.

    Raises:
        SqlwinError: Spark or the sink refuses it.
    """
    if run.late is not None:
        write = batch_writer(arrange(results(rows)), spec, run.writer)
        return _for_each_with_late(rows, run, lambda found, batch: write(arrange(found), batch))
    dataframe = arrange(rows)
    connector = spec.connector.lower()
    if connector in ("filesystem", "print", "memory"):
        return for_each(dataframe, run, batch_writer(dataframe, spec, run.writer))
    run.n_rows = None
    if connector == "blackhole":
        return _started(dataframe.writeStream.format("noop"), run)
    if connector == "kafka":
        try:
            rows = kafka.messages(as_declared(dataframe, spec), spec)
        except Exception as error:
            raise kafka.explained(error, spec) from error
        writer = rows.writeStream.format("kafka").options(**kafka.sink_options(spec))
        return _started(writer, run, lambda error: kafka.explained(error, spec))
    assert connector in CONNECTORS, "check_sink() has seen to it"
    name, options = source_format(spec)
    return _started(as_declared(dataframe, spec).writeStream.format(name).options(**options), run)


def start_taking(
    rows: DataFrame, arrange: Callable[[DataFrame], DataFrame], run: StreamRun, take: Take
) -> StreamingQuery:
    """Start a stream whose rows go to a function of this process, a micro-batch at a time.

    A micro-batch without rows is not handed over. After a restart the last one may come again.
    For `rows` and `arrange` see `start_writing`.
    """

    def write(found: DataFrame, batch: int) -> int:
        table = _renamed(found).toArrow()
        if table.num_rows:
            take(table)
        return int(table.num_rows)

    if run.late is not None:
        return _for_each_with_late(rows, run, lambda found, batch: write(arrange(found), batch))
    return for_each(arrange(rows), run, write)


def start_discarding(dataframe: DataFrame, run: StreamRun) -> StreamingQuery:
    """Start a stream whose rows are thrown away."""
    run.n_rows = None
    return _started(dataframe.writeStream.format("noop"), run)


def batch_writer(dataframe: DataFrame, spec: TableSpec, writer: str) -> Write:
    """What writes the micro-batches of a stream, with the columns of `dataframe`, to a table."""
    connector = spec.connector.lower()
    if connector == "filesystem":
        sink = FileSink(dataframe, spec, writer)
        return lambda rows, batch: sink.write(as_declared(rows, spec), batch)
    if connector == "print":
        output = output_of(spec)
        return lambda rows, _: _print(rows, spec, output)
    if connector == "memory":
        return lambda rows, batch: memory.write_batch(_renamed(rows), spec, writer, batch)
    if connector == "blackhole":
        return lambda rows, _: rows.write.format("noop").mode("overwrite").save()
    return lambda rows, _: write_table(rows, spec, overwrite=False)


def _for_each_with_late(rows: DataFrame, run: StreamRun, write: Write) -> StreamingQuery:
    """Start a stream that writes its results with `write`, and its late rows to their table."""
    assert run.late is not None
    # told apart from the results, if they should be in one directory
    write_late = batch_writer(run.late.rows(rows), run.late.spec, f"{run.writer}late")
    writer = LateWriter(run.late, write, write_late)
    return for_each(rows, run, lambda found, batch: writer.write(found, batch, run.query))


def for_each(dataframe: DataFrame, run: StreamRun, write: Write) -> StreamingQuery:
    """Start a stream whose micro-batches go to a function, which tells how many rows they had."""

    def counted(rows: DataFrame, batch: int) -> None:
        try:
            n_rows = write(rows, batch)
        except BaseException as error:
            run.error = error
            raise
        run.n_rows = None if n_rows is None or run.n_rows is None else run.n_rows + n_rows

    return _started(dataframe.writeStream.foreachBatch(counted), run)


def _started(
    writer: DataStreamWriter,
    run: StreamRun,
    explained: Callable[[Exception], SqlwinError] = translate,
) -> StreamingQuery:
    every: dict[str, Any] = {"processingTime": f"{run.trigger_us // 1_000} milliseconds"}
    writer = writer.queryName(run.name).option("checkpointLocation", run.checkpoint)
    try:
        run.query = writer.outputMode("append").trigger(**every).start()
        return run.query
    except SqlwinError:
        raise
    except Exception as error:
        raise explained(error) from error


def _print(rows: DataFrame, spec: TableSpec, output: TextIO) -> int:
    return print_rows(rows, spec, output, kind=ROW_KIND if ROW_KIND in rows.columns else None)


def _renamed(rows: DataFrame) -> DataFrame:
    if ROW_KIND not in rows.columns:
        return rows
    return rows.withColumnRenamed(ROW_KIND, KIND_COLUMN)
