"""Records of the end-to-end benchmark, and the windows that they have."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

_FIRST_S = 1_777_600_800
_PER_SECOND = 5_000
WINDOW_S = 10
DELAY_S = 5
# Key of the records that move the watermark behind the last window
_CLOSING = -1
# Key and end
Window = tuple[int, datetime]
Totals = tuple[int, int]


@dataclass(frozen=True)
class Input:
    """Records of a seed: key, value, time.

    Attributes:
        keys: Key of each record.
        values: Value of each record.
        times_ms: Milliseconds since 1970, out of order by less than the watermark's delay.
    """

    keys: np.ndarray
    values: np.ndarray
    times_ms: np.ndarray


def make(n_records: int, n_keys: int, seed: int) -> Input:
    """Return random records, 5,000 per second of event time."""
    rng = np.random.default_rng(seed)
    at_ms = _FIRST_S * 1000 + np.arange(n_records) * 1000 // _PER_SECOND
    at_ms -= rng.integers(0, (DELAY_S - 1) * 1000, n_records)
    values = rng.integers(-1_000_000, 1_000_000, n_records)
    return Input(rng.integers(0, n_keys, n_records), values, at_ms)


def expected(records: Input) -> dict[Window, Totals]:
    """Return COUNT and SUM by key and end of window, computed without sqlwin."""
    ends_s = records.times_ms // 1000 // WINDOW_S * WINDOW_S + WINDOW_S
    pairs = np.stack([records.keys, ends_s])
    windows, places = np.unique(pairs, axis=1, return_inverse=True)
    counts = np.bincount(places.ravel())
    sums = np.zeros(len(counts), np.int64)
    np.add.at(sums, places.ravel(), records.values)
    rows = zip(*windows.tolist(), counts.tolist(), sums.tolist(), strict=True)
    return {(key, time_of(end_s * 1000)): (n, total) for key, end_s, n, total in rows}


def send(records: Input, address: str, topic: str, partitions: int) -> None:
    """Send the records as JSON, then to each partition one that closes the last windows."""
    producer = Producer({
        "bootstrap.servers": address, "linger.ms": 20, "queue.buffering.max.messages": 200_000,
        "enable.idempotence": True,
    })  # fmt: skip
    last_ms = int(records.times_ms.max()) + (WINDOW_S + DELAY_S + 1) * 1000
    rows = list(
        zip(records.keys.tolist(), records.values.tolist(), records.times_ms.tolist(), strict=True)
    )
    rows += [(_CLOSING, 0, last_ms)] * partitions
    # the last rows go to each partition, and the others in turn
    for number, (key, value, at_ms) in enumerate(rows):
        at = time_of(at_ms).isoformat(" ", "milliseconds")
        message = f'{{"k": {key}, "v": {value}, "ts": "{at}"}}'
        while True:
            try:
                producer.produce(topic, message.encode(), partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    left = producer.flush(60)
    assert left == 0, f"{left} messages were not delivered"


def time_of(at_ms: int) -> datetime:
    """Return a time in UTC without a zone, from milliseconds since 1970."""
    return datetime(1970, 1, 1) + timedelta(milliseconds=at_ms)  # noqa: DTZ001


class Output:
    """A reader of the windows in a topic.

    Args:
        address: Address of a broker.
        topic: Topic.
        partitions: Number of its partitions.
        is_committed: Whether to skip messages of transactions that are open or aborted.
    """

    def __init__(
        self, address: str, topic: str, partitions: int, is_committed: bool = True
    ) -> None:
        self._consumer = Consumer({
            "bootstrap.servers": address, "group.id": "end-to-end", "enable.auto.commit": False,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "fetch.wait.max.ms": 20, "enable.partition.eof": True,
        })  # fmt: skip
        self._partitions = partitions
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._at_end: set[int] = set()
        self.rows: list[tuple[Window, Totals]] = []

    def read(self, seconds: float) -> int:
        """Read for at most this long, and return the number of rows so far."""
        for message in self._consumer.consume(10_000, timeout=seconds):
            if message.error() is not None:
                self._at_end.add(message.partition())
                continue
            self._at_end.discard(message.partition())
            row = json.loads(message.value())
            window = row["k"], datetime.fromisoformat(row["window_end"])
            self.rows.append((window, (row["n"], row["total"])))
        return len(self.rows)

    def read_to_end(self) -> list[tuple[Window, Totals]]:
        """Read up to the end of each partition, close the connections, and return all rows.

        Only for a new reader, because the client reports an end once.
        """
        while len(self._at_end) < self._partitions:
            self.read(0.1)
        self.close()
        return self.rows

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()


@dataclass(frozen=True)
class Verdict:
    """Windows of a topic compared one by one with the expected ones.

    Attributes:
        expected: Number of expected windows.
        equal: Windows that came once, with the right totals.
        missing: Expected windows that did not come.
        doubled: Windows that came more than once.
        wrong: Windows that came once, with other totals or unexpectedly.
    """

    expected: int
    equal: int
    missing: int
    doubled: int
    wrong: int

    @property
    def is_right(self) -> bool:
        """Whether each window arrived once, as expected."""
        return self.equal == self.expected and self.doubled == self.wrong == 0


def compare(expected: dict[Window, Totals], rows: list[tuple[Window, Totals]]) -> Verdict:
    """Compare the windows of a topic with the expected ones."""
    times = Counter(window for window, _ in rows)
    doubled = sum(n > 1 for n in times.values())
    once = [(window, totals) for window, totals in rows if times[window] == 1]
    equal = sum(expected.get(window) == totals for window, totals in once)
    missing = sum(window not in times for window in expected)
    return Verdict(len(expected), equal, missing, doubled, len(once) - equal)
