"""Definition of a connector: how its tables are checked, read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.errors import SetupError, SqlwinError
from runtime.frames.arrow_rows import BatchRows
from runtime.spark.errors import translate
from runtime.spec.expressions import Expression
from runtime.spec.in_process.text import TextSource
from runtime.spec.scan import ScanSource
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.source import FileLog, InputChecks, SplitSource, SplitTable
from runtime.spec.table import Column, TableColumn, TableSpec

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.readwriter import DataStreamWriter

# Parts of Spark that PySpark's own package does not include
KAFKA_PACKAGE = "spark-sql-kafka-0-10"
AVRO_PACKAGE = "spark-avro"
# Error conditions for missing Avro in Spark 4.3 and 4.2
NO_AVRO = ("AVRO_DATA_SOURCE_NOT_ENABLED", "_LEGACY_ERROR_TEMP_1139")
# Spark 4 is built only with Scala 2.13
_SCALA = "2.13"

Validate = Callable[[TableSpec], None]
Read = Callable[["SparkSession", TableSpec], "DataFrame"]
# Function that writes rows to a table and returns their number, if known; True replaces existing
# rows
Write = Callable[["DataFrame", TableSpec, bool], int | None]
# Like Write, for rows that workers also have as Arrow
WriteArrow = Callable[[BatchRows, TableSpec, bool], int | None]
# Function that returns why Spark has to write rows computed in this process, or None
NeedsSpark = Callable[["SparkSession", TableSpec], str | None]
# Function that opens a table for a stream's micro-batches, given a DataFrame with their columns
OpenSink = Callable[["DataFrame", TableSpec, StreamWriter], StreamSink]
WriteStream = Callable[["DataFrame", TableSpec], "DataStreamWriter"]
Explain = Callable[[TableSpec, Exception], SqlwinError]
Scan = Callable[
    ["SparkSession", TableSpec, Sequence[Column], Sequence[Expression]],
    ScanSource | SplitTable | str,
]


class ReadsChanges(Protocol):
    """Function that returns the table of the changes of a table's rows."""

    def __call__(self, spec: TableSpec, *, is_bounded: bool) -> TableSpec:
        """Return the table. `is_bounded`: whether it ends with the changes that exist now."""


ReadInProcess = Callable[
    [TableSpec, Sequence[Column], Sequence[Expression]], Iterator["pa.RecordBatch"]
]


