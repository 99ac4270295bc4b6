"""Topics with one row per key, over TCP against librdkafka's mock broker and Tansu."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

import sqlwin
from runtime.errors import SqlwinError
from tests.end_to_end.recovery.killed_stream import QUERY, readings
from tests.end_to_end.recovery.test_killed import LATE, write_input
from tests.end_to_end.sinks.killed_postgres import UPDATES
from tests.runtime.connectors.kafka.broker import LONG_ON_TANSU, PARTITIONS, Broker, broker

__all__ = ["broker"]


def declare(broker: Broker, topic: str, columns: str, key: str, more: str = "") -> str:
    return f"""CREATE TABLE {topic} ({columns}, PRIMARY KEY ({key}) NOT ENFORCED) WITH (
        'connector' = 'upsert-kafka', 'topic' = '{topic}', 'key.format' = 'json',
        'value.format' = 'json', 'properties.batch.num.messages' = '1',
        'properties.bootstrap.servers' = '{broker.address}'{more})"""


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


@LONG_ON_TANSU
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


@LONG_ON_TANSU
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
    rows_of_1 = "SELECT * FROM VALUES (1, 'd'), (1, 'f'), (1, 'e') AS t(id, name)"
    fresh_session.execute(f"INSERT INTO names {rows_of_1} ORDER BY name")
    assert messages(broker, "names")[3:] == [({"id": 1}, {"id": 1, "name": "f"})]


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


@LONG_ON_TANSU
def test_a_stream_is_joined_with_the_latest_rows(
    fresh_session: sqlwin.Session, broker: Broker, tmp_path: Path
) -> None:
    fresh_session.execute(declare(broker, "items", "id INT, name STRING", "id"))
    fresh_session.execute("INSERT INTO items VALUES (1, 'old'), (2, 'gone')")
    fresh_session.execute("INSERT INTO items VALUES (1, 'new')")
    # with the bytes of the key and Java's partitioner, the tombstone follows its message
    producer = broker.java_producer()
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


ORDERS = """CREATE TABLE {name}_orders (id INT, item INT, shop STRING, ts TIMESTAMP(3),
    part INT METADATA FROM 'partition', WATERMARK FOR ts AS ts) WITH (
    'connector' = 'kafka', 'topic' = '{name}_orders', 'format' = 'json',
    'scan.startup.mode' = 'earliest-offset', 'properties.bootstrap.servers' = '{address}')"""
OF_PRICES = "item INT, shop STRING, price INT, note STRING"
JOIN = """SELECT o.id, p.item, p.shop, p.price, p.note, second(p.since) AS since FROM {name}_orders AS o
    LEFT JOIN {name} FOR SYSTEM_TIME AS OF o.ts AS p ON o.item = p.item AND o.shop = p.shop"""
# second, item, price; None deletes the row
PRICES = [
    (5, 1, 10),
    (7, 2, 20),
    (10, 1, 11),
    (20, 1, None),
    (25, 2, 21),
    (30, 1, 12),
    (31, 2, None),
]
ORDERED = [(second, item) for second in (4, 5, 9, 10, 19, 20, 29, 30, 33) for item in (1, 2)]


def price_at(second: int, item: int) -> tuple[int, int] | None:
    """Return price and second of the version of an item, by definition."""
    held = [(since, price) for since, other, price in PRICES if other == item and since <= second]
    since, price = max(held, key=lambda pair: pair[0]) if held else (0, None)
    return None if price is None else (price, since)


def send_prices_and_orders(session: sqlwin.Session, broker: Broker, name: str, more: str) -> None:
    """Create the tables and send their messages, with Kafka's times; partitions by Java's rule."""
    since = "since TIMESTAMP(3) METADATA FROM 'timestamp', WATERMARK FOR since AS since"
    session.execute(declare(broker, name, f"{OF_PRICES}, {since}", "item, shop", more))
    session.execute(ORDERS.format(name=name, address=broker.address))
    producer = broker.java_producer()
    includes_key = "EXCEPT_KEY" not in more
    for second, item, price in PRICES:
        key = {"item": item, "shop": "x"}
        # columns that a message lacks are NULL
        value = {**(key if includes_key else {}), "price": price}
        data = None if price is None else json.dumps(value).encode()
        producer.produce(name, key=json.dumps(key).encode(), value=data, timestamp=second * 1000)
    for number, (second, item) in enumerate(ORDERED):
        row = {"id": number, "item": item, "shop": "x", "ts": f"1970-01-01 00:00:{second:02}"}
        producer.produce(f"{name}_orders", value=json.dumps(row).encode(), partition=0)
    assert producer.flush(10) == 0


def expected_prices() -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for number, (second, item) in enumerate(ORDERED):
        version = price_at(second, item)
        rows.append(
            (number, *(None,) * 5)
            if version is None
            else (number, item, "x", version[0], None, version[1])
        )
    return rows


@pytest.mark.long
@pytest.mark.variants(1)
@pytest.mark.parametrize("more", ["", ", 'value.fields-include' = 'EXCEPT_KEY'"])
def test_a_temporal_join_of_a_batch_reads_all_versions_of_a_key(
    fresh_session: sqlwin.Session, broker: Broker, more: str
) -> None:
    name = "prices_except" if more else "prices_batch"
    send_prices_and_orders(fresh_session, broker, name, more)
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    (result,) = fresh_session.execute(JOIN.format(name=name))
    assert sorted(map(tuple, result.rows)) == expected_prices()
    # without FOR SYSTEM_TIME the table has the latest rows, and no column about changes
    (latest,) = fresh_session.execute(f"SELECT * FROM {name}")
    assert [*latest.columns] == ["item", "shop", "price", "note", "since"]
    assert [row[:3] for row in map(tuple, latest.rows)] == [(1, "x", 12)]
    (star,) = fresh_session.execute(
        f"""SELECT * FROM {name}_orders AS o JOIN {name} FOR SYSTEM_TIME AS OF o.ts
        ON o.item = {name}.item AND {name}.shop = o.shop"""
    )
    assert not [column for column in star.columns if column.startswith("$")]
    assert len(star.columns) == 10


@LONG_ON_TANSU
def test_a_stream_is_joined_with_the_versions_of_a_topic(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    name = "prices_stream"
    send_prices_and_orders(fresh_session, broker, name, "")
    # later rows in both tables, so that the watermark passes all others
    producer = broker.producer
    row = {"id": 99, "item": 3, "shop": "x", "ts": "1970-01-01 00:00:50"}
    producer.produce(f"{name}_orders", value=json.dumps(row).encode(), partition=0)
    producer.produce(name, key=b'{"item": 3, "shop": "x"}', value=b"{}", timestamp=50_000)
    assert producer.flush(10) == 0
    fresh_session.execute("SET 'table.exec.source.idle-timeout' = '1 s'")
    query = JOIN.format(name=name)
    explained = fresh_session.explain(query)
    assert "StreamVersionJoinOperator" in explained
    assert "a deletion (a message without a value) ends the last version of its key" in explained
    (result,) = fresh_session.execute(query)
    rows: list[tuple[Any, ...]] = []
    for batch in result.batches():
        rows += [tuple(row.values()) for row in batch.to_pylist()]
        if len(rows) >= len(ORDERED):
            break
    assert sorted(row for row in rows if row[0] != 99) == expected_prices()


@LONG_ON_TANSU
def test_a_stream_groups_the_latest_rows(fresh_session: sqlwin.Session, broker: Broker) -> None:
    columns = "id INT, status STRING"
    fresh_session.execute(declare(broker, "states", columns, "id"))
    producer = broker.java_producer()
    sent = [(1, "new"), (2, "new"), (3, "new"), (1, "paid"), (3, None), (2, "paid"), (4, "new")]
    for number, status in sent:
        value = None if status is None else json.dumps({"id": number, "status": status}).encode()
        producer.produce("states", key=b'{"id":%d}' % number, value=value)
    assert producer.flush(10) == 0
    fresh_session.execute("SET 'execution.runtime-mode' = 'streaming'")
    query = "SELECT status, COUNT(*) AS n FROM states GROUP BY status"
    assert "StreamRankOperator" in fresh_session.explain(query)
    (result,) = fresh_session.execute(query)
    counts: dict[str, int] = {}
    for batch in result.batches():
        for row in batch.to_pylist():
            if row["op"] in ("+I", "+U"):
                counts[row["status"]] = row["n"]
            elif row["op"] == "-D":
                del counts[row["status"]]
        if counts == {"paid": 2, "new": 1}:
            break
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    (latest,) = fresh_session.execute("SELECT COUNT(*) AS n FROM states")
    assert [tuple(row) for row in latest.rows] == [(3,)]


@pytest.mark.long
def test_a_deleted_row_needs_a_time(fresh_session: sqlwin.Session, broker: Broker) -> None:
    fresh_session.execute(ORDERS.format(name="dated", address=broker.address))
    columns = f"{OF_PRICES}, since TIMESTAMP(3), WATERMARK FOR since AS since"
    fresh_session.execute(declare(broker, "dated", columns, "item, shop"))
    value = b'{"item": 1, "shop": "x", "price": 10, "since": "1970-01-01 00:00:05"}'
    order = b'{"id": 1, "item": 1, "shop": "x", "ts": "1970-01-01 00:00:06"}'
    broker.send("dated_orders", [order])
    broker.producer.produce("dated", key=b'{"item": 1, "shop": "x"}', value=value)
    assert broker.producer.flush(10) == 0
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    query = JOIN.format(name="dated")
    (result,) = fresh_session.execute(query)
    assert [tuple(row)[3] for row in result.rows] == [10]
    broker.producer.produce("dated", key=b'{"item": 1, "shop": "x"}', value=None)
    assert broker.producer.flush(10) == 0
    with pytest.raises(SqlwinError) as raised:
        _ = fresh_session.execute(query)[0].rows
    assert "a deleted row of `dated` has no `since`" in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.long
def test_the_latest_rows_are_read_from_avro(fresh_session: sqlwin.Session, broker: Broker) -> None:
    """`name` is a string of one byte: branch 1 of its union, length, text. So is `id`: 2 * value."""
    more = ", 'value.fields-include' = 'EXCEPT_KEY'"
    text = declare(broker, "avro_names", "id INT, name STRING", "id", more)
    fresh_session.execute(text.replace("'value.format' = 'json'", "'value.format' = 'avro'"))
    producer = broker.java_producer()
    for number, value in [(1, b"\x02\x02a"), (2, b"\x02\x02b"), (1, b"\x02\x02c"), (2, None)]:
        producer.produce("avro_names", key=b'{"id": %d}' % number, value=value)
    assert producer.flush(10) == 0
    (result,) = fresh_session.execute("SELECT id, name FROM avro_names")
    assert [tuple(row) for row in result.rows] == [(1, "c")]


@pytest.mark.long
def test_keys_are_read_from_all_partitions_and_a_broken_one_is_named(
    fresh_session: sqlwin.Session, broker: Broker
) -> None:
    fresh_session.execute(declare(broker, "parts", "a INT, b STRING, c INT", "a, b"))
    producer = broker.producer

    def send(key: bytes, value: bytes | None, partition: int) -> None:
        producer.produce("parts", key=key, value=value, partition=partition)
        assert producer.flush(10) == 0

    for number in range(4):
        key = json.dumps({"a": number, "b": "x"}).encode()
        send(key, json.dumps({"a": number, "b": "x", "c": number}).encode(), number)
    # columns that a later message lacks are NULL
    send(b'{"a": 1, "b": "x"}', b'{"a": 1, "b": "x"}', 1)
    send(b'{"a": 2, "b": "x"}', None, 2)
    (result,) = fresh_session.execute("SELECT * FROM parts ORDER BY a")
    assert [tuple(row) for row in result.rows] == [(0, "x", 0), (1, "x", None), (3, "x", 3)]
    send(b"what", b'{"a": 5, "b": "x", "c": 5}', 3)
    with pytest.raises(SqlwinError) as raised:
        _ = fresh_session.execute("SELECT * FROM parts")[0].rows
    place = "topic 'parts', partition 3, offset 1"
    assert raised.value.message == (
        f"table `parts`: {place}: the key is not valid JSON for the columns a, b: what"
    )
