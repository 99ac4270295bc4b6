"""Which messages are read: where reading begins and ends, micro-batch by micro-batch.

An offset of a stream says from where its micro-batch reads and up to where, partition by partition:
`{"from": {"clicks": {"0": 5}}, "to": {"clicks": {"0": 9}}}`. So a micro-batch that is run again
reads the same messages, also the first one, of which Spark keeps no beginning.
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

if TYPE_CHECKING:
    from runtime.connectors.kafka.client import Client

# Topic and partition
Place = tuple[str, int]
Offsets = dict[Place, int]
EARLIEST, LATEST, GROUP, TIMESTAMP, OFFSETS = "earliest", "latest", "group", "timestamp", "offsets"
# Of so many messages or fewer a task takes longer to start than to read them; and so many are
# enough for one, since one that fails begins anew
_FEW, _MANY = 20_000, 2_000_000
# What Kafka takes in place of a time
FIRST, NEXT = -2, -1


@dataclass(frozen=True)
class Reading:
    """What is read of Kafka, and how.

    Attributes:
        table: as errors call it.
        config: of librdkafka.
        topics: those that are read; none: those that a pattern fits.
        pattern: of their whole names.
        start: where reading begins: EARLIEST, LATEST, GROUP (where the group of the consumers has
            committed), TIMESTAMP or OFFSETS.
        start_ms: the time of TIMESTAMP, in milliseconds since 1970.
        start_offsets: the partitions of OFFSETS; others begin at their first message.
        reset: EARLIEST or LATEST, for partitions in which the group has committed nothing.
        end_ms: a batch ends at the first message of that time; None: at what is the last.
        most: so many messages a micro-batch at most.
        min_partitions: over so many tasks they are spread at least.
        skips_lost: whether messages may be missing that should be there.
        discovery_s: so often new topics and partitions are looked for; 0: only at the start.
        columns: those of a message that are wanted, in their order; see `messages`.
        decoding: how the worker makes columns of values, which stand after these; None: Spark does.
        for_errors: those of the columns that only say what cannot be decoded: NULL in what is.
        wanted: of a local stage that reads Kafka itself, the columns of the table that it reads:
            the name of each, and the place of its field in `decoding` or a column of messages.
            None: rows are read by Spark.
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

    def text(self) -> str:
        """As it goes into an option of Spark's."""
        return json.dumps(asdict(self))

    def split_of(self, source: Range) -> int:
        """The number of a partition among those of all topics; 0 where these are not named."""
        if not self.topics:
            return 0
        return source.partition * len(self.topics) + self.topics.index(source.topic)

    @classmethod
    def of(cls, text: str) -> Reading:
        """What `text` gave."""
        said = json.loads(text)
        if how := said["decoding"]:
            fields = tuple((name, type_) for name, type_ in how["fields"])
            kind = AvroDecoding if "registry" in how else Decoding
            said["decoding"] = kind(**{**how, "fields": fields})
        tuples = {name: tuple(said[name]) for name in ("topics", "columns", "for_errors")}
        if said["wanted"] is not None:
            tuples["wanted"] = tuple((name, place) for name, place in said["wanted"])
        return cls(**{**said, **tuples})


@dataclass(frozen=True)
class Range:
    """Messages of a partition, from one offset up to another, which is left out."""

    topic: str
    partition: int
    start: int
    end: int

    def text(self) -> str:
        """As it goes to a task."""
        return json.dumps([self.topic, self.partition, self.start, self.end])

    @classmethod
    def of(cls, text: str) -> Range:
        """What `text` gave."""
        return cls(*json.loads(text))


def starting(client: Client, reading: Reading) -> Offsets:
    """Where a new stream, or a batch, begins.

    Raises:
        ExecutionError: there is no such topic, no answer, or no such offset.
    """
    there = client.partitions(reading.topics, reading.pattern)
    match reading.start:
        case "latest":
            return at_time(client, there, NEXT)
        case "timestamp":
            return at_time(client, there, reading.start_ms)
        case "offsets":
            return _as_said(client, reading, there)
        case "group":
            return _committed(client, reading, there)
    return at_time(client, there, FIRST)


