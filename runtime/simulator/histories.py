"""Histories: everything that a stream cannot choose itself, in the order in which it happens."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Write(StrEnum):
    """A write of a micro-batch that survives a crash, in the order of the writes."""

    OFFSETS = "offsets"  # the rows that the micro-batch reads
    STATE = "state"  # the state of one key group
    OUTPUT = "output"  # the rows in the sink
    COMMIT = "commit"  # the micro-batch is complete


@dataclass(frozen=True)
class Crash:
    """A crash in a micro-batch.

    Attributes:
        write: Kind of the write at which the stream crashes.
        number: Number among the micro-batch's writes of that kind, modulo their count.
        is_after: Whether the write has taken place.
    """

    write: Write
    number: int = 0
    is_after: bool = False


@dataclass(frozen=True)
class Arrival:
    """A row that arrives.

    Attributes:
        row: Number of the row among all rows of all tables.
        task: Task of the local stage that reads it.
        split: Split of its table, which has a watermark of its own. None: splits are not tracked.
    """

    row: int
    task: int = 0
    split: int | None = None


@dataclass(frozen=True)
class Batch:
    """A micro-batch.

    Attributes:
        rows: Rows that have arrived since the previous one.
        clock_us: Processing time at its start, microseconds since 1970 in UTC.
        has_ended: Whether the input has ended.
        crash: Crash during its first attempt. None: it succeeds.
    """

    rows: tuple[Arrival, ...]
    clock_us: int = 0
    has_ended: bool = False
    crash: Crash | None = None


@dataclass(frozen=True)
class Restart:
    """The stream stops and resumes.

    Attributes:
        partitions: Number of tasks after the stop, for which state is rescaled. None: as before.
        is_changed: Whether the stream resumes with the changed query.
    """

    partitions: int | None = None
    is_changed: bool = False


Step = Batch | Restart


@dataclass(frozen=True)
class StreamHistory:
    """What happens to a stream.

    Attributes:
        steps: Events in order. The input has ended in the last micro-batch.
        key_groups: Number of key groups at the first start.
        partitions: Number of tasks at the first start.
        batch_rows: Rows of a record batch, which a task of the local stage processes together.
    """

    steps: tuple[Step, ...]
    key_groups: int = 1
    partitions: int = 1
    batch_rows: int = 16

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The micro-batches."""
        return tuple(step for step in self.steps if isinstance(step, Batch))
