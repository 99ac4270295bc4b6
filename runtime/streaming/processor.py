"""The window operator in Spark's transformWithState: a call for each key group and micro-batch.

The key groups of a task are called one after the other, by their numbers (Spark sorts by the key).
The first one, their head, gets what the tasks of the local stage saw of watermarks and processing
time, and the others go by that too: all of a micro-batch advance by the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from runtime.compute.arrow.blobs import pieces, to_blob
from runtime.errors import ExecutionError
from runtime.frames.job_properties import watermarks_are_held
from runtime.frames.meter import TaskFigures
from runtime.local.streaming.messages import (
    EndOfInput,
    LateCandidates,
    LateRows,
    NullTimes,
    Partials,
    ProcessingTime,
    Progress,
    SourceProgress,
    decode,
)
from runtime.spark.workers import prepare_worker
from runtime.streaming.operators.base import MicroBatch, Output, Status
from runtime.streaming.operators.buckets import MemoryBound, process
from runtime.streaming.operators.general import GeneralGroup, GeneralSpec
from runtime.streaming.operators.session import SessionOperator, SessionSpec
from runtime.streaming.operators.window import WindowOperator, WindowSpec
from runtime.streaming.state.buckets import Place
from runtime.streaming.status import STATUS, STATUS_DDL
from runtime.streaming.watermarks import is_idle, reduced, wall_watermark_us

_MS = 1_000
# Windows of fewer bytes are not worth compressing
_WORTH_COMPRESSING = 1 << 16
# What Spark keeps the state by
STATE_NAME = "blobs"
# As types: a DDL text would be parsed by the JVM in four round trips of each task
_NAMES = StructType([StructField("name", StringType())])
_BLOBS = StructType([StructField("blob", BinaryType())])

OperatorSpec = WindowSpec | SessionSpec | GeneralSpec

# `windows`: a blob of windows; NULL in the row that ends a key group's micro-batch, which has its
# status and the watermark that it emits. With a watermark it is a blob of late rows, which missed
# that one. `reader`: the number of the window aggregation whose windows, late rows or status it is.
# `has_ended` in the status: the input has ended, whatever number the watermark is.
OUTPUT_DDL = f"reader int, windows binary, watermark_us bigint, `{STATUS}` {STATUS_DDL}"


@dataclass(frozen=True)
class ProcessorSpec:
    """What a processor does.

    Attributes:
        operator: the operator.
        time_types: of the sources; see `StreamSource`.
        time_zone: the zone of the wall clock that windows are on.
        numbers: those of the key groups.
        heads: of the key groups that come first in their tasks.
        bucket_bytes: so many bytes of rows of a key group are put together at a time.
        names: what columns of messages are called in state, by their own names.
    """

    operator: OperatorSpec
    time_types: tuple[str, ...]
    time_zone: str
    numbers: tuple[int, ...]
    heads: tuple[int, ...]
    bucket_bytes: int
    names: tuple[tuple[str, str], ...] = ()


# What the key groups of a task go by: what tasks of the local stage saw, and processing time
_OfTask = tuple[Sequence[Progress], int | None]


class WindowProcessor(StatefulProcessor):
    """Runs the operator of each key group on state that Spark keeps.

    Args:
        spec: what it does.
        figures: where it puts what it counts, if anything is measured.
    """

    def __init__(self, spec: ProcessorSpec, figures: TaskFigures | None = None) -> None:
        self._spec = spec
        self._figures = figures
        self._of_head: _OfTask | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else."""
        prepare_worker()
        # of this task in this micro-batch, and of no other
        self._of_head = None
        self._blobs = handle.getMapState(STATE_NAME, _NAMES, _BLOBS)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Called by Spark once a key group that has rows, which is every one."""
        begun = time.perf_counter()
        partials: list[pa.Table] = []
        progress: list[Progress] = []
        n_null_times = 0
        clock_us = None
        candidates: list[pa.Table] = []
        for row in rows:
            match decode(row):
                case Partials(table):
                    partials.append(self._named(table))
                case LateCandidates(table):
                    candidates.append(self._named(table))
                case LateRows() as late:
                    # of an operator below
                    yield from _late_rows(late)
                case SourceProgress() as seen:
                    progress.append(self._on_wall_clock(seen))
                case EndOfInput() as end:
                    progress.append(end)
                case ProcessingTime(time_us):
                    clock_us = time_us
                case NullTimes(n_rows):
                    n_null_times += n_rows
        of_task, clock_us = self._progress_for(key[0], progress, clock_us)
        is_held = watermarks_are_held()
        batch = MicroBatch(partials, of_task, n_null_times, clock_us, candidates, is_held)
        results = self._run(key[0], batch)
        if self._figures is None:
            yield from results
            return
        n_partials = sum(table.num_rows for table in partials)
        self._figures.add(rows_in=n_partials, seconds=time.perf_counter() - begun)
        yield from self._timed(results, self._figures)

    def _progress_for(self, group: int, progress: list[Progress], clock_us: int | None) -> _OfTask:
        """What a key group goes by.

        Args:
            group: its number.
            progress: what it got itself.
            clock_us: the processing time that it got.

        Raises:
            ExecutionError: the head of its task has not been called before it.
        """
        if group in self._spec.heads:
            if clock_us is not None:
                progress = progress + self._processing_time_watermarks(clock_us)
            self._of_head = reduced(progress), clock_us
        elif self._of_head is None or progress or clock_us is not None:
            raise ExecutionError(
                f"key group {group} is not in the task of Spark's that it belongs to, with those "
                "that share its watermark",
                hint="'spark.sql.shuffle.partitions' of a stream is what its checkpoint says",
            )
        return self._of_head

    @staticmethod
    def _timed(results: Iterator[Row], figures: TaskFigures) -> Iterator[Row]:
        """The same rows; the time that they take is counted."""
        while True:
            begun = time.perf_counter()
            result = next(results, None)
            figures.add(seconds=time.perf_counter() - begun)
            if result is None:
                return
            yield result

    def close(self) -> None:
        """Called by Spark at the end; there is nothing to close."""

    def _run(self, group: int, batch: MicroBatch) -> Iterator[Row]:
        for output in self._outputs(group, batch):
            result, reader = output.result, output.reader
            if isinstance(result, Status):
                status = self._status(result, batch.clock_us)
                yield _row(reader, None, result.emitted_us, status)
                continue
            if isinstance(result, LateRows):
                yield from _late_rows(result, reader)
                continue
            if self._figures is not None:
                self._figures.add(rows_out=result.num_rows)
            for piece in pieces(pa.Table.from_batches([result])):
                # Spark holds all that a key group emits, more than once
                compression = "lz4" if piece.nbytes > _WORTH_COMPRESSING else None
                yield _row(reader, to_blob(piece, compression), None)

    def _outputs(self, group: int, batch: MicroBatch) -> Iterator[Output]:
        """What the operator of a key group gives for a micro-batch."""
        spec, store = self._spec.operator, _MapStateStore(self._blobs)
        if isinstance(spec, GeneralSpec):
            return GeneralGroup(spec, store).process(batch)
        numbers = self._spec.numbers
        place = Place(spec.common.by or (), len(numbers), numbers.index(group))
        bound = MemoryBound(place, self._spec.bucket_bytes)
        if isinstance(spec, SessionSpec):
            return process(store, partial(SessionOperator, spec), batch, bound)
        return process(store, partial(WindowOperator, spec), batch, bound)

    def _named(self, table: pa.Table) -> pa.Table:
        """A table under the names that state has."""
        if not self._spec.names:
            return table
        names = dict(self._spec.names)
        return table.rename_columns([names.get(name, name) for name in table.column_names])

    def _on_wall_clock(self, seen: SourceProgress) -> SourceProgress:
        """What a task saw, on the wall clock that windows are on."""
        high, low = seen.highest_us, seen.lowest_us
        if high is None or low is None or self._spec.time_types[seen.source] != "timestamp":
            return seen
        zone = self._spec.time_zone
        return replace(
            seen, highest_us=wall_watermark_us(high, zone), lowest_us=wall_watermark_us(low, zone)
        )

    def _processing_time_watermarks(self, clock_us: int) -> list[Progress]:
        """The watermarks of sources on processing time: no row comes from before now."""
        now = wall_watermark_us(clock_us, self._spec.time_zone) - _MS
        return [
            SourceProgress(source, now, now, 0)
            for source, type_ in enumerate(self._spec.time_types)
            if type_ == "proctime"
        ]

    def _status(self, status: Status, clock_us: int | None) -> Row:
        marks = status.watermarks
        rules = self._spec.operator.common.rules
        sources = [
            Row(watermark_us=source.watermark_us, is_idle=is_idle(source, rules, clock_us))
            for source in marks.sources
        ]
        return Row(
            watermark_us=marks.combined_us,
            has_ended=marks.has_ended,
            sources=sources,
            n_late=status.n_late,
            n_null_times=status.n_null_times,
            n_rows=status.n_rows,
            n_bytes=status.n_bytes,
            next_window_end_us=status.next_window_end_us,
            closed_us=status.closed_us,
        )


def _row(
    reader: int, windows: bytes | None, watermark_us: int | None, status: Row | None = None
) -> Row:
    """A row of OUTPUT_DDL."""
    return Row(reader=reader, windows=windows, watermark_us=watermark_us, **{STATUS: status})


def _late_rows(late: LateRows, reader: int = 0) -> Iterator[Row]:
    for piece in pieces(late.rows):
        yield _row(reader, to_blob(piece), late.watermark_us)


class _MapStateStore:
    """Blobs in a MapState of Spark's."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        found = self._state.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: str, blob: bytes) -> None:
        self._state.updateValue((name,), (blob,))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))
