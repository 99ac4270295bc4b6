"""Columns of a Kafka table to messages and back, without a broker."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from runtime.connectors.kafka import connector as kafka
from runtime.connectors.registry import open_table
from runtime.spec.table import TableColumn, TableSpec

AT = dt.datetime.fromisoformat("2026-01-02T03:04:05.678")


def table(**options: str) -> TableSpec:
    named = {"topic": "t", "properties.bootstrap.servers": "h:1", **options}
    columns = (
        TableColumn("id", "BIGINT"),
        TableColumn("name", "STRING"),
        TableColumn("at", "TIMESTAMP_NTZ"),
        TableColumn("part", "INT", metadata="partition"),
    )
    spec = TableSpec("k", "kafka", columns, tuple(named.items()))
    open_table(spec).check()
    return spec


@pytest.mark.parametrize(
    "options",
    [
        {"format": "json"},
        {"format": "csv"},
        {"value.format": "json", "key.format": "raw", "key.fields": "name", "value.fields-include": "EXCEPT_KEY"},
        {"value.format": "json", "key.format": "json", "key.fields": "id;name"},
    ],
    ids=["json", "csv", "raw key", "json key"],
)  # fmt: skip
def test_rows_are_restored_from_messages(options: dict[str, str], spark: SparkSession) -> None:
    spec = table(**options)
    rows = spark.createDataFrame(
        [(1, "a", AT), (2, None, AT)], "id bigint, name string, at timestamp_ntz"
    )
    messages = kafka.messages(rows, spec)
    received = messages.select(
        *(F.col(name).cast("binary").alias(name) for name in messages.columns),
        F.lit(7).alias("partition"),
    )
    result = sorted(map(tuple, kafka.columns_of(received, spec).collect()))
    assert result == [(1, "a", AT, 7), (2, None, AT, 7)]


@pytest.mark.parametrize("file_format", ["json", "raw"])
def test_columns_may_have_any_name(file_format: str, spark: SparkSession) -> None:
    options = {"topic": "t", "properties.bootstrap.servers": "h:1", "format": file_format}
    spec = TableSpec("k", "kafka", (TableColumn("a`b", "STRING"),), tuple(options.items()))
    messages = kafka.messages(spark.sql("SELECT 'x' AS `a``b`"), spec)
    received = messages.select(F.col("value").cast("binary"))
    assert [tuple(row) for row in kafka.columns_of(received, spec).collect()] == [("x",)]


def test_messages_that_cannot_be_read_fail_or_are_left_out(spark: SparkSession) -> None:
    received = spark.createDataFrame(
        [(b'{"id": 1}', "t", 0, 7), (b"{broken", "t", 0, 8), (b"", "t", 0, 9)],
        "value binary, topic string, partition int, offset bigint",
    )
    tolerant = table(**{"format": "json", "json.ignore-parse-errors": "true"})
    assert [row.id for row in kafka.columns_of(received, tolerant).collect()] == [1]
    place = "table `k`: topic 't', partition 0, offset {}: not valid JSON for the columns id, name, at: {}"
    for offset, text in ((8, "{broken"), (9, "")):
        one = kafka.columns_of(received.where(f"offset = {offset}"), table(format="json"))
        with pytest.raises(Exception, match=re.escape(place.format(offset, text))):
            one.select("id").collect()


@pytest.mark.long
def test_a_message_without_a_value_is_nulls(spark: SparkSession) -> None:
    received = spark.createDataFrame([(None, 3)], "value binary, partition int")
    assert [tuple(r) for r in kafka.columns_of(received, table(format="json")).collect()] == [
        (None, None, None, 3)
    ]
