"""Registry of all connectors, and operations on tables of any of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from runtime.connectors.connector import Connector, WriteStream
from runtime.connectors.declarations import is_known_type
from runtime.errors import AnalysisError, CatalogError, nearest
from runtime.frames.arrow_rows import BatchRows
from runtime.options.checks import bad_option, duration, option_values, wrong_value
from runtime.options.formats import CHANGES_AS_ROWS
from runtime.options.lookup import lookup_reload
from runtime.spark.errors import translate_spark_errors
from runtime.spec.expressions import Expression
from runtime.spec.in_process.text import TextSource
from runtime.spec.scan import ScanSource
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.source import FileLog, InputChecks, MessageSource, SplitSource, SplitTable
from runtime.spec.table import (
    IDLE_ADVANCE,
    LATE_ROWS,
    LOOKUP_CACHE,
    LOOKUP_OPTIONS,
    OPTIONS_OF_STREAMS,
    Column,
    Reload,
    TableColumn,
    TableSpec,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

NAMES = (
    "filesystem",
    "delta",
    "iceberg",
    "datagen",
    "kafka",
    "upsert-kafka",
    "postgres",
    "jdbc",
    "socket",
    "spark",
    "nexmark",
    "memory",
    "print",
    "blackhole",
)


class Connectors(Mapping[str, Connector]):
    """Connectors by name. The modules of a connector are imported on first use."""

    def __getitem__(self, name: str) -> Connector:
        return _load(name)

    def __contains__(self, name: object) -> bool:
        return name in NAMES

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


def _load(name: str) -> Connector:
    match name:
        case "filesystem":
            from runtime.connectors.filesystem.connector import CONNECTOR
        case "delta":
            from runtime.connectors.lake.connector import DELTA_CONNECTOR as CONNECTOR
        case "iceberg":
            from runtime.connectors.lake.connector import ICEBERG_CONNECTOR as CONNECTOR
        case "datagen":
            from runtime.connectors.generated.datagen import CONNECTOR
        case "kafka":
            from runtime.connectors.kafka.connector import CONNECTOR
        case "upsert-kafka":
            from runtime.connectors.kafka.upsert import UPSERT_CONNECTOR as CONNECTOR
        case "postgres":
            from runtime.connectors.postgres.connector import POSTGRES_CONNECTOR as CONNECTOR
        case "jdbc":
            from runtime.connectors.postgres.connector import JDBC_CONNECTOR as CONNECTOR
        case "socket":
            from runtime.connectors.socket import CONNECTOR
        case "spark":
            from runtime.connectors.data_source import CONNECTOR
        case "nexmark":
            from runtime.connectors.generated.nexmark import CONNECTOR
        case "memory":
            from runtime.connectors.memory import CONNECTOR
        case "print":
            from runtime.connectors.print import CONNECTOR
        case "blackhole":
            from runtime.connectors.blackhole import CONNECTOR
        case _:
            raise KeyError(name)
    return CONNECTOR


CONNECTORS: Mapping[str, Connector] = Connectors()


# Systems with a Flink connector and a Spark data source; matches `elasticsearch-7`, too
_DATA_SOURCES = (
    *("cassandra", "doris", "elasticsearch", "hbase", "hudi", "kinesis", "kudu", "mongodb"),
    *("opensearch", "paimon", "pulsar", "starrocks"),
)


def _replacement_for(connector: str) -> str | None:
    """Return the replacement for a Flink connector, or None if it is unknown."""
    if connector.endswith("-cdc"):
        return (
            "no connector reads a database's log: let Debezium write the changes to Kafka, and use "
            f"'connector' = 'kafka'. There {CHANGES_AS_ROWS}"
        )
    if connector.split("-")[0] in _DATA_SOURCES:
        return "use 'connector' = 'spark', 'format' = '...' for any data source of Spark"
    return None


def connector_of(spec: TableSpec) -> Connector:
    """Return the connector of a table.

    Raises:
        CatalogError: No connector has that name.
    """
    connector = CONNECTORS.get(spec.connector.lower())
    if connector is None:
        suggestion = nearest(spec.connector, CONNECTORS)
        hint = _replacement_for(spec.connector.lower())
        if hint is None and suggestion:
            hint = f"did you mean '{suggestion}'?"
        raise CatalogError(
            f"table `{spec.name}`: unknown connector '{spec.connector}'",
            subjects=(f"'{spec.connector}'", spec.name),
            hint=hint or f"available connectors: {', '.join(CONNECTORS)}",
        )
    return connector


def stored_columns(spec: TableSpec) -> tuple[TableColumn, ...] | None:
    """Return the columns that a table has in its store and CREATE TABLE fixes, or None.

    Raises:
        SqlwinError: The store is unavailable, or has no such table.
    """
    columns_of = connector_of(spec).stored_columns
    return None if columns_of is None else columns_of(_without_stream_options(spec))


def brings_columns(spec: TableSpec) -> bool:
    """Return whether a table itself defines its columns, as lake tables do."""
    return connector_of(spec).brings_columns


def scan_of(
    spark: SparkSession,
    spec: TableSpec,
    columns: Sequence[Column],
    filters: Sequence[Expression] = (),
) -> ScanSource | SplitTable | str:
    """Return a table's batch scan for tasks to read without Spark, or the reason why they cannot.

    Args:
        spark: Session, whose settings matter.
        spec: Table specification.
        columns: Required columns with the types that Spark reports.
        filters: Conditions on them; files in which they cannot be true may be left out.
    """
    scan = connector_of(spec).scan
    if scan is None:
        return f"Spark reads tables of connector '{spec.connector}'"
    return scan(spark, spec, columns, filters)


def text_of(
    spark: SparkSession, spec: TableSpec, columns: Sequence[Column]
) -> TextSource | str | None:
    """Return the text files of a table that this process reads, or why it cannot.

    None if the table has no text files. See `scan_of` for the arguments.
    """
    text = connector_of(spec).text
    return None if text is None else text(spark, spec, columns)


def is_read_in_process(spec: TableSpec) -> bool:
    """Return whether this process can read a table without Spark; files are handled separately."""
    return connector_of(spec).read_in_process is not None


def read_in_process(source: SplitTable) -> Iterator[pa.RecordBatch]:
    """Read columns of a table in this process. It must be readable here.

    Raises:
        SqlwinError: The table cannot be read.
    """
    read = connector_of(source.table).read_in_process
    assert read is not None, "callers have checked that scan_of() returns a source"
    return read(source.table, source.columns, source.filters)


def stream_scan_of(
    spark: SparkSession, spec: TableSpec, columns: Sequence[Column]
) -> SplitTable | str:
    """Return a stream's scan for tasks to read without Spark, or why they cannot; see `scan_of`."""
    scan = connector_of(spec).stream_scan
    if scan is None:
        return f"Spark reads streams of connector '{spec.connector}'"
    return scan(spark, spec, columns)


