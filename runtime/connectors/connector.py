"""What a connector is: how tables of it are checked, read and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyspark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.errors import SetupError, SqlwinError
from runtime.frames.arrow_rows import BatchRows
from runtime.spark.errors import translate
from runtime.spec.expressions import Expression
from runtime.spec.scan import ScanSource
from runtime.spec.source import SplitSource, SplitTable
from runtime.spec.table import Column, TableSpec

# Parts of Spark that are not in PySpark's own package
KAFKA_PACKAGE = "spark-sql-kafka-0-10"
AVRO_PACKAGE = "spark-avro"
# How Spark says that it is missing: 4.3, 4.2
NO_AVRO = ("AVRO_DATA_SOURCE_NOT_ENABLED", "_LEGACY_ERROR_TEMP_1139")
# Spark 4 is built with Scala 2.13 alone
_SCALA = "2.13"

Validate = Callable[[TableSpec], None]
Read = Callable[[SparkSession, TableSpec], DataFrame]
# Rows, their table, and whether they replace those that are there; gives how many, if that is known
Write = Callable[[DataFrame, TableSpec, bool], int | None]
# The same of rows that workers have as Arrow too
WriteArrow = Callable[[BatchRows, TableSpec, bool], int | None]
# A micro-batch and its number; gives how many rows it has, if that is known
WriteBatch = Callable[[DataFrame, int], int | None]


@dataclass(frozen=True)
class StreamWriter:
    """A stream, or a part of one, that writes to a table.

    Attributes:
        name: identifies it among others that write to the same place, the same after a restart.
        checkpoint: Spark's part of its checkpoint, as a URI.
        at_end: takes what is to be done when the stream is over, all of its micro-batches being
            committed that ever will be in this run.
    """

    name: str
    checkpoint: str
    at_end: Callable[[Callable[[], None]], None] = lambda action: None


# A DataFrame with the columns of the micro-batches, their table, and what writes them
OpenBatches = Callable[[DataFrame, TableSpec, StreamWriter], WriteBatch]
WriteStream = Callable[[DataFrame, TableSpec], DataStreamWriter]
Explain = Callable[[TableSpec, Exception], SqlwinError]
Scan = Callable[
    [SparkSession, TableSpec, Sequence[Column], Sequence[Expression]], ScanSource | SplitTable | str
]


@dataclass(frozen=True)
class Connector:
    """How tables of one connector are checked, read and written, in batch and as a stream.

    A connector that has `write` also has one of `open_batches` and `write_stream`, or both; one
    that lacks it has neither: it is only a source.

    Attributes:
        name: the value of 'connector'.
        validate: checks what CREATE TABLE said, without looking at data.
        read: the rows there are; None if it cannot be read, or only as a stream.
        stream: the rows as they come; None if it cannot be read so.
        is_unbounded: whether a table is unbounded, unless a run is set to be a batch.
        streams_bounded: whether a bounded table can be read as a stream that ends.
        write: writes the rows of a batch; None if it cannot be written.
        write_arrow: the same as `write`, where workers have the rows as Arrow; None: it makes no
            difference.
        overwrites: whether `write` can replace the rows that are there.
        open_batches: makes what writes the micro-batches of a stream one by one; None if Spark
            alone can write them.
        write_stream: Spark's own streaming sink, which is taken where nothing else is written
            beside it.
        in_batches: whether micro-batches into a table are written one by one even so.
        takes_updates: whether rows may come that replace others.
        idle_options: names of options, in lower case, that are let pass and change nothing.
        explain: what an error of Spark's means for a table of it; None: nothing special.
        split: the number of the split that a row is of, from 0 on: an INT of Spark SQL over the
            columns of a table; raises CatalogError where they do not say it. None: there are none.
        has_splits: whether tasks that read a table themselves know that number.
        scan: what tasks read of a table in a batch without Spark, for some columns and filters, or
            why they do not; None: Spark reads its tables.
        stream_scan: what tasks read of a stream without Spark, for some columns, or why they do
            not; None: Spark reads its streams.
        splits: how tasks read a table split by split; None: they do not.
        brings_columns: whether the table itself declares its columns.
        keep: makes what a new table holds in this process, for as long as there is the table;
            None: it holds nothing.
        file_format: the format of a table's files if Spark's own reader of it reads them.
    """

    name: str
    validate: Validate
    read: Read | None = None
    stream: Read | None = None
    is_unbounded: Callable[[TableSpec], bool] = lambda spec: False
    streams_bounded: bool = False
    write: Write | None = None
    write_arrow: WriteArrow | None = None
    overwrites: bool = False
    open_batches: OpenBatches | None = None
    write_stream: WriteStream | None = None
    in_batches: Callable[[TableSpec], bool] = lambda spec: False
    takes_updates: bool = False
    idle_options: frozenset[str] = frozenset()
    explain: Explain | None = None
    split: Callable[[TableSpec], str] | None = None
    has_splits: Callable[[TableSpec], bool] = lambda spec: False
    scan: Scan | None = None
    stream_scan: Callable[[SparkSession, TableSpec, Sequence[Column]], SplitTable | str] | None = (
        None
    )
    splits: Callable[[SparkSession, TableSpec], SplitSource] | None = None
    brings_columns: bool = False
    keep: Callable[[], object] | None = None
    file_format: Callable[[TableSpec], str | None] = lambda spec: None


def missing_package(spec: TableSpec, what: str, package: str) -> SetupError:
    """The error for a table that needs a package which is not there, with its Maven coordinate."""
    coordinate = f"org.apache.spark:{package}_{_SCALA}:{pyspark.__version__}"
    return SetupError(
        f"table `{spec.name}`: Spark {what} only with a package of its own",
        subjects=(spec.name,),
        hint=f"start with --conf spark.jars.packages={coordinate} "
        f"(spark-submit and pyspark: --packages {coordinate})",
    )


def about_table(spec: TableSpec, error: Exception) -> SqlwinError:
    """An error of Spark's or of a library, with the name of the table."""
    return translate(error).about(f"table `{spec.name}`", spec.name)


def register_source(spark: SparkSession, source: type[DataSource]) -> None:
    """Make a data source of ours known to Spark, for a session's `format()`."""
    # Makes the session the active one: before Spark registers a source here it looks for the name
    # there, and refuses it where another session of the application has it.
    spark.createDataFrame([], "id BIGINT")
    spark.dataSource.register(source)
