"""Scans of Kafka tables in tasks: ranges of messages, and messages left to Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.connectors.kafka.decode import CSV, JSON
from runtime.connectors.kafka.message_columns import columns_of
from runtime.connectors.kafka.offsets import Range, Reading, portions
from runtime.connectors.kafka.source import (
    KafkaOffsets,
    available_ranges,
    check_installed,
    message_ddl,
    ranges,
    read_table,
    with_timestamps,
)
from runtime.connectors.kafka.table import (
    METADATA,
    TOMBSTONE,
    fields_from_key,
    key_fields,
    reading_of,
    value_format,
)
from runtime.frames.job_properties import retries_of_stream
from runtime.frames.scan_source import check_like_spark
from runtime.names import quote_name
from runtime.options.checks import option_values
from runtime.options.formats import spark_options
from runtime.refusal import refuse
from runtime.scan.read import convert_types
from runtime.spec.expressions import Expression
from runtime.spec.source import (
    WATERMARK_SPLIT,
    SplitReader,
    SplitSource,
    SplitStream,
    SplitTable,
)
from runtime.spec.table import Column, TableColumn, TableSpec

# Metadata that tasks return unchanged: its column in messages, and its type
_AS_THEY_ARE = {
    "topic": ("topic", "string"),
    "partition": ("partition", "int"),
    "offset": ("offset", "bigint"),
    "timestamp": ("at_ms", "timestamp"),
    "timestampType": ("timestampType", "int"),
    "key": ("key", "binary"),
    TOMBSTONE: (TOMBSTONE, "boolean"),
}


def scan(
    spark: SparkSession, spec: TableSpec, columns: Sequence[Column], filters: object = ()
) -> SplitTable:
    """Return the scan of messages in tasks. Arguments and errors are as in `Table.scan`."""
    check_like_spark(spark)
    if spec.late_rows is not None:
        refuse(f"late rows go to {spec.late_rows} with all columns of the table")
    reading = _reading(spec, columns, is_stream=False)
    path = ", ".join(reading.topics) or reading.pattern
    return SplitTable(spec, path, tuple(columns), is_exclusive=True)


@dataclass(frozen=True)
class MessageReader(SplitReader):
    """Reader of ranges of messages in a task; see `SplitReader`.

    Attributes:
        reading: What to read, with `wanted`.
        columns: Columns with Spark types.
    """

    reading: Reading
    columns: tuple[Column, ...]

    @property
    def undecoded_ddl(self) -> str:
        """Columns of messages that are left to Spark."""
        return message_ddl(self.reading)

    def read(self, splits: Sequence[str], dictionaries: frozenset[str]) -> Iterator[pa.RecordBatch]:
        """Consume and decode ranges of messages one after the other.

        Raises:
            ExecutionError: Messages are lost, or Kafka does not answer.
        """
        for batch in read_table(self.reading, [Range.of(split) for split in splits]):
            is_left = WATERMARK_SPLIT in batch.schema.names
            yield batch if is_left else convert_types(batch, self.columns, dictionaries)

    def watermark_split(self, split: str) -> int:
        """Return the number of the range's partition among the partitions of all topics."""
        return self.reading.split_of(Range.of(split))


@dataclass(frozen=True)
class KafkaSplits(SplitSource):
    """Ranges of messages of a table: see `SplitSource`.

    Attributes:
        spark: Spark session.
        spec: Table specification.
    """

    spark: SparkSession
    spec: TableSpec

    def reader(self, columns: Sequence[Column], *, is_stream: bool) -> MessageReader:
        """Return the reader that consumes and decodes messages in tasks."""
        reading = _reading(self.spec, columns, is_stream=is_stream)
        if is_stream:
            reading = replace(reading, retries=retries_of_stream(self.spark))
        return MessageReader(reading, tuple(columns))

    def batch_splits(
        self, n_tasks: int, filters: Sequence[Expression] = ()
    ) -> list[tuple[str, ...]]:
        """Return the ranges of each task, for the messages that exist now.

        Raises:
            ExecutionError: A topic does not exist, or Kafka does not answer.
        """
        check_installed(self.spec.name)
        reading = reading_of(self.spec, is_stream=False)
        tasks = portions(available_ranges(reading), n_tasks, reading.min_partitions)
        return [tuple(part.text() for part in task) for task in tasks]

    def stream(self, directory: str | None) -> SplitStream:
        """Return the ranges of a stream over the table.

        The source is the same to Spark whichever columns are read.
        """
        return SplitStream(ranges(self.spark, self._reading_of_ranges()))

    def offsets(self, directory: str) -> KafkaOffsets:
        """Return the offsets of a stream; Kafka has no records in the checkpoint."""
        return KafkaOffsets(self._reading_of_ranges())

    def _reading_of_ranges(self) -> Reading:
        check_installed(self.spec.name)
        retries = retries_of_stream(self.spark)
        return replace(reading_of(self.spec, is_stream=True), wanted=(), retries=retries)

    def with_decoded(self, rows: DataFrame, column: str, columns: Sequence[Column]) -> DataFrame:
        """Let Spark decode messages: see `SplitSource.with_decoded`."""
        others = [name for name in rows.columns if name != column]
        numbered = [
            F.col(quote_name(name)).alias(f"${number}") for number, name in enumerate(others)
        ]
        flat = with_timestamps(rows.select(f"{quote_name(column)}.*", *numbered))
        names = [WATERMARK_SPLIT, *(f"${number}" for number in range(len(others)))]
        decoded = columns_of(flat, self.spec, extra_columns=names)
        return decoded.select(*map(quote_name, [*(c.name for c in columns), *names]))


def _reading(spec: TableSpec, columns: Sequence[Column], *, is_stream: bool) -> Reading:
    reading = reading_of(spec, is_stream=is_stream)
    key_format = option_values(spec).get("key.format", "").lower()
    if (key_fields(spec) and key_format != "raw") or fields_from_key(spec):
        refuse("Spark decodes the keys")
    declared = {column.name.lower(): column for column in spec.columns}
    places: list[tuple[str, int | str]] = []
    for column in columns:
        declaration = declared.get(column.name.lower())
        place = None if declaration is None else _place(declaration, column, reading)
        if place is None:
            refuse(f"Spark decodes column {column.name}")
        places.append((column.name, place))
    file_format = value_format(spec)
    ignores = (
        file_format in (JSON, CSV) and spark_options(spec, file_format).get("mode") == "PERMISSIVE"
    )
    if not any(isinstance(place, int) for _, place in places):
        if ignores:
            # broken messages are not rows, even if none of their fields is read
            if reading.decoding is None:
                refuse("Spark decodes the values")
        else:
            reading = replace(reading, decoding=None)
    return replace(reading, wanted=tuple(places), for_errors=())


def _place(declared: TableColumn, column: Column, reading: Reading) -> int | str | None:
    """Return the position of a column, or None if Spark computes it."""
    if declared.metadata is not None:
        place, type_ = _AS_THEY_ARE.get(METADATA[declared.metadata], ("", ""))
        return place if type_ == column.type else None
    if reading.decoding is None:
        return None
    fields = enumerate(reading.decoding.fields)
    return next((i for i, field in fields if field == (declared.name, column.type)), None)
