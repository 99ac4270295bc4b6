"""Connectors 'delta' and 'iceberg'.

Columns are matched by name, ignoring case, and may be declared wider than in the table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from runtime.connectors.columns import pick
from runtime.connectors.connector import Connector, about_table
from runtime.connectors.declarations import check_columns
from runtime.connectors.lake.delta.snapshot import load_delta
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
from runtime.frames.scan_source import scan_source
from runtime.lake.places import UnreadableError
from runtime.options.checks import (
    bad_option,
    check_options,
    is_monitored,
    option_values,
)
from runtime.options.known import DELTA, ICEBERG
from runtime.scan.files import NotScannable
from runtime.scan.lake import scan_source_of
from runtime.shown_types import shown_type
from runtime.spec.expressions import Expression, columns_of
from runtime.spec.scan import ScanSource
from runtime.spec.sink import SinkMode, StreamSink
from runtime.spec.table import Column, TableSpec

_MONITOR = "source.monitor-interval"
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


def _scan(
    spark: SparkSession, spec: TableSpec, columns: Sequence[Column], filters: Sequence[Expression]
) -> ScanSource | str:
    """Return a table for the Arrow scan, or the reason why it cannot read it.

    `columns` are the required ones, with the names and types that Spark reports. Files without rows
    that satisfy all filters may be left out.
    """
    derived_names = {c.name.lower() for c in spec.columns if c.computed or c.metadata}
    for column in columns:
        if column.name.partition(".")[0].lower() in derived_names:
            return f"{column.name} is not a column of the table"
    try:
        table = _load(spark, spec, filters)
    except UnreadableError as error:
        return error.reason
    types = {column.name.lower(): column.type for column in table.snapshot.columns}
    for column in columns:
        actual = types.get(column.name.lower())
        if actual is not None and actual != column.type:
            return f"column {column.name} is {shown_type(actual)}, but is declared "
            f"{shown_type(column.type)}"

    # the files come from the log instead of a directory listing
    def find(
        path: str, roots: Sequence[str], columns: Sequence[Column], *_: object
    ) -> ScanSource | NotScannable:
        return scan_source_of(table.snapshot, columns, filters, table.store)

    files = table.snapshot.files
    where = as_uri(files[0].path) if files else "file:///"
    source = scan_source(spark, where, columns, find)
    is_named = "path" not in option_values(spec)
    if not isinstance(source, ScanSource):
        return source.reason
    if table.store is not None and is_named:
        # tasks open the store of the path, which cannot be derived from a table name
        return replace(source, path=table.store.root)
    return source


def _load(
    spark: SparkSession,
    spec: TableSpec,
    filters: Sequence[Expression] = (),
    *,
    with_deleted: bool = False,
) -> LakeTable:
    """Load a table with at least the files in which all filters can be true."""
    if spec.connector.lower() == "iceberg":
        return load_iceberg(spark, spec, filters)
    names = {name for expression in filters for name in columns_of(expression)}
    return load_delta(spark, spec, names, with_deleted=with_deleted)


def _read(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read a table with the physical columns of `spec`, or with all its columns.

    Raises:
        ExecutionError: The table or the version does not exist, or cannot be read correctly.
        CatalogError: The table does not have the declared columns.
        SetupError: The package is missing.
    """
    try:
        table = _load(spark, spec, with_deleted=True)
        check_stored_columns(spec, table)
        return read_lake_table(spark, spec, table)
    except UnreadableError as error:
        return _read_with_jar(spark, spec, error)


def _note(spark: SparkSession, spec: TableSpec) -> str | None:
    """Return a note about columns that no file of a table has, or None."""
    try:
        table = _load(spark, spec, with_deleted=True)
        return note_on_columns(spec, check_stored_columns(spec, table))
    except (UnreadableError, SqlwinError):
        return None  # reading the table reports the error


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


