"""Compute which messages to read: start and end of each micro-batch.

An offset of a stream holds both the start and the end of its micro-batch by partition: `{"from":
{"clicks": {"0": 5}}, "to": {"clicks": {"0": 9}}}`. So a repeated micro-batch reads the same
messages, including the first one, for which Spark stores no start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from runtime.connectors.avro.decoding import AvroDecoding
from runtime.connectors.kafka.decode import Decoding
from runtime.errors import ExecutionError
from runtime.outages import Retries

if TYPE_CHECKING:
    from runtime.connectors.kafka.client import Client

# Topic and partition
Place = tuple[str, int]
Offsets = dict[Place, int]
EARLIEST, LATEST, GROUP, TIMESTAMP, OFFSETS = "earliest", "latest", "group", "timestamp", "offsets"
# With up to _FEW messages a task takes longer to start than to read. More than _MANY are too many
# for one task, because a failed task starts over.
_FEW, _MANY = 20_000, 2_000_000
# Special timestamps in Kafka's request for offsets
FIRST, NEXT = -2, -1


@dataclass(frozen=True)
class Reading:
    """Description of the messages to read from Kafka.

    Attributes:
        table: Table name for error messages.
        config: Configuration of librdkafka.
        topics: Topics to read. Empty if `pattern` selects them.
        pattern: Regular expression for whole topic names.
        start: Start of reading: EARLIEST, LATEST, GROUP (committed offsets of the consumer group),
            TIMESTAMP or OFFSETS.
        start_ms: Time of TIMESTAMP in milliseconds since 1970.
        start_offsets: Offsets by partition for OFFSETS. Other partitions start at their first
            message.
        reset: EARLIEST or LATEST, for partitions without a committed offset.
        end_ms: A batch ends at the first message of this time. None to end at the last message.
        most: Maximum number of messages of a micro-batch.
        min_partitions: Minimum number of tasks.
        skips_lost: Whether missing messages are ignored.
        discovery_s: Interval of the search for new topics and partitions. 0 to search only at the
            start.
        columns: Message columns to read, in order; see `messages`.
        decoding: How the worker decodes values, into columns after these. None if Spark does.
        for_errors: Subset of the columns that is only needed for errors about undecodable messages;
            NULL for decoded ones.
        wanted: Columns that a local stage reads from Kafka itself: name, and position of the field
            in `decoding` or name of a message column. None if Spark reads the rows.
        retries: Retries of a stream while the brokers are away. None for a batch.
    """

    table: str
    config: Mapping[str, str]
    topics: tuple[str, ...] = ()
    pattern: str = ""
    start: str = EARLIEST
    start_ms: int = 0
    start_offsets: Mapping[str, int] = field(default_factory=dict)
    reset: str = LATEST
    end_ms: int | None = None
    most: int | None = None
    min_partitions: int = 0
    skips_lost: bool = False
    discovery_s: float = 10.0
    columns: tuple[str, ...] = ()
    decoding: Decoding | AvroDecoding | None = None
    for_errors: tuple[str, ...] = ()
    wanted: tuple[tuple[str, int | str], ...] | None = None
    retries: Retries | None = None

    def text(self) -> str:
        """Return the JSON form for a Spark option."""
        return json.dumps(asdict(self))

    def split_of(self, source: Range) -> int:
        """Return a partition's number among the partitions of all topics; 0 for a pattern."""
        if not self.topics:
            return 0
        return source.partition * len(self.topics) + self.topics.index(source.topic)

    @classmethod
    def of(cls, text: str) -> Reading:
        """Parse the result of `text`."""
        values = json.loads(text)
        if how := values["decoding"]:
            fields = tuple((name, type_) for name, type_ in how["fields"])
            kind = AvroDecoding if "registry" in how else Decoding
            values["decoding"] = kind(**{**how, "fields": fields})
        tuples = {name: tuple(values[name]) for name in ("topics", "columns", "for_errors")}
        if values["wanted"] is not None:
            tuples["wanted"] = tuple((name, place) for name, place in values["wanted"])
        if values["retries"] is not None:
            values["retries"] = Retries(**values["retries"])
        return cls(**{**values, **tuples})


@dataclass(frozen=True)
class Range:
    """Messages of a partition from one offset up to another, exclusive."""

    topic: str
    partition: int
    start: int
    end: int

    def text(self) -> str:
        """Return the JSON form for tasks."""
        return json.dumps([self.topic, self.partition, self.start, self.end])

    @classmethod
    def of(cls, text: str) -> Range:
        """Parse the result of `text`."""
        return cls(*json.loads(text))


