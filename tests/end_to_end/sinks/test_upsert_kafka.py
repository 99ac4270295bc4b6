"""Topics with one row per key, over TCP against librdkafka's mock broker."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.recovery.killed_stream import QUERY, readings
from tests.end_to_end.recovery.test_killed import LATE, write_input
from tests.end_to_end.sinks.killed_postgres import UPDATES
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker

__all__ = ["broker"]


def declare(broker: Broker, topic: str, columns: str, key: str, more: str = "") -> str:
    return f"""CREATE TABLE {topic} ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH (
        'connector' = 'upsert-kafka', 'topic' = '{topic}', 'key.format' = 'json',
        'value.format' = 'json', 'properties.bootstrap.servers' = '{broker.address}'{more})"""


def messages(broker: Broker, topic: str) -> list[tuple[Any, Any]]:
    """Return the key and the value of all messages, decoded, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "test"})
    found = []
    for partition in range(PARTITIONS):
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
        consumer.assign([TopicPartition(topic, partition, 0)])
        while end:
            message = consumer.poll(10)
            assert message is not None and message.error() is None
            key, value = message.key(), message.value()
            found.append((json.loads(key), None if value is None else json.loads(value)))
            if message.offset() == end - 1:
                break
    consumer.close()
    return found


@pytest.mark.long
def test_the_latest_messages_of_a_stream_are_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    write_input(tmp_path, 5)
    columns = "k INT, window_end TIMESTAMP(6), n BIGINT, total BIGINT"
    fresh_session.execute(readings(tmp_path))
    fresh_session.execute(declare(broker, "totals", columns, "k, window_end"))
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    for name, value in UPDATES.items():
        fresh_session.execute(f"SET '{name}' = '{value}'")
    query = f"{QUERY} HAVING COUNT(*) BETWEEN 10 AND 90"
    fresh_session.execute(f"INSERT INTO totals {query}")
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    on_time = f"WHERE k <> {LATE}"
    expected = fresh_session.sql(f"SELECT * FROM ({query}) {on_time}").collect()
    # a consumer that keeps the last value of each key
    latest = {tuple(key.values()): value for key, value in messages(broker, "totals")}
    rows = [value for key, value in latest.items() if value is not None and key[0] != LATE]
    assert sorted((row["k"], row["n"], row["total"]) for row in rows) == sorted(
        (row.k, row.n, row.total) for row in expected
    )
    assert len(rows) > 20
    assert None in latest.values(), "a row that no longer satisfies the condition is deleted"
    # the table read as a bounded one is the same
    read = fresh_session.sql(f"SELECT * FROM totals {on_time}").collect()
    assert sorted(map(tuple, read)) == sorted(map(tuple, expected))


def test_a_batch_sends_one_message_per_key(fresh_session: sqlwin.Session, broker: Broker) -> None:
    fresh_session.execute(declare(broker, "names", "id INT, name STRING", "id"))
    (result,) = fresh_session.execute("INSERT INTO names VALUES (1, 'a'), (2, 'b')")
    assert result.row_count == 2
    fresh_session.execute("INSERT INTO names VALUES (2, 'c')")
    assert sorted(messages(broker, "names"), key=str) == [
        ({"id": 1}, {"id": 1, "name": "a"}),
        ({"id": 2}, {"id": 2, "name": "b"}),
        ({"id": 2}, {"id": 2, "name": "c"}),
    ]
    rows = fresh_session.sql("SELECT name FROM names ORDER BY id").collect()
    assert [row.name for row in rows] == ["a", "c"]
    with pytest.raises(
        SqlwinError, match=r"several rows of this INSERT have the PRIMARY KEY \(id\)"
    ):
        fresh_session.execute("INSERT INTO names VALUES (1, 'a'), (1, 'b')")
    with pytest.raises(SqlwinError, match="column `id` of the PRIMARY KEY is NULL"):
        fresh_session.execute("INSERT INTO names VALUES (NULL, 'a')")
    assert len(messages(broker, "names")) == 3


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE t (a INT) WITH ('connector' = 'upsert-kafka', 'key.format' = 'json')",
         "a PRIMARY KEY is required"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', "
         "'key.fields' = 'a', 'key.format' = 'json')", "option 'key.fields' is not available"),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a) NOT ENFORCED) WITH ('connector' = 'upsert-kafka')",
         "option 'key.format' is missing"),
    ],
)  # fmt: skip
def test_a_wrong_declaration_is_one_line(
    fresh_session: sqlwin.Session, statement: str, message: str
) -> None:
    with pytest.raises(SqlwinError) as raised:
        fresh_session.execute(statement)
    assert message in raised.value.message


@pytest.mark.long
def test_a_stream_is_joined_with_the_latest_rows(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    fresh_session.execute(declare(broker, "items", "id INT, name STRING", "id"))
    fresh_session.execute("INSERT INTO items VALUES (1, 'old'), (2, 'gone')")
    fresh_session.execute("INSERT INTO items VALUES (1, 'new')")
    # with the bytes of the key and Java's partitioner, the tombstone follows its message
    producer = Producer({"bootstrap.servers": broker.address, "partitioner": "murmur2_random"})
    producer.produce("items", key=b'{"id":2}', value=None)
    assert producer.flush(10) == 0
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.json").write_text('{"id": 1, "n": 5}\n{"id": 2, "n": 6}\n')
    fresh_session.execute(f"""
        CREATE TABLE orders (id INT, n INT) WITH (
          'connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json');
        CREATE TABLE named (name STRING, n INT) WITH ('connector' = 'memory');
        SET 'execution.runtime-mode' = 'streaming';
        INSERT INTO named SELECT i.name, o.n FROM orders o JOIN items i ON o.id = i.id;
        SET 'execution.runtime-mode' = 'batch'""")
    rows = fresh_session.sql("SELECT * FROM named").collect()
    assert [tuple(row) for row in rows] == [("new", 5)]
