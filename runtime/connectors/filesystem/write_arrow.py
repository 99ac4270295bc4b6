"""Write rows that are Arrow to Parquet files, in the workers or in the process that computes them.

The files equal the output of Spark's writer: same types, same codec, and Spark's schema in the
footer. A retried task writes two files, both under hidden names; the driver renames the one whose
result Spark has accepted.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from runtime.compute.partitions import can_partition, split_by_partition
from runtime.frames.arrow_rows import ArrowRows, BatchRows, ProcessRows
from runtime.frames.blobs import large_tables
from runtime.frames.parquet_columns import repeating_columns
from runtime.spark.settings import settings_of

if TYPE_CHECKING:
    from runtime.text.write import TextForm

# Spark codecs that Arrow writes identically; Spark's `lz4` is Hadoop's own format
_CODECS = {"snappy": "snappy", "zstd": "zstd", "gzip": "gzip", "none": "none"}
_CODEC_CONF = "spark.sql.parquet.compression.codec"
_INSTANTS_CONF = "spark.sql.parquet.outputTimestampType"
_LEGACY_CONF = "spark.sql.parquet.writeLegacyFormat"
# Footer keys of Spark: its schema, and its version, which tells the calendar of dates
_SPARK_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
_SPARK_VERSION = "org.apache.spark.version"
# Minimum size of a row group in memory
_ROW_GROUP_BYTES = 64 << 20
# Bytes of rows that are turned into text at a time
_TEXT_BYTES = 16 << 20
_TIME_OPTIONS = dict.fromkeys(("timestampFormat", "timestampNTZFormat", "partitionOverwriteMode"))
# Options with which this process writes text, and their only supported value if there is one
_CSV_OPTIONS: Mapping[str, str | None] = {
    **_TIME_OPTIONS,
    **dict.fromkeys(("sep", "delimiter", "header", "nullValue")),
    "quote": '"',
    "escape": '"',
}
_JSON_OPTIONS: Mapping[str, str | None] = {**_TIME_OPTIONS, "ignoreNullFields": None}
_WRITTEN_DDL = "name string, n_rows bigint, errno int"
_WRITTEN = pa.schema([("name", pa.string()), ("n_rows", pa.int64()), ("errno", pa.int32())])


@dataclass(frozen=True)
class ArrowFiles:
    """Rows and the format in which workers write them to a local directory.

    Attributes:
        rows: Rows to write.
        schema: Schema of the files.
        codec: Arrow's name of the codec.
    """

    rows: ArrowRows
    schema: pa.Schema
    codec: str

    def write(self, directory: str) -> int:
        """Write all rows to a directory and return their number.

        Raises:
            OSError: The directory cannot be written to.
        """
        stage = _stage(directory, self.schema, self.codec)
        written = self.rows.then(stage, _WRITTEN_DDL).collect()
        for file in written:
            if file.errno is not None:
                raise OSError(file.errno, os.strerror(file.errno), directory)
        n_rows: int = sum(file.n_rows for file in written)
        for number, file in enumerate(written):
            # a single empty file is enough to record the columns
            if file.n_rows or (number == 0 and not n_rows):
                os.rename(f"{directory}/.{file.name}", f"{directory}/{file.name}")
            else:
                os.remove(f"{directory}/.{file.name}")
        (Path(directory) / "_SUCCESS").touch()
        return n_rows


@dataclass(frozen=True)
class ProcessFiles:
    """Rows and the format in which this process writes them to a local directory.

    Attributes:
        rows: Rows to write.
        schema: Schema of the files.
        codec: Arrow's name of the codec.
        partitions: Partition columns, which are in the names of directories instead.
    """

    rows: ProcessRows
    schema: pa.Schema
    codec: str
    partitions: tuple[str, ...] = ()

    def write(self, directory: str) -> int:
        """Write all rows to a directory and return their number.

        Raises:
            OSError: The directory cannot be written to.
        """
        os.makedirs(directory, exist_ok=True)
        if self.partitions:
            return self._write_partitions(directory)
        tables = large_tables(self.rows.batches(), _ROW_GROUP_BYTES)
        table = next(tables, None)
        name = f"part-00000-0.c000{_suffix(self.codec)}.parquet"
        n_rows = 0
        with _parquet_writer(f"{directory}/{name}", self.schema, self.codec, table) as writer:
            while table is not None:
                writer.write_table(table.cast(self.schema))
                n_rows += table.num_rows
                table = next(tables, None)
        (Path(directory) / "_SUCCESS").touch()
        return n_rows

    def _write_partitions(self, directory: str) -> int:
        """Write one file per partition and large table of rows."""
        n_rows = 0
        for number, table in enumerate(large_tables(self.rows.batches(), _ROW_GROUP_BYTES)):
            name = f"part-00000-0.c{number:03}{_suffix(self.codec)}.parquet"
            for below, rows in split_by_partition(table, self.partitions):
                os.makedirs(f"{directory}/{below}", exist_ok=True)
                place = f"{directory}/{below}/{name}"
                with _parquet_writer(place, self.schema, self.codec, rows) as writer:
                    writer.write_table(rows.cast(self.schema))
                n_rows += rows.num_rows
        (Path(directory) / "_SUCCESS").touch()
        return n_rows


@dataclass(frozen=True)
class ProcessTextFiles:
    """Rows that this process writes to a local directory as text.

    Attributes:
        rows: Rows to write.
        form: How a row is written.
        suffix: Suffix of the files' names.
        partitions: Partition columns, which are in the names of directories instead.
    """

    rows: ProcessRows
    form: TextForm
    suffix: str
    partitions: tuple[str, ...] = ()

    def write(self, directory: str) -> int:
        """Write all rows to a directory and return their number.

        Raises:
            OSError: The directory cannot be written to.
        """
        os.makedirs(directory, exist_ok=True)
        n_rows = 0
        fields = [field for field in self.rows.schema if field.name not in self.partitions]
        head = self.form.head(pa.schema(fields))
        if not self.partitions:
            # without any rows, the file has the header
            Path(self._place(directory, 0)).write_bytes(head)
        for number, table in enumerate(large_tables(self.rows.batches(), _TEXT_BYTES)):
            n_rows += table.num_rows
            if not self.partitions:
                with open(self._place(directory, 0), "ab") as file:
                    file.write(self.form.lines(table))
                continue
            for below, rows in split_by_partition(table, self.partitions):
                os.makedirs(f"{directory}/{below}", exist_ok=True)
                data = head + self.form.lines(rows)
                Path(self._place(f"{directory}/{below}", number)).write_bytes(data)
        (Path(directory) / "_SUCCESS").touch()
        return n_rows

    def _place(self, directory: str, number: int) -> str:
        return f"{directory}/part-00000-0.c{number:03}.{self.suffix}"


def text_files(
    rows: BatchRows, file_format: str, options: Mapping[str, str], partitions: Sequence[str]
) -> ProcessTextFiles | None:
    """Return the writer of this process's rows as text, or None if Spark writes them.

    Args:
        rows: Rows to write.
        file_format: `csv` or `json`.
        options: Options of Spark's writer.
        partitions: Partition columns.
    """
    form = text_form(rows.spark, file_format, options)
    if rows.in_process is None or isinstance(form, str):
        return None
    return ProcessTextFiles(rows.in_process, form, file_format, tuple(partitions))


def text_form(spark: SparkSession, file_format: str, options: Mapping[str, str]) -> TextForm | str:
    """Return the rules for writing text, or the option that requires Spark.

    Args:
        spark: Session with the time zone.
        file_format: `csv` or `json`.
        options: Options of Spark's writer.
    """
    from runtime.text.write import CsvForm, JsonForm

    zone = settings_of(spark).get("spark.sql.session.timeZone")
    known_options = _CSV_OPTIONS if file_format == "csv" else _JSON_OPTIONS
    for name, value in options.items():
        if name not in known_options or (known_options[name] not in (None, value)):
            return f"Spark writes {file_format} with the option '{name}'"
    if file_format == "json":
        between = "T" if "'T'" in options.get("timestampNTZFormat", "") else " "
        has_nulls = options.get("ignoreNullFields", "true").lower() == "false"
        return JsonForm(zone, between, has_nulls)
    delimiter = options.get("sep", options.get("delimiter", ","))
    if len(delimiter) != 1 or delimiter in '"\n\r#\\ ' or not delimiter.isascii():
        return f"Spark writes csv with the delimiter {delimiter!r}"
    has_header = options.get("header", "false").lower() == "true"
    null = options.get("nullValue", "")
    if null and not null.isalnum():
        return f"Spark writes csv with the text {null!r} for NULL"
    return CsvForm(zone, delimiter, null, has_header)


def arrow_files(
    rows: BatchRows, options: dict[str, str], partitions: Sequence[str] = ()
) -> ArrowFiles | ProcessFiles | None:
    """Return the writer of rows in Arrow, or None if only Spark's writer gives the same files.

    Args:
        rows: Rows to write.
        options: Options of Spark's writer.
        partitions: Partition columns.
    """
    source = rows.arrow or rows.in_process
    if source is None or (partitions and not isinstance(source, ProcessRows)):
        return None
    has_instants = any(
        pa.types.is_timestamp(column.type) and column.type.tz for column in source.schema
    )
    # rows are written to the right directories in every mode
    options = {k: v for k, v in options.items() if k.lower() != "partitionoverwritemode"}
    codec = arrow_codec(rows.spark, options, has_instants=has_instants)
    if codec is None:
        return None
    if partitions and not can_partition(source.schema, partitions):
        return None
    in_files = StructType([field for field in rows.schema if field.name not in partitions])
    described = {_SPARK_SCHEMA: in_files.json(), _SPARK_VERSION: pyspark.__version__}
    fields = [field for field in source.schema if field.name not in partitions]
    schema = pa.schema(fields, described)
    if isinstance(source, ProcessRows):
        return ProcessFiles(source, schema, codec, tuple(partitions))
    return ArrowFiles(source, schema, codec)


def arrow_codec(
    spark: SparkSession, options: dict[str, str], *, has_instants: bool = True
) -> str | None:
    """Return Arrow's name of the codec, or None if only Spark's writer gives the same files."""
    settings = settings_of(spark)

    def conf(name: str, default: str) -> str:
        return settings.get(name, default).lower()

    requested = {name.lower(): value.lower() for name, value in options.items()}
    codec = requested.pop("compression", None) or conf(_CODEC_CONF, "snappy")
    as_arrow_does = not has_instants or conf(_INSTANTS_CONF, "int96") == "timestamp_micros"
    is_legacy = conf(_LEGACY_CONF, "false") != "false"
    if requested or codec not in _CODECS or not as_arrow_does or is_legacy:
        return None
    return _CODECS[codec]


def _suffix(codec: str) -> str:
    return "" if codec == "none" else f".{'gz' if codec == 'gzip' else codec}"


def _parquet_writer(
    path: str, schema: pa.Schema, codec: str, first: pa.Table | None
) -> pq.ParquetWriter:
    """Open a file for writing. `first` are its first rows, which show what repeats."""
    writer = pq.ParquetWriter(
        path,
        schema,
        compression=codec,
        store_schema=False,
        use_dictionary=first is None or repeating_columns(first),
    )
    # without the schema of Arrow, pyarrow does not write the schema's metadata either
    writer.add_key_value_metadata(schema.metadata)
    return writer


class _NotWritten(Exception):
    """A file cannot be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(str(error))
        self.errno = error.errno or errno.EIO


@contextmanager
def _writing_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _NotWritten(error) from error


def _stage(
    directory: str, schema: pa.Schema, codec: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a stage that writes a task's rows to one file and reports its name and row count."""

    def report(name: str | None, n_rows: int, number: int | None) -> pa.RecordBatch:
        row = {"name": name, "n_rows": n_rows, "errno": number}
        return pa.RecordBatch.from_pylist([row], schema=_WRITTEN)

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        number = context.partitionId()
        tables = large_tables(batches, _ROW_GROUP_BYTES)
        table = next(tables, None)
        if table is None and number != 0:
            return
        # without any rows, one file records the columns
        name = f"part-{number:05}-{context.taskAttemptId()}.c000{_suffix(codec)}.parquet"
        n_rows = 0
        try:
            with _writing_errors():
                writer = _parquet_writer(f"{directory}/.{name}", schema, codec, table)
            while table is not None:
                with _writing_errors():
                    writer.write_table(table.cast(schema))
                n_rows += table.num_rows
                table = next(tables, None)
            with _writing_errors():
                writer.close()
        except _NotWritten as error:
            # Return the error as data, because a retry of the task would fail in the same way.
            yield report(None, 0, error.errno)
            return
        yield report(name, n_rows, None)

    return write