def split_source(spark: SparkSession, spec: TableSpec) -> SplitSource:
    """Return the splits of a table for tasks. The connector must support it."""
    splits = connector_of(spec).splits
    assert splits is not None, "stream_scan_of() has accepted the table"
    return splits(spark, spec)


def message_source(spark: SparkSession, spec: TableSpec) -> MessageSource:
    """Return the message source of a table for tasks. The connector must support it."""
    return cast(MessageSource, split_source(spark, spec))


def input_checks(spark: SparkSession, specs: Sequence[TableSpec], log: FileLog) -> InputChecks:
    """Return the checks of a stream's input.

    Args:
        spark: Spark session.
        specs: Tables that the stream reads.
        log: Spark's log of the files to read.
    """
    tables: dict[str, list[TableSpec]] = {}
    for spec in specs:
        tables.setdefault(spec.connector.lower(), []).append(spec)
    parts = [
        check_input(spark, inputs, log)
        for name, inputs in tables.items()
        if (check_input := CONNECTORS[name].check_input) is not None
    ]
    return _AllChecks(parts)


@dataclass(frozen=True)
class _AllChecks:
    """Checks of several connectors."""

    parts: Sequence[InputChecks]

    def check(self, batch: int) -> None:
        """Run all checks."""
        for part in self.parts:
            part.check(batch)

    def find_incomplete(self, batch: int) -> tuple[str, ...] | None:
        """Return the incomplete tables of all connectors; None if none reads directories."""
        names = [part.find_incomplete(batch) for part in self.parts]
        reported = [part for part in names if part is not None]
        return tuple(name for part in reported for name in part) if reported else None


