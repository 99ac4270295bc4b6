"""Connectors 'delta' and 'iceberg'.

Columns are matched by name, ignoring case, and may be declared wider than in the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.connector import Table, about_table
from runtime.connectors.declarations import check_columns
from runtime.connectors.declared_columns import pick
from runtime.connectors.lake.delta.snapshot import load_delta, version_and_text
from runtime.connectors.lake.delta.stream import stream_delta
from runtime.connectors.lake.delta.write import write_delta
from runtime.connectors.lake.iceberg.snapshot import load_iceberg
from runtime.connectors.lake.iceberg.stream import stream_iceberg
from runtime.connectors.lake.iceberg.write import write_iceberg
from runtime.connectors.lake.table import (
    LakeTable,
    check_stored_columns,
    note_on_columns,
    read_lake_table,
)
from runtime.errors import ExecutionError, SqlwinError
from runtime.files import as_uri
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.scan_source import scan_source
from runtime.lake.places import UnreadableError
from runtime.options.checks import (
    bad_option,
    check_options,
    is_monitored,
    option_values,
    wrong_value,
)
from runtime.options.formats import SCAN_CHANGES
from runtime.options.known import DELTA, ICEBERG
from runtime.refusal import refuse
from runtime.scan.lake import scan_source_of
from runtime.shown_types import shown_type
from runtime.spec.expressions import Expression, columns_of
from runtime.spec.scan import ScanSource
from runtime.spec.sink import FunctionSink, SinkMode, StreamWriter
from runtime.spec.table import LOOKUP_CACHE, Column, TableSpec

_MONITOR = "source.monitor-interval"
# Options about changes
_OF_CHANGES = (SCAN_CHANGES, "starting-version", "starting-timestamp")
# Options that exclude each other
_EXCLUSIVE = (
    ("version", "timestamp", _MONITOR),
    ("version", "timestamp", SCAN_CHANGES),
    ("skip-change-commits", SCAN_CHANGES),
    _OF_CHANGES[1:],
)
_NO_SOURCE = "DATA_SOURCE_NOT_FOUND"
_PACKAGES = {
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime",
}
# Names of the time travel options in Spark's own readers
_TIME_TRAVEL = {
    "delta": {"version": "versionAsOf", "timestamp": "timestampAsOf"},
    "iceberg": {"version": "snapshot-id"},
}


def _read_with_jar(spark: SparkSession, spec: TableSpec, why: UnreadableError) -> DataFrame:
    """Read a table with the reader of the lake's own jar.

    Raises:
        ExecutionError: The jar is not available.
    """
    values, name = option_values(spec), spec.connector.lower()
    requested = {"version", "timestamp"} & values.keys()
    if "path" not in values or not requested <= _TIME_TRAVEL[name].keys():
        raise unreadable(spec, why)
    options = {_TIME_TRAVEL[name][key]: values[key] for key in _TIME_TRAVEL[name] if key in values}
    try:
        rows = spark.read.format(name).options(**options).load(values["path"])
        _ = rows.schema  # triggers the lookup of the data source
    except Exception as error:
        # PySpark reports no condition for a missing Java class
        if _NO_SOURCE not in str(error):
            raise
        raise unreadable(spec, why) from error
    if not spec.columns:
        return rows
    return rows.select(*(pick(rows, spec, c, values["path"]) for c in spec.physical_columns))


def unreadable(spec: TableSpec, why: UnreadableError) -> ExecutionError:
    """Return the error for a table that sqlwin cannot read correctly."""
    return ExecutionError(
        f"table `{spec.name}` cannot be read: {why.reason}",
        subjects=(spec.name,),
        hint="Spark can read it with the package of the lake: --conf "
        f"spark.jars.packages={_PACKAGES[spec.connector.lower()]}:...",
    )


def _check_time_travel(spec: TableSpec) -> None:
    """Refuse conflicting options for the versions to read."""
    values = option_values(spec)
    for group in _EXCLUSIVE:
        conflicting = [name for name in group if name in values]
        if len(conflicting) > 1:
            raise bad_option(
                spec,
                f"options '{conflicting[0]}' and '{conflicting[1]}' exclude each other",
                f"remove '{conflicting[1]}'",
            )
    for name in _OF_CHANGES[1:]:
        if name in values and values.get(SCAN_CHANGES, "false").lower() == "false":
            raise bad_option(
                spec, f"option '{name}' requires '{SCAN_CHANGES}' = 'true'", f"remove '{name}'"
            )


class _Lake(Table, ABC):
    """Table of a lake."""

    can_stream_bounded = True
    can_overwrite = True
    has_snapshots = True
    brings_columns = True
    file_format = "parquet"

    @property
    def is_written_by_workers(self) -> bool:
        """Workers write data files of all lakes alike."""
        return True

    @abstractmethod
    def load(self, spark: SparkSession, filters: Sequence[Expression] | None = None) -> LakeTable:
        """Load a version.

        Args:
            spark: Spark session.
            filters: Conditions of a scan; files in which they cannot be true may be left out. None
                for Spark, which leaves out deleted rows itself.
        """

    @property
    def is_unbounded(self) -> bool:
        """Whether new versions are monitored."""
        return is_monitored(self.spec)

    def reload(self) -> None:
        """Refuse a cache, because a DataFrame always reads the same version."""
        if super().reload() is not None:
            raise wrong_value(
                self.spec,
                LOOKUP_CACHE,
                option_values(self.spec)[LOOKUP_CACHE],
                f"a stream reads the version of {self.spec.connector.lower()} tables at its "
                "start, so it cannot read the table again; restart the stream to join a newer "
                "version",
            )

    def explain(self, error: Exception) -> SqlwinError:
        """Name the table in an error of a library, or say why it cannot be read correctly."""
        if isinstance(error, UnreadableError):
            return unreadable(self.spec, error)
        return about_table(self.spec, error)

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the rows with the declared physical columns, or with all columns.

        Raises:
            ExecutionError: The table or the version does not exist, or cannot be read correctly.
            CatalogError: The table does not have the declared columns.
            SetupError: The package is missing.
        """
        try:
            table = self.load(spark)
            check_stored_columns(self.spec, table)
            return read_lake_table(spark, self.spec, table)
        except UnreadableError as error:
            return _read_with_jar(spark, self.spec, error)

    def note(self, spark: SparkSession) -> str | None:
        """Return a note about columns that no file has, or None."""
        try:
            table = self.load(spark)
            return note_on_columns(self.spec, check_stored_columns(self.spec, table))
        except (UnreadableError, SqlwinError):
            return None  # reading the table reports the error

    def scan(
        self, spark: SparkSession, columns: Sequence[Column], filters: Sequence[Expression]
    ) -> ScanSource:
        """Return the Parquet files that tasks read, taken from the log of the table."""
        derived_names = {c.name.lower() for c in self.spec.columns if c.computed or c.metadata}
        for column in columns:
            if column.name.partition(".")[0].lower() in derived_names:
                refuse(f"{column.name} is not a column of the table")
        try:
            table = self.load(spark, filters)
        except UnreadableError as error:
            refuse(error.reason)
        types = {column.name.lower(): column.type for column in table.snapshot.columns}
        for column in columns:
            actual = types.get(column.name.lower())
            if actual is None and "." not in column.name:
                refuse(f"the table has no column {column.name}")
            if actual is not None and actual != column.type:
                types_of = shown_type(actual), shown_type(column.type)
                refuse(f"column {column.name} is {types_of[0]}, but is declared {types_of[1]}")

        # the files come from the log instead of a directory listing
        def find(
            path: str, roots: Sequence[str], columns: Sequence[Column], *_: object
        ) -> ScanSource:
            return scan_source_of(table.snapshot, columns, filters, table.store)

        files = table.snapshot.files
        where = as_uri(files[0].path) if files else "file:///"
        source = scan_source(spark, where, columns, find)
        is_named = "path" not in option_values(self.spec)
        if table.store is not None and is_named:
            # tasks open the store of the path, which cannot be derived from a table name
            return replace(source, path=table.store.root)
        return source


