"""A Kafka broker with transactions, for tests: `python -m ...transactional_broker TOPIC ...`.

librdkafka's mock broker (`broker.py`) accepts transactions but does not carry them out. This one
implements KIP-98 as the protocol guide and the KIP describe it:

- a producer that takes over a transactional id aborts the open transaction and fences the earlier
  producer;
- commit and abort write markers into the log; readers with `read_committed` get records up to the
  last stable offset, and the list of aborted transactions;
- offsets that a transaction commits for a consumer group become visible with its commit;
- records of a retried request are stored once, by their sequence numbers.

One broker holds everything in memory. There is no replication, disk, restart, timeout of
transactions, group membership, login or compression by the broker. Each request is implemented in
one version, none of them with tagged fields, and librdkafka picks that one.
"""

from __future__ import annotations

import argparse
import asyncio
import struct
import subprocess
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")
PARTITIONS = 4
_NODE = 0
_NEVER = -1

# Error codes of the protocol
_OUT_OF_RANGE, _UNKNOWN_TOPIC, _UNSUPPORTED_VERSION = 1, 3, 35
_OUT_OF_ORDER, _INVALID_EPOCH, _INVALID_STATE, _INVALID_ID = 45, 47, 48, 49

# Attributes of a record batch
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
# base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and last time,
# producer, epoch, first sequence number, number of records
_BATCH = struct.Struct(">qiibIhiqqqhii")
_AFTER_CRC = struct.Struct(">hiqqqhii")


@contextmanager
def serve_broker(*topics: str) -> Iterator[str]:
    """Run a broker in another process, with these topics, and return its address."""
    command = [sys.executable, "-m", __name__, *topics]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            # it ends with its standard input
            process.communicate()


class Reader:
    """The fields of a request, read in order."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        """Return a number in a format of `struct`."""
        layout = struct.Struct(f">{form}")
        (value,) = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return int(value)

    def text(self) -> str | None:
        length = self.number("h")
        return None if length < 0 else self._take(length).decode()

    def data(self) -> bytes:
        return self._take(max(0, self.number("i")))

    def array(self, item: Callable[[], T]) -> list[T]:
        return [item() for _ in range(self.number("i"))]

    def topics(self, item: Callable[[], T]) -> list[tuple[str, list[T]]]:
        """Return the items of each topic."""
        return self.array(lambda: (self.text() or "", self.array(item)))

    def _take(self, length: int) -> bytes:
        value = self._data[self._at : self._at + length]
        self._at += length
        return value


def _text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _array(items: Sequence[bytes]) -> bytes:
    return struct.pack(">i", len(items)) + b"".join(items)


def _topics(topics: Sequence[tuple[str, Sequence[bytes]]]) -> bytes:
    return _array([_text(name) + _array(items) for name, items in topics])


@dataclass(frozen=True)
class Batch:
    """A record batch in a log."""

    data: bytes
    first: int
    last: int
    newest_ms: int


@dataclass
class Partition:
    """The log of a partition, and the transactions in it.

    Attributes:
        batches: Record batches by offset.
        end: Offset of the next record.
        open: First offset of each open transaction, by producer.
        aborted: Producer, first offset and marker's offset of each aborted transaction.
        sequences: Of each producer its epoch, the next sequence number, and of its last batches the
            first sequence number and offset.
    """

    batches: list[Batch] = field(default_factory=list)
    end: int = 0
    open: dict[int, int] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    sequences: dict[int, tuple[int, int, list[tuple[int, int]]]] = field(default_factory=dict)

    @property
    def stable(self) -> int:
        """The last stable offset: all transactions before it have ended."""
        return min(self.open.values(), default=self.end)

    def append(self, data: bytes) -> tuple[int, int]:
        """Append a producer's batch. Return an error code and the offset of its first record."""
        fields = _BATCH.unpack_from(data)
        attributes, producer, epoch, sequence, n_records = fields[5], *fields[9:13]
        if producer != _NEVER:
            known_epoch, following, recent = self.sequences.get(producer, (epoch, 0, []))
            if epoch < known_epoch:
                return _INVALID_EPOCH, _NEVER
            if epoch > known_epoch:
                following, recent = 0, []
            for first_sequence, offset in recent:
                if first_sequence == sequence:
                    return 0, offset
            if sequence != following:
                return _OUT_OF_ORDER, _NEVER
            recent = [*recent[-4:], (sequence, self.end)]
            self.sequences[producer] = (epoch, sequence + n_records, recent)
            if attributes & _TRANSACTIONAL:
                self.open.setdefault(producer, self.end)
        offset = self.end
        self._store(data)
        return 0, offset

    def end_transaction(self, producer: int, epoch: int, is_committed: bool) -> None:
        """Write the marker of a transaction's end."""
        first = self.open.pop(producer, None)
        if first is not None and not is_committed:
            self.aborted.append((producer, first, self.end))
        self._store(_marker(producer, epoch, is_committed))

    def fence(self, producer: int, epoch: int) -> None:
        """Refuse records of earlier epochs of a producer from now on."""
        self.sequences[producer] = (epoch, 0, [])

    def read(self, offset: int, most_bytes: int, is_committed: bool) -> list[Batch]:
        """Return batches from an offset, at least one if there is one."""
        limit = self.stable if is_committed else self.end
        result: list[Batch] = []
        n_bytes = 0
        for batch in self.batches[bisect_left(self.batches, offset, key=lambda b: b.last) :]:
            n_bytes += len(batch.data)
            if batch.first >= limit or (result and n_bytes > most_bytes):
                break
            result.append(batch)
        return result

    def offset_at(self, time_ms: int, is_committed: bool) -> int:
        """Return the first offset of a time; -1 is the end, -2 the beginning."""
        if time_ms == -2:
            return 0
        end = self.stable if is_committed else self.end
        if time_ms == -1:
            return end
        return next((b.first for b in self.batches if b.newest_ms >= time_ms), _NEVER)

    def _store(self, data: bytes) -> None:
        fields = _BATCH.unpack_from(data)
        last = self.end + fields[6]
        self.batches.append(
            Batch(struct.pack(">q", self.end) + data[8:], self.end, last, fields[8])
        )
        self.end = last + 1