def connectors_that(can: Callable[[Connector], object]) -> str:
    """Return the names of the connectors with a property, for a hint."""
    return ", ".join(name for name, connector in CONNECTORS.items() if can(connector))


def validate_table(spec: TableSpec) -> None:
    """Check a table definition without looking at data.

    Raises:
        CatalogError: The connector, an option or a column is wrong; the message names it and the
            nearest valid name.
    """
    connector_of(spec).validate(_without_stream_options(spec))


def open_storage(spec: TableSpec) -> tuple[TableSpec, object]:
    """Open empty storage for a new table if its connector stores rows in this process.

    Returns:
        The table with the id of its storage, and the owner of the storage, which lives as long as
        the owner. The table unchanged and None if its rows are elsewhere.
    """
    open_new = connector_of(spec).open_storage
    if open_new is None:
        return spec, None
    storage = uuid4().hex
    return replace(spec, storage=storage), open_new(storage)


def knows_types(spec: TableSpec) -> bool:
    """Return whether the declared types are known without asking Java."""
    return all(map(is_known_type, spec.physical_columns))


def idle_options(spec: TableSpec) -> tuple[str, ...]:
    """Return the options of a table that are accepted and have no effect, as written."""
    idle = connector_of(spec).idle_options
    return tuple(name for name, _ in spec.options if name.lower() in idle)


def is_unbounded(spec: TableSpec) -> bool:
    """Return whether the table is unbounded, unless the run is set to batch."""
    return connector_of(spec).is_unbounded(spec)


def has_changes(spec: TableSpec) -> bool:
    """Return whether rows of the table change and their changes can be read."""
    return connector_of(spec).changes is not None


def table_of_changes(spec: TableSpec, *, is_bounded: bool) -> TableSpec:
    """Return the table of the changes of a table's rows, with CHANGE_COLUMNS.

    Args:
        spec: Table for which `has_changes` is true.
        is_bounded: Whether it ends with the changes that exist now.
    """
    changes = connector_of(spec).changes
    assert changes is not None, "the caller has asked has_changes()"
    return changes(spec, is_bounded=is_bounded)


def split_sql(spec: TableSpec) -> str | None:
    """Return Spark SQL for the number of a stream row's split, or None without splits.

    Raises:
        CatalogError: The table has no column from which it follows.
    """
    split = connector_of(spec).split
    return None if split is None else split(spec)


def has_splits(spec: TableSpec) -> bool:
    """Return whether tasks that read a table themselves know the split number of a row."""
    return connector_of(spec).has_splits(spec)


def streams_bounded(spec: TableSpec) -> bool:
    """Return whether the table is bounded and can be read as a stream that ends."""
    return connector_of(spec).streams_bounded and not is_unbounded(spec)


