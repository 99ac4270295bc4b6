"""The window operator in Spark's transformWithState, called for each key group and micro-batch.

Spark calls the key groups of a task one after the other, ordered by number. The first one, the
head, receives the watermarks and processing time that the tasks of the local stage have seen, and
the others use them too. So all key groups of a micro-batch advance to the same watermark.
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
# Smaller blobs of windows are not worth compressing
_WORTH_COMPRESSING = 1 << 16
# Name of the state variable in Spark
STATE_NAME = "blobs"
# Types, because parsing a DDL text costs four round trips to the JVM in each task
_NAMES = StructType([StructField("name", StringType())])
_BLOBS = StructType([StructField("blob", BinaryType())])

OperatorSpec = WindowSpec | SessionSpec | GeneralSpec

# `windows`: blob of windows; NULL in the last row of a key group's micro-batch, which has its
# status and the watermark of its results. If `watermark_us` is set, `windows` is a blob of late
# rows that missed this watermark. `reader`: number of the window aggregation. `has_ended` in the
# status: the input has ended; the value of the watermark does not matter.
OUTPUT_DDL = f"reader int, windows binary, watermark_us bigint, `{STATUS}` {STATUS_DDL}"


@dataclass(frozen=True)
class ProcessorSpec:
    """Spec of a processor.

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


class WindowProcessor(StatefulProcessor):
    """Runs the operator of each key group on state in Spark.

    Args:
        spec: Spec of the processor.
        figures: Records metrics. None means no metrics.
    """

    def __init__(self, spec: ProcessorSpec, figures: TaskFigures | None = None) -> None:
        self._spec = spec
        self._figures = figures
        self._of_head: _OfTask | None = None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Prepare for a task. Called by Spark before `handleInputRows`."""
        prepare_worker()
        # valid for one task in one micro-batch
        self._of_head = None
        self._blobs = handle.getMapState(STATE_NAME, _NAMES, _BLOBS)

    def handleInputRows(
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,
    ) -> Iterator[Row]:
        """Process a micro-batch of a key group. Spark calls it for every key group."""
        begun = time.perf_counter()
        partials: list[pa.Table] = []
        progress: list[Progress] = []
        n_null_times = 0
        clock_us = None
        candidates: list[pa.Table] = []
        for row in rows:
            match decode(row):
                case Partials(table):
                    partials.append(self._with_state_names(table))
                case LateCandidates(table):
                    candidates.append(self._with_state_names(table))
                case LateRows() as late:
                    # late for an operator upstream: pass them on
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
        yield from self._measured(results, self._figures)

    def _progress_for(self, group: int, progress: list[Progress], clock_us: int | None) -> _OfTask:
        """Return the progress and processing time for a key group.

        Args:
            group: Number of the key group.
            progress: Progress that it received itself.
            clock_us: Processing time that it received itself.

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
    def _measured(results: Iterator[Row], figures: TaskFigures) -> Iterator[Row]:
        """Yield the same rows, and record the time that they take."""
        while True:
            begun = time.perf_counter()
            result = next(results, None)
            figures.add(seconds=time.perf_counter() - begun)
            if result is None:
                return
            yield result

    def close(self) -> None:
        """Called by Spark at the end. There is nothing to close."""

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
                # Spark holds a key group's output in memory more than once
                compression = "lz4" if piece.nbytes > _WORTH_COMPRESSING else None
                yield _row(reader, to_blob(piece, compression), None)

    def _outputs(self, group: int, batch: MicroBatch) -> Iterator[Output]:
        """Run the operator of a key group for a micro-batch."""
        spec, store = self._spec.operator, _MapStateStore(self._blobs)
        if isinstance(spec, GeneralSpec):
            return GeneralGroup(spec, store).process(batch)
        numbers = self._spec.numbers
        place = Place(spec.common.by or (), len(numbers), numbers.index(group))
        bound = MemoryBound(place, self._spec.bucket_bytes)
        if isinstance(spec, SessionSpec):
            return process(store, partial(SessionOperator, spec), batch, bound)
        return process(store, partial(WindowOperator, spec), batch, bound)

    def _with_state_names(self, table: pa.Table) -> pa.Table:
        """Return a table whose columns are named as in state."""
        if not self._spec.names:
            return table
        names = dict(self._spec.names)
        return table.rename_columns([names.get(name, name) for name in table.column_names])

    def _on_wall_clock(self, seen: SourceProgress) -> SourceProgress:
        """Convert a task's progress to the wall clock of the windows."""
        high, low = seen.highest_us, seen.lowest_us
        if high is None or low is None or self._spec.time_types[seen.source] != "timestamp":
            return seen
        zone = self._spec.time_zone
        return replace(
            seen, highest_us=wall_watermark_us(high, zone), lowest_us=wall_watermark_us(low, zone)
        )

    def _processing_time_watermarks(self, clock_us: int) -> list[Progress]:
        """Return the watermarks of sources on processing time: no earlier row will arrive."""
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
    """Return a row of OUTPUT_DDL."""
    return Row(reader=reader, windows=windows, watermark_us=watermark_us, **{STATUS: status})


def _late_rows(late: LateRows, reader: int = 0) -> Iterator[Row]:
    for piece in pieces(late.rows):
        yield _row(reader, to_blob(piece), late.watermark_us)


class _MapStateStore:
    """Blobs in a MapState of Spark."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: str) -> bytes | None:
        value = self._state.getValue((name,))
        return None if value is None else bytes(value[0])

    def put(self, name: str, blob: bytes) -> None:
        self._state.updateValue((name,), (blob,))

    def remove(self, name: str) -> None:
        self._state.removeKey((name,))
