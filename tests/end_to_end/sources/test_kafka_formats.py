"""Headers and Avro messages of topics, written and read in Flink's declarations."""

from __future__ import annotations

import datetime as dt
import io
import json
from decimal import Decimal

import fastavro
import pytest
from confluent_kafka import Consumer, TopicPartition

import sqlwin
from tests.end_to_end.sources.test_kafka import rows_of
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker
from tests.runtime.connectors.kafka.registry_server import Registry, serve_registry

__all__ = ["broker"]  # a fixture


@pytest.mark.long
@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("MAP<STRING, BYTES>", [{}, {"a": b"3", "b": None}]),
        ("ARRAY<STRUCT<key: STRING, `value`: BINARY>>", [None, [("a", b"1"), ("b", None), ("a", b"3")]]),
    ],
)  # fmt: skip
def test_headers_are_a_map_of_the_last_values_or_an_array_of_all(
    fresh_session: sqlwin.Session, broker: Broker, type_: str, expected: list[object]
) -> None:
    topic = "headers-" + type_[:3].lower()
    broker.create(topic)
    pairs: list[tuple[str, bytes | None]] = [("a", b"1"), ("b", None), ("a", b"3")]
    broker.producer.produce(topic, value=b'{"k": 1}', partition=0)
    broker.producer.produce(topic, value=b'{"k": 2}', partition=0, headers=pairs)
    assert broker.producer.flush(10) == 0
    fresh_session.execute(f"""
        CREATE TABLE messages (k INT, headers {type_} METADATA) WITH (
          'connector' = 'kafka', 'topic' = '{topic}', 'format' = 'json',
          'properties.bootstrap.servers' = '{broker.address}',
          'scan.bounded.mode' = 'latest-offset')""")
    rows = rows_of(fresh_session, "SELECT headers FROM messages ORDER BY k")
    assert [value_of(row.headers) for row in rows] == expected


def value_of(headers: object) -> object:
    if isinstance(headers, dict):
        return {name: None if v is None else bytes(v) for name, v in headers.items()}
    if isinstance(headers, list):
        pairs = [tuple(pair.values()) if isinstance(pair, dict) else pair for pair in headers]
        return [(key, None if value is None else bytes(value)) for key, value in pairs]
    return headers