def read_table(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Return the table as a DataFrame with the declared columns in order, computed ones included.

    Raises:
        CatalogError: The declaration is wrong, the data has other columns, or the table cannot be
            read in batch.
        ExecutionError: The data does not exist or cannot be read.
        SetupError: A Spark package is missing.
    """
    return _read(spark, spec, is_stream=False)


def read_stream(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Return the table as a streaming DataFrame with the columns of `read_table`.

    Raises:
        CatalogError: The declaration is wrong, the data has other columns, or the table cannot be
            read as a stream.
        ExecutionError: The data does not exist or cannot be read.
        SetupError: A Spark package is missing.
    """
    return _read(spark, spec, is_stream=True)


def _read(spark: SparkSession, spec: TableSpec, *, is_stream: bool) -> DataFrame:
    connector = connector_of(spec)
    spec = _without_stream_options(spec)
    connector.validate(spec)
    read = connector.stream if is_stream else connector.read
    if read is None and connector.stream is not None:
        raise CatalogError(
            f"table `{spec.name}` is unbounded: connector '{spec.connector}' is read as a stream",
            subjects=(f"'{spec.connector}'", spec.name),
            hint="SET 'execution.runtime-mode' = 'automatic'",
        )
    if read is None:
        raise CatalogError(
            f"table `{spec.name}` cannot be read: connector '{spec.connector}' is a sink only",
            subjects=(f"'{spec.connector}'", spec.name),
            hint="use INSERT INTO to write to it",
        )
    from runtime.connectors.columns import add_computed
    from runtime.frames.pushdown import without_pushdown

    # without `explain` the caller can translate errors better, because it has the statement
    with translate_errors(spec) if connector.explain else nullcontext():
        rows = without_pushdown(read(spark, spec), connector.file_format(spec) or "")
        return add_computed(rows, spec)


def check_writable(spec: TableSpec, *, overwrite: bool) -> None:
    """Check that a table can be written, in batch or by a stream, before anything runs.

    Raises:
        CatalogError: The declaration is wrong, or the connector is only a source.
        AnalysisError: The rows cannot be replaced.
    """
    validate_table(spec)
    connector = connector_of(spec)
    if connector.write is None:
        raise CatalogError(
            f"table `{spec.name}` cannot be written: connector '{connector.name}' is a source only",
            subjects=(spec.name, f"'{connector.name}'"),
            hint=f"insert into a table of {connectors_that(lambda c: c.write)}",
        )
    if overwrite and not connector.overwrites:
        raise AnalysisError(
            f"INSERT OVERWRITE is not supported for `{spec.name}`: connector "
            f"'{connector.name}' cannot replace rows",
            subjects=(spec.name,),
            hint="use INSERT INTO",
        )


def write_table(dataframe: DataFrame, spec: TableSpec, overwrite: bool) -> int | None:
    """Write all rows of `dataframe` to a table. See `write_rows`."""
    return write_rows(BatchRows.of(dataframe), spec, overwrite)


def write_rows(rows: BatchRows, spec: TableSpec, overwrite: bool) -> int | None:
    """Write all rows of a query to a table and return their number, if known.

    Columns are matched by position and cast to the declared types. A failed job leaves nothing that
    readers would see. Overwriting replaces existing rows, or in a partitioned table the partitions
    that get rows. Of several ordered rows with the same PRIMARY KEY, the last is kept.

    Raises:
        CatalogError: The declaration is wrong, or the connector is only a source.
        AnalysisError: The rows cannot be replaced.
        ExecutionError: The query or the writing failed.
    """
    from runtime.connectors.writing import is_declared, name_output_in_errors, to_declared_types

    check_writable(spec, overwrite=overwrite)
    connector = connector_of(spec)
    assert connector.write is not None, "check_writable() has seen to it"
    with name_output_in_errors(spec), translate_errors(spec):
        if rows.are_arrow and connector.write_arrow is not None:
            if is_declared(rows.schema, spec):
                return connector.write_arrow(rows, spec, overwrite)
        write = (connector.write_by_order if rows.are_ordered else None) or connector.write
        return write(to_declared_types(rows.dataframe, spec), spec, overwrite)


def why_spark_writes(spark: SparkSession, spec: TableSpec) -> str | None:
    """Return why Spark has to write rows computed in this process, or None."""
    needs_spark = connector_of(spec).needs_spark
    if needs_spark is None:
        return f"Spark writes tables of connector '{spec.connector}'"
    return needs_spark(spark, spec)


def note_on(spark: SparkSession, spec: TableSpec) -> str | None:
    """Return a note about a table that a query reads, or None."""
    return connector_of(spec).note(spark, spec)


def takes_as_is(schema: StructType, spec: TableSpec) -> bool:
    """Return whether a table takes rows without casts: they have the declared names and types."""
    from runtime.connectors.writing import is_declared

    return is_declared(schema, spec)


def written_types(spec: TableSpec) -> dict[str, str]:
    """Return the Spark types with which a table is written, by column.

    Raises:
        CatalogError: A type is not one of Spark's.
    """
    from runtime.connectors.writing import declared_types

    types = declared_types(spec)
    return {
        column.name: type_.simpleString()
        for column, type_ in zip(spec.physical_columns, types, strict=True)
    }


def has_sink(spec: TableSpec) -> bool:
    """Return whether the micro-batches of a stream can be written one by one, not only by Spark."""
    return connector_of(spec).open_sink is not None


def open_sink(rows: DataFrame, spec: TableSpec, writer: StreamWriter) -> StreamSink:
    """Open a table for the micro-batches of a stream. It must have a sink, see `has_sink`.

    Args:
        rows: Rows with the columns of the micro-batches.
        spec: Table that has passed `check_writable`.
        writer: Stream that writes.

    Raises:
        SqlwinError: The table cannot be written.
    """
    opens = connector_of(spec).open_sink
    assert opens is not None, f"only Spark writes to '{spec.connector}'"
    return opens(rows, spec, writer)


def sink_mode(spec: TableSpec) -> SinkMode:
    """Return which rows of a stream a table accepts."""
    return connector_of(spec).mode


def updated_by_key(spec: TableSpec) -> bool:
    """Return whether the rows of a stream replace those with the same PRIMARY KEY in a table."""
    return sink_mode(spec) is SinkMode.UPSERT and bool(spec.primary_key)


def sink_names(*modes: SinkMode) -> str:
    """Return the names of the connectors whose sinks have one of the modes, for a hint."""
    return connectors_that(lambda c: c.open_sink is not None and c.mode in modes)


def spark_sink(spec: TableSpec) -> WriteStream | None:
    """Return Spark's own streaming sink, None if micro-batches are always written one by one."""
    connector = connector_of(spec)
    return None if connector.in_batches(spec) else connector.write_stream


def translate_errors(spec: TableSpec) -> AbstractContextManager[None]:
    """Translate errors of the block for a table."""
    explain = connector_of(spec).explain
    return (
        translate_spark_errors()
        if explain is None
        else translate_spark_errors(partial(explain, spec))
    )


def reload_of(spec: TableSpec) -> Reload | None:
    """Return when a table that is joined to a stream is read again; None: in each micro-batch.

    Raises:
        CatalogError: An option of the cache is wrong, or reading the table again would not change
            its rows.
    """
    reload = lookup_reload(spec)
    connector = connector_of(spec)
    if reload is not None and connector.has_versions:
        raise wrong_value(
            spec,
            LOOKUP_CACHE,
            option_values(spec)[LOOKUP_CACHE],
            f"a stream reads the version of {connector.name} tables at its start, so it cannot "
            "read the table again; restart the stream to join a newer version",
        )
    return reload


def _without_stream_options(spec: TableSpec) -> TableSpec:
    """Return the table without the options that do not belong to its connector."""
    reload_of(spec)
    foreign: tuple[str, ...] = LOOKUP_OPTIONS
    if connector_of(spec).stream is not None:
        _check_stream_options(spec)
        foreign = OPTIONS_OF_STREAMS
    others = (option for option in spec.options if option[0].lower() not in foreign)
    return replace(spec, options=tuple(others))


def _check_stream_options(spec: TableSpec) -> None:
    names = [name.lower() for name, _ in spec.options]
    for option in OPTIONS_OF_STREAMS:
        if names.count(option) > 1:
            raise bad_option(spec, f"option '{option}' is given twice")
    target = option_values(spec).get(LATE_ROWS)
    if target is not None and not target.strip():
        raise bad_option(
            spec, f"option '{LATE_ROWS}' is empty", "it must be drop or the name of a table"
        )
    if spec.idle_advance is not None and (expected := duration(spec.idle_advance)):
        raise wrong_value(spec, IDLE_ADVANCE, spec.idle_advance, f"it must be {expected}")
