"""Kafka as a Spark data source, read and written in Python workers with librdkafka.

Its name is `sqlwin_kafka`. Spark's driver uses a Python process for the offsets of a stream and
stores them in its checkpoint; each task reads a range of one partition.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from runtime.connectors.connector import register_source
from runtime.connectors.kafka.decode import column_of
from runtime.connectors.kafka.offsets import (
    NEXT,
    Offsets,
    Place,
    Range,
    Reading,
    batch_ranges,
    find_start,
    first_offset,
    next_offset,
    offsets_at_time,
    planned_ranges,
)
from runtime.errors import ExecutionError, SetupError
from runtime.installing import install_hint
from runtime.outages import Retries
from runtime.spark.versions.newer_classes import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    WriterCommitMessage,
)
from runtime.spec.source import BRINGS_SPLITS, WATERMARK_SPLIT, SplitOffsets

FORMAT = "sqlwin_kafka"
# Column of ranges for tasks that read Kafka themselves
RANGE = "range"
# Spark masks options with such a name in its displays, because they contain passwords
OPTION = "secret.kafka"
_TYPES = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "at_ms": "BIGINT",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "tombstone": "BOOLEAN",
}


@dataclass(frozen=True)
class Writing:
    """Target of messages.

    Attributes:
        config: Producer configuration of librdkafka.
        topic: Topic.
        consumer: Consumer configuration of librdkafka.
        transaction: Identifier for transactions. Empty without transactions.
        batch: Number of the micro-batch, if any.
        table: Table name for notes about outages.
        retries: Retries of a stream while the brokers are away. None for a batch.
    """

    config: Mapping[str, str]
    topic: str
    consumer: Mapping[str, str] = field(default_factory=dict)
    transaction: str = ""
    batch: int | None = None
    table: str = ""
    retries: Retries | None = None

    @classmethod
    def of(cls, text: str) -> Writing:
        """Parse the JSON form in a Spark option."""
        values = json.loads(text)
        retries = values["retries"]
        return cls(**{**values, "retries": None if retries is None else Retries(**retries)})


@dataclass
class _Part(InputPartition):
    range: Range


@contextmanager
def _about(reading: Reading) -> Iterator[None]:
    """Add the table name to errors in a worker."""
    try:
        yield
    except ExecutionError as error:
        message = f"table `{reading.table}`: {error.message}"
        raise ExecutionError(message, hint=error.hint) from error


def check_installed(table: str) -> None:
    """Check that confluent-kafka can be imported.

    Raises:
        SetupError: It is not installed.
    """
    if not find_spec("confluent_kafka"):
        raise SetupError(
            f"table `{table}`: connector 'kafka' requires the package confluent-kafka",
            subjects=("'kafka'", table),
            hint=install_hint("kafka"),
        )


def _consumer(reading: Reading, *, was_reached: bool = True) -> Any:
    # Planning, EXPLAIN and DESCRIBE do not need the package.
    check_installed(reading.table)
    from runtime.connectors.kafka.client import Client

    return Client(
        reading.config, retries=reading.retries, table=reading.table, was_reached=was_reached
    )


@contextmanager
def _open_consumer(reading: Reading) -> Iterator[Any]:
    """Provide a consumer that is closed after the block; errors name the table."""
    with _about(reading):
        client = _consumer(reading)
        with closing(client.kafka):
            yield client


def _read(reading: Reading, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    from runtime.connectors.kafka.consume import read_range

    assert isinstance(partition, _Part)
    if reading.wanted is not None:
        yield pa.record_batch({RANGE: [partition.range.text()]})
        return
    with _open_consumer(reading) as client:
        yield from read_range(client, reading, partition.range)


def read_table(reading: Reading, offset_ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of ranges as `table_rows` returns them, in a task.

    Raises:
        ExecutionError: Messages are lost, or Kafka does not answer.
    """
    from runtime.connectors.kafka.consume import read_ranges, table_rows

    with _about(reading):
        for messages in read_ranges(reading, offset_ranges):
            yield table_rows(messages, reading)


def available_ranges(reading: Reading) -> list[Range]:
    """Return the ranges of a batch that starts now.

    Raises:
        ExecutionError: A topic does not exist, or Kafka does not answer.
    """
    with _open_consumer(reading) as client:
        return batch_ranges(client, reading)


