"""Flink's options of Kafka tables, and the options that Spark gets for them."""

from __future__ import annotations

import json

import pytest

from runtime.connectors.kafka.table import reading_of, sink_options, source_options
from runtime.connectors.registry import idle_options, is_unbounded, split_sql, validate_table
from runtime.errors import CatalogError
from runtime.spec.table import TableColumn, TableSpec

BASE = {"topic": "bids", "properties.bootstrap.servers": "host:9092", "format": "json"}


def kafka(columns: str = "a INT, b STRING", **options: str) -> TableSpec:
    named = {**BASE, **{k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}}
    parts = [part.split() for part in columns.split(", ") if part]
    return TableSpec(
        "t", "kafka", tuple(TableColumn(n, t) for n, t in parts), options=tuple((k, v) for k, v in named.items() if v)
    )  # fmt: skip


def starts(is_stream: bool = True, **options: str) -> dict[str, str]:
    spec = kafka(**options)
    validate_table(spec)
    found = source_options(spec, is_stream=is_stream)
    return {k: v for k, v in found.items() if k.startswith(("start", "end"))}


def test_properties_go_to_kafka_and_topics_to_spark() -> None:
    spec = kafka(topic="a; b", properties__group__id="g", maxOffsetsPerTrigger="5")
    validate_table(spec)
    assert source_options(spec, is_stream=True) == {
        "maxOffsetsPerTrigger": "5",
        "kafka.bootstrap.servers": "host:9092",
        "kafka.group.id": "g",
        "subscribe": "a,b",
        "startingOffsets": "latest",
    }
    assert "subscribePattern" in source_options(
        kafka(topic="", topic_pattern="b.*"), is_stream=True
    )


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ({"scan__startup__mode": "earliest-offset"}, {"startingOffsets": "earliest"}),
        ({"scan__startup__mode": "latest-offset"}, {"startingOffsets": "latest"}),
        ({"properties__auto__offset__reset": "earliest"}, {"startingOffsets": "earliest"}),
        (
            {"scan__startup__mode": "timestamp", "scan__startup__timestamp_millis": "12"},
            {"startingTimestamp": "12"},
        ),
        (
            {
                "scan__startup__mode": "specific-offsets",
                "scan__startup__specific_offsets": "partition:0,offset:42;partition:1,offset:300",
            },
            {"startingOffsets": json.dumps({"bids": {"0": 42, "1": 300}})},
        ),
    ],
)
def test_a_stream_starts_where_the_startup_mode_says(
    mode: dict[str, str], options: dict[str, str]
) -> None:
    assert starts(**mode) == options


@pytest.mark.parametrize("group", ["", "g"])
def test_both_clients_know_where_a_new_stream_begins_in_any_case(group: str) -> None:
    spec = kafka(properties__auto__offset__reset="Earliest", properties__group__id=group)
    assert source_options(spec, is_stream=True)["startingOffsets"] == "earliest"
    reading = reading_of(spec, is_stream=True)
    assert (reading.reset if group else reading.start) == "earliest"


def test_a_batch_reads_all_there_is_up_to_the_bound() -> None:
    assert starts(is_stream=False) == {"startingOffsets": "earliest"}
    bounded = {"scan__bounded__mode": "timestamp", "scan__bounded__timestamp_millis": "9"}
    assert starts(is_stream=False, **bounded)["endingTimestamp"] == "9"
    assert is_unbounded(kafka())
    assert not is_unbounded(kafka(scan__bounded__mode="latest-offset"))


