"""Messages in transactions, over TCP against librdkafka's mock of a broker.

The mock speaks the protocol, but keeps no offsets that a transaction commits, marks no messages as
aborted and lets producers with the same identifier be. An offset that is committed by itself stands
for the first of these here; the others are not shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.types import StructType

from runtime.connectors.kafka.source import OPTION, KafkaSource, SentMessages, Writing
from runtime.connectors.kafka.transactions import send_once
from tests.runtime.connectors.kafka.broker import PARTITIONS, Broker, broker

__all__ = ["broker"]


def config(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.address, "linger.ms": "20", "enable.idempotence": "true"}


def config_of_reader(broker: Broker) -> dict[str, str]:
    return {"bootstrap.servers": broker.address, "isolation.level": "read_committed"}


def consumer(broker: Broker, group: str) -> Consumer:
    return Consumer({
        "bootstrap.servers": broker.address, "group.id": group, "enable.auto.commit": False,
        "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0,
    })  # fmt: skip


def read(broker: Broker, topic: str) -> list[bytes]:
    reader = consumer(broker, "reader")
    reader.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, n_ended = [], 0
    while n_ended < PARTITIONS:
        for message in reader.consume(1, timeout=5):
            if message.error() is None:
                found.append(message.value())
            else:
                n_ended += 1
    reader.close()
    return sorted(found)


def rows(*values: bytes) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def send(broker: Broker, topic: str, batch: int | None, batches: Iterator[pa.RecordBatch]) -> int:
    reader = config_of_reader(broker)
    return send_once(config(broker), reader, topic, f"sqlwin-{topic}", batch, batches)


def test_a_micro_batch_that_was_committed_is_not_sent_again(broker: Broker) -> None:
    assert send(broker, "once", 4, iter([rows(b"a"), rows(), rows(b"b", b"c")])) == 3
    assert read(broker, "once") == [b"a", b"b", b"c"]
    # what the transaction has committed, and the mock does not keep
    group = consumer(broker, "sqlwin-once")
    group.commit(offsets=[TopicPartition("once", 0, 5)], asynchronous=False)
    group.close()
    taken = []

    def again() -> Iterator[pa.RecordBatch]:
        for each in (rows(b"b", b"a"), rows(b"c")):
            taken.append(each)
            yield each

    assert send(broker, "once", 4, again()) == 0
    assert len(taken) == 2, "its rows are computed all the same"
    assert send(broker, "once", 5, iter([rows(b"d")])) == 1
    assert read(broker, "once") == [b"a", b"b", b"c", b"d"]


def test_a_task_of_spark_s_sends_what_its_option_says(broker: Broker) -> None:
    broker.send("by-task", [b"before"])
    said = Writing(config(broker), "by-task", config_of_reader(broker), "sqlwin-by-task", 3)
    source = KafkaSource({OPTION: json.dumps(asdict(said))})
    assert source.writer(StructType(), False).write(iter([rows(b"a", b"b")])) == SentMessages(2)
    assert read(broker, "by-task") == [b"a", b"b", b"before"]


def test_nothing_is_sent_of_rows_that_fail(broker: Broker) -> None:
    broker.send("failing", [b"before"])

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(b"a", b"b")
        raise RuntimeError("the rows end here")

    with pytest.raises(RuntimeError, match="the rows end here"):
        send(broker, "failing", None, failing())
    assert read(broker, "failing") == [b"before"]
    assert send(broker, "failing", None, iter([rows()])) == 0
