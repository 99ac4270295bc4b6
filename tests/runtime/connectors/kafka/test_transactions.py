"""Transactions of the sink against a broker that carries them out, and that broker."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from pyspark.sql.types import StructType

from runtime.connectors.kafka.source import OPTION, KafkaSource, Writing
from runtime.connectors.kafka.transactions import send_once
from runtime.errors import ExecutionError
from tests.runtime.connectors.kafka.transactional_broker import PARTITIONS, serve_broker


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serve_broker() as address:
        yield address


def consumer(address: str, group: str = "reader", level: str = "read_committed") -> Consumer:
    return Consumer({
        "bootstrap.servers": address, "group.id": group, "enable.auto.commit": False,
        "isolation.level": level, "enable.partition.eof": True, "check.crcs": True,
    })  # fmt: skip


def read(address: str, topic: str, level: str = "read_committed") -> list[str]:
    """Return the values of a topic up to its end, sorted."""
    reader = consumer(address, level=level)
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    result, n_ended = [], 0
    while n_ended < PARTITIONS:
        for message in reader.consume(1, timeout=10):
            if message.error() is None:
                result.append(message.value().decode())
            else:
                n_ended += 1
    reader.close()
    return sorted(result)


def producer(address: str, identifier: str) -> Producer:
    made = Producer({"bootstrap.servers": address, "transactional.id": identifier, "log_level": 0})
    made.init_transactions(10)
    return made


def config_of_reader(address: str) -> dict[str, str]:
    return {"bootstrap.servers": address, "isolation.level": "read_committed"}


def batch(*values: str) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([v.encode() for v in values], pa.binary())})


def send(address: str, topic: str, number: int | None, batches: Iterable[pa.RecordBatch]) -> int:
    config = {"bootstrap.servers": address, "linger.ms": "5"}
    reader = config_of_reader(address)
    return send_once(config, reader, topic, f"sqlwin-{topic}", number, batches)


def test_messages_without_a_transaction_are_read_in_order(address: str) -> None:
    plain = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for number in range(1000):
        plain.produce("plain", json.dumps(number).encode(), partition=number % PARTITIONS)
    assert plain.flush(10) == 0
    assert sorted(map(int, read(address, "plain"))) == list(range(1000))
    reader = consumer(address)
    place = TopicPartition("plain", 1)
    assert reader.get_watermark_offsets(place, timeout=10) == (0, 250)
    reader.assign([TopicPartition("plain", 1, 248)])
    assert [m.value() for m in reader.consume(2, timeout=10)] == [b"993", b"997"]
    reader.close()


@pytest.mark.long
def test_readers_of_committed_messages_see_all_of_a_transaction_or_nothing(address: str) -> None:
    writer = producer(address, "all-or-nothing")
    writer.begin_transaction()
    writer.produce("whole", b"aborted", partition=0)
    writer.flush(10)
    assert read(address, "whole") == []
    writer.abort_transaction(10)
    assert read(address, "whole") == []
    writer.begin_transaction()
    for partition in range(PARTITIONS):
        writer.produce("whole", b"committed", partition=partition)
    writer.commit_transaction(10)
    assert read(address, "whole") == ["committed"] * PARTITIONS
    assert read(address, "whole", "read_uncommitted") == ["aborted"] + ["committed"] * PARTITIONS


def test_an_open_transaction_holds_back_later_messages_of_its_partition(address: str) -> None:
    writer = producer(address, "open")
    writer.begin_transaction()
    writer.produce("held", b"open", partition=0)
    writer.flush(10)
    other = Producer({"bootstrap.servers": address})
    for partition in (0, 1):
        other.produce("held", b"later", partition=partition)
    other.flush(10)
    assert read(address, "held") == ["later"]
    writer.commit_transaction(10)
    assert read(address, "held") == ["later", "later", "open"]


def test_a_producer_that_takes_over_aborts_and_fences_the_earlier_one(address: str) -> None:
    earlier = producer(address, "taken")
    earlier.begin_transaction()
    earlier.produce("taken", b"by the earlier", partition=0)
    earlier.flush(10)
    later = producer(address, "taken")
    with pytest.raises(KafkaException):
        earlier.produce("taken", b"too late", partition=0)
        earlier.commit_transaction(10)
    later.begin_transaction()
    later.produce("taken", b"by the later", partition=0)
    later.commit_transaction(10)
    assert read(address, "taken") == ["by the later"]


@pytest.mark.long
def test_a_micro_batch_that_was_committed_is_not_sent_again(address: str) -> None:
    # the offset that the transaction itself has committed
    assert send(address, "once", 4, [batch("a"), batch(), batch("b", "c")]) == 3
    consumed = []

    def again() -> Iterator[pa.RecordBatch]:
        for item in (batch("b", "a"), batch("c")):
            consumed.append(item)
            yield item

    assert send(address, "once", 4, again()) == 0
    assert len(consumed) == 2, "its rows are computed all the same"
    assert send(address, "once", 5, [batch("d")]) == 1
    assert read(address, "once") == ["a", "b", "c", "d"]


def test_a_task_of_spark_sends_as_its_options_say(address: str) -> None:
    writing = Writing(
        {"bootstrap.servers": address}, "by-task", config_of_reader(address), "sqlwin-by-task", 3
    )
    source = KafkaSource({OPTION: json.dumps(asdict(writing))})
    source.writer(StructType(), False).write(iter([batch("a", "b")]))
    assert read(address, "by-task") == ["a", "b"]
    assert send(address, "by-task", 3, [batch("a", "b")]) == 0


def test_failing_rows_send_no_message(address: str) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield batch("a", "b")
        raise RuntimeError("the rows end here")

    with pytest.raises(RuntimeError, match="the rows end here"):
        send(address, "failing", None, failing())
    assert read(address, "failing") == []
    assert send(address, "failing", None, [batch()]) == 0


@pytest.mark.long
def test_a_micro_batch_that_died_before_its_commit_is_sent_once(address: str) -> None:
    assert send(address, "dying", 0, [batch("a")]) == 1
    # the run that dies: its producer has sent all, and the offset, but not committed
    dead = producer(address, "sqlwin-dying")
    dead.begin_transaction()
    dead.produce("dying", b"b")
    dead.flush(10)
    group = consumer(address, "sqlwin-dying")
    place = [TopicPartition("dying", 0, 2)]
    dead.send_offsets_to_transaction(place, group.consumer_group_metadata(), 10)
    assert send(address, "dying", 1, [batch("b")]) == 1
    assert read(address, "dying") == ["a", "b"]
    assert read(address, "dying", "read_uncommitted") == ["a", "b", "b"]
    with pytest.raises(KafkaException):
        dead.commit_transaction(10)


def test_a_run_that_another_one_fenced_says_so(address: str) -> None:
    def rows() -> Iterator[pa.RecordBatch]:
        yield batch("a")
        producer(address, "sqlwin-fenced")
        yield batch("b")

    with pytest.raises(ExecutionError) as caught:
        send(address, "fenced", 0, rows())
    assert "topic 'fenced'" in caught.value.message
    assert caught.value.hint == "another run of the same stream has started a transaction"
    assert read(address, "fenced") == []