def _marker(producer: int, epoch: int, is_committed: bool) -> bytes:
    """Return a control batch with one record: the end of a transaction."""
    key, value = struct.pack(">hh", 0, int(is_committed)), struct.pack(">hi", 0, 0)
    # attributes, time and offset deltas, then lengths as zigzag numbers below 64
    record = b"\0\0\0" + bytes([2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    record = bytes([2 * len(record)]) + record
    checked = _AFTER_CRC.pack(_TRANSACTIONAL | _CONTROL, 0, 0, 0, producer, epoch, -1, 1) + record
    head = struct.pack(">qiibI", 0, len(checked) + 9, 0, 2, _crc32c(checked))
    return head + checked


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


Place = tuple[str, int]


@dataclass
class Transaction:
    """A transactional id: its producer, and what its open transaction has changed."""

    producer: int
    epoch: int = 0
    partitions: set[Place] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: dict[tuple[str, Place], int] = field(default_factory=dict)


class Broker:
    """The state of the broker, and one method for each kind of request."""

    def __init__(self, topics: Sequence[str]) -> None:
        self.port = 0
        self._logs: dict[str, list[Partition]] = {}
        self._offsets: dict[tuple[str, Place], int] = {}
        self._transactions: dict[str, Transaction] = {}
        self._n_producers = 0
        self._grown = asyncio.Event()
        # key of the request: name, version, implementation
        self.requests: dict[int, tuple[int, Callable[[Reader], object]]] = {
            0: (7, self._produce),
            1: (5, self._fetch),
            2: (2, self._list_offsets),
            3: (4, self._metadata),
            8: (2, self._offset_commit),
            9: (3, self._offset_fetch),
            10: (1, self._find_coordinator),
            22: (1, self._init_producer),
            24: (0, self._add_partitions),
            25: (0, self._add_offsets),
            26: (1, self._end_transaction),
            28: (1, self._offset_commit_in_transaction),
        }
        for topic in topics:
            self._topic(topic)

    def versions(self, error: int = 0) -> bytes:
        """Return the response to ApiVersions in version 0."""
        listed = [(key, version) for key, (version, _) in self.requests.items()] + [(18, 0)]
        # clients test for features of early versions, and use the latest
        rows = [struct.pack(">hhh", key, 0, version) for key, version in listed]
        return struct.pack(">h", error) + _array(rows)

    def _topic(self, name: str) -> list[Partition]:
        return self._logs.setdefault(name, [Partition() for _ in range(PARTITIONS)])

    def _partition(self, topic: str, number: int) -> Partition | None:
        log = self._logs.get(topic)
        return log[number] if log is not None and 0 <= number < len(log) else None

    def _metadata(self, request: Reader) -> bytes:
        n_topics = request.number("i")
        names = [request.text() or "" for _ in range(max(0, n_topics))]
        may_create = bool(request.number("b"))
        rows = []
        for name in names if n_topics >= 0 else list(self._logs):
            log = self._topic(name) if may_create else self._logs.get(name)
            node = _array([struct.pack(">i", _NODE)])
            partitions = [
                struct.pack(">hii", 0, i, _NODE) + 2 * node for i in range(len(log or ()))
            ]
            error = 0 if log is not None else _UNKNOWN_TOPIC
            rows.append(struct.pack(">h", error) + _text(name) + b"\0" + _array(partitions))
        broker = self._node() + _text(None)
        return struct.pack(">i", 0) + _array([broker]) + _text("mock") + struct.pack(
            ">i", _NODE
        ) + _array(rows)  # fmt: skip

    def _node(self) -> bytes:
        return struct.pack(">i", _NODE) + _text("127.0.0.1") + struct.pack(">i", self.port)

    def _find_coordinator(self, request: Reader) -> bytes:
        return struct.pack(">ih", 0, 0) + _text(None) + self._node()

    def _produce(self, request: Reader) -> bytes:
        request.text()
        request.number("h")
        request.number("i")
        topics = request.topics(lambda: (request.number("i"), request.data()))
        answers = []
        for topic, items in topics:
            rows = []
            for number, data in items:
                partition = self._partition(topic, number)
                error, offset = (
                    (_UNKNOWN_TOPIC, _NEVER) if partition is None else partition.append(data)
                )
                rows.append(struct.pack(">ihqqq", number, error, offset, _NEVER, 0))
            answers.append((topic, rows))
        self._grow()
        return _topics(answers) + struct.pack(">i", 0)

    def _grow(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def _fetch(self, request: Reader) -> bytes:
        request.number("i")
        wait_ms, least, most = (request.number("i") for _ in range(3))
        is_committed = bool(request.number("b"))
        form = "iqqi"
        asked = request.topics(lambda: tuple(request.number(item) for item in form))
        until = asyncio.get_running_loop().time() + wait_ms / 1000
        while True:
            grown = self._grown
            answer, n_bytes, has_error = self._fetched(asked, most, is_committed)
            left = until - asyncio.get_running_loop().time()
            if n_bytes >= least or has_error or left <= 0:
                return answer
            with suppress(TimeoutError):
                await asyncio.wait_for(grown.wait(), left)

    def _fetched(
        self, asked: list[tuple[str, list[tuple[int, ...]]]], most: int, is_committed: bool
    ) -> tuple[bytes, int, bool]:
        """Return the response, the bytes of records in it, and whether it has an error."""
        n_bytes, has_error, answers = 0, False, []
        for topic, items in asked:
            rows = []
            for number, offset, _, most_of_partition in items:
                partition = self._partition(topic, number)
                if partition is None or not 0 <= offset <= partition.end:
                    error = _UNKNOWN_TOPIC if partition is None else _OUT_OF_RANGE
                    rows.append(struct.pack(">ihqqqii", number, error, -1, -1, 0, 0, 0))
                    has_error = True
                    continue
                batches = []
                if n_bytes < most:
                    batches = partition.read(offset, most_of_partition, is_committed)
                data = b"".join(batch.data for batch in batches)
                n_bytes += len(data)
                aborted = []
                if batches and is_committed:
                    aborted = [
                        struct.pack(">qq", producer, first)
                        for producer, first, marker in partition.aborted
                        if marker >= offset and first <= batches[-1].last
                    ]
                rows.append(
                    struct.pack(">ihqqq", number, 0, partition.end, partition.stable, 0)
                    + _array(aborted)
                    + struct.pack(">i", len(data))
                    + data
                )
            answers.append((topic, rows))
        return struct.pack(">i", 0) + _topics(answers), n_bytes, has_error

    def _list_offsets(self, request: Reader) -> bytes:
        request.number("i")
        is_committed = bool(request.number("b"))
        answers = []
        for topic, items in request.topics(lambda: (request.number("i"), request.number("q"))):
            rows = []
            for number, time_ms in items:
                partition = self._partition(topic, number)
                error, offset = _UNKNOWN_TOPIC, _NEVER
                if partition is not None:
                    error, offset = 0, partition.offset_at(time_ms, is_committed)
                rows.append(struct.pack(">ihqq", number, error, _NEVER, offset))
            answers.append((topic, rows))
        return struct.pack(">i", 0) + _topics(answers)

    def _offset_commit(self, request: Reader) -> bytes:
        group = request.text() or ""
        request.number("i")
        request.text()
        request.number("q")
        answers = []
        for topic, items in self._new_offsets(request):
            for number, offset in items:
                self._offsets[group, (topic, number)] = offset
            answers.append((topic, [struct.pack(">ih", number, 0) for number, _ in items]))
        return _topics(answers)

    def _new_offsets(self, request: Reader) -> list[tuple[str, list[tuple[int, int]]]]:
        def item() -> tuple[int, int]:
            number, offset = request.number("i"), request.number("q")
            request.text()
            return number, offset

        return request.topics(item)

    def _offset_fetch(self, request: Reader) -> bytes:
        group = request.text() or ""
        answers = []
        for topic, numbers in request.topics(lambda: request.number("i")):
            offsets = [self._offsets.get((group, (topic, number)), _NEVER) for number in numbers]
            rows = [
                struct.pack(">iq", number, offset) + _text("") + struct.pack(">h", 0)
                for number, offset in zip(numbers, offsets, strict=True)
            ]
            answers.append((topic, rows))
        return struct.pack(">i", 0) + _topics(answers) + struct.pack(">h", 0)

    def _init_producer(self, request: Reader) -> bytes:
        identifier = request.text()
        if identifier is None or identifier not in self._transactions:
            self._n_producers += 1
            new = Transaction(self._n_producers)
            if identifier is not None:
                self._transactions[identifier] = new
            return struct.pack(">ihqh", 0, 0, new.producer, new.epoch)
        transaction = self._transactions[identifier]
        transaction.epoch += 1
        for log in self._logs.values():
            for partition in log:
                partition.fence(transaction.producer, transaction.epoch)
        self._finish(transaction, is_committed=False)
        return struct.pack(">ihqh", 0, 0, transaction.producer, transaction.epoch)

    def _of(self, request: Reader, identifier: str | None) -> tuple[int, Transaction]:
        """Return the transaction that a request is about, and an error code."""
        producer, epoch = request.number("q"), request.number("h")
        transaction = self._transactions.get(identifier or "")
        if transaction is None or transaction.producer != producer:
            return _INVALID_ID, Transaction(producer)
        return (_INVALID_EPOCH if epoch != transaction.epoch else 0), transaction

    def _add_partitions(self, request: Reader) -> bytes:
        error, transaction = self._of(request, request.text())
        answers = []
        for topic, numbers in request.topics(lambda: request.number("i")):
            if not error:
                transaction.partitions |= {(topic, number) for number in numbers}
            answers.append((topic, [struct.pack(">ih", number, error) for number in numbers]))
        return struct.pack(">i", 0) + _topics(answers)

    def _add_offsets(self, request: Reader) -> bytes:
        error, transaction = self._of(request, request.text())
        if not error:
            transaction.groups.add(request.text() or "")
        return struct.pack(">ih", 0, error)

    def _offset_commit_in_transaction(self, request: Reader) -> bytes:
        identifier, group = request.text(), request.text() or ""
        error, transaction = self._of(request, identifier)
        if not error and group not in transaction.groups:
            error = _INVALID_STATE
        answers = []
        for topic, items in self._new_offsets(request):
            if not error:
                transaction.offsets |= {
                    (group, (topic, number)): offset for number, offset in items
                }
            answers.append((topic, [struct.pack(">ih", number, error) for number, _ in items]))
        return struct.pack(">i", 0) + _topics(answers)

    def _end_transaction(self, request: Reader) -> bytes:
        error, transaction = self._of(request, request.text())
        if not error:
            self._finish(transaction, bool(request.number("b")))
        return struct.pack(">ih", 0, error)

    def _finish(self, transaction: Transaction, is_committed: bool) -> None:
        """Write the markers, and store the offsets of a committed transaction."""
        for topic, number in sorted(transaction.partitions):
            partition = self._partition(topic, number)
            assert partition is not None
            partition.end_transaction(transaction.producer, transaction.epoch, is_committed)
        if is_committed:
            self._offsets |= transaction.offsets
        transaction.partitions, transaction.groups, transaction.offsets = set(), set(), {}
        self._grow()


async def _converse(
    broker: Broker, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Answer the requests of a connection in their order."""
    with suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
        while True:
            (length,) = struct.unpack(">i", await reader.readexactly(4))
            request = Reader(await reader.readexactly(length))
            key, version, correlation = (request.number(form) for form in "hhi")
            request.text()
            if key == 18:
                body = broker.versions(_UNSUPPORTED_VERSION if version else 0)
            else:
                implemented, answer = broker.requests[key]
                assert version <= implemented, (key, version)
                result = answer(request)
                body = await result if asyncio.iscoroutine(result) else result
            response = struct.pack(">i", correlation) + body
            writer.write(struct.pack(">i", len(response)) + response)
            await writer.drain()
    writer.close()


async def _serve(topics: Sequence[str]) -> None:
    broker = Broker(topics)

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _converse(broker, reader, writer)

    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=1 << 24)
    broker.port = server.sockets[0].getsockname()[1]
    print(f"127.0.0.1:{broker.port}", flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topics", nargs="*", metavar="TOPIC")
    asyncio.run(_serve(parser.parse_args().topics))
