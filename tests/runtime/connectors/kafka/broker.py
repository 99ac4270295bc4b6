"""librdkafka's mock broker, reachable from other processes over TCP."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from confluent_kafka import Producer

PARTITIONS = 4


class Broker:
    """A cluster of one broker. Writing to a topic creates it with PARTITIONS partitions."""

    def __init__(self) -> None:
        self.producer = Producer(
            {"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "log_level": 0}
        )
        (broker,) = self.producer.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def send(self, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        for value in values:
            self.producer.produce(topic, value=value, partition=partition)
        assert self.producer.flush(10) == 0


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    yield Broker()
