"""Parquet files of an object store as Spark rows, read by Arrow in tasks.

For stores without a file system in Spark, because PySpark does not include the packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_type
from pyspark.sql.types import DataType, StructType

from runtime.connectors.columns import declared_type, no_columns
from runtime.errors import ExecutionError, SetupError
from runtime.options.checks import option_values
from runtime.options.formats import format_of, spark_options
from runtime.scan.files import (
    NO_FILES,
    Listing,
    NotScannable,
    list_files,
    partition_pair,
    partition_type,
)
from runtime.scan.paths import expand
from runtime.scan.splits import FileRange
from runtime.scan.stored_files import StoredFiles
from runtime.scan.stores import Store
from runtime.scan.whole_rows import file_ranges, read_part, row_schema
from runtime.spark.files import store_package
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import ScanFile
from runtime.spec.table import TableSpec

# Name of Spark's column with the METADATA of files
FILE_METADATA = "_metadata"
_METADATA_TYPE = pa.struct(
    [
        ("file_path", pa.string()),
        ("file_name", pa.string()),
        ("file_size", pa.int64()),
        ("file_modification_time", pa.timestamp("us", tz="UTC")),
    ]
)
METADATA_FIELD = pa.field(FILE_METADATA, _METADATA_TYPE)
UNREAD_ROWS = "sqlwin_unread_rows"
_NULL = "__HIVE_DEFAULT_PARTITION__"
# Options of Spark's reader about the listing of files, and writer options
_KNOWN = ("pathglobfilter", "recursivefilelookup", "basepath", "compression")
_PER_CORE = 3
# Concurrent requests of a task
_REQUESTS = 8
_PARTS = pa.schema(
    [
        ("split", pa.int32()),
        ("path", pa.string()),
        ("start", pa.int64()),
        ("stop", pa.int64()),
        ("n_bytes", pa.int64()),
        ("modified_ns", pa.int64()),
        ("partitions", pa.string()),
    ]
)


class _Unread(DataSourceStreamReader):
    def __init__(self, message: str) -> None:
        self._message = message

    def initialOffset(self) -> dict[str, int]:
        raise ExecutionError(self._message)

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        # of a stream that was started when Spark had the package
        raise ExecutionError(self._message)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise ExecutionError(self._message)


class UnreadRows(DataSource):
    """Stream source with columns but no rows, which fails with its reason when read."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the Spark data source."""
        return UNREAD_ROWS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that fails with the reason."""
        return _Unread(self.options["message"])


def check_readable(spark: SparkSession, spec: TableSpec, origin: str) -> None:
    """Refuse a table in a store that only Spark's own reader could read.

    Raises:
        SetupError: The format or an option needs Spark's reader.
    """
    options = spark_options(spec, format_of(option_values(spec)) or "")
    others = sorted(name for name in options if name.lower() not in _KNOWN)
    what = f"files of format {format_of(option_values(spec))}"
    if what.endswith("parquet"):
        if not others:
            return
        what = f"files with the option '{others[0]}'"
    raise SetupError(
        f"table `{spec.name}`: Spark reads {what} at {origin} only with "
        + store_package(spark, origin),
        subjects=(spec.name,),
    )


def read_stored(
    spark: SparkSession, spec: TableSpec, origin: str, files: StoredFiles
) -> DataFrame | None:
    """Return the rows of a table's files with all their columns, and METADATA if declared.

    None without files but with declared columns.

    Raises:
        ExecutionError: A file cannot be read, or the directory layout is not one that Spark reads.
        CatalogError: Without files and without declared columns.
        SetupError: Only Spark's own reader could read the files.
    """
    check_readable(spark, spec, origin)
    listing = _list_files(spec, origin, files)
    listed = [ScanFile(path, (), (), *listing.stamps[path]) for path, _ in listing.files]
    declared = {c.name.lower(): declared_type(spec, c) for c in spec.physical_columns}
    fields, partition_names = [], {name.lower() for name in listing.partition_columns}
    if not listed:
        return None
    for field in row_schema(listed[0], files.store):
        name = field.name.lower()
        if name not in partition_names and (not declared or name in declared):
            fields.append(field)
    fields += _partition_fields(listing, declared)
    if any(c.metadata for c in spec.columns):
        fields.append(METADATA_FIELD)
    return stored_rows(spark, listed, dict(listing.files), pa.schema(fields), files.store)


def stored_rows(
    spark: SparkSession,
    files: Sequence[ScanFile],
    partitions: Mapping[str, tuple[tuple[str, str], ...]],
    schema: pa.Schema,
    store: Store,
) -> DataFrame:
    """Return the rows of files, at least one, with the names and types of `schema`.

    Args:
        spark: Spark session.
        files: Files with their sizes.
        partitions: Names and texts of partition values, by path of the file.
        schema: Columns, which may include METADATA_FIELD.
        store: Store of the files.
    """
    cores = spark.sparkContext.defaultParallelism
    rows = _rows(file_ranges(files, cores * _PER_CORE), partitions)
    n_splits = rows.column("split")[-1].as_py() + 1
    parts = spark.createDataFrame(rows).repartitionById(n_splits, "split")
    return parts.mapInArrow(_reader(schema, store), from_arrow_schema(schema, True))


def _list_files(spec: TableSpec, origin: str, files: StoredFiles) -> Listing:
    options = {k.lower(): v for k, v in spark_options(spec, "parquet").items()}
    is_flat = options.get("recursivefilelookup", "").lower() == "true"
    listing = list_files(expand(origin, files), files.store, is_flat=is_flat)
    if isinstance(listing, NotScannable):
        if listing.reason != NO_FILES:
            raise ExecutionError(
                f"table `{spec.name}`: cannot read {origin}: {listing.reason}",
                subjects=(spec.name,),
            )
        listing = Listing(())
    pattern = options.get("pathglobfilter", "*")
    selected = [file for file in listing.files if fnmatch(file[0].rpartition("/")[2], pattern)]
    if (base := options.get("basepath")) is not None:
        selected = [(path, _partition_below(base.rstrip("/"), path)) for path, _ in selected]
    if not selected and not spec.columns:
        raise no_columns(spec, origin)
    empty = [path for path, _ in selected if not listing.stamps[path][0]]
    if empty:
        raise ExecutionError(
            f"table `{spec.name}`: {empty[0]} is empty and not a valid file of format parquet",
            subjects=(spec.name,),
            hint="delete the file",
        )
    return Listing(tuple(selected), listing.stamps)


def _partition_below(base: str, path: str) -> tuple[tuple[str, str], ...]:
    """Return the partition values in the directories of a file below a base directory."""
    directories = path.removeprefix(base).strip("/").split("/")[:-1]
    return tuple(partition_pair(directory) for directory in directories if "=" in directory)


def _partition_fields(listing: Listing, declared: Mapping[str, DataType]) -> list[pa.Field]:
    fields = []
    for number, name in enumerate(listing.partition_columns):
        values = {partition[number][1] for _, partition in listing.files}
        inferred = DataType.fromDDL(partition_type(values))
        type_ = to_arrow_type(declared.get(name.lower(), inferred), timezone="UTC")
        fields.append(pa.field(name, type_))
    return fields


def _rows(
    splits: Sequence[Sequence[FileRange]], partitions: Mapping[str, tuple[tuple[str, str], ...]]
) -> pa.Table:
    """Return parts of files as rows, so that each task gets only its own."""
    rows = [
        {
            "split": number,
            "path": part.file.path,
            "start": part.start,
            "stop": part.stop,
            "n_bytes": part.file.n_bytes,
            "modified_ns": part.file.modified_ns,
            "partitions": json.dumps(dict(partitions.get(part.file.path, ()))),
        }
        for number, split in enumerate(splits)
        for part in split
    ]
    return pa.Table.from_pylist(rows, schema=_PARTS)


def _reader(
    schema: pa.Schema, store: Store
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the task function that reads its parts of files."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        pa.set_io_thread_count(_REQUESTS)
        for batch in batches:
            for row in batch.to_pylist():
                file = ScanFile(row["path"], (), (), row["n_bytes"], row["modified_ns"])
                values = _values(file, json.loads(row["partitions"]), schema)
                yield from read_part(
                    FileRange(file, row["start"], row["stop"]), schema, values, store
                )

    return read


def _values(
    file: ScanFile, partitions: Mapping[str, str], schema: pa.Schema
) -> dict[str, pa.Scalar]:
    """Return the columns that are constant within a file."""
    values = {}
    for name, text in partitions.items():
        type_ = schema.field(name).type
        try:
            values[name] = pa.scalar(None if text == _NULL else text, pa.string()).cast(type_)
        except pa.ArrowInvalid as error:
            raise ExecutionError(
                f"partition directory {name}={text} of {file.path} is not a valid {type_}"
            ) from error
    if FILE_METADATA in schema.names:
        metadata = {
            # URL-encoded, as in Spark
            "file_path": quote(file.path, safe=":/"),
            "file_name": quote(file.path.rpartition("/")[2]),
            "file_size": file.n_bytes,
            "file_modification_time": file.modified_ns // 1000,
        }
        values[FILE_METADATA] = pa.scalar(metadata, _METADATA_TYPE)
    return values