def test_the_sink_gets_one_topic_and_no_options_of_consumers() -> None:
    spec = kafka(properties__group__id="g", properties__acks="all")
    assert sink_options(spec) == {
        "kafka.bootstrap.servers": "host:9092",
        "kafka.acks": "all",
        "topic": "bids",
    }
    with pytest.raises(CatalogError, match="needs one 'topic'"):
        sink_options(kafka(topic="a;b"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (kafka(topic=""), "it needs 'topic' or 'topic-pattern', and not both"),
        (kafka(properties__bootstrap__servers=""), "'properties.bootstrap.servers' is missing"),
        (kafka(format=""), "option 'format' is missing"),
        (kafka(format="jsno"), "there is no format 'jsno' for Kafka\n  did you mean 'json'?"),
        (kafka(columns=""), "it needs columns"),
        (kafka(format="raw"), "format 'raw' has one column"),
        (kafka(key__fields="a"), "'key.fields' needs 'key.format'"),
        (kafka(key__fields="aa", key__format="json"), "'key.fields' names `aa`, which is no column"),
        (kafka(scan__startup__mode="earliest"), "it must be earliest-offset or"),
        (kafka(scan__startup__mode="timestamp"), "needs 'scan.startup.timestamp-millis'"),
        (kafka(scan__startup__mode="specific-offsets", scan__startup__specific_offsets="0:1"), "such as 'partition:0,offset:42"),
        (kafka(sink__delivery_guarantee="exactly-once", kafka__client="spark"), "'sink.delivery-guarantee' cannot be 'exactly-once': Spark's client writes without transactions"),
        (kafka(format="avro-confluent"), "option 'avro-confluent.url' is missing"),
        (kafka(format="avro-confluent", avro_confluent__url="http://h", kafka__client="spark"), "format 'avro-confluent' is read by confluent-kafka alone"),
        (kafka(format="", value__format="json", key__format="avro-confluent", key__fields="a"), "'key.format' cannot be 'avro-confluent'"),
        (kafka(sink__delivery_guarantee="at-most-once"), "it must be at-least-once or"),
        (kafka(sink__delivery_garantee="none"), "did you mean 'sink.delivery-guarantee'?"),
        (kafka(scan_startup_mode="x"), "there is no option 'scan-startup-mode'"),
        (kafka(csv__null_literals="n/a", format="csv"), "option 'csv.null-literals' is of files: messages are read without it\n  a computed column can say"),
        (kafka(json__null_literals="n/a"), "option 'json.null-literals' is of files"),
        (kafka(csv__decimal_separator=",", key__format="csv", key__fields="a"), "option 'csv.decimal-separator' is of files"),
        (kafka(csv__thousands_separator=".", format="csv"), "option 'csv.thousands-separator' is of files"),
        (kafka(csv__header="true", format="csv"), "option 'csv.header' is of files: messages are read without it\n  leave it out"),
        (kafka(json__multiLine="true"), "option 'json.multiLine' is of files"),
        (kafka(csv__field_delimiter=";"), "there is no option 'csv.field-delimiter'"),
        (kafka(format="jsno", json__ignore_parse_errors="true"), "there is no format 'jsno'"),
    ],
)  # fmt: skip
def test_a_wrong_option_is_named_with_what_would_be_right(spec: TableSpec, message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        validate_table(spec)
    assert message in str(caught.value)


def test_options_of_flinks_that_change_nothing_are_let_pass_and_known() -> None:
    spec = kafka(sink__delivery_guarantee="at-least-once", sink__partitioner="fixed")
    validate_table(spec)
    assert idle_options(spec) == ("sink.partitioner",)
    assert idle_options(kafka()) == ()
    files = TableSpec(
        "t",
        "filesystem",
        options=(
            ("path", "x.csv"),
            ("Sink.Rolling-Policy.File-Size", "true"),
            ("source.monitor-interval", "1 s"),
        ),
    )
    validate_table(files)
    assert idle_options(files) == ("Sink.Rolling-Policy.File-Size",)


def test_options_of_the_formats_of_key_and_value_are_let_pass() -> None:
    validate_table(kafka(json__timeZone="UTC", json__ignore_parse_errors="true"))
    keyed = {"key__format": "csv", "key__fields": "a", "csv__field_delimiter": ";"}
    validate_table(kafka(csv__null_literal="n/a", json__ignore_parse_errors="true", **keyed))


def test_splits_are_numbered_by_partition_and_topic() -> None:
    def named(topic: str, *metadata: str) -> TableSpec:
        columns = tuple(TableColumn(name[0], "INT", metadata=name) for name in metadata)
        options = tuple({**BASE, "topic": topic}.items())
        return TableSpec("t", "kafka", (TableColumn("a", "INT"), *columns), options=options)

    assert split_sql(named("x", "partition")) == "CAST(`p` AS INT)"
    expected = "(CAST(`p` AS INT) * 2 + CASE `t` WHEN 'x' THEN 0 WHEN 'y' THEN 1 END)"
    assert split_sql(named("x; y", "partition", "topic")) == expected
    with pytest.raises(CatalogError, match="table `t` needs a column METADATA FROM 'partition'"):
        split_sql(named("x"))
    with pytest.raises(CatalogError, match="table `t` needs a column METADATA FROM 'topic'"):
        split_sql(named("x;y", "partition"))