def find_start(client: Client, reading: Reading) -> Offsets:
    """Return the start of a new stream or a batch.

    Raises:
        ExecutionError: A topic or an offset does not exist, or Kafka does not answer.
    """
    places = client.partitions(reading.topics, reading.pattern)
    match reading.start:
        case "latest":
            return offsets_at_time(client, places, NEXT)
        case "timestamp":
            return offsets_at_time(client, places, reading.start_ms)
        case "offsets":
            return _specific_offsets(client, reading, places)
        case "group":
            return _group_offsets(client, reading, places)
    return offsets_at_time(client, places, FIRST)


def _specific_offsets(client: Client, reading: Reading, partitions: Sequence[Place]) -> Offsets:
    offsets, ends = (
        offsets_at_time(client, partitions, FIRST),
        offsets_at_time(client, partitions, NEXT),
    )
    (topic,) = reading.topics
    for partition, offset in reading.start_offsets.items():
        place = topic, int(partition)
        if place not in offsets:
            raise ExecutionError(
                f"topic '{topic}' has no partition {partition}, which "
                "'scan.startup.specific-offsets' names",
                hint=f"available partitions: {', '.join((str(p) for _, p in offsets))}",
            )
        if not offsets[place] <= offset <= ends[place]:
            raise ExecutionError(
                f"topic '{topic}', partition {partition} has no offset {offset}, which "
                "'scan.startup.specific-offsets' names",
                hint=f"available offsets: {offsets[place]} to {ends[place]} (the next one)",
            )
        offsets[place] = offset
    return offsets


def _group_offsets(client: Client, reading: Reading, places: Sequence[Place]) -> Offsets:
    from confluent_kafka import TopicPartition

    offsets = offsets_at_time(client, places, FIRST if reading.reset == EARLIEST else NEXT)
    partitions = [TopicPartition(*place) for place in places]
    committed = client.ask(lambda timeout: client.kafka.committed(partitions, timeout=timeout))
    return offsets | {
        (partition.topic, partition.partition): partition.offset
        for partition in committed
        if partition.offset >= 0
    }


def offsets_at_time(client: Client, places: Iterable[Place], ms: int) -> Offsets:
    """Return the first offsets at or after a time in milliseconds since 1970, or else the ends.

    Raises:
        ExecutionError: Kafka does not answer.
    """
    from confluent_kafka import KafkaException, TopicPartition

    def ask(times: list[Any]) -> list[Any]:
        def query(timeout: float) -> list[Any]:
            answers: list[Any] = client.kafka.offsets_for_times(times, timeout=timeout)
            if failed := next((a.error for a in answers if a.error is not None), None):
                raise KafkaException(failed)
            return answers

        return client.ask(query) if times else []

    answers = ask([TopicPartition(topic, partition, ms) for topic, partition in places])
    later = [TopicPartition(a.topic, a.partition, NEXT) for a in answers if a.offset < 0]
    answers = [a for a in answers if a.offset >= 0] + ask(later)
    ordered = sorted(answers, key=lambda a: (a.topic, a.partition))
    return {(a.topic, a.partition): int(a.offset) for a in ordered}


def batch_ranges(client: Client, reading: Reading) -> list[Range]:
    """Return the ranges that a batch reads.

    Raises:
        ExecutionError: A topic does not exist, or Kafka does not answer.
    """
    start = find_start(client, reading)
    if not start:
        raise ExecutionError(
            f"no topic matches '{reading.pattern}'",
            hint="'topic-pattern' must match the whole name of a topic",
        )
    end = offsets_at_time(client, start, NEXT if reading.end_ms is None else reading.end_ms)
    return spread(_ranges(start, end), reading.min_partitions)


def first_offset(start: Offsets) -> dict[str, Any]:
    """Return the offset of a stream that has read nothing."""
    return {"from": _offsets_by_topic(start), "to": _offsets_by_topic(start)}


def next_offset(
    client: Client,
    reading: Reading,
    last: Mapping[str, Any],
    partitions: Sequence[Place],
    most: int | None,
    target: Offsets | None = None,
) -> Mapping[str, Any]:
    """Return the end of the next micro-batch, or `last` without new messages.

    Args:
        client: Kafka client.
        reading: What to read.
        last: Offset of the previous micro-batch.
        partitions: Existing partitions. New ones are read from their first message.
        most: Maximum number of messages.
        target: Limit of reading.

    Raises:
        ExecutionError: Messages are lost, or Kafka does not answer.
    """
    begin = _offsets_by_partition(last["to"])
    for place in sorted(begin.keys() - set(partitions)):
        _lost(reading, place, "the partition no longer exists")
        del begin[place]
    begin |= offsets_at_time(client, [place for place in partitions if place not in begin], FIRST)
    end = offsets_at_time(client, begin, NEXT) if target is None else target
    until: Offsets = {}
    for place, offset in begin.items():
        last_offset = end.get(place, offset)
        if last_offset < offset and target is None:
            _lost(
                reading,
                place,
                f"it ends at offset {last_offset}, before offset {offset}, which is next to read",
            )
            begin[place] = offsets_at_time(client, [place], FIRST)[place]
        until[place] = max(last_offset, begin[place])
    if most is not None:
        until = _limit(begin, until, most)
    return (
        last
        if until == _offsets_by_partition(last["to"])
        else {"from": _offsets_by_topic(begin), "to": _offsets_by_topic(until)}
    )