class DeltaTable(_Lake):
    """Table of Delta Lake."""

    options = DELTA
    sink_mode = SinkMode.UPSERT

    def validate(self) -> None:
        """Check the options and columns of a table, but not whether it exists.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        spec = self.spec
        check_options(spec, DELTA)
        _check_time_travel(spec)
        check_columns(spec)

    def load(self, spark: SparkSession, filters: Sequence[Expression] | None = None) -> LakeTable:
        """Load a version. See `_Lake.load`."""
        names = {name for expression in filters or () for name in columns_of(expression)}
        return load_delta(spark, self.spec, names, with_deleted=filters is None)

    def at_version(self, spark: SparkSession) -> tuple[Self, str]:
        """Return the table at its version, and the `userMetadata` of that commit."""
        try:
            version, text = version_and_text(spark, self.spec)
        except UnreadableError as error:
            raise unreadable(self.spec, error) from error
        return self.with_options({"version": str(version)}, without=("timestamp",)), text

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows of a version and of the later ones."""
        return stream_delta(spark, self.spec)

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Write rows as one version."""
        return write_delta(rows.dataframe, self.spec, overwrite, is_ordered=rows.are_ordered)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Return the sink that writes each micro-batch once, as one version."""
        spec, is_ordered = self.spec, writer.is_ordered
        return FunctionSink(
            lambda changes, batch: write_delta(
                changes, spec, False, (writer.name, batch), is_ordered=is_ordered
            )
        )


class IcebergTable(_Lake):
    """Table of Iceberg."""

    options = ICEBERG
    sink_mode = SinkMode.APPEND

    def validate(self) -> None:
        """Check the options and columns of a table, but not whether it exists.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        spec = self.spec
        option_names = [name for name, _ in spec.options if name.lower().startswith("catalog.")]
        valid = {name: option for name, option in ICEBERG.items() if "<" not in name}
        check_options(spec, valid, option_names)
        values = option_values(spec)
        catalog_options = [
            name for name in ("catalog-name", "catalog-type", "uri") if name in values
        ]
        if ("path" in values) == bool(catalog_options):
            raise bad_option(
                spec,
                "option 'path' is missing, and no catalog is set",
                "set 'path', or 'catalog-type', 'uri' and 'catalog-table'",
            )
        _check_time_travel(spec)
        check_columns(spec)

    def load(self, spark: SparkSession, filters: Sequence[Expression] | None = None) -> LakeTable:
        """Load a snapshot. See `_Lake.load`."""
        return load_iceberg(spark, self.spec, filters or ())

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the rows of a snapshot and of the later ones."""
        return stream_iceberg(spark, self.spec)

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Write rows as one snapshot."""
        return write_iceberg(rows.dataframe, self.spec, overwrite)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Return the sink that writes each micro-batch once, as one snapshot."""
        return FunctionSink(
            lambda changes, batch: write_iceberg(changes, self.spec, False, (writer.name, batch))
        )
