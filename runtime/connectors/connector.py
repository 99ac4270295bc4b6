"""Definition of a connector: how its tables are checked, read and written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

from runtime.connectors.declarations import check_columns
from runtime.errors import CatalogError, SetupError, SqlwinError
from runtime.frames.arrow_rows import BatchRows
from runtime.options.checks import check_options, check_stream_options
from runtime.options.known import Options
from runtime.options.lookup import lookup_reload
from runtime.refusal import refuse
from runtime.spark.errors import translate, translate_spark_errors
from runtime.spark.versions.capabilities import PYTHON_SOURCES, require
from runtime.spec.expressions import Expression
from runtime.spec.sink import SinkMode, StreamSink, StreamWriter
from runtime.spec.source import FileLog, InputChecks, SplitSource, SplitTable
from runtime.spec.table import (
    LOOKUP_OPTIONS,
    OPTIONS_OF_STREAMS,
    Column,
    Reload,
    TableColumn,
    TableSpec,
)
from runtime.spec.text import FileSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

    from runtime.spark.versions.newer_classes import DataSource

# Parts of Spark that PySpark's own package does not include
KAFKA_PACKAGE = "spark-sql-kafka-0-10"
AVRO_PACKAGE = "spark-avro"
# Error conditions for missing Avro in Spark 4.3 and 4.2
NO_AVRO = ("AVRO_DATA_SOURCE_NOT_ENABLED", "_LEGACY_ERROR_TEMP_1139")
# Spark 4 is built only with Scala 2.13
_SCALA = "2.13"


class Connector(Protocol):
    """Kind of tables: the object of an entry point, such as a class derived from `Table`.

    Its name, the value of 'connector', is the name of the entry point.
    """

    @property
    def can_write(self) -> bool:
        """Whether its tables can be written; see `Table`."""

    @property
    def sink_mode(self) -> SinkMode | None:
        """Rows of a stream that its tables accept; see `Table`."""

    def open(self, spec: TableSpec) -> Table:
        """Return the table of a definition, which may be wrong: `Table.validate` checks it."""


@dataclass(frozen=True)
class Table:
    """Table of a connector: answers to all questions about its definition and its rows.

    This class answers for a table without rows and abilities. A connector derives a class and
    overrides the answers that differ: `read` or `stream` for a source, `write` for a sink.

    Attributes:
        spec: Definition, with the options of all connectors.
        parts: Tables of `spec.parts`.
        options: Options of the connector.
        can_stream: Whether the class overrides `stream`.
        can_stream_bounded: Whether `stream` also reads a bounded table, and then ends.
        is_streamed_by_tasks: Whether only tasks read its streams; Spark gets the rows from them.
        can_write: Whether the class overrides `write`, and `spark_writer` or `open_sink` for
            streams.
        can_overwrite: Whether `write` can replace existing rows.
        sink_mode: Rows of a stream that the table accepts. None if only Spark writes streams, so
            that `open_sink` cannot open the table.
        is_read_in_process: Whether this process can read the table without Spark, see
            `read_in_process`; files are handled separately.
        has_snapshots: Whether a read sees one state of the table, see `snapshot`.
        brings_columns: Whether the table itself defines its columns, as lake tables do.
        part_options: Options that name the tables whose rows it reads, in the order of
            `TableSpec.parts`.
    """

    spec: TableSpec
    parts: tuple[Table, ...] = ()
    options: ClassVar[Options] = {}
    can_stream: ClassVar[bool] = False
    can_stream_bounded: ClassVar[bool] = False
    is_streamed_by_tasks: ClassVar[bool] = False
    can_write: ClassVar[bool] = False
    can_overwrite: ClassVar[bool] = False
    sink_mode: ClassVar[SinkMode | None] = None
    is_read_in_process: ClassVar[bool] = False
    has_snapshots: ClassVar[bool] = False
    brings_columns: ClassVar[bool] = False
    part_options: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.can_stream = cls.stream is not Table.stream
        cls.can_write = cls.write is not Table.write

    @classmethod
    def open(cls, spec: TableSpec) -> Table:
        """Return the table of a definition; see `Connector`."""
        return cls(spec)

    # -- its definition ----------------------------------------------------------------------------

    def check(self) -> None:
        """Check the definition without looking at data.

        Raises:
            CatalogError: An option or a column is wrong; the message names it and the nearest valid
                name.
        """
        self.without_shared_options().validate()

    def validate(self) -> None:
        """Check a definition with only the connector's options. See `check`."""
        check_options(self.spec, self.options)
        check_columns(self.spec)

    def without_shared_options(self) -> Self:
        """Return the table with only the options of its connector, after a check of the others.

        Raises:
            CatalogError: An option that all connectors share is wrong.
        """
        self.reload()
        shared: tuple[str, ...] = LOOKUP_OPTIONS
        if self.can_stream:
            check_stream_options(self.spec)
            shared = OPTIONS_OF_STREAMS
        own = (option for option in self.spec.options if option[0].lower() not in shared)
        return replace(self, spec=replace(self.spec, options=tuple(own)))

    def with_options(self, options: Mapping[str, str], without: Sequence[str] = ()) -> Self:
        """Return the table with options that replace others of these names, and without some."""
        replaced = {*options, *without}
        others = (option for option in self.spec.options if option[0].lower() not in replaced)
        return replace(self, spec=replace(self.spec, options=(*others, *options.items())))

    def reload(self) -> Reload | None:
        """Return when a table that is joined to a stream is read again; None: in each micro-batch.

        Raises:
            CatalogError: An option of the cache is wrong, or reading the table again would not
                change its rows.
        """
        return lookup_reload(self.spec)

    @property
    def idle_options(self) -> tuple[str, ...]:
        """Options of the table that are accepted and have no effect, as written."""
        idle = {name.lower() for name, option in self.options.items() if not option.has_effect}
        return tuple(name for name, _ in self.spec.options if name.lower() in idle)

    @property
    def knows_types(self) -> bool:
        """Whether the declared types are known without asking Java."""
        return all(c.type is None or c.common_type for c in self.spec.physical_columns)

    def stored_columns(self) -> tuple[TableColumn, ...] | None:
        """Return the columns that the table has in its store and CREATE TABLE fixes, or None.

        Raises:
            SqlwinError: The store is unavailable, or has no such table.
        """
        return None

    def with_storage(self) -> tuple[TableSpec, object]:
        """Open empty storage for a new table if its connector stores rows in this process.

        Returns:
            The definition with the id of its storage, and the owner of the storage, which lives as
            long as the owner. The definition unchanged and None if its rows are elsewhere.
        """
        return self.spec, None

    # -- its rows ----------------------------------------------------------------------------------

    @property
    def is_unbounded(self) -> bool:
        """Whether the table is unbounded, unless the run is set to batch."""
        return False

    def rows(self, spark: SparkSession, *, is_stream: bool = False) -> DataFrame:
        """Return the rows with the declared columns in order, computed ones included.

        Raises:
            CatalogError: The declaration is wrong, the data has other columns, or the table cannot
                be read in this way.
            ExecutionError: The data does not exist or cannot be read.
            SetupError: A Spark package is missing.
        """
        from runtime.connectors.declared_columns import add_computed
        from runtime.frames.pushdown import without_pushdown

        own = self.without_shared_options()
        own.validate()
        try:
            rows = own.stream(spark) if is_stream else own.read(spark)
            return add_computed(without_pushdown(rows, own.file_format), own.spec)
        except SqlwinError:
            raise
        except Exception as error:
            # otherwise the caller can translate it better, because it has the statement
            if (explained := own.explain(error)) is None:
                raise
            raise explained from error

    def with_computed(self, rows: DataFrame, more: Sequence[str]) -> DataFrame:
        """Return rows with the declared columns in order, computed ones included, and `more`.

        Raises:
            CatalogError: A computed column is not an expression over the other columns.
        """
        from runtime.connectors.declared_columns import add_computed

        return add_computed(rows, self.spec, more)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the existing rows with the physical columns. See `rows`."""
        connector = self.spec.connector
        if self.can_stream:
            raise CatalogError(
                f"table `{self.spec.name}` is unbounded: connector '{connector}' is read as a "
                "stream",
                subjects=(f"'{connector}'", self.spec.name),
                hint="SET 'execution.runtime-mode' = 'automatic'",
            )
        raise CatalogError(
            f"table `{self.spec.name}` cannot be read: connector '{connector}' is a sink only",
            subjects=(f"'{connector}'", self.spec.name),
            hint="use INSERT INTO to write to it",
        )

    def snapshot(self) -> AbstractContextManager[Self]:
        """Return the table such that all tasks of a read within the block see the same state."""
        assert self.has_snapshots, f"tables of '{self.spec.connector}' have no snapshots"
        return nullcontext(self)

    def at_version(self, spark: SparkSession) -> tuple[Self, str]:
        """Return the table at the version that a read sees now, and the text stored with it.

        The text is empty if the writer of the version stored none.

        Raises:
            ExecutionError: The table or the version does not exist, or cannot be read.
        """
        raise AssertionError(f"tables of '{self.spec.connector}' have no versions")

    def from_offsets(self, spark: SparkSession, offsets: Mapping[int, int]) -> Self:
        """Return the table, read from given offsets by partition on.

        Raises:
            ValueError: A partition has no offset.
            ExecutionError: An offset does not exist, or the source does not answer.
        """
        raise AssertionError(f"tables of '{self.spec.connector}' have no offsets")

    def rows_of_parts(self, rows: Sequence[pa.Table]) -> pa.Table:
        """Return the rows of a table that reads others, from given rows of each of `parts`."""
        raise AssertionError(f"'{self.spec.connector}' reads no other tables")

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows as they arrive with the physical columns. See `rows`."""
        raise AssertionError(f"'{self.spec.connector}' reads no streams")

    @property
    def file_format(self) -> str:
        """Format of the table's files if Spark's own reader reads them, or an empty text."""
        return ""

    @property
    def is_read_by_workers(self) -> bool:
        """Whether Python workers read the rows of a batch, rather than Spark alone."""
        return True

    @property
    def is_written_by_workers(self) -> bool:
        """Whether Python workers write the rows of a batch that Spark computes."""
        return False

    def explain(self, error: Exception) -> SqlwinError | None:
        """Translate an error of Spark about the table. None for the standard translation."""
        return None

    def note(self, spark: SparkSession) -> str | None:
        """Return a note about the table that a query reads, such as missing files, or None."""
        return None

    def changes(self, *, is_bounded: bool) -> TableSpec | None:
        """Return the table of the changes of this table's rows, with CHANGE_COLUMNS.

        None if rows do not change, or their changes cannot be read.

        Args:
            is_bounded: Whether it ends with the changes that exist now.
        """
        return None

    # -- its rows without Spark --------------------------------------------------------------------

    def scan(
        self, spark: SparkSession, columns: Sequence[Column], filters: Sequence[Expression]
    ) -> FileSource | SplitTable:
        """Return a batch scan for tasks to read without Spark.

        Args:
            spark: Session, whose settings matter.
            columns: Required columns with the types that Spark reports.
            filters: Conditions on them; files in which they cannot be true may be left out.

        Raises:
            Refused: Tasks cannot read it.
        """
        refuse(f"Spark reads tables of connector '{self.spec.connector}'")

    def stream_scan(self, spark: SparkSession, columns: Sequence[Column]) -> SplitTable:
        """Return a stream's scan for tasks to read without Spark. Errors are as in `scan`."""
        refuse(f"Spark reads streams of connector '{self.spec.connector}'")

    def read_in_process(
        self, columns: Sequence[Column], filters: Sequence[Expression]
    ) -> Iterator[pa.RecordBatch]:
        """Read columns in this process; rows that do not satisfy the filters may be left out.

        Raises:
            SqlwinError: The table cannot be read.
        """
        raise AssertionError(f"is_read_in_process of '{self.spec.connector}' is false")

    def splits(self, spark: SparkSession) -> SplitSource:
        """Return the splits of a table whose scan is a SplitTable, for tasks."""
        raise AssertionError(f"tables of '{self.spec.connector}' have no splits")

    @property
    def has_splits(self) -> bool:
        """Whether tasks that read the table know the split number of a row."""
        return False

    def split_sql(self) -> str | None:
        """Return Spark SQL for the number of a stream row's split, an INT from 0, or None.

        Raises:
            CatalogError: The table has no column from which it follows.
        """
        return None

    def check_input(self, spark: SparkSession, log: FileLog) -> InputChecks | None:
        """Return the checks of a stream's input, or None if there is nothing to check.

        Args:
            spark: Spark session.
            log: Spark's log of the files to read.
        """
        return None

    # -- writing -----------------------------------------------------------------------------------

    def insert(self, rows: BatchRows, *, overwrite: bool) -> int | None:
        """Write all rows of a query and return their number, if known.

        Columns are matched by position and cast to the declared types. A failed job leaves nothing
        that readers would see. Overwriting replaces existing rows, or in a partitioned table the
        partitions that get rows. Of several ordered rows with the same PRIMARY KEY, the last is
        kept.

        Raises:
            ExecutionError: The query or the writing failed.
        """
        from runtime.connectors.writing import name_output_in_errors, to_declared_types

        with name_output_in_errors(self.spec), self.errors():
            if not (rows.are_arrow and self.takes(rows.schema)):
                fitted = BatchRows.of(to_declared_types(rows.dataframe, self.spec))
                rows = replace(fitted, are_ordered=rows.are_ordered)
            return self.write(rows, overwrite=overwrite)

    def write(self, rows: BatchRows, *, overwrite: bool) -> int | None:
        """Write rows with the declared columns and return their number, if known. See `insert`."""
        raise AssertionError(f"'{self.spec.connector}' writes no rows")

    def why_spark_writes(self, spark: SparkSession) -> str | None:
        """Return why Spark has to write rows computed in this process, or None."""
        return f"Spark writes tables of connector '{self.spec.connector}'"

    def takes(self, schema: StructType) -> bool:
        """Return whether the table takes rows without casts: with the declared names and types."""
        from runtime.connectors.writing import is_declared

        return is_declared(schema, self.spec)

    def written_types(self) -> dict[str, str]:
        """Return the Spark types with which the table is written, by column.

        Raises:
            CatalogError: A type is not one of Spark's.
        """
        from runtime.connectors.writing import declared_types

        types = declared_types(self.spec)
        columns = self.spec.physical_columns
        return {c.name: type_.simpleString() for c, type_ in zip(columns, types, strict=True)}

    @property
    def is_updated_by_key(self) -> bool:
        """Whether the rows of a stream replace those with the same PRIMARY KEY."""
        return self.sink_mode is SinkMode.UPSERT and bool(self.spec.primary_key)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> StreamSink:
        """Open the table for the micro-batches of a stream, if it has a `sink_mode`.

        Args:
            rows: Rows with the columns of the micro-batches.
            writer: Stream that writes.

        Raises:
            SqlwinError: The table cannot be written.
        """
        raise AssertionError(f"only Spark writes to '{self.spec.connector}'")

    def spark_writer(self, rows: DataFrame) -> DataStreamWriter | None:
        """Return Spark's own streaming sink, used if the stream writes nothing else.

        None if micro-batches are always written one by one.
        """
        return None

    def errors(self) -> AbstractContextManager[None]:
        """Translate errors of the block for the table."""
        return translate_spark_errors(lambda error: self.explain(error) or translate(error))


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
    """Register a sqlwin data source for use with the session's `format()`.

    Raises:
        SetupError: PySpark is too old for such sources.
    """
    require(PYTHON_SOURCES)
    # Makes the session the active one. Spark looks for the name in the active session before it
    # registers a source, and rejects it if another session of the application has it.
    spark.createDataFrame([], "id BIGINT")
    spark.dataSource.register(source)
