"""Connector 'spark': any data source that Spark knows by name, with its own options.

`'source.unbounded' = 'true'` reads it as a stream. Sources that can only be streams need no option.
"""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.connectors.connector import KAFKA_PACKAGE, Table, about_table, missing_package
from runtime.connectors.declarations import check_columns
from runtime.connectors.declared_columns import declared_schema, pick
from runtime.connectors.writing import check_shared, count_written, to_declared_types
from runtime.errors import SqlwinError
from runtime.frames.arrow_rows import BatchRows
from runtime.options.checks import bad_option, missing_option, option_values, switch
from runtime.spark.files import resolve
from runtime.spark.versions.errors import condition_of
from runtime.spec.table import OPTIONS_OF_STREAMS, TableSpec

# Formats whose columns have only the types given to the reader
_UNTYPED = ("csv", "json", "text", "xml")
# Sources that can only be read as streams
_ONLY_STREAMS = ("rate", "rate-micro-batch", "socket")
_UNBOUNDED = "source.unbounded"
_OURS = ("format", "spark.format", _UNBOUNDED, *OPTIONS_OF_STREAMS)


def source_format(spec: TableSpec) -> tuple[str, dict[str, str]]:
    """Return the name of the data source and the options to pass to it."""
    source_options = {n: v for n, v in spec.options if n.lower() not in _OURS}
    values = {n.lower(): v for n, v in spec.options if n not in source_options}
    return values.get("spark.format", values.get("format", "")), source_options


def _declared_columns(dataframe: DataFrame, spec: TableSpec, name: str) -> DataFrame:
    if not spec.columns:
        return dataframe
    origin = f"the {name} source"
    return dataframe.select(*(pick(dataframe, spec, c, origin) for c in spec.physical_columns))


def _check_path(spark: SparkSession, spec: TableSpec) -> None:
    """Check that a path is not on a local disk while tasks run on other machines."""
    path = option_values(spec).get("path")
    if path is not None:
        check_shared(spark, resolve(spark, path), spec)


class DataSourceTable(Table):
    """Table of a data source of Spark."""

    can_overwrite = True

    def validate(self) -> None:
        """Check that the data source is named. The source checks its own options.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        seen: set[str] = set()
        for name, _ in self.spec.options:
            if name.lower() in seen:
                raise bad_option(self.spec, f"option '{name}' is given twice")
            seen.add(name.lower())
        if (wrong := switch().check(option_values(self.spec).get(_UNBOUNDED, "false"))) is not None:
            raise bad_option(self.spec, f"option '{_UNBOUNDED}' must be {wrong}")
        if not seen & {"format", "spark.format"}:
            hint = "use 'format' = 'jdbc', or the name of another data source of Spark"
            raise missing_option(self.spec, "format", hint)
        check_columns(self.spec)

    @property
    def is_unbounded(self) -> bool:
        """Whether the source is read as a stream."""
        option = option_values(self.spec).get(_UNBOUNDED)
        if option is None:
            return source_format(self.spec)[0].lower() in _ONLY_STREAMS
        return option.lower() == "true"

    @property
    def file_format(self) -> str:
        """Format of the files, if the data source has files."""
        return source_format(self.spec)[0].lower()

    def stream(self, spark: SparkSession) -> DataFrame:
        """Read the data source as a stream, with the declared physical columns if there are any.

        Raises:
            CatalogError: The source does not have the declared columns.
        """
        name, options = source_format(self.spec)
        reader = spark.readStream.format(name).options(**options)
        if not self.spec.columns or name.lower() in (*_ONLY_STREAMS, "kafka"):
            return _declared_columns(reader.load(), self.spec, name)
        try:
            dataframe = reader.schema(declared_schema(self.spec, self.spec.physical_columns)).load()
        except PySparkException:
            # Most lake tables define their columns and accept no schema.
            dataframe = spark.readStream.format(name).options(**options).load()
        return _declared_columns(dataframe, self.spec, name)

    @property
    def is_read_by_workers(self) -> bool:
        """Spark calls the source."""
        return False

    def read(self, spark: SparkSession) -> DataFrame:
        """Read the data source in batch, with the declared physical columns if there are any.

        Raises:
            CatalogError: The source does not have the declared columns.
        """
        name, options = source_format(self.spec)
        declared = declared_schema(self.spec, self.spec.physical_columns)
        reader = spark.read.format(name).options(**options)
        if self.spec.columns and name.lower() in _UNTYPED:
            return _declared_columns(reader.schema(declared).load(), self.spec, name)
        try:
            dataframe = reader.load()
        except PySparkException as error:
            # Some sources have only the columns of a given schema.
            if not self.spec.columns or "SCHEMA" not in (condition_of(error) or ""):
                raise
            dataframe = reader.schema(declared).load()
        return _declared_columns(dataframe, self.spec, name)

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Write the rows of a batch to the data source and return their number."""
        name, options = source_format(self.spec)
        _check_path(rows.spark, self.spec)
        observed, count = count_written(rows.dataframe)
        writer = observed.write.format(name).options(**options)
        writer.mode("overwrite" if overwrite else "append").save()
        return count()

    def spark_writer(self, rows: DataFrame) -> DataStreamWriter:
        """Return the data source's own streaming sink."""
        name, options = source_format(self.spec)
        _check_path(rows.sparkSession, self.spec)
        return to_declared_types(rows, self.spec).writeStream.format(name).options(**options)

    def explain(self, error: Exception) -> SqlwinError:
        """Translate an error of a data source; a SetupError if the package for Kafka is missing."""
        if (
            source_format(self.spec)[0].lower() == "kafka"
            and "find data source" in str(error).lower()
        ):
            return missing_package(self.spec, "reads and writes Kafka", KAFKA_PACKAGE)
        return about_table(self.spec, error)