def _stream(spark: SparkSession, spec: TableSpec) -> DataFrame:
    """Read a table as a stream, with its new versions."""
    try:
        read = stream_iceberg if spec.connector.lower() == "iceberg" else stream_delta
        return read(spark, spec)
    except UnreadableError as error:
        raise unreadable(spec, error) from error


@dataclass(frozen=True)
class LakeSink(StreamSink):
    """Sink that writes each micro-batch once, as one version of the table.

    Attributes:
        append: Writes rows to the table. The last argument has the writer and the micro-batch.
        spec: Table specification.
        writer: Name of the stream.
    """

    append: Callable[[DataFrame, TableSpec, bool, tuple[str, int] | None], int]
    spec: TableSpec
    writer: str

    def write(self, rows: DataFrame, batch: int) -> int:
        """Write a micro-batch and return its number of rows."""
        return self.append(rows, self.spec, False, (self.writer, batch))


def unreadable(spec: TableSpec, why: UnreadableError) -> ExecutionError:
    """Return the error for a table that sqlwin cannot read correctly."""
    return ExecutionError(
        f"table `{spec.name}` cannot be read: {why.reason}",
        subjects=(spec.name,),
        hint="Spark can read it with the package of the lake: --conf "
        f"spark.jars.packages={_PACKAGES[spec.connector.lower()]}:...",
    )


def validate_delta(spec: TableSpec) -> None:
    """Check the options and columns of a table, but not whether it exists.

    Raises:
        CatalogError: An option or a column is wrong.
    """
    check_options(spec, DELTA)
    _check_time_travel(spec)
    check_columns(spec)


def validate_iceberg(spec: TableSpec) -> None:
    """Check the options and columns of a table, but not whether it exists.

    Raises:
        CatalogError: An option or a column is wrong.
    """
    option_names = [name for name, _ in spec.options if name.lower().startswith("catalog.")]
    valid = {name: option for name, option in ICEBERG.items() if "<" not in name}
    check_options(spec, valid, option_names)
    values = option_values(spec)
    catalog_options = [name for name in ("catalog-name", "catalog-type", "uri") if name in values]
    if ("path" in values) == bool(catalog_options):
        raise bad_option(
            spec,
            "option 'path' is missing, and no catalog is set",
            "set 'path', or 'catalog-type', 'uri' and 'catalog-table'",
        )
    _check_time_travel(spec)
    check_columns(spec)


def _check_time_travel(spec: TableSpec) -> None:
    """Refuse conflicting options for the version to read."""
    values = option_values(spec)
    conflicting = [name for name in ("version", "timestamp", _MONITOR) if name in values]
    if len(conflicting) > 1:
        raise bad_option(
            spec,
            f"options '{conflicting[0]}' and '{conflicting[1]}' exclude each other",
            f"remove '{conflicting[1]}'",
        )


DELTA_CONNECTOR = Connector(
    "delta",
    validate_delta,
    _read,
    _stream,
    is_monitored,
    streams_bounded=True,
    write=write_delta,
    write_by_order=partial(write_delta, is_ordered=True),
    overwrites=True,
    open_sink=lambda rows, spec, writer: LakeSink(
        partial(write_delta, is_ordered=writer.is_ordered), spec, writer.name
    ),
    mode=SinkMode.UPSERT,
    explain=about_table,
    file_format=lambda spec: "parquet",
    scan=_scan,
    note=_note,
    brings_columns=True,
    has_versions=True,
)
ICEBERG_CONNECTOR = Connector(
    "iceberg",
    validate_iceberg,
    _read,
    _stream,
    is_monitored,
    streams_bounded=True,
    write=write_iceberg,
    overwrites=True,
    open_sink=lambda rows, spec, writer: LakeSink(write_iceberg, spec, writer.name),
    explain=about_table,
    file_format=lambda spec: "parquet",
    scan=_scan,
    note=_note,
    brings_columns=True,
    has_versions=True,
)
