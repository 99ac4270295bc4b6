"""Connector 'kafka': Flink's options on librdkafka, through the package confluent-kafka.

Options: `options.known.KAFKA`, and options of Spark's Kafka source: `table.SPARK_OPTIONS`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Self

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from runtime.connectors.avro.decoding import CONFLUENT
from runtime.connectors.avro.options import registry_of
from runtime.connectors.connector import Table, about_table
from runtime.connectors.declarations import check_columns
from runtime.connectors.kafka.message_columns import columns_of
from runtime.connectors.kafka.properties import consumer_config, producer_config
from runtime.connectors.kafka.scan import KafkaSplits, scan
from runtime.connectors.kafka.source import FORMAT, check_installed, writer_options
from runtime.connectors.kafka.source import messages as read_messages
from runtime.connectors.kafka.table import (
    METADATA,
    OFFSET,
    SPARK_OPTIONS,
    is_exactly_once,
    key_fields,
    reading_of,
    value_fields,
    value_format,
    writing_of,
)
from runtime.connectors.messages import encode_message
from runtime.connectors.writing import count_written, declared_types, to_declared_types
from runtime.errors import CatalogError, SqlwinError, nearest
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.job_properties import retries_of_stream
from runtime.names import quote_name
from runtime.options.checks import (
    bad_option,
    integer,
    missing_option,
    option_values,
    switch,
    wrong_value,
)
from runtime.options.formats import (
    CHANGES,
    MESSAGE_FORMATS,
    check_message_options,
)
from runtime.options.known import KAFKA
from runtime.outages import Retries
from runtime.spec.expressions import Expression
from runtime.spec.sink import FunctionSink, SinkMode, StreamWriter
from runtime.spec.source import SplitTable
from runtime.spec.table import Column as Field
from runtime.spec.table import TableSpec

PER_SPLIT = "sqlwin.watermark.per-split"
_CHECKS = {
    "maxOffsetsPerTrigger": integer(1),
    "minPartitions": integer(1),
    "failOnDataLoss": switch().check,
}
_START, _START_OFFSETS = "scan.startup.mode", "scan.startup.specific-offsets"
# Options that another option requires for one of its values
_NEEDED = {
    _START_OFFSETS: (_START, "specific-offsets"),
    "scan.startup.timestamp-millis": (_START, "timestamp"),
    "scan.bounded.timestamp-millis": ("scan.bounded.mode", "timestamp"),
}


def _check_avro(spec: TableSpec, values: dict[str, str]) -> None:
    if values.get("key.format", "").lower() == CONFLUENT:
        raise bad_option(
            spec,
            f"'key.format' cannot be '{CONFLUENT}': keys are not decoded with a schema registry",
            "declare a column BYTES METADATA FROM 'key' for the whole key",
        )
    if value_format(spec) == CONFLUENT:
        registry_of(spec)


def _check_start(spec: TableSpec, values: dict[str, str]) -> None:
    for option, (name, mode) in _NEEDED.items():
        if values.get(name, "").lower() == mode and option not in values:
            raise bad_option(spec, f"'{name}' = '{mode}' requires '{option}'")
    if (offsets := values.get(_START_OFFSETS)) is not None:
        parts = [p.strip() for p in offsets.split(";") if p.strip()]
        if not parts or not all(OFFSET.fullmatch(p) for p in parts):
            hint = "it must look like 'partition:0,offset:42;partition:1,offset:300'"
            raise wrong_value(spec, _START_OFFSETS, offsets, hint)
        if "topic" not in values or ";" in values["topic"]:
            raise bad_option(spec, f"'{_START_OFFSETS}' requires a single 'topic'")


def _rows(spark: SparkSession, spec: TableSpec, *, is_stream: bool) -> DataFrame:
    reading = reading_of(spec, is_stream=is_stream)
    if is_stream:
        reading = replace(reading, retries=retries_of_stream(spark))
    rows = read_messages(spark, reading, is_stream=is_stream)
    return columns_of(rows, spec, are_decoded=reading.decoding is not None)


def _sink_options(
    spark: SparkSession,
    spec: TableSpec,
    writer: str = "",
    batch: int | None = None,
    retries: Retries | None = None,
) -> dict[str, str]:
    """Return the options with which FORMAT sends the rows of a table.

    For transactions, `writer` identifies the writer, and `batch` is the micro-batch, if any.
    """
    check_installed(spec.name)
    writing = replace(writing_of(spec), table=spec.name, retries=retries)
    if is_exactly_once(spec):
        prefix = option_values(spec).get("sink.transactional-id-prefix", "sqlwin")
        writing = replace(writing, transaction=f"{prefix}-{writer}", batch=batch)
    return writer_options(spark, writing)


def send_messages(
    rows: DataFrame,
    spec: TableSpec,
    writer: str = "",
    batch: int | None = None,
    retries: Retries | None = None,
) -> int:
    """Send messages and return their number.

    Args:
        rows: Messages, see `messages`.
        spec: Table specification.
        writer: Name of the stream. Empty for a batch.
        batch: Number of the micro-batch. None for a batch.
        retries: Retries of the stream while the brokers are away. None for a batch.
    """
    options = _sink_options(rows.sparkSession, spec, writer or uuid.uuid4().hex, batch, retries)
    if is_exactly_once(spec):
        # a transaction belongs to a single producer
        rows = rows.repartition(1)
    observed, count = count_written(rows)
    observed.write.format(FORMAT).options(**options).mode("append").save()
    return count()


def messages(rows: DataFrame, spec: TableSpec) -> DataFrame:
    """Encode rows of a table as messages: a column `value`, and `key` if the table has one."""
    return rows.select(*(c.alias(name) for name, c in message_columns(spec).items()))


def message_columns(spec: TableSpec) -> dict[str, Column]:
    """Return the columns of the messages for rows of a table, by name; see `messages`."""
    values = option_values(spec)
    key = key_fields(spec)
    if value_format(spec) == CONFLUENT:
        raise bad_option(
            spec,
            f"format '{CONFLUENT}' is not supported for writing",
            "use 'format' = 'json', 'csv', or 'avro'",
        )
    columns = {"value": encode_message(value_fields(spec), value_format(spec), spec)}
    if key:
        columns["key"] = encode_message(key, values["key.format"].lower(), spec)
    return columns


class KafkaTable(Table):
    """Table of the messages of topics."""

    options = KAFKA
    sink_mode = SinkMode.APPEND

    def validate(self) -> None:
        """Check a Kafka table's options without connecting to Kafka.

        Raises:
            CatalogError: An option or a column is wrong.
        """
        spec = self.spec
        values = option_values(spec)
        properties = [name for name, _ in spec.options if name.lower().startswith("properties.")]
        formats = [
            values.get(name, "").lower() for name in ("format", "value.format", "key.format")
        ]
        # Flink's names if the option 'value.format' is used
        of_values = [f"value.{name}" for name in KAFKA if name.startswith(f"{CONFLUENT}.")]
        check_message_options(spec, KAFKA, formats, [*SPARK_OPTIONS, *properties, *of_values])
        check_columns(spec, list(METADATA))
        if ("topic" in values) == ("topic-pattern" in values):
            raise bad_option(spec, "exactly one of 'topic' and 'topic-pattern' is required")
        if "format" not in values and "value.format" not in values:
            raise missing_option(spec, "format", f"set it to one of {', '.join(MESSAGE_FORMATS)}")
        for name in ("format", "value.format", "key.format"):
            file_format = values.get(name) or MESSAGE_FORMATS[0]
            if file_format.lower() not in MESSAGE_FORMATS:
                suggestion = nearest(file_format, (*MESSAGE_FORMATS, *CHANGES))
                hint = (
                    f"did you mean '{suggestion}'?"
                    if suggestion
                    else f"available formats: {', '.join((*MESSAGE_FORMATS, *CHANGES))}"
                )
                if file_format.lower() in CHANGES:
                    message = f"format '{file_format}' is not supported here"
                    raise bad_option(spec, message, "use it as 'format' of 'connector' = 'kafka'")
                raise bad_option(spec, f"unknown format '{file_format}' for Kafka", hint)
        if not spec.physical_columns:
            raise bad_option(
                spec,
                "columns are required",
                "columns cannot be inferred from messages; declare them in CREATE TABLE",
            )
        key = key_fields(spec)
        if key and "key.format" not in values:
            raise bad_option(spec, "option 'key.fields' requires 'key.format'")
        names = {c.name for c in spec.physical_columns}
        for name in key:
            if name not in names:
                suggestion = nearest(name, names)
                raise bad_option(
                    spec,
                    f"option 'key.fields' names column `{name}`, which does not exist",
                    f"did you mean '{suggestion}'?" if suggestion else None,
                )
        if value_format(spec) == "raw" and len(value_fields(spec)) != 1:
            raise bad_option(
                spec,
                "format 'raw' requires exactly one column",
                "declare one column for the whole message",
            )
        _check_start(spec, values)
        _check_avro(spec, values)
        for name, check in _CHECKS.items():
            value = values.get(name.lower())
            if value is not None and (expected := check(value)):
                raise wrong_value(spec, name, value, f"it must be {expected}")
        consumer_config(spec)
        producer_config(spec)

    @property
    def is_unbounded(self) -> bool:
        """Whether new messages are awaited, which is the default without `scan.bounded.mode`."""
        mode = option_values(self.spec).get("scan.bounded.mode", "unbounded")
        return mode.lower() == "unbounded"

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the existing messages, from the earliest unless the table sets another start."""
        return _rows(spark, self.spec, is_stream=False)

    def stream(self, spark: SparkSession) -> DataFrame:
        """Return messages as they arrive."""
        return _rows(spark, self.spec, is_stream=True)

    def explain(self, error: Exception) -> SqlwinError:
        """Name the table in an error of Kafka."""
        return about_table(self.spec, error)

    def scan(
        self, spark: SparkSession, columns: Sequence[Field], filters: Sequence[Expression]
    ) -> SplitTable:
        """Return the scan in which tasks consume and decode messages."""
        return scan(spark, self.spec, columns)

    def stream_scan(self, spark: SparkSession, columns: Sequence[Field]) -> SplitTable:
        """Return the scan of messages as they arrive, the same as in a batch."""
        return scan(spark, self.spec, columns)

    def from_offsets(self, spark: SparkSession, offsets: Mapping[int, int]) -> Self:
        """Return the table, read from given offsets of its only topic on."""
        pairs = (f"partition:{partition},offset:{offset}" for partition, offset in offsets.items())
        specific = {_START: "specific-offsets", _START_OFFSETS: ";".join(pairs)}
        table = self.with_options(specific)
        start = table.splits(spark).offsets("")
        try:
            (partitions,) = start.start()["to"].values()
        finally:
            start.stop()
        # others would be read from their first message
        if missing := sorted(set(map(int, partitions)) - offsets.keys()):
            raise ValueError(f"partition {missing[0]} is missing")
        return table

    def splits(self, spark: SparkSession) -> KafkaSplits:
        """Return the ranges of messages."""
        return KafkaSplits(spark, self.spec)

    @property
    def has_splits(self) -> bool:
        """Whether the topics are known in advance, which they are not with a pattern."""
        return "topic" in option_values(self.spec)

    def split_sql(self) -> str:
        """Return SQL for the number of a row's partition among the partitions of all topics.

        Raises:
            CatalogError: The table lacks a metadata column for it, or topic names are not listed.
        """
        spec = self.spec
        metadata = {c.metadata: quote_name(c.name) for c in spec.columns if c.metadata}
        topics = [t.strip() for t in option_values(spec).get("topic", "").split(";") if t.strip()]
        required = ["partition"] if len(topics) == 1 else ["partition", "topic"]
        missing = [name for name in required if name not in metadata]
        if not topics or missing:
            what = (
                "a column METADATA FROM " + " and one FROM ".join(f"'{name}'" for name in missing)
                if missing
                else "'topic', not 'topic-pattern'"
            )
            raise CatalogError(
                f"'{PER_SPLIT}' is true, which requires {what} in table `{spec.name}`",
                subjects=(f"'{PER_SPLIT}'", spec.name),
                hint=f"add it to identify the partition of a row, or SET '{PER_SPLIT}' = 'false'",
            )
        partition = f"CAST({metadata['partition']} AS INT)"
        if len(topics) == 1:
            return partition
        escaped = [topic.replace("\\", "\\\\").replace("'", "\\'") for topic in topics]
        cases = " ".join(f"WHEN '{topic}' THEN {place}" for place, topic in enumerate(escaped))
        return f"({partition} * {len(topics)} + CASE {metadata['topic']} {cases} END)"

    @property
    def is_written_by_workers(self) -> bool:
        """The client of Kafka is a Python package."""
        return True

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Send the rows of a batch as messages and return their number."""
        return send_messages(messages(rows.dataframe, self.spec), self.spec)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Open a topic for the micro-batches of a stream.

        Raises:
            CatalogError: The columns do not fit the format.
        """
        message_columns(self.spec)
        types = declared_types(self.spec)
        retries = retries_of_stream(rows.sparkSession)

        def send(rows_of_batch: DataFrame, batch: int) -> int:
            with self.errors():
                sent = messages(to_declared_types(rows_of_batch, self.spec, types), self.spec)
                return send_messages(sent, self.spec, writer.name, batch, retries)

        return FunctionSink(send)

    def spark_writer(self, rows: DataFrame) -> DataStreamWriter | None:
        """Return Spark's own streaming writer, None if the table is exactly-once.

        Raises:
            CatalogError: There is not exactly one topic, or the columns do not fit the format.
        """
        if is_exactly_once(self.spec):
            return None
        sent = messages(to_declared_types(rows, self.spec), self.spec)
        spark = rows.sparkSession
        options = _sink_options(spark, self.spec, retries=retries_of_stream(spark))
        return sent.writeStream.format(FORMAT).options(**options)
