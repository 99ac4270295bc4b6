"""Ranges of offsets and their messages, from two brokers and without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, Message
from hypothesis import example, given
from hypothesis import strategies as st

from runtime.connectors.kafka.client import Client
from runtime.connectors.kafka.consume import read_range, read_ranges
from runtime.connectors.kafka.decode import Decoding
from runtime.connectors.kafka.offsets import (
    Offsets,
    Range,
    Reading,
    _limit,
    batch_ranges,
    find_start,
    first_offset,
    next_offset,
    planned_ranges,
    portions,
)
from runtime.connectors.kafka.produce import send
from runtime.errors import ExecutionError
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker

__all__ = ["broker"]
NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "socket.timeout.ms": "500"}
ALL = ("topic", "partition", "offset", "key", "value", "headers", "at_ms", "timestampType")


def config(broker: Broker, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.address,
        "group.id": "tests",
        "fetch.wait.max.ms": "20",
        **more,
    }


def reading(broker: Broker, *topics: str, **more: Any) -> Reading:
    fields = {"columns": ("topic", "partition", "offset", "value"), **more}
    return Reading("t", config(broker), topics, **fields)


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    result = Client(config(broker))
    yield result
    result.kafka.close()


def values(client: Client, asked: Reading, *ranges: Range) -> list[bytes]:
    batches = [batch for item in ranges for batch in read_range(client, asked, item)]
    return [value for batch in batches for value in batch.column("value").to_pylist()]


def test_a_batch_reads_each_message_once(broker: Broker, client: Client) -> None:
    for partition in range(2):
        broker.send("batch", [b"%d-%d" % (partition, i) for i in range(2500)], partition)
    asked = reading(broker, "batch", min_partitions=5)
    ranges = batch_ranges(client, asked)
    assert len(ranges) >= 5
    broker.send("batch", [b"later"])
    result = values(client, asked, *ranges)
    assert sorted(result) == sorted(b"%d-%d" % (p, i) for p in range(2) for i in range(2500))


def test_ranges_of_a_task_are_read_in_order_and_once(broker: Broker, client: Client) -> None:
    sent = {}
    for topic in ("turn-a", "turn-b"):
        for partition in range(3):
            values = [b"%s-%d-%d" % (topic.encode(), partition, i) for i in range(700)]
            broker.send(topic, values, partition)
            sent[topic, partition] = values
    asked = reading(broker, "turn-a", "turn-b")
    ranges = [part for task in portions(batch_ranges(client, asked), 1, 4) for part in task]
    result = [(item.source, item.values()) for item in read_ranges(asked, ranges)]
    assert [source for source, _ in result] == ranges
    for source, messages in result:
        assert messages == sent[source.topic, source.partition][source.start : source.end]
    assert sum(len(messages) for _, messages in result) == 6 * 700
    assert list(read_ranges(asked, [])) == []


class Answers:
    """A consumer that returns prepared lists of messages, one per call."""

    def __init__(self, *lists: list[Message[Any, Any]]) -> None:
        self.kafka = self
        self._lists = list(lists)

    patience_s = 60.0

    def answered(self) -> None: ...

    def assign(self, places: list[Any]) -> None: ...

    def unassign(self) -> None: ...

    def consume(self, at_most: int, timeout: float) -> list[Message[Any, Any]]:
        return self._lists.pop(0)


@pytest.mark.parametrize("more", [(), ("key",)], ids=["values", "messages"])
def test_messages_of_a_compacted_topic_keep_their_offsets(more: tuple[str, ...]) -> None:
    def message(offset: int) -> Message[Any, Any]:
        value = None if offset == 6 else b"%d" % offset
        return Message(topic="t", partition=3, offset=offset, value=value, key=b"k")

    offsets = [[2, 3, 4], [6, 9], [10, 11, 12], [30]]
    client: Any = Answers(*([message(offset) for offset in item] for item in offsets))
    asked = Reading("t", {}, ("t",), columns=("topic", "partition", "offset", "value", *more))
    (result,) = read_range(client, asked, Range("t", 3, 2, 20))
    expected_rows = [offset for item in offsets[:3] for offset in item]
    assert result.column("offset").to_pylist() == expected_rows
    values = [None if offset == 6 else b"%d" % offset for offset in expected_rows]
    assert result.column("value").to_pylist() == values
    assert set(result.column("topic").to_pylist()) == {"t"}
    assert set(result.column("partition").to_pylist()) == {3}
    assert not more or set(result.column("key").to_pylist()) == {b"k"}


@given(
    st.lists(st.integers(1, 100_000), max_size=6), st.integers(1, 8), st.sampled_from([0, 3, 50])
)
@example([5_000_000], 2, 0)
@example([1], 8, 50)
def test_tasks_share_messages_evenly(sizes: list[int], n_tasks: int, least: int) -> None:
    ranges = [Range("t", p, p, p + size) for p, size in enumerate(sizes)]
    total = sum(sizes)
    shares = portions(ranges, n_tasks, least)
    # each offset is in one range, in order
    joined: list[Range] = []
    for item in (part for share in shares for part in share):
        if joined and (joined[-1].partition, joined[-1].end) == (item.partition, item.start):
            joined[-1] = Range("t", item.partition, joined[-1].start, item.end)
        else:
            joined.append(item)
    assert joined == ranges
    loads = [sum(part.end - part.start for part in share) for share in shares]
    assert max(loads, default=0) - min(loads, default=0) <= 1
    assert len(shares) >= min(least, total)
    assert all(load <= 2_000_000 for load in loads)
    if not least and total < 20_000:
        assert len(shares) == min(total, 1)


def test_a_message_has_kafkas_metadata(broker: Broker, client: Client) -> None:
    headers = [("trace", b"1"), ("empty", None)]
    broker.producer.produce("known", b"v", b"k", 1, timestamp=1700000000123, headers=headers)
    broker.producer.produce("known", None, None, 1, timestamp=5)
    broker.producer.flush(10)
    (batch,) = read_range(client, reading(broker, columns=ALL), Range("known", 1, 0, 2))
    first, second = batch.to_pylist()
    pairs = [{"key": "trace", "value": b"1"}, {"key": "empty", "value": None}]
    assert first == dict(
        zip(ALL, ("known", 1, 0, b"k", b"v", pairs, 1700000000123, 0), strict=True)
    )
    assert second == dict(zip(ALL, ("known", 1, 1, None, None, None, 5, 0), strict=True))


def test_values_are_decoded_or_left_to_spark_a_record_batch_at_a_time(
    broker: Broker, client: Client
) -> None:
    broker.send("decoded", [b'{"a": 1, "b": "x"}', None], 0)
    broker.send("decoded", [b'{"a": 2}', b'{"a": "two"}'], 1)
    how = Decoding("json", (("a", "int"), ("b", "string")))
    columns = ("partition", "offset", "key", "value")
    asked = reading(broker, columns=columns, decoding=how, for_errors=("value", "partition"))
    assert Reading.of(asked.text()) == asked
    result = [b for p in (0, 1) for b in read_range(client, asked, Range("decoded", p, 0, 2))]
    names = (*columns, "field_0", "field_1")
    assert [[tuple(row[n] for n in names) for row in batch.to_pylist()] for batch in result] == [
        [(None, 0, None, None, 1, "x"), (None, 1, None, None, None, None)],
        [(1, 0, None, b'{"a": 2}', None, None), (1, 1, None, b'{"a": "two"}', None, None)],
    ]


def test_a_stream_resumes_at_its_offset_within_its_limit(broker: Broker, client: Client) -> None:
    asked = reading(broker, "going", most=3)
    broker.send("going", [b"%d" % i for i in range(7)])
    existing = client.partitions(("going",), "")
    offset: Any = first_offset(find_start(client, asked))
    result = []
    for expected in (3, 3, 1):
        last, offset = offset, next_offset(client, asked, offset, existing, asked.most)
        planned = planned_ranges(asked, last, offset)
        # independent of the previous micro-batch, which a restart may not know
        assert planned == planned_ranges(asked, first_offset({}), offset)
        assert sum(item.end - item.start for item in planned) == expected
        result += values(client, asked, *planned)
    assert result == [b"%d" % i for i in range(7)]
    assert next_offset(client, asked, offset, existing, asked.most) is offset


def test_each_partition_gets_on_within_the_limit() -> None:
    def offsets(*each: int) -> Offsets:
        return {("t", partition): offset for partition, offset in enumerate(each)}

    begin, end = offsets(0, 5, 7, 9), offsets(1000, 6, 8, 9)
    assert _limit(begin, end, 10) == offsets(8, 6, 8, 9)
    assert _limit(begin, end, 2) == offsets(1, 6, 7, 9)
    assert _limit(begin, end, 5000) == end


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ({"start": "earliest"}, 0),
        ({"start": "latest"}, 4),
        ({"start": "group", "reset": "earliest"}, 0),
        ({"start": "group", "reset": "latest"}, 4),
        ({"start": "offsets", "start_offsets": {"0": 2}}, 2),
    ],
)
def test_reading_begins_at_the_given_offset(
    broker: Broker, client: Client, more: dict[str, Any], begins: int
) -> None:
    topic = "begins" + str(time.time_ns())
    broker.send(topic, [b"%d" % i for i in range(4)])
    assert find_start(client, reading(broker, topic, **more))[topic, 0] == begins


def test_reading_begins_where_the_group_has_committed(broker: Broker, client: Client) -> None:
    from confluent_kafka import TopicPartition

    broker.send("grouped", [b"%d" % i for i in range(4)])
    client.kafka.commit(offsets=[TopicPartition("grouped", 0, 3)], asynchronous=False)
    assert find_start(client, reading(broker, "grouped", start="group"))["grouped", 0] == 3


def test_new_topics_of_a_pattern_are_read_from_their_first_message(
    broker: Broker, client: Client
) -> None:
    broker.send("pattern-a", [b"a"])
    asked = reading(broker, pattern="pattern-.", start="latest")
    offset: Any = first_offset(find_start(client, asked))
    assert list(offset["to"]) == ["pattern-a"]
    broker.send("pattern-b", [b"b"])
    broker.send("no-pattern-b", [b"c"])
    result = next_offset(client, asked, offset, client.partitions((), asked.pattern), None)
    assert values(client, asked, *planned_ranges(asked, offset, result)) == [b"b"]


# Tansu does not answer a request for an offset that does not exist
@pytest.mark.parametrize("broker", ["mock"], indirect=True)
def test_deleted_messages_are_an_error_or_skipped(broker: Broker, client: Client) -> None:
    broker.send("short", [b"a", b"b"])
    lost = Range("short", 0, 7, 9)
    with pytest.raises(ExecutionError, match=r"topic 'short', partition 0: messages were lost"):
        values(client, reading(broker, "short"), lost)
    with pytest.raises(ExecutionError, match=r"topic 'short', partition 0: messages were lost"):
        list(read_ranges(reading(broker, "short"), [Range("short", 0, 0, 2), lost]))
    assert values(client, reading(broker, skips_lost=True), Range("short", 0, 7, 9)) == []
    existing = client.partitions(("short",), "")
    ahead = first_offset({("short", p): 5 if p == 0 else 0 for p in range(PARTITIONS)})
    with pytest.raises(
        ExecutionError, match="ends at offset 2, before offset 5, which is next to read"
    ):
        next_offset(client, reading(broker, "short"), ahead, existing, None)
    gone = first_offset({("short", 17): 5})
    with pytest.raises(
        ExecutionError, match="partition 17: messages were lost: the partition no longer exists"
    ):
        next_offset(client, reading(broker, "short"), gone, existing, None)


def test_errors_of_kafka_are_one_line(broker: Broker, client: Client) -> None:
    broker.send("clicks", [b"a"])
    with pytest.raises(ExecutionError, match=r"topic 'click' does not exist in Kafka") as error:
        find_start(client, reading(broker, "click"))
    assert error.value.hint == "did you mean 'clicks'?"
    with pytest.raises(ExecutionError, match=r"no topic matches 'x-.'"):
        batch_ranges(client, reading(broker, pattern="x-."))
    with pytest.raises(ExecutionError, match=r"invalid option .*foo.bar"):
        Client(config(broker, **{"foo.bar": "1"}))
    with pytest.raises(ExecutionError, match="partition 0 has no offset 9"):
        find_start(client, reading(broker, "clicks", start="offsets", start_offsets={"0": 9}))
    with pytest.raises(ExecutionError, match="has no partition 9"):
        find_start(client, reading(broker, "clicks", start="offsets", start_offsets={"9": 0}))


@pytest.mark.long
def test_a_missing_broker_is_named() -> None:
    nowhere = Client({**NOWHERE, "group.id": "tests"})
    with pytest.raises(ExecutionError, match=r"not reachable at 127.0.0.1:1: .*refused"):
        find_start(nowhere, Reading("t", {}, ("t",)))


def test_the_timeout_for_a_missing_broker_is_that_of_the_socket() -> None:
    n_asked = 0

    def question(timeout: float) -> None:
        nonlocal n_asked
        n_asked += 1
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    nowhere = Client({**NOWHERE, "group.id": "tests"})
    with pytest.raises(ExecutionError, match=r"not reachable at 127.0.0.1:1"):
        nowhere.ask(question)
    # every 0.1 s for half a second. Without the option it is asked for 5 s, about 50 times
    assert 1 < n_asked <= 6


# Tansu's latest offset is the one after the first message of the last batch
@pytest.mark.parametrize("broker", ["mock"], indirect=True)
def test_messages_are_stored_when_sending_returns(broker: Broker, client: Client) -> None:
    broker.send("sent", [b"before"])
    rows = pa.record_batch({"key": [b"k", None], "value": ["v", None]})
    assert send(config(broker), "sent", [rows, rows.slice(0, 0)]) == 2
    asked = reading(broker, "sent", columns=("topic", "partition", "offset", "key", "value"))
    result = [
        b
        for batch_range in batch_ranges(client, asked)
        for b in read_range(client, asked, batch_range)
    ]
    pairs = [(row["key"], row["value"]) for batch in result for row in batch.to_pylist()]
    assert sorted(pairs, key=str) == [(None, None), (None, b"before"), (b"k", b"v")]


@pytest.mark.long
def test_messages_that_are_not_delivered_fail_the_task(broker: Broker) -> None:
    broker.send("small", [b"before"])
    rows = pa.record_batch({"value": [b"x" * 2000]})
    with pytest.raises(ExecutionError, match=r"to topic 'small' was not delivered: .*too large"):
        send(config(broker, **{"message.max.bytes": "1000"}), "small", [rows])
    with pytest.raises(ExecutionError, match=r"Kafka is not reachable at 127.0.0.1:1"):
        send(NOWHERE, "small", [rows])
