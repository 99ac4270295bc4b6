"""A task of the window operator: Spark's rows to messages, and outputs to Spark's rows.

Spark calls the key groups of a task one after the other, ordered by number.
`runtime.streaming.task` does the work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from runtime.compute.arrow.blobs import pieces, to_blob
from runtime.frames.job_properties import batch_number, watermarks_are_held
from runtime.frames.meter import TaskFigures
from runtime.local.streaming.messages import (
    LateRows,
    decode,
)
from runtime.spark.workers import prepare_worker
from runtime.streaming.operators.base import MicroBatch, Status
from runtime.streaming.status import STATUS, STATUS_DDL
from runtime.streaming.task import KeyGroupTask, TaskSpec
from runtime.streaming.watermarks import advances_with_clock, is_idle

# Smaller blobs of windows are not worth compressing
_WORTH_COMPRESSING = 1 << 16

# `windows`: blob of windows; NULL in the last row of a key group's micro-batch, which has its
# status and the watermark of its results. If `watermark_us` is set, `windows` is a blob of late
# rows that missed this watermark. `reader`: number of the window aggregation. `has_ended` in the
# status: the input has ended; the value of the watermark does not matter.
OUTPUT_DDL = f"reader int, windows binary, watermark_us bigint, `{STATUS}` {STATUS_DDL}"


class TaskRows:
    """Run of the operators of a task's key groups in one micro-batch.

    Args:
        spec: Spec of the task.
        figures: Records metrics. None means no metrics.
        blobs: Map from names to blobs in Spark's state, of the key group that is processed.
    """

    def __init__(self, spec: TaskSpec, figures: TaskFigures | None, blobs: Any) -> None:
        prepare_worker()
        self._spec = spec
        self._figures = figures
        self._task = KeyGroupTask(spec, batch_number())
        self._blobs = blobs

    def process(self, group: int, rows: Iterator[Row]) -> Iterator[Row]:
        """Process a micro-batch of a key group, and yield rows of OUTPUT_DDL.

        Args:
            group: Number of the key group.
            rows: Rows of MESSAGE_DDL.
        """
        begun = time.perf_counter()
        batch, late = self._task.receive(group, map(decode, rows), is_held=watermarks_are_held())
        for late_rows in late:
            yield from _late_rows(late_rows)
        results = self._run(group, batch)
        if self._figures is None:
            yield from results
            return
        n_partials = sum(table.num_rows for table in batch.partials)
        self._figures.add(rows_in=n_partials, seconds=time.perf_counter() - begun)
        yield from self._measure(results, self._figures)

    @staticmethod
    def _measure(results: Iterator[Row], figures: TaskFigures) -> Iterator[Row]:
        """Yield the same rows, and record the time that they take."""
        while True:
            begun = time.perf_counter()
            result = next(results, None)
            figures.add(seconds=time.perf_counter() - begun)
            if result is None:
                return
            yield result

    def _run(self, group: int, batch: MicroBatch) -> Iterator[Row]:
        for output in self._task.run(group, batch, _MapStateStore(self._blobs)):
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

    def _status(self, status: Status, clock_us: int | None) -> Row:
        marks = status.watermarks
        rules = self._spec.operator.common.rules
        sources = [
            Row(watermark_us=source.watermark_us, is_idle=is_idle(source, rules, clock_us))
            for source in marks.sources
        ]
        return Row(
            watermark_us=marks.combined_us,
            follows_clock=marks.combined_us is not None
            and not marks.has_ended
            and advances_with_clock(marks.sources, rules, clock_us),
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
