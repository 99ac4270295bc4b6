"""Connector 'upsert-kafka': a topic that holds the latest row of each key.

The PRIMARY KEY is the key of the messages. A replaced row is a new message with the same key, and a
deleted row is a tombstone, a message without a value. Brokers keep the last message of each key if
the topic has 'cleanup.policy' = 'compact'.

The table is bounded: a query reads the latest rows. A temporal join, and a query that reads it as a
stream, read all messages instead, as changes of the rows; see `UpsertKafkaTable.changes`.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from runtime.connectors.connector import Table, about_table
from runtime.connectors.kafka.connector import KafkaTable, message_columns, send_messages
from runtime.connectors.kafka.message_columns import columns_of
from runtime.connectors.kafka.source import messages as read_messages
from runtime.connectors.kafka.table import TOMBSTONE, key_fields, reading_of
from runtime.connectors.upserts import duplicate_key
from runtime.connectors.writing import declared_types, to_declared_types
from runtime.errors import SqlwinError
from runtime.frames.arrow_rows import BatchRows
from runtime.frames.job_properties import retries_of_stream
from runtime.names import quote_name
from runtime.options.checks import bad_option, option_values
from runtime.options.known import UPSERT_KAFKA
from runtime.spec.sink import FunctionSink, SinkMode, StreamWriter
from runtime.spec.stream import ROW_KIND
from runtime.spec.table import (
    CHANGE_ORDER,
    CHANGE_SPLIT,
    IS_DELETED,
    TableColumn,
    TableSpec,
)

# Options of 'kafka' that do not apply to a topic with one row per key
_OF_KAFKA = ("key.fields", "topic-pattern", "scan.startup.mode", "scan.bounded.mode")
# Columns of changes, with their types and metadata
_OF_CHANGES = (
    TableColumn(CHANGE_ORDER, "BIGINT", metadata="offset"),
    TableColumn(IS_DELETED, "BOOLEAN", metadata=TOMBSTONE),
    TableColumn(CHANGE_SPLIT, "INT", metadata="partition"),
)
_WITHOUT_EFFECT = ("sink.buffer-flush.max-rows", "sink.buffer-flush.interval")


def as_kafka(spec: TableSpec) -> TableSpec:
    """Return the table as one of connector 'kafka', with the PRIMARY KEY as the key."""
    by_name = {column.name.lower(): column.name for column in spec.physical_columns}
    key = ";".join(by_name.get(name.lower(), name) for name in spec.primary_key)
    options = tuple(o for o in spec.options if o[0].lower() not in _WITHOUT_EFFECT)
    return replace(spec, options=(*options, ("key.fields", key)))


def upsert_messages(
    rows: DataFrame, spec: TableSpec, batch: int | None, *, is_ordered: bool = False
) -> DataFrame:
    """Return one message per key: the new row, or a tombstone if the row was retracted.

    Spark folds the changes, because the messages are in its tasks. Rows of one key without an
    order, and NULL in a key, are errors.

    Args:
        rows: Rows with the declared columns, and ROW_KIND first if they are changes.
        spec: Table as one of connector 'kafka'.
        batch: Number of the micro-batch, for messages. None outside a stream.
        is_ordered: Whether the last of several rows with the same key is kept.
    """
    has_kinds = ROW_KIND in rows.columns
    kind = F.col(quote_name(ROW_KIND)).isin("+I", "+U") if has_kinds else F.lit(True)
    columns = message_columns(spec)
    key = columns["key"]
    for name in key_fields(spec):
        is_null = F.raise_error(f"column `{name}` of the PRIMARY KEY is NULL in a row")
        key = F.when(F.col(quote_name(name)).isNotNull(), key).otherwise(is_null)
    place = F.monotonically_increasing_id() if is_ordered else F.lit(0)
    named = {"key": key, "value": columns["value"], "brings": kind, "place": place}
    encoded = rows.select(*(column.alias(name) for name, column in named.items()))
    brought = F.when(F.col("brings"), F.col("place"))
    latest = encoded.groupBy("key").agg(
        F.count(brought).alias("n"), F.max_by("value", brought).alias("value")
    )
    before, after = duplicate_key(spec, "\0", batch).message.split("\0")
    text = F.concat(F.lit(before), F.col("key").cast("string"), F.lit(after))
    is_one = F.lit(True) if is_ordered else F.col("n") <= 1
    value = F.when(is_one, F.col("value")).otherwise(F.raise_error(text))
    return latest.select(value.alias("value"), "key")


class UpsertKafkaTable(Table):
    """Table of the latest rows in a topic."""

    options = UPSERT_KAFKA
    sink_mode = SinkMode.UPSERT

    def validate(self) -> None:
        """Check a table's options without connecting to Kafka.

        Raises:
            CatalogError: An option or a column is wrong, or the table has no PRIMARY KEY.
        """
        spec = self.spec
        values = option_values(spec)
        for name in _OF_KAFKA:
            if name in values:
                hint = (
                    "the PRIMARY KEY is the key"
                    if name == "key.fields"
                    else "use connector 'kafka'"
                )
                raise bad_option(spec, f"option '{name}' is not available", hint)
        if not spec.primary_key:
            raise bad_option(
                spec, "a PRIMARY KEY is required", "add PRIMARY KEY (...) NOT ENFORCED"
            )
        if "key.format" not in values:
            raise bad_option(spec, "option 'key.format' is missing", "for example 'json'")
        KafkaTable(as_kafka(spec)).validate()

    def explain(self, error: Exception) -> SqlwinError:
        """Name the table in an error of Kafka."""
        return about_table(self.spec, error)

    def changes(self, *, is_bounded: bool) -> TableSpec:
        """Return the table of the topic's messages, each a change of the row with its key.

        It has the columns of this table and CHANGE_COLUMNS. In a tombstone, the columns of the key
        and the metadata have values. Partitions have their own watermarks.

        Args:
            is_bounded: Whether it ends with the messages that exist now.
        """
        topic = as_kafka(self.spec)
        start = (("scan.startup.mode", "earliest-offset"),)
        end = (("scan.bounded.mode", "latest-offset"),) if is_bounded else ()
        return replace(
            topic,
            connector="kafka",
            columns=(*topic.columns, *_OF_CHANGES),
            options=(*topic.options, *start, *end),
        )

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the latest row of each key at present, except for deleted keys.

        The messages of a key are in one partition, so that the highest offset is the last one.
        """
        topic = self.changes(is_bounded=True)
        reading = reading_of(topic, is_stream=False)
        messages = read_messages(spark, reading, is_stream=False)
        others = [name for name in messages.columns if name != "key"]
        latest = (
            messages.where(F.col("key").isNotNull())
            .groupBy("key")
            .agg(F.max_by(F.struct(*others), F.col("offset")).alias("message"))
            .where(~F.col(f"message.{TOMBSTONE}"))
        )
        rows = latest.select("key", *(F.col(f"message.{quote_name(n)}").alias(n) for n in others))
        return columns_of(
            rows.select(*messages.columns), topic, are_decoded=reading.decoding is not None
        )

    @property
    def is_written_by_workers(self) -> bool:
        """The client of Kafka is a Python package."""
        return True

    def write(self, rows: BatchRows, *, overwrite: bool) -> int:
        """Send the rows of a batch as one message per key and return their number."""
        topic = as_kafka(self.spec)
        sent = upsert_messages(rows.dataframe, topic, None, is_ordered=rows.are_ordered)
        return send_messages(sent, topic)

    def open_sink(self, rows: DataFrame, writer: StreamWriter) -> FunctionSink:
        """Open a topic for the micro-batches of a stream."""
        topic, types = as_kafka(self.spec), declared_types(self.spec)
        message_columns(topic)  # the columns must fit the format before anything runs
        retries = retries_of_stream(rows.sparkSession)

        def send(changes: DataFrame, batch: int) -> int:
            with self.errors():
                if ROW_KIND not in changes.columns:
                    changes = to_declared_types(changes, topic, types)
                sent = upsert_messages(changes, topic, batch, is_ordered=writer.is_ordered)
                return send_messages(sent, topic, writer.name, batch, retries)

        return FunctionSink(send)
