"""Flink's options of Kafka tables, and the reads and writes of librdkafka for them."""

from __future__ import annotations

import sys

import pytest

from runtime.connectors.kafka.offsets import Reading
from runtime.connectors.kafka.scan import KafkaSplits
from runtime.connectors.kafka.table import reading_of, writing_of
from runtime.connectors.registry import open_table
from runtime.errors import CatalogError, SetupError
from runtime.options.formats import CHANGES
from runtime.spec.table import TableColumn, TableSpec

BASE = {"topic": "bids", "properties.bootstrap.servers": "host:9092", "format": "json"}


def kafka(columns: str = "a INT, b STRING", **options: str) -> TableSpec:
    named = {**BASE, **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}}
    parts = [part.split() for part in columns.split(", ") if part]
    return TableSpec(
        "t", "kafka", tuple(TableColumn(n, t) for n, t in parts), options=tuple((k, v) for k, v in named.items() if v)
    )  # fmt: skip


def read(is_stream: bool = True, **options: str) -> Reading:
    spec = kafka(**options)
    open_table(spec).check()
    return reading_of(spec, is_stream=is_stream)


def test_properties_go_to_librdkafka_and_topics_are_split() -> None:
    reading = read(topic="a; b", properties__group__id="g", maxOffsetsPerTrigger="5")
    assert reading.config["bootstrap.servers"] == "host:9092"
    assert reading.config["group.id"] == "g"
    assert (reading.topics, reading.most, reading.start) == (("a", "b"), 5, "group")
    by_pattern = read(topic="", topic_pattern="b.*")
    assert (by_pattern.topics, by_pattern.pattern) == ((), "b.*")


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ({}, {"start": "latest"}),
        ({"scan__startup__mode": "earliest-offset"}, {"start": "earliest"}),
        ({"scan__startup__mode": "latest-offset"}, {"start": "latest"}),
        ({"properties__auto__offset__reset": "Earliest"}, {"start": "earliest"}),
        (
            {"properties__auto__offset__reset": "Earliest", "properties__group__id": "g"},
            {"start": "group", "reset": "earliest"},
        ),
        (
            {"scan__startup__mode": "timestamp", "scan__startup__timestamp_millis": "12"},
            {"start": "timestamp", "start_ms": 12},
        ),
        (
            {
                "scan__startup__mode": "specific-offsets",
                "scan__startup__specific_offsets": "partition:0,offset:42;partition:1,offset:300",
            },
            {"start": "offsets", "start_offsets": {"0": 42, "1": 300}},
        ),
    ],
)
def test_a_stream_starts_where_the_startup_mode_says(
    mode: dict[str, str], options: dict[str, object]
) -> None:
    reading = read(**mode)
    assert {name: getattr(reading, name) for name in options} == options


def test_a_batch_reads_all_messages_up_to_the_bound() -> None:
    reading = read(is_stream=False)
    assert (reading.start, reading.end_ms) == ("earliest", None)
    bounded = {"scan__bounded__mode": "timestamp", "scan__bounded__timestamp_millis": "9"}
    assert read(is_stream=False, **bounded).end_ms == 9
    assert open_table(kafka()).is_unbounded
    assert not open_table(kafka(scan__bounded__mode="latest-offset")).is_unbounded


def test_the_sink_gets_one_topic_and_no_options_of_consumers() -> None:
    writing = writing_of(kafka(properties__group__id="g", properties__acks="all"))
    assert writing.topic == "bids"
    assert writing.config["bootstrap.servers"] == "host:9092"
    assert writing.config["acks"] == "all"
    assert "group.id" not in writing.config
    with pytest.raises(CatalogError, match="requires a single 'topic'"):
        writing_of(kafka(topic="a;b"))


def test_a_missing_package_is_named_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # makes `import` fail as for a package that is not installed
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    with pytest.raises(
        SetupError, match="connector 'kafka' requires the package confluent-kafka"
    ) as error:
        KafkaSplits(None, kafka()).batch_splits(2)
    assert error.value.hint == "pip install '.[kafka]' in a clone of sqlwin"