@dataclass(frozen=True)
class Connector:
    """Functions that check, read and write tables of one connector, in batch and streaming.

    A connector with `write` also has `open_sink`, `write_stream` or both. A connector without
    `write` has neither: it is only a source.

    Attributes:
        name: Value of 'connector'.
        validate: Checks the definition in CREATE TABLE without looking at data.
        read: Reads the existing rows. None if the table can be read only as a stream, or not at
            all.
        stream: Reads the rows as a stream. None if that is not supported.
        is_unbounded: Whether a table is unbounded, unless the run is set to batch.
        streams_bounded: Whether a bounded table can be read as a stream that ends.
        write: Writes the rows of a batch. None if the table cannot be written.
        write_arrow: Variant of `write` for rows that are Arrow, in workers or in this process. None
            if there is no faster way.
        write_by_order: Variant of `write` for ordered rows: of several with the same PRIMARY KEY it
            keeps the last. None if `write` keeps all rows.
        needs_spark: Returns why `write_arrow` needs Spark for rows of this process. None: always.
        overwrites: Whether `write` can replace existing rows.
        open_sink: Opens a table for single micro-batches. None if only Spark can write them.
        write_stream: Spark's own streaming sink, used if the stream writes nothing else.
        in_batches: Whether micro-batches are written one by one even in that case.
        mode: Rows of a stream that the table accepts.
        idle_options: Lower-case names of options that are accepted without effect.
        explain: Translates a Spark error about a table of the connector. None for the standard
            translation.
        split: Spark SQL over a table's columns for the number of a row's split, an INT from 0;
            raises CatalogError if the columns do not determine it. None without splits.
        has_splits: Whether tasks that read a table themselves know the split number.
        scan: Returns a batch scan of some columns and filters for tasks to read without Spark, or
            the reason why they cannot. None if only Spark reads the tables.
        text: Returns the text files of a table that this process reads, for some columns, or the
            reason why it cannot; None for tables of other formats. None if there are no text files.
        stream_scan: Returns a stream scan of some columns for tasks to read without Spark, or the
            reason why they cannot. None if only Spark reads the streams.
        splits: Returns the splits of a table for tasks. None if tasks do not read splits.
        check_input: Returns the checks of a stream's input, for its tables of this connector and
            Spark's log of the files to read. None if there is nothing to check.
        read_in_process: Reads columns of a table in this process as Arrow, without Spark; rows
            that do not satisfy the filters may be left out. None if it cannot.
        brings_columns: Whether the table itself defines its columns.
        stored_columns: Returns the columns of a table that CREATE TABLE does not declare, and
            fixes them. None if they are declared, or found when the table is read.
        open_storage: Opens storage in this process under an id, for a new table. Its lifetime is
            the returned object's. None if rows are stored elsewhere.
        note: Returns a note about a table that a query reads, such as that it has no files yet, or
            None.
        file_format: Format of a table's files if Spark's own reader reads them.
        changes: Returns the table of the changes of a table's rows, with CHANGE_COLUMNS. None if
            rows do not change, or their changes cannot be read.
        has_versions: Whether a DataFrame always reads the same version of the table.
    """

    name: str
    validate: Validate
    read: Read | None = None
    stream: Read | None = None
    is_unbounded: Callable[[TableSpec], bool] = lambda spec: False
    streams_bounded: bool = False
    write: Write | None = None
    write_arrow: WriteArrow | None = None
    write_by_order: Write | None = None
    needs_spark: NeedsSpark | None = None
    overwrites: bool = False
    open_sink: OpenSink | None = None
    write_stream: WriteStream | None = None
    in_batches: Callable[[TableSpec], bool] = lambda spec: False
    mode: SinkMode = SinkMode.APPEND
    idle_options: frozenset[str] = frozenset()
    explain: Explain | None = None
    split: Callable[[TableSpec], str] | None = None
    has_splits: Callable[[TableSpec], bool] = lambda spec: False
    scan: Scan | None = None
    text: Callable[[SparkSession, TableSpec, Sequence[Column]], TextSource | str | None] | None = (
        None
    )
    stream_scan: Callable[[SparkSession, TableSpec, Sequence[Column]], SplitTable | str] | None = (
        None
    )
    splits: Callable[[SparkSession, TableSpec], SplitSource] | None = None
    check_input: Callable[[SparkSession, Sequence[TableSpec], FileLog], InputChecks] | None = None
    read_in_process: ReadInProcess | None = None
    brings_columns: bool = False
    stored_columns: Callable[[TableSpec], tuple[TableColumn, ...]] | None = None
    open_storage: Callable[[str], object] | None = None
    note: Callable[[SparkSession, TableSpec], str | None] = lambda spark, spec: None
    file_format: Callable[[TableSpec], str | None] = lambda spec: None
    changes: ReadsChanges | None = None
    has_versions: bool = False


def missing_package(spec: TableSpec, what: str, package: str) -> SetupError:
    """Return the error for a missing Spark package, with its Maven coordinate."""
    import pyspark

    coordinate = f"org.apache.spark:{package}_{_SCALA}:{pyspark.__version__}"
    return SetupError(
        f"table `{spec.name}`: Spark {what} only with an additional package",
        subjects=(spec.name,),
        hint=f"start with --conf spark.jars.packages={coordinate} "
        f"(spark-submit and pyspark: --packages {coordinate})",
    )


def about_table(spec: TableSpec, error: Exception) -> SqlwinError:
    """Translate an error of Spark or a library and add the name of the table."""
    return translate(error).about(f"table `{spec.name}`", spec.name)


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Register a sqlwin data source for use with the session's `format()`."""
    # Makes the session the active one. Spark looks for the name in the active session before it
    # registers a source, and rejects it if another session of the application has it.
    spark.createDataFrame([], "id BIGINT")
    spark.dataSource.register(source)