class _BatchReader(DataSourceReader):
    """Reader of the messages that exist when the batch is planned."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        return [_Part(range_) for range_ in available_ranges(self._reading)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._reading, partition)


class _StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reader of messages as they arrive; for offsets see `runtime.connectors.kafka.offsets`."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._client: Any = None
        self._partitions: list[Place] = []
        self._looked_at = 0.0
        self._target: Offsets | None = None

    def __getstate__(self) -> dict[str, Any]:
        # tasks get a copy and need only this
        return {"_reading": self._reading}

    def initialOffset(self) -> dict[str, Any]:
        with _about(self._reading):
            return first_offset(find_start(self._connect(), self._reading))

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._reading.most
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        if self._target is not None:
            # Spark requests everything, but messages that arrive now do not belong to this run
            most = self._reading.most
        with _about(self._reading):
            offset = next_offset(
                self._connect(),
                self._reading,
                start,
                self._current_partitions(),
                most,
                self._target,
            )
        return dict(offset)

    def prepareForTriggerAvailableNow(self) -> None:
        with _about(self._reading):
            self._target = offsets_at_time(self._connect(), self._current_partitions(), NEXT)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with _about(self._reading):
            return [_Part(range_) for range_ in planned_ranges(self._reading, start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(self._reading, partition)

    def stop(self) -> None:
        if self._client is not None:
            self._client.kafka.close()
            self._client = None

    def _connect(self) -> Any:
        if self._client is None:
            self._client = _consumer(self._reading, was_reached=False)
        return self._client

    def _current_partitions(self) -> list[Place]:
        """Return the existing partitions, as of some seconds ago."""
        now, every = time.monotonic(), self._reading.discovery_s
        if not self._looked_at or (every and now - self._looked_at >= every):
            reading = self._reading
            self._partitions = self._connect().partitions(reading.topics, reading.pattern)
            self._looked_at = now
        return self._partitions


@dataclass(frozen=True)
class KafkaOffsets(SplitOffsets):
    """Offsets of a stream that reads ranges of messages; see `SplitOffsets`.

    Attributes:
        reading: What to read.
    """

    reading: Reading

    @cached_property
    def _reader(self) -> _StreamReader:
        return _StreamReader(self.reading)

    def start(self) -> Any:
        """Return where the table's options let a stream start."""
        return self._reader.initialOffset()

    def latest(self, last: Any) -> Any:
        """Return the newest offsets, or fewer if the table limits micro-batches."""
        return self._reader.latestOffset(last, self._reader.getDefaultReadLimit())

    def splits(self, start: Any, end: Any) -> list[str]:
        """Return the ranges of a micro-batch."""
        with _about(self.reading):
            return [range_.text() for range_ in planned_ranges(self.reading, start, end)]

    def end_now(self) -> None:
        """End with the messages that exist now."""
        self._reader.prepareForTriggerAvailableNow()

    def stop(self) -> None:
        """Close the client."""
        self._reader.stop()


class _Sender:
    """Sender of a task's rows. The option is a Writing as JSON."""

    def __init__(self, option: str) -> None:
        self._option = option

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        from runtime.connectors.kafka.produce import send
        from runtime.connectors.kafka.transactions import send_once

        writing = Writing.of(self._option)
        config, topic, name = writing.config, writing.topic, writing.transaction
        retries, table = writing.retries, writing.table
        if name:
            reader, batch = writing.consumer, writing.batch
            send_once(config, reader, topic, name, batch, iterator, retries, table)
        else:
            send(config, topic, iterator, retries, table)
        return WriterCommitMessage()


class _BatchWriter(_Sender, DataSourceArrowWriter):
    pass


class _StreamWriter(_Sender, DataSourceStreamArrowWriter):
    pass


class KafkaSource(DataSource):
    """Data source whose only option is the text of a Reading or a Writing."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns: the message columns to read, and the decoded fields.

        If tasks read the rows themselves, the only column is RANGE.
        """
        reading = self._reading
        if reading.wanted is not None:
            return f"`{RANGE}` STRING"
        columns = [f"`{name}` {_TYPES[name]}" for name in reading.columns]
        fields = () if reading.decoding is None else reading.decoding.fields
        columns += [f"`{column_of(place)}` {type_}" for place, (_, type_) in enumerate(fields)]
        return ", ".join(columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader."""
        return _BatchReader(self._reading)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the stream reader."""
        return _StreamReader(self._reading)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer."""
        return _BatchWriter(self.options[OPTION])

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Return the stream writer."""
        return _StreamWriter(self.options[OPTION])

    @property
    def _reading(self) -> Reading:
        return Reading.of(self.options[OPTION])


def messages(spark: SparkSession, reading: Reading, *, is_stream: bool) -> DataFrame:
    """Return messages with the columns and types of Spark's Kafka source, as far as required."""
    return with_timestamps(_load(spark, reading, is_stream))


def ranges(spark: SparkSession, reading: Reading) -> DataFrame:
    """Return the ranges that tasks of a stream read, as text in the column RANGE.

    The checkpoint is the same as for a stream of messages, so either can resume from the other's.
    """
    return _load(spark, reading, is_stream=True, **{BRINGS_SPLITS: "true"})


def with_timestamps(rows: DataFrame) -> DataFrame:
    """Add timestamps to messages with the columns of `Reading.columns`."""
    if "at_ms" not in rows.columns:
        return rows
    return rows.withColumn("timestamp", F.timestamp_millis("at_ms")).drop("at_ms")


def message_ddl(reading: Reading) -> str:
    """Return the columns of messages that are left to Spark."""
    columns = [f"`{name}`: {_TYPES[name]}" for name in reading.columns]
    return ", ".join([*columns, f"`{WATERMARK_SPLIT}`: INT"])


def _load(spark: SparkSession, reading: Reading, is_stream: bool, **more: str) -> DataFrame:
    register_source(spark, KafkaSource)
    reader = spark.readStream if is_stream else spark.read
    rows: DataFrame = reader.format(FORMAT).options(**{OPTION: reading.text(), **more}).load()
    return rows


def writer_options(spark: SparkSession, writing: Writing) -> dict[str, str]:
    """Return the options with which FORMAT sends messages."""
    register_source(spark, KafkaSource)
    return {OPTION: json.dumps(asdict(writing))}