@pytest.mark.parametrize("name", CHANGES)
def test_keys_are_not_changes(name: str) -> None:
    with pytest.raises(CatalogError, match=f"'{name}' is not supported here") as error:
        open_table(kafka(format="json", key__format=name, key__fields="a")).check()
    assert "'connector' = 'kafka'" in (error.value.hint or "")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (kafka(topic=""), "exactly one of 'topic' and 'topic-pattern' is required"),
        (kafka(properties__bootstrap__servers=""), "'properties.bootstrap.servers' is missing"),
        (kafka(format=""), "option 'format' is missing"),
        (kafka(format="jsno"), "unknown format 'jsno' for Kafka\n  did you mean 'json'?"),
        (kafka(columns=""), "columns are required"),
        (kafka(format="raw"), "format 'raw' requires exactly one column"),
        (kafka(key__fields="a"), "option 'key.fields' requires 'key.format'"),
        (kafka(key__fields="aa", key__format="json"), "option 'key.fields' names column `aa`, which does not exist"),
        (kafka(scan__startup__mode="earliest"), "it must be earliest-offset or"),
        (kafka(scan__startup__mode="timestamp"), "requires 'scan.startup.timestamp-millis'"),
        (kafka(scan__startup__mode="specific-offsets", scan__startup__specific_offsets="0:1"), "it must look like 'partition:0,offset:42"),
        (kafka(kafka__client="spark"), "unknown option 'kafka.client'"),
        (kafka(format="avro-confluent"), "option 'avro-confluent.url' is missing"),
        (kafka(format="", value__format="json", key__format="avro-confluent", key__fields="a"), "'key.format' cannot be 'avro-confluent'"),
        (kafka(sink__delivery_guarantee="at-most-once"), "it must be at-least-once or"),
        (kafka(sink__delivery_garantee="none"), "did you mean 'sink.delivery-guarantee'?"),
        (kafka(scan_startup_mode="x"), "unknown option 'scan-startup-mode'"),
        (kafka(csv__null_literals="n/a", format="csv"), "option 'csv.null-literals' applies to files, not to messages\n  use a computed column"),
        (kafka(csv__comment="//", format="csv"), "in messages, comments start with one character"),
        (kafka(csv__skip_lines="1", format="csv"), "option 'csv.skip-lines' applies to files"),
        (kafka(json__records="a"), "option 'json.records' applies to files"),
        (kafka(json__null_literals="n/a"), "option 'json.null-literals' applies to files"),
        (kafka(csv__decimal_separator=",", key__format="csv", key__fields="a"), "option 'csv.decimal-separator' applies to files"),
        (kafka(csv__thousands_separator=".", format="csv"), "option 'csv.thousands-separator' applies to files"),
        (kafka(csv__header="true", format="csv"), "option 'csv.header' applies to files, not to messages\n  remove it"),
        (kafka(json__multiLine="true"), "option 'json.multiLine' applies to files"),
        (kafka(csv__field_delimiter=";"), "unknown option 'csv.field-delimiter'"),
        (kafka(format="jsno", json__ignore_parse_errors="true"), "unknown format 'jsno'"),
    ],
)  # fmt: skip
def test_an_invalid_option_is_named_with_a_valid_one(spec: TableSpec, message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        open_table(spec).check()
    assert message in str(caught.value)


def test_ineffective_options_of_flink_are_accepted() -> None:
    spec = kafka(sink__delivery_guarantee="at-least-once", sink__partitioner="fixed")
    open_table(spec).check()
    assert open_table(spec).idle_options == ("sink.partitioner",)
    assert open_table(kafka()).idle_options == ()
    files = TableSpec(
        "t",
        "filesystem",
        options=(
            ("path", "x.csv"),
            ("Sink.Rolling-Policy.File-Size", "true"),
            ("source.monitor-interval", "1 s"),
        ),
    )
    open_table(files).check()
    assert open_table(files).idle_options == ("Sink.Rolling-Policy.File-Size",)


def test_options_of_the_formats_of_key_and_value_are_let_pass() -> None:
    open_table(kafka(json__timeZone="UTC", json__ignore_parse_errors="true")).check()
    keyed = {"key__format": "csv", "key__fields": "a", "csv__field_delimiter": ";"}
    open_table(kafka(csv__null_literal="n/a", json__ignore_parse_errors="true", **keyed)).check()


def test_splits_are_numbered_by_partition_and_topic() -> None:
    def named(topic: str, *metadata: str) -> TableSpec:
        columns = tuple(TableColumn(name[0], "INT", metadata=name) for name in metadata)
        options = tuple({**BASE, "topic": topic}.items())
        return TableSpec("t", "kafka", (TableColumn("a", "INT"), *columns), options=options)

    assert open_table(named("x", "partition")).split_sql() == "CAST(`p` AS INT)"
    expected = "(CAST(`p` AS INT) * 2 + CASE `t` WHEN 'x' THEN 0 WHEN 'y' THEN 1 END)"
    assert open_table(named("x; y", "partition", "topic")).split_sql() == expected
    with pytest.raises(
        CatalogError, match="requires a column METADATA FROM 'partition' in table `t`"
    ):
        open_table(named("x")).split_sql()
    with pytest.raises(CatalogError, match="requires a column METADATA FROM 'topic' in table `t`"):
        open_table(named("x;y", "partition")).split_sql()