def _limit(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """Limit the number of messages, dividing it among partitions in proportion."""
    sizes = {place: end[place] - begin[place] for place in end}
    total = sum(sizes.values())
    if total <= most:
        return end
    limited = dict(begin)
    remaining = most
    n_waiting = sum(size > 0 for size in sizes.values())
    # longest first, so that no partition waits forever
    for place, size in sorted(sizes.items(), key=lambda item: -item[1]):
        n_waiting -= size > 0
        # Rounded up, with at least one message for each waiting partition: watermarks depend on the
        # partitions that have had rows, and rows of one that starts later would be late.
        share = min(size, max(remaining - n_waiting, remaining > 0), -(-size * most // total))
        remaining -= share
        limited[place] += share
    return limited


def planned_ranges(
    reading: Reading, start: Mapping[str, Any], end: Mapping[str, Any]
) -> list[Range]:
    """Return the ranges that a micro-batch reads.

    Args:
        reading: What to read.
        start: Offset of the previous micro-batch, or `first_offset` for the first one.
        end: Its own offset.
    """
    if start == end:
        return []
    return spread(
        _ranges(_offsets_by_partition(end["from"]), _offsets_by_partition(end["to"])),
        reading.min_partitions,
    )


def _offsets_by_partition(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {
        (topic, int(p)): offset
        for topic, partitions in topics.items()
        for p, offset in partitions.items()
    }


def _offsets_by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Return offsets by topic and partition, as stored in a checkpoint."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def _ranges(start: Offsets, end: Offsets) -> list[Range]:
    first = {place: start.get(place, until) for place, until in end.items()}
    return [Range(*place, first[place], end[place]) for place in end if end[place] > first[place]]


def spread(ranges: list[Range], least: int) -> list[Range]:
    """Split ranges until there are at least `least`, as far as they have enough messages."""
    if len(ranges) >= least:
        return ranges
    total = sum(range_.end - range_.start for range_ in ranges)
    return [part for range_ in ranges for part in _split_range(range_, least, total)]


def _split_range(messages: Range, least: int, total: int) -> Iterator[Range]:
    size = messages.end - messages.start
    n_parts = min(size, max(1, -(-size * least // total)))
    bounds = [messages.start + size * i // n_parts for i in range(n_parts + 1)]
    for start, end in pairwise(bounds):
        yield Range(messages.topic, messages.partition, start, end)


def portions(ranges: Sequence[Range], n_tasks: int, least: int = 0) -> list[tuple[Range, ...]]:
    """Divide ranges among tasks, with about the same number of messages for each.

    Args:
        ranges: Ranges to read. They are split at task boundaries.
        n_tasks: Preferred number of tasks: fewer for few messages, more for many.
        least: Minimum number of tasks, if there are enough messages.
    """
    total = sum(range_.end - range_.start for range_ in ranges)
    preferred = max(min(n_tasks, -(-total // _FEW)), -(-total // _MANY))
    n_portions = min(total, max(preferred, least))
    tasks: list[tuple[Range, ...]] = []
    portion: list[Range] = []
    n_before = 0
    for range_ in ranges:
        start = range_.start
        while start < range_.end:
            # end of the current portion, counted in messages from the first one
            room = total * (len(tasks) + 1) // n_portions - n_before
            end = min(range_.end, start + room)
            portion.append(Range(range_.topic, range_.partition, start, end))
            n_before += end - start
            start = end
            if n_before == total * (len(tasks) + 1) // n_portions:
                tasks.append(tuple(portion))
                portion = []
    return tasks


def _lost(reading: Reading, place: Place, what: str) -> None:
    if not reading.skips_lost:
        raise lost_messages_error(*place, what)


def lost_messages_error(topic: str, partition: int, what: str) -> ExecutionError:
    """Return the error for messages that no longer exist."""
    return ExecutionError(
        f"topic '{topic}', partition {partition}: messages were lost: {what}",
        hint="'failOnDataLoss' = 'false' continues with the remaining messages",
    )