def _as_said(client: Client, reading: Reading, there: Sequence[Place]) -> Offsets:
    found, ends = at_time(client, there, FIRST), at_time(client, there, NEXT)
    (topic,) = reading.topics
    for partition, offset in reading.start_offsets.items():
        place = topic, int(partition)
        if place not in found:
            raise ExecutionError(
                f"topic '{topic}' has no partition {partition}, which "
                "'scan.startup.specific-offsets' names",
                hint=f"it has {', '.join(str(p) for _, p in found)}",
            )
        if not found[place] <= offset <= ends[place]:
            raise ExecutionError(
                f"topic '{topic}', partition {partition} has no offset {offset}, which "
                "'scan.startup.specific-offsets' names",
                hint=f"it has those from {found[place]} up to {ends[place]}, the next one",
            )
        found[place] = offset
    return found


def _committed(client: Client, reading: Reading, there: Sequence[Place]) -> Offsets:
    from confluent_kafka import TopicPartition

    found = at_time(client, there, FIRST if reading.reset == EARLIEST else NEXT)
    asked = [TopicPartition(*place) for place in there]
    committed = client.ask(lambda timeout: client.kafka.committed(asked, timeout=timeout))
    return found | {
        (each.topic, each.partition): each.offset for each in committed if each.offset >= 0
    }


def at_time(client: Client, places: Iterable[Place], ms: int) -> Offsets:
    """The first offsets of a time in milliseconds since 1970, or what comes next if there is none.

    Raises:
        ExecutionError: Kafka does not answer.
    """
    from confluent_kafka import KafkaException, TopicPartition

    def ask(times: list[Any]) -> list[Any]:
        def found(timeout: float) -> list[Any]:
            answers: list[Any] = client.kafka.offsets_for_times(times, timeout=timeout)
            if failed := next((a.error for a in answers if a.error is not None), None):
                raise KafkaException(failed)
            return answers

        return client.ask(found) if times else []

    answers = ask([TopicPartition(topic, partition, ms) for topic, partition in places])
    later = [TopicPartition(a.topic, a.partition, NEXT) for a in answers if a.offset < 0]
    answers = [a for a in answers if a.offset >= 0] + ask(later)
    ordered = sorted(answers, key=lambda a: (a.topic, a.partition))
    return {(a.topic, a.partition): int(a.offset) for a in ordered}


def batch_ranges(client: Client, reading: Reading) -> list[Range]:
    """What a batch reads.

    Raises:
        ExecutionError: there is no such topic, or no answer.
    """
    start = starting(client, reading)
    if not start:
        raise ExecutionError(
            f"no topic fits '{reading.pattern}'", hint="'topic-pattern' is of their whole names"
        )
    end = at_time(client, start, NEXT if reading.end_ms is None else reading.end_ms)
    return spread(_ranges(start, end), reading.min_partitions)


def first_offset(start: Offsets) -> dict[str, Any]:
    """The offset of a stream that has read nothing."""
    return {"from": _by_topic(start), "to": _by_topic(start)}


def next_offset(
    client: Client,
    reading: Reading,
    last: Mapping[str, Any],
    there: Sequence[Place],
    most: int | None,
    target: Offsets | None = None,
) -> Mapping[str, Any]:
    """Up to where the next micro-batch reads; `last`, if there is nothing new.

    Args:
        client: asks Kafka.
        reading: what is read.
        last: the offset of the micro-batch before.
        there: the partitions there are now; new ones are read from their first message.
        most: so many messages at most.
        target: it reads no further than that.

    Raises:
        ExecutionError: messages are lost, or there is no answer.
    """
    begin = _by_place(last["to"])
    for place in sorted(begin.keys() - set(there)):
        _lost(reading, place, "there is none any more")
        del begin[place]
    begin |= at_time(client, [place for place in there if place not in begin], FIRST)
    end = at_time(client, begin, NEXT) if target is None else target
    until: Offsets = {}
    for place, offset in begin.items():
        found = end.get(place, offset)
        if found < offset and target is None:
            _lost(reading, place, f"it ends at offset {found}, and {offset} was to be read")
            begin[place] = at_time(client, [place], FIRST)[place]
        until[place] = max(found, begin[place])
    if most is not None:
        until = _limited(begin, until, most)
    return (
        last
        if until == _by_place(last["to"])
        else {"from": _by_topic(begin), "to": _by_topic(until)}
    )


