"""Consume the messages of a range as record batches, in a Python worker."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, Message, TopicPartition

from runtime.connectors.avro.decoding import AvroDecoding, BrokenMessageError, decode_avro
from runtime.connectors.kafka.client import LATER_SECONDS, Client
from runtime.connectors.kafka.decode import arrow_type, column_of, decode_values
from runtime.connectors.kafka.offsets import (
    FIRST,
    NEXT,
    Range,
    Reading,
    lost_messages_error,
    offsets_at_time,
)
from runtime.errors import ExecutionError
from runtime.spec.source import WATERMARK_SPLIT

# Maximum messages and bytes of a record batch
_BATCH_MESSAGES = 20_000
_BATCH_BYTES = 8 << 20
_ONE_CALL = 1_000
_CALL_SECONDS = 0.5
_PAIR = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

# Columns of a message: type and function of the message; `at_ms` is its time in milliseconds
_VALUES: Mapping[str, tuple[pa.DataType, Callable[[Any], Any]]] = {
    "key": (pa.binary(), lambda m: m.key()),
    "value": (pa.binary(), lambda m: m.value()),
    "offset": (pa.int64(), lambda m: m.offset()),
    "at_ms": (pa.int64(), lambda m: m.timestamp()[1] if m.timestamp()[0] else None),
    # Java's numbers start at -1: no time, create time, log append time
    "timestampType": (pa.int32(), lambda m: m.timestamp()[0] - 1),
    "headers": (pa.list_(pa.field("element", _PAIR)), lambda m: m.headers() or None),
    "tombstone": (pa.bool_(), lambda m: m.value() is None),
}
_GONE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
# Errors of a group's coordinator, which is not used
_OF_GROUPS = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.COORDINATOR_NOT_AVAILABLE)


@dataclass(frozen=True)
class ConsumedMessages:
    """Messages of one range, at least one.

    Attributes:
        source: Range of the messages.
        rows: Messages, or only their values: a librdkafka object is three times the size of a short
            message, and its memory is reused at once if it is not kept.
        offsets: Offsets of values, in the order of `rows`. None if `rows` are messages.
    """

    source: Range
    rows: list[Any]
    offsets: list[Sequence[int]] | None = None

    def values(self) -> list[bytes | None]:
        """Return the message values."""
        return list(map(Message.value, self.rows)) if self.offsets is None else self.rows

    def offset(self, number: int) -> int:
        """Return the offset of a message."""
        return int(self.column("offset")[number].as_py())

    def column(self, name: str) -> pa.Array:
        """Return a column of the messages, see `Reading.columns`."""
        if name == "topic":
            return pa.repeat(pa.scalar(self.source.topic, pa.string()), len(self.rows))
        if name == "partition":
            return pa.repeat(pa.scalar(self.source.partition, pa.int32()), len(self.rows))
        type_, value = _VALUES[name]
        if self.offsets is None:
            cells: list[Any] = [value(message) for message in self.rows]
        else:
            cells = list(chain.from_iterable(self.offsets)) if name == "offset" else self.rows
        return pa.array(cells, type=type_)


class _Buffer:
    """Consumed messages of a range that have not been returned yet."""

    def __init__(self, reading: Reading, source: Range) -> None:
        self._source = source
        # other columns need the complete messages
        self._has_values_only = set(reading.columns) <= {"topic", "partition", "offset", "value"}
        self._empty()

    def _empty(self) -> None:
        self._rows: list[Any] = []
        self._offsets: list[Sequence[int]] = []
        self._n_bytes = 0

    def add(self, messages: list[Any]) -> None:
        """Append messages in order."""
        self._n_bytes += sum(map(len, messages))
        if not self._has_values_only:
            self._rows += messages
            return
        self._rows += map(Message.value, messages)
        between = range(messages[0].offset(), messages[-1].offset() + 1)
        has_gaps = len(between) != len(messages)
        self._offsets.append([message.offset() for message in messages] if has_gaps else between)

    def take(self, *, all_of_it: bool = False) -> Iterator[ConsumedMessages]:
        """Yield the buffered messages if they fill a record batch, or always if `all_of_it`."""
        is_enough = len(self._rows) >= _BATCH_MESSAGES or self._n_bytes >= _BATCH_BYTES
        if self._rows and (is_enough or all_of_it):
            messages = ConsumedMessages(self._source, self._rows, self._offsets or None)
            self._empty()
            yield messages


def read_range(client: Client, reading: Reading, offsets: Range) -> Iterator[pa.RecordBatch]:
    """Yield the messages between two offsets, each once; see `messages_of`."""
    for messages in messages_of(client, reading, offsets):
        yield record_batch(messages, reading)


def read_ranges(reading: Reading, ranges: Sequence[Range]) -> Iterator[ConsumedMessages]:
    """Yield the messages of ranges, one range after the other, as `messages_of` does.

    Two consumers take turns: while one range is read, the other consumer fetches the start of the
    next, so that only the first range has to be waited for.

    Args:
        reading: Configuration and columns.
        ranges: Ranges in order.

    Raises:
        ExecutionError: Messages are lost, or Kafka does not answer.
    """
    clients: list[Client] = []
    try:
        for first in ranges[:2]:
            clients.append(Client(reading.config, retries=reading.retries, table=reading.table))
            _assign(clients[-1], first)
        for number, current in enumerate(ranges):
            client = clients[number % 2]
            yield from messages_of(client, reading, current, is_assigned=True)
            if number + 2 < len(ranges):
                after = ranges[number + 2]
                if after.topic != current.topic:
                    # without this request, a consumer waits most of a second for a topic that is
                    # new to it
                    client.partitions((after.topic,), "")
                _assign(client, after)
    finally:
        for client in clients:
            client.kafka.close()


def _assign(client: Client, offsets: Range) -> None:
    client.kafka.assign([TopicPartition(offsets.topic, offsets.partition, offsets.start)])


def messages_of(
    client: Client, reading: Reading, wanted: Range, *, is_assigned: bool = False
) -> Iterator[ConsumedMessages]:
    """Yield the messages between two offsets, each once, some thousand at a time.

    Args:
        client: Consumer.
        reading: Configuration and columns.
        wanted: Range. A compacted topic may have fewer messages than offsets.
        is_assigned: Whether the client already fetches the range.

    Raises:
        ExecutionError: Messages are lost, or Kafka does not answer.
    """
    position = wanted.start
    buffer = _Buffer(reading, wanted)
    if not is_assigned:
        _assign(client, wanted)
    last_sign = time.monotonic()
    ended_at: int | None = None
    # searching the many new objects for cycles takes as long as fetching them
    has_collector = gc.isenabled()
    gc.disable()
    try:
        while position < wanted.end:
            ask_for = min(_ONE_CALL, wanted.end - position)
            arrived = client.kafka.consume(ask_for, timeout=_CALL_SECONDS)
            silence_s = time.monotonic() - last_sign
            has_time = silence_s < client.patience_s
            if arrived:
                client.answered()
            else:
                client.waits()
                if silence_s >= LATER_SECONDS and ended_at is not None:
                    if reading.skips_lost:
                        break
                    what = f"it ends at offset {ended_at}, but ended at {wanted.end} before"
                    raise lost_messages_error(wanted.topic, wanted.partition, what)
                client.check(None, has_time=has_time)
            if _is_plain(arrived, position, wanted.end):
                last_sign = time.monotonic()
                position = arrived[-1].offset() + 1
                buffer.add(arrived)
                arrived = []
            for message in arrived:
                error = message.error()
                if error is None:
                    if message.offset() < position:
                        continue
                    last_sign = time.monotonic()
                    position = message.offset() + 1
                    if position <= wanted.end:
                        buffer.add([message])
                elif error.code() == KafkaError._PARTITION_EOF:
                    # offsets missing before the end are transaction markers or compacted messages
                    ended_at = message.offset()
                    position = max(position, ended_at)
                    last_sign = time.monotonic()
                elif error.code() in _GONE:
                    position = _first_available(client, reading, wanted, position)
                elif error.code() not in _OF_GROUPS:
                    client.check(error, has_time=has_time)
            yield from buffer.take()
    finally:
        client.kafka.unassign()
        if has_collector:
            gc.enable()
    yield from buffer.take(all_of_it=True)


def _is_plain(arrived: list[Any], position: int, end: int) -> bool:
    """Return whether these are all messages of the range without errors. Most chunks are."""
    if not arrived or any(map(Message.error, arrived)):
        return False
    return bool(position <= arrived[0].offset() and arrived[-1].offset() < end)


def _first_available(client: Client, reading: Reading, offsets: Range, position: int) -> int:
    """Return the first available offset after lost messages."""
    place = offsets.topic, offsets.partition
    client.kafka.unassign()
    first, end = (
        offsets_at_time(client, [place], FIRST)[place],
        offsets_at_time(client, [place], NEXT)[place],
    )
    if not reading.skips_lost:
        available = (
            f"the partition has offsets {first} to {end - 1}"
            if end > first
            else "the partition is empty"
        )
        raise lost_messages_error(*place, f"offset {position} is missing; {available}")
    if first <= position:
        return offsets.end
    client.kafka.assign([TopicPartition(*place, first)])
    return first


def record_batch(messages: ConsumedMessages, reading: Reading) -> pa.RecordBatch:
    """Return columns of messages, and their decoded fields if the worker decodes them."""
    how, n_rows = reading.decoding, len(messages.rows)
    fields = _fields(messages, reading)
    arrays = []
    for name in reading.columns:
        array = messages.column(name)
        if fields is not None and name in reading.for_errors:
            array = pa.nulls(n_rows, array.type)
        arrays.append(array)
    names = list(reading.columns)
    if how is not None:
        arrays += fields or [pa.nulls(n_rows, arrow_type(type_)) for _, type_ in how.fields]
        names += [column_of(position) for position in range(len(how.fields))]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def table_rows(messages: ConsumedMessages, reading: Reading) -> pa.RecordBatch:
    """Return the table columns in `reading.wanted`, or messages for Spark to decode.

    Args:
        messages: Messages of a range.
        reading: Configuration with `wanted`.

    Returns:
        `wanted`, or `columns` and WATERMARK_SPLIT.
    """
    assert reading.wanted is not None
    how = reading.decoding
    fields = _fields(messages, reading)
    if how is not None and fields is None:
        arrays = [messages.column(name) for name in reading.columns]
        number = pa.scalar(reading.split_of(messages.source), pa.int32())
        split = pa.repeat(number, len(messages.rows))
        return pa.RecordBatch.from_arrays(
            [*arrays, split], names=[*reading.columns, WATERMARK_SPLIT]
        )
    arrays = []
    for _, place in reading.wanted:
        if isinstance(place, int):
            assert fields is not None
            arrays.append(fields[place])
        elif place == "at_ms":
            times = messages.column(place).cast(pa.timestamp("ms", "UTC"))
            arrays.append(times.cast(pa.timestamp("us", "UTC")))
        else:
            arrays.append(messages.column(place))
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in reading.wanted])


def _fields(messages: ConsumedMessages, reading: Reading) -> list[pa.Array] | None:
    """Return the decoded fields of messages, or None if Spark decodes them.

    Raises:
        ExecutionError: A message is invalid, and its format is not one that Spark decodes.
    """
    how = reading.decoding
    if how is None:
        return None
    values = messages.values()
    if not isinstance(how, AvroDecoding):
        return decode_values(values, how)
    try:
        return decode_avro(values, how)
    except BrokenMessageError as broken:
        source = messages.source
        place = f"partition {source.partition}, offset {messages.offset(broken.number)}"
        raise ExecutionError(
            f"topic '{source.topic}', {place}: the message cannot be read as Avro: {broken}",
            hint="set 'avro.schema' to the schema it was written with"
            if how.schema
            else "use 'format' = 'avro' for messages without a schema id",
        ) from broken
