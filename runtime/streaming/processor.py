"""The window operator in Spark's transformWithState: a call for each key group and micro-batch."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
)

from runtime.compute.arrow.blobs import pieces, to_blob
from runtime.frames.meter import TaskFigures
from runtime.local.messages import (
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
from runtime.spec.windows import SessionWindow
from runtime.streaming.general.key_group import GeneralGroup, GeneralSpec
from runtime.streaming.operators.session import SessionOperator
from runtime.streaming.operators.shared import SharedOperator, SharedOperatorSpec
from runtime.streaming.operators.window import MicroBatch, OperatorSpec, Status, WindowOperator
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.status import STATUS, STATUS_DDL
from runtime.streaming.wall_clock import wall_watermark_us
from runtime.streaming.watermarks import is_idle

_MS = 1_000

# `windows`: a blob of windows; NULL in the row that ends a key group's micro-batch, which has the
# watermark that the group tells. With a watermark it is a blob of late rows, which missed that one.
OUTPUT_DDL = f"windows binary, watermark_us bigint, `{STATUS}` {STATUS_DDL}"

# The same with the number of the reader whose windows or late rows these are, or how it stands.
SHARED_OUTPUT_DDL = f"reader int, {OUTPUT_DDL}"


@dataclass(frozen=True)
class ProcessorSpec:
    """What a processor does.

    Attributes:
        operator: the operator.
        time_types: of the sources; see `StreamSource`.
        time_zone: the zone of the wall clock that windows are on.
    """

    operator: OperatorSpec | GeneralSpec | SharedOperatorSpec
    time_types: tuple[str, ...]
    time_zone: str


class WindowProcessor(StatefulProcessor):
    """Runs the operator of each key group on state that Spark keeps.

    Args:
        spec: what it does.
        figures: where it puts what it counts, if somebody measures.
    """

    def __init__(self, spec: ProcessorSpec, figures: TaskFigures | None = None) -> None:
        self._spec = spec
        self._figures = figures

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark before anything else."""
        prepare_worker()
        self._blobs = handle.getMapState("blobs", "name string", "blob binary")

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
                    partials.append(table)
                case LateCandidates(table):
                    candidates.append(table)
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
        if clock_us is not None:
            progress += self._clock_watermarks(clock_us)
        results = self._run(MicroBatch(partials, progress, n_null_times, clock_us, candidates))
        if self._figures is None:
            yield from results
            return
        n_partials = sum(table.num_rows for table in partials)
        self._figures.add(rows_in=n_partials, seconds=time.perf_counter() - begun)
        yield from self._timed(results, self._figures)

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

    def _run(self, batch: MicroBatch) -> Iterator[Row]:
        store = _MapStateStore(self._blobs)
        spec = self._spec.operator
        assert not isinstance(spec, SharedOperatorSpec)
        operator = _operator(spec, store)
        for result in operator.process(batch):
            if isinstance(result, Status):
                told = self._status(result, batch.clock_us)
                yield Row(windows=None, watermark_us=result.told_us, **{STATUS: told})
                continue
            if isinstance(result, LateRows):
                yield from _late_rows(result)
                continue
            if self._figures is not None:
                self._figures.add(rows_out=result.num_rows)
            for piece in pieces(pa.Table.from_batches([result])):
                yield Row(windows=to_blob(piece), watermark_us=None, **{STATUS: None})

    def _on_wall_clock(self, seen: SourceProgress) -> SourceProgress:
        """What a task saw, on the clock that windows are on."""
        high, low = seen.highest_us, seen.lowest_us
        if high is None or low is None or self._spec.time_types[seen.source] != "timestamp":
            return seen
        zone = self._spec.time_zone
        return replace(
            seen, highest_us=wall_watermark_us(high, zone), lowest_us=wall_watermark_us(low, zone)
        )

    def _clock_watermarks(self, clock_us: int) -> list[SourceProgress]:
        """The watermarks of sources whose time is the clock's: no row comes from before now."""
        now = wall_watermark_us(clock_us, self._spec.time_zone) - _MS
        return [
            SourceProgress(source, now, now, 0)
            for source, type_ in enumerate(self._spec.time_types)
            if type_ == "proctime"
        ]

    def _status(self, status: Status, clock_us: int | None) -> Row:
        marks = status.watermarks
        rules = self._spec.operator.rules
        sources = [
            Row(watermark_us=source.watermark_us, is_idle=is_idle(source, rules, clock_us))
            for source in marks.sources
        ]
        return Row(
            watermark_us=marks.combined_us,
            sources=sources,
            n_late=status.n_late,
            n_null_times=status.n_null_times,
            n_rows=status.n_rows,
            n_bytes=status.n_bytes,
            next_window_end_us=status.next_window_end_us,
        )


class SharedProcessor(WindowProcessor):
    """The same where several window aggregations read the slices."""

    def _run(self, batch: MicroBatch) -> Iterator[Row]:
        spec = self._spec.operator
        assert isinstance(spec, SharedOperatorSpec)
        for each in SharedOperator(spec, _MapStateStore(self._blobs)).process(batch):
            reader, result = each.reader, each.result
            if isinstance(result, Status):
                told = self._status(result, batch.clock_us)
                yield Row(reader=reader, windows=None, watermark_us=None, **{STATUS: told})
                continue
            missed = result.watermark_us if isinstance(result, LateRows) else None
            table = result.rows if isinstance(result, LateRows) else pa.Table.from_batches([result])
            for piece in pieces(table):
                blob = to_blob(piece)
                yield Row(reader=reader, windows=blob, watermark_us=missed, **{STATUS: None})


def _late_rows(late: LateRows) -> Iterator[Row]:
    for piece in pieces(late.rows):
        yield Row(windows=to_blob(piece), watermark_us=late.watermark_us, **{STATUS: None})


def _operator(
    spec: OperatorSpec | GeneralSpec, store: BlobStore
) -> WindowOperator | SessionOperator | GeneralGroup:
    if isinstance(spec, GeneralSpec):
        return GeneralGroup(spec, store)
    if isinstance(spec.aggregation.window, SessionWindow):
        return SessionOperator(spec, store)
    return WindowOperator(spec, store)


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
