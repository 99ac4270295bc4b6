"""Rows of Parquet files in an object store, read by Arrow in tasks, and the metadata of files.

For stores without a file system in Spark, because PySpark does not include the packages.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from runtime.errors import ExecutionError
from runtime.frames.arrow_tables import create_frame
from runtime.scan.ranges import FileRange, file_ranges
from runtime.scan.stores import Store
from runtime.scan.whole_rows import read_part
from runtime.spark.versions.frames import metadata_column, place_rows
from runtime.spark.workers import prepare_worker
from runtime.spec.scan import ScanFile

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
_NULL = "__HIVE_DEFAULT_PARTITION__"
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
    parts = place_rows(create_frame(spark, rows), n_splits, "split")
    return parts.mapInArrow(_reader(schema, store), from_arrow_schema(schema, True))


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


def file_metadata(dataframe: DataFrame) -> Column:
    """Return Spark's metadata of a row's file, from a column or from Spark's reader."""
    is_column = FILE_METADATA in dataframe.columns
    return dataframe[FILE_METADATA] if is_column else metadata_column(dataframe, FILE_METADATA)


def file_path(dataframe: DataFrame) -> Column:
    """Return the path of the file that a row comes from."""
    return decode_uri(file_metadata(dataframe)["file_path"])


def decode_uri(value: Column) -> Column:
    """Decode the path in a URI as Spark reports it."""
    # In Spark's URIs a plus is a plus, but url_decode takes it for a space.
    return F.url_decode(F.replace(value, F.lit("+"), F.lit("%2B")))
