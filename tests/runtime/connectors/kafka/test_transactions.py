"""Messages in transactions, over TCP against librdkafka's mock broker.

The mock speaks the protocol, but does not store offsets that a transaction commits, does not mark
messages as aborted, and does not fence producers with the same identifier. Here, an offset
committed without a transaction replaces the first of these; the others are not tested.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql.types import StructType

from runtime.connectors.kafka.source import OPTION, KafkaSource, Writing
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
    result, n_ended = [], 0
    while n_ended < PARTITIONS:
        for message in reader.consume(1, timeout=5):
            if message.error() is None:
                result.append(message.value())
            else:
                n_ended += 1
    reader.close()
    return sorted(result)


def rows(*values: bytes) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def send(broker: Broker, topic: str, batch: int | None, batches: Iterator[pa.RecordBatch]) -> int:
    reader = config_of_reader(broker)
    return send_once(config(broker), reader, topic, f"sqlwin-{topic}", batch, batches)


@pytest.mark.long
def test_a_micro_batch_that_was_committed_is_not_sent_again(broker: Broker) -> None:
    assert send(broker, "once", 4, iter([rows(b"a"), rows(), rows(b"b", b"c")])) == 3
    assert read(broker, "once") == [b"a", b"b", b"c"]
    # the transaction's offset, which the mock does not store
    group = consumer(broker, "sqlwin-once")
    group.commit(offsets=[TopicPartition("once", 0, 5)], asynchronous=False)
    group.close()
    consumed = []

    def again() -> Iterator[pa.RecordBatch]:
        for item in (rows(b"b", b"a"), rows(b"c")):
            consumed.append(item)
            yield item

    assert send(broker, "once", 4, again()) == 0
    assert len(consumed) == 2, "its rows are computed all the same"
    assert send(broker, "once", 5, iter([rows(b"d")])) == 1
    assert read(broker, "once") == [b"a", b"b", b"c", b"d"]


def test_a_task_of_spark_sends_as_its_options_say(broker: Broker) -> None:
    broker.send("by-task", [b"before"])
    writing = Writing(config(broker), "by-task", config_of_reader(broker), "sqlwin-by-task", 3)
    source = KafkaSource({OPTION: json.dumps(asdict(writing))})
    source.writer(StructType(), False).write(iter([rows(b"a", b"b")]))
    assert read(broker, "by-task") == [b"a", b"b", b"before"]


def test_failing_rows_send_no_message(broker: Broker) -> None:
    broker.send("failing", [b"before"])

    def failing() -> Iterator[pa.RecordBatch]:
        yield rows(b"a", b"b")
        raise RuntimeError("the rows end here")

    with pytest.raises(RuntimeError, match="the rows end here"):
        send(broker, "failing", None, failing())
    assert read(broker, "failing") == [b"before"]
    assert send(broker, "failing", None, iter([rows()])) == 0