def _limited(begin: Offsets, end: Offsets, most: int) -> Offsets:
    """So many messages, of each partition its share of them."""
    sizes = {place: end[place] - begin[place] for place in end}
    total = sum(sizes.values())
    if total <= most:
        return end
    limited = dict(begin)
    left = most
    n_waiting = sum(size > 0 for size in sizes.values())
    # the longest first, so that none waits for ever
    for place, size in sorted(sizes.items(), key=lambda item: -item[1]):
        n_waiting -= size > 0
        # rounded up, and one at least for each that waits: watermarks go by partitions that have
        # had rows, and one that comes in later would be late
        share = min(size, max(left - n_waiting, left > 0), -(-size * most // total))
        left -= share
        limited[place] += share
    return limited


def planned_ranges(
    reading: Reading, start: Mapping[str, Any], end: Mapping[str, Any]
) -> list[Range]:
    """What a micro-batch reads.

    Args:
        reading: what is read.
        start: the offset of the micro-batch before; of the first one what `first_offset` gave.
        end: its own offset.
    """
    if start == end:
        return []
    return spread(_ranges(_by_place(end["from"]), _by_place(end["to"])), reading.min_partitions)


def _by_place(topics: Mapping[str, Mapping[str, int]]) -> Offsets:
    return {(topic, int(p)): offset for topic, each in topics.items() for p, offset in each.items()}


def _by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, as a checkpoint has them."""
    topics: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, {})[str(partition)] = offset
    return topics


def _ranges(start: Offsets, end: Offsets) -> list[Range]:
    begun = {place: start.get(place, until) for place, until in end.items()}
    return [Range(*place, begun[place], end[place]) for place in end if end[place] > begun[place]]


def spread(ranges: list[Range], least: int) -> list[Range]:
    """Ranges cut into at least so many, where they have enough messages."""
    if len(ranges) >= least:
        return ranges
    total = sum(each.end - each.start for each in ranges)
    return [part for each in ranges for part in _cut(each, least, total)]


def _cut(whole: Range, least: int, total: int) -> Iterator[Range]:
    size = whole.end - whole.start
    n_parts = min(size, max(1, -(-size * least // total)))
    bounds = [whole.start + size * i // n_parts for i in range(n_parts + 1)]
    for start, end in pairwise(bounds):
        yield Range(whole.topic, whole.partition, start, end)


def portions(ranges: Sequence[Range], n_tasks: int, least: int = 0) -> list[tuple[Range, ...]]:
    """The ranges of each task: about as many messages for all of them.

    Args:
        ranges: what is read. Where one task ends and the next one begins a range is cut.
        n_tasks: how many tasks; fewer of few messages, more of many.
        least: at least so many, where there are as many messages.
    """
    total = sum(each.end - each.start for each in ranges)
    wanted = max(min(n_tasks, -(-total // _FEW)), -(-total // _MANY))
    n_portions = min(total, max(wanted, least))
    found: list[tuple[Range, ...]] = []
    portion: list[Range] = []
    n_before = 0
    for each in ranges:
        start = each.start
        while start < each.end:
            # the bound of the portion that is filled, in messages from the first one on
            room = total * (len(found) + 1) // n_portions - n_before
            end = min(each.end, start + room)
            portion.append(Range(each.topic, each.partition, start, end))
            n_before += end - start
            start = end
            if n_before == total * (len(found) + 1) // n_portions:
                found.append(tuple(portion))
                portion = []
    return found


def _lost(reading: Reading, place: Place, what: str) -> None:
    if not reading.skips_lost:
        raise lost(*place, what)


def lost(topic: str, partition: int, what: str) -> ExecutionError:
    """The error for messages that are not there any more."""
    return ExecutionError(
        f"topic '{topic}', partition {partition}: messages are lost: {what}",
        hint="'failOnDataLoss' = 'false' goes on with those that are there",
    )
