"""The key groups of a task in a micro-batch, without Spark.

A task of Spark's, or a test, calls `KeyGroupTask` once for each key group, with the messages for it
and its state. The first key group of a task, the head, receives the watermarks and processing time
that the tasks of the local stage have seen, and the others use them too. So all key groups of a
micro-batch advance to the same watermark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from runtime.errors import ExecutionError
from runtime.local.streaming.messages import (
    EndOfInput,
    LateCandidates,
    LateRows,
    Message,
    NullTimes,
    Partials,
    ProcessingTime,
    Progress,
    SourceProgress,
)
from runtime.spec.stream import FINAL_US
from runtime.streaming.operators.base import MicroBatch, Output
from runtime.streaming.operators.buckets import MemoryBound, process
from runtime.streaming.operators.changed_sessions import (
    ChangedSessionOperator,
    UpdatedChangedSessionOperator,
)
from runtime.streaming.operators.fill import FillOperator, FillSpec
from runtime.streaming.operators.general import GeneralGroup, GeneralSpec
from runtime.streaming.operators.ranks import RankOperator, RankSpec
from runtime.streaming.operators.session import SessionOperator, SessionSpec
from runtime.streaming.operators.updated_sessions import UpdatedSessionOperator
from runtime.streaming.operators.versions import VersionOperator, VersionSpec
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.buckets import Place
from runtime.streaming.watermarks import combine_progress, wall_watermark_us

_MS = 1_000

OperatorSpec = WindowSpec | SessionSpec | FillSpec | VersionSpec | RankSpec | GeneralSpec


@dataclass(frozen=True)
class TaskSpec:
    """Spec of the tasks of an operator.

    Attributes:
        operator: Spec of the operator.
        time_types: Time types of the sources, see `StreamSource`.
        time_zone: Time zone of the wall clock that windows are computed on.
        numbers: Numbers of the key groups.
        heads: Numbers of the first key group in each task.
        bucket_bytes: Maximum bytes of a key group's rows combined at once.
        names: (name in messages, name in state) of columns.
    """

    operator: OperatorSpec
    time_types: tuple[str, ...]
    time_zone: str
    numbers: tuple[int, ...]
    heads: tuple[int, ...]
    bucket_bytes: int
    names: tuple[tuple[str, str], ...] = ()


# Progress of the local stage's tasks, and processing time, for all key groups of a task
_OfTask = tuple[Sequence[Progress], int | None]


class KeyGroupTask:
    """Run of the operators of one task's key groups in one micro-batch.

    Args:
        spec: Spec of the task.
        batch: Number of the micro-batch. None if unknown.
    """

    def __init__(self, spec: TaskSpec, batch: int | None = None) -> None:
        now = spec.operator.common
        common = now.for_batch(batch)
        self._spec = replace(spec, operator=replace(spec.operator, common=common))
        # the local stage computes watermarks with the delays of this run
        delays = zip(now.watermarks.delays_us, common.watermarks.delays_us, strict=True)
        self._shifts_us = [delay - of_batch for delay, of_batch in delays]
        self._of_head: _OfTask | None = None

    def receive(
        self, group: int, messages: Iterable[Message], *, is_held: bool = False
    ) -> tuple[MicroBatch, list[LateRows]]:
        """Return the input of a key group's operator, and rows that are late for one upstream.

        Args:
            group: Number of the key group. The head of the task must be the first.
            messages: Messages for the key group.
            is_held: Whether watermarks must not advance; see `advance`.

        Raises:
            ExecutionError: The head of its task has not been called before it.
        """
        partials: list[pa.Table] = []
        candidates: list[pa.Table] = []
        late: list[LateRows] = []
        progress: list[Progress] = []
        n_null_times = 0
        clock_us = None
        for message in messages:
            match message:
                case Partials(table):
                    partials.append(self._with_state_names(table))
                case LateCandidates(table):
                    candidates.append(self._with_state_names(table))
                case LateRows():
                    late.append(message)
                case SourceProgress():
                    progress.append(self._on_wall_clock(self._with_delay_of_run(message)))
                case EndOfInput():
                    progress.append(message)
                case ProcessingTime(time_us):
                    clock_us = time_us
                case NullTimes(n_rows):
                    n_null_times += n_rows
        of_task, clock_us = self._progress_for(group, progress, clock_us)
        return MicroBatch(partials, of_task, n_null_times, clock_us, candidates, is_held), late

    def run(self, group: int, batch: MicroBatch, store: BlobStore) -> Iterator[Output]:
        """Run the operator of a key group: yield windows, late rows and, at the end, the status.

        State is written only once the iterator is exhausted.

        Args:
            group: Number of the key group.
            batch: Its input, from `receive`.
            store: Its state.

        Raises:
            ExecutionError: See `KeyGroupOperator.process`; or the state lacks a blob.
        """
        spec = self._spec.operator
        if isinstance(spec, GeneralSpec):
            return GeneralGroup(spec, store).process(batch)
        numbers = self._spec.numbers
        place = Place(spec.common.by or (), len(numbers), numbers.index(group))
        bound = MemoryBound(place, self._spec.bucket_bytes)
        if isinstance(spec, SessionSpec):
            kinds = [SessionOperator, UpdatedSessionOperator]
            if spec.aggregation.remaining is not None:
                kinds = [ChangedSessionOperator, UpdatedChangedSessionOperator]
            kind = kinds[spec.updates is not None]
            return process(store, partial(kind, spec), batch, bound)
        if isinstance(spec, FillSpec):
            return process(store, partial(FillOperator, spec), batch, bound)
        if isinstance(spec, VersionSpec):
            return process(store, partial(VersionOperator, spec), batch, bound)
        if isinstance(spec, RankSpec):
            return process(store, partial(RankOperator, spec), batch, bound)
        return process(store, partial(WindowOperator, spec), batch, bound)

    def _progress_for(self, group: int, progress: list[Progress], clock_us: int | None) -> _OfTask:
        """Return the progress and processing time for a key group.

        Args:
            group: Number of the key group.
            progress: Progress that it received itself.
            clock_us: Processing time that it received itself.

        Raises:
            ExecutionError: The head of its task has not been called before it.
        """
        if group in self._spec.heads:
            if clock_us is not None:
                progress = progress + self._processing_time_watermarks(clock_us)
            self._of_head = combine_progress(progress), clock_us
        elif self._of_head is None or progress or clock_us is not None:
            raise ExecutionError(
                f"key group {group} was processed by the wrong task, without the others that "
                "share its watermark",
                hint="do not change 'spark.sql.shuffle.partitions' of a stream that has a "
                "checkpoint",
            )
        return self._of_head

    def _with_state_names(self, table: pa.Table) -> pa.Table:
        """Return a table whose columns are named as in state."""
        if not self._spec.names:
            return table
        names = dict(self._spec.names)
        return table.rename_columns([names.get(name, name) for name in table.column_names])

    def _with_delay_of_run(self, progress: SourceProgress) -> SourceProgress:
        """Return a task's progress with the watermark delay of the run that planned it."""
        high, low = progress.highest_us, progress.lowest_us
        shift_us = self._shifts_us[progress.source] if self._shifts_us else 0
        if high is None or low is None or not shift_us:
            return progress
        high, low = (max(min(mark + shift_us, FINAL_US), -FINAL_US) for mark in (high, low))
        return replace(progress, highest_us=high, lowest_us=low)

    def _on_wall_clock(self, progress: SourceProgress) -> SourceProgress:
        """Convert a task's progress to the wall clock of the windows."""
        high, low = progress.highest_us, progress.lowest_us
        if high is None or low is None or self._spec.time_types[progress.source] != "timestamp":
            return progress
        zone = self._spec.time_zone
        return replace(
            progress,
            highest_us=wall_watermark_us(high, zone),
            lowest_us=wall_watermark_us(low, zone),
        )

    def _processing_time_watermarks(self, clock_us: int) -> list[Progress]:
        """Return the watermarks of sources on processing time: no earlier row will arrive."""
        now = wall_watermark_us(clock_us, self._spec.time_zone) - _MS
        return [
            SourceProgress(source, now, now, 0)
            for source, type_ in enumerate(self._spec.time_types)
            if type_ == "proctime"
        ]