@pytest.mark.long
def test_changes_of_debezium_are_the_rows_that_remain_in_windows_of_a_stream(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    """A key's messages are in one partition, and Debezium sends an empty one after a deletion."""
    broker.create("changes")
    for partition in range(2):
        first, second = (
            {"id": 2 * partition + i, "ts": "2024-05-01 10:00:01", "price": 5 + i} for i in range(2)
        )
        moved = {**first, "ts": "2024-05-01 10:01:30"}
        last = {"id": 9, "ts": "2024-05-01 10:30:00", "price": 0}
        changes = [
            {"before": None, "after": first, "op": "r"},
            {"before": None, "after": second, "op": "c"},
            {"before": first, "after": moved, "op": "u"},
            *([{"before": second, "after": None, "op": "d"}, None] if partition else []),
            {"before": None, "after": last, "op": "c"},
        ]
        messages = [change and json.dumps(change).encode() for change in changes]
        broker.send("changes", messages, partition)
    fresh_session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        CREATE TABLE orders (
          id INT, ts TIMESTAMP(3), price INT, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
        ) WITH (
          'connector' = 'kafka', 'topic' = 'changes', 'value.format' = 'debezium-json',
          'properties.bootstrap.servers' = '{broker.address}',
          'scan.bounded.mode' = 'latest-offset')""")
    rows = rows_of(
        fresh_session,
        """SELECT DATE_FORMAT(window_start, 'HH:mm') AS at, COUNT(*) AS n, SUM(price) AS total
           FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
           GROUP BY window_start, window_end""",
    )
    assert sorted(map(tuple, rows)) == [("10:00", 1, 6), ("10:01", 2, 10), ("10:30", 2, 0)]


@pytest.mark.long
def test_changes_of_debezium_in_avro_are_a_table(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    fields = [{"name": name, "type": "int"} for name in ("id", "price")]
    row = {"type": "record", "name": "Value", "fields": fields}
    envelope = {
        "type": "record",
        "name": "Envelope",
        "fields": [
            {"name": "before", "type": ["null", row]},
            {"name": "after", "type": ["null", "Value"]},
            {"name": "op", "type": "string"},
        ],
    }
    first, second = {"id": 1, "price": 5}, {"id": 1, "price": 6}
    with serve_registry(Registry()) as registry:
        registry.put(7, envelope)
        broker.create("avro-changes")
        for change in (("c", None, first), ("u", first, second)):
            written = io.BytesIO()
            message = dict(zip(("op", "before", "after"), change, strict=True))
            fastavro.schemaless_writer(written, fastavro.parse_schema(envelope), message)
            broker.send("avro-changes", [b"\0" + (7).to_bytes(4, "big") + written.getvalue()])
        fresh_session.execute(f"""
            CREATE TABLE orders (id INT, price INT) WITH (
              'connector' = 'kafka', 'topic' = 'avro-changes',
              'format' = 'debezium-avro-confluent',
              'debezium-avro-confluent.url' = '{registry.url}',
              'properties.bootstrap.servers' = '{broker.address}',
              'scan.bounded.mode' = 'latest-offset')""")
        rows = rows_of(fresh_session, "SELECT id, price FROM orders")
    assert list(map(tuple, rows)) == [(1, 6)]


@pytest.mark.long
def test_rows_are_written_as_avro_and_read_again(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    broker.create("avro-rows")
    fresh_session.execute(f"""
        SET 'table.local-time-zone' = 'America/New_York';
        CREATE TABLE typed (
          k INT, name STRING, price DECIMAL(10, 2), at TIMESTAMP(3), seen TIMESTAMP_LTZ(3),
          day DATE, tags ARRAY<STRING>, counts MAP<STRING, BIGINT>, part ROW<x DOUBLE, at TIMESTAMP(3)>
        ) WITH (
          'connector' = 'kafka', 'topic' = 'avro-rows', 'format' = 'avro',
          'properties.bootstrap.servers' = '{broker.address}',
          'scan.bounded.mode' = 'latest-offset');
        INSERT INTO typed VALUES
          (1, 'é', 12.50, TIMESTAMP '1969-12-31 23:59:59.999',
           TO_TIMESTAMP_LTZ(1714564800123, 3), DATE '2026-05-01', ARRAY('a', NULL),
           MAP('x', 1L), named_struct('x', 0.5D, 'at', TIMESTAMP_NTZ '2026-05-01 10:00:00')),
          (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)""")
    (first, second) = rows_of(
        fresh_session,
        "SELECT k, name, price, at, UNIX_MILLIS(seen) AS seen, day, tags, counts, part.x, "
        "part.at AS inner_at FROM typed ORDER BY k",
    )
    assert list(first) == [
        1, "é", Decimal("12.50"), dt.datetime(1969, 12, 31, 23, 59, 59, 999000),  # noqa: DTZ001
        1714564800123, dt.date(2026, 5, 1), ["a", None], {"x": 1}, 0.5,
        dt.datetime(2026, 5, 1, 10),  # noqa: DTZ001
    ]  # fmt: skip
    assert list(second) == [2] + [None] * 9
    read = [message for message in messages_of(broker, "avro-rows") if message["k"] == 1]
    assert [m["at"] for m in read] == [dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC)]


def messages_of(broker: Broker, topic: str) -> list[dict[str, object]]:
    """Return the messages of a topic as fastavro reads them with Flink's schema."""
    nothing = {"default": None}
    time = {"type": "long", "logicalType": "timestamp-millis"}
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    part = {
        "type": "record",
        "name": "org.apache.flink.avro.generated.record_part",
        "fields": [
            {"name": "x", "type": ["null", "double"], **nothing},
            {"name": "at", "type": ["null", time], **nothing},
        ],
    }
    types = {
        "k": "int", "name": "string", "price": price, "at": time, "seen": time,
        "day": {"type": "int", "logicalType": "date"},
        "tags": {"type": "array", "items": ["null", "string"]},
        "counts": {"type": "map", "values": ["null", "long"]}, "part": part,
    }  # fmt: skip
    schema = fastavro.parse_schema(
        {
            "type": "record",
            "name": "org.apache.flink.avro.generated.record",
            "fields": [{"name": n, "type": ["null", t], **nothing} for n, t in types.items()],
        }
    )
    config = {"bootstrap.servers": broker.address, "group.id": "test", "enable.partition.eof": True}
    consumer = Consumer(config)
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    values, n_ended = [], 0
    while n_ended < PARTITIONS:
        for message in consumer.consume(10, timeout=1):
            if message.error() is not None:
                n_ended += 1
            else:
                values.append(fastavro.schemaless_reader(io.BytesIO(message.value()), schema, None))
    consumer.close()
    return values


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([{"name": "k", "type": "int"}], "the schema has no field v"),
        (
            [{"name": n, "type": "int"} for n in "kvx"],
            "the table has no column for the field x, which has no default",
        ),
    ],
)
def test_a_schema_that_cannot_hold_the_rows_is_refused_before_anything_runs(
    fresh_session: sqlwin.Session, fields: list[object], why: str
) -> None:
    schema = json.dumps({"type": "record", "name": "r", "fields": fields})
    fresh_session.execute(f"""
        CREATE TABLE sink (k INT, v INT) WITH (
          'connector' = 'kafka', 'topic' = 't', 'format' = 'avro', 'avro.schema' = '{schema}',
          'properties.bootstrap.servers' = 'nowhere:9092')""")
    with pytest.raises(sqlwin.SqlwinError) as caught:
        fresh_session.execute("INSERT INTO sink SELECT 1, 2")
    place = "table `sink` (connector 'kafka'): format 'avro' cannot write the columns: "
    assert caught.value.message == place + why
