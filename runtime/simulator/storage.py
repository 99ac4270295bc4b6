"""What survives a crash of a simulated stream: offsets, state and the sink, in memory.

The order of the writes is Spark's. A micro-batch is planned in the offset log before it runs; tasks
write the state of their key groups as a new version; the sink takes the rows under the number of
the micro-batch; the commit log ends it. After a restart a planned micro-batch without a commit runs
again, with the same rows and the state before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from runtime.simulator.histories import Batch, Crash, Write
from runtime.streaming.operators.base import OperatorRun, RunStart
from runtime.streaming.runs import with_run
from runtime.streaming.state.key_groups import key_group_numbers
from runtime.streaming.state.split import Split, key_columns, split_group

# Blobs of a key group by name
Blobs = dict[str, bytes]


class CrashError(Exception):
    """The stream crashes here. Everything but the storage is lost."""


@dataclass(frozen=True)
class BatchOutput:
    """Output of a micro-batch.

    Attributes:
        number: Number of the micro-batch.
        rows: Result rows, with ROW_KIND if windows may be emitted again.
        late: Numbers of rows that were late for all windows of an operator.
        n_late: Number of rows that were dropped because all their windows were closed.
        n_null_times: Number of rows that were dropped because their time is NULL.
        watermark_us: Watermark of the first operator at the end. None before the first.
        passed_us: Latest window end that the watermark of each operator has passed at the end, by
            its number. Operators without a watermark and after the end of the input are left out.
        needless: Description of state that no window needs at the end. None if all is needed.
    """

    number: int
    rows: pa.Table
    late: tuple[int, ...]
    n_late: int
    n_null_times: int
    watermark_us: int | None
    passed_us: Mapping[int, int]
    needless: str | None


@dataclass
class Storage:
    """Storage of one stream.

    Attributes:
        key_groups: Number of key groups.
        partitions: Number of tasks.
        planned: Offset log: the micro-batches that have been planned.
        n_committed: Commit log: number of micro-batches that are complete.
        outputs: Sink: output by number of the micro-batch.
        repeated: Outputs of micro-batches that ran again, in order.
        runs: The runs, see `runtime.streaming.runs`.
    """

    key_groups: int
    partitions: int
    planned: list[Batch] = field(default_factory=list)
    n_committed: int = 0
    outputs: dict[int, BatchOutput] = field(default_factory=dict)
    repeated: list[BatchOutput] = field(default_factory=list)
    runs: tuple[RunStart, ...] = ()
    _states: dict[tuple[int, int], dict[int, Blobs]] = field(default_factory=dict)
    _crash: Crash | None = None
    _n_writes: int = 0

    def start(self, operators: tuple[OperatorRun, ...]) -> None:
        """Record that a run starts, with the rules of its operators."""
        run = RunStart(len(self.planned), operators)
        self.runs = with_run(self.runs, self.n_committed - 1, run)

    def begin(self, crash: Crash | None) -> None:
        """Begin an attempt at a micro-batch, which crashes at a write or not at all."""
        self._crash = crash
        self._n_writes = 0

    def plan(self, batch: Batch) -> int:
        """Write a micro-batch to the offset log and return its number."""
        number = len(self.planned)
        self._reach(Write.OFFSETS, is_after=False)
        self.planned.append(batch)
        self._reach(Write.OFFSETS, is_after=True)
        return number

    def state(self, operator: int, group: int, number: int) -> KeyGroupState:
        """Return the state of a key group for a micro-batch."""
        versions = self._states.setdefault((operator, group), {})
        return KeyGroupState(versions.get(number, {}))

    def write_state(self, operator: int, group: int, number: int, state: KeyGroupState) -> None:
        """Write the state of a key group after a micro-batch."""
        self._reach(Write.STATE, is_after=False)
        versions = self._states.setdefault((operator, group), {})
        # the micro-batch before may run again only until this one is planned
        self._states[operator, group] = {
            version: blobs for version, blobs in versions.items() if version >= number
        } | {number + 1: state.blobs}
        self._reach(Write.STATE, is_after=True)
        self._n_writes += 1

    def write_output(self, output: BatchOutput) -> None:
        """Write the output of a micro-batch; the sink replaces the rows of an earlier attempt."""
        self._n_writes = 0
        self._reach(Write.OUTPUT, is_after=False)
        if output.number in self.outputs:
            self.repeated.append(self.outputs[output.number])
        self.outputs[output.number] = output
        self._reach(Write.OUTPUT, is_after=True)

    def rows_before(self, number: int) -> int:
        """Return the number of rows in the sink before a micro-batch."""
        return sum(output.rows.num_rows for n, output in self.outputs.items() if n < number)

    def commit(self, number: int) -> None:
        """Write a micro-batch to the commit log."""
        self._reach(Write.COMMIT, is_after=False)
        self.n_committed = number + 1
        self._reach(Write.COMMIT, is_after=True)

    def _reach(self, write: Write, *, is_after: bool) -> None:
        crash = self._crash
        if crash is None or crash.write is not write or crash.is_after != is_after:
            return
        if write is Write.STATE and crash.number != self._n_writes:
            return
        raise CrashError

    def rescale(self, partitions: int) -> None:
        """Change the number of tasks, and split key groups so that each task has some."""
        number = self.n_committed
        into = 1
        while self.key_groups * into < partitions:
            into *= 2
        split = Split(self.key_groups, into)
        old = key_group_numbers(self.key_groups, self.partitions)
        new = key_group_numbers(self.key_groups * into, partitions)
        (alone,) = key_group_numbers(1, partitions)
        states: dict[tuple[int, int], dict[int, Blobs]] = {}
        for (operator, group), versions in self._states.items():
            blobs = versions[number]
            if not key_columns(blobs):
                states[operator, alone] = {number: blobs}
                continue
            place = old.index(group)
            for part, some in enumerate(split_group(blobs, place, split)):
                states[operator, new[place * into + part]] = {number: dict(some)}
        self._states = states
        self.key_groups *= into
        self.partitions = partitions


class KeyGroupState:
    """Blobs of one key group in a micro-batch: the `BlobStore` of its operator.

    Args:
        before: Blobs at the start. They do not change.
    """

    def __init__(self, before: Mapping[str, bytes]) -> None:
        self.blobs: Blobs = dict(before)

    def get(self, name: str) -> bytes | None:
        """Return the blob with a name, or None."""
        return self.blobs.get(name)

    def put(self, name: str, blob: bytes) -> None:
        """Write a blob, replacing an existing one of that name."""
        self.blobs[name] = blob

    def remove(self, name: str) -> None:
        """Remove a blob if it exists."""
        self.blobs.pop(name, None)
