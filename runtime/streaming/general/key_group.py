"""The general window operator on a stream: the state of one key group, cell by cell.

The keys of a group are distributed over cells by their hash. A cell is one pickled state of
`runtime.streaming.general`, read and written as a whole and only if a row has come for it or a
timer is due; so a micro-batch costs what it touches, and one cell at a time is in memory.

Rows of a micro-batch are taken in the order of their times, each with the watermark right behind
it as far as the micro-batch moves it. So none is made late by another of the same micro-batch, and
rows that come in order give what the same rows give in a batch. A row is late by the watermark at
the end of the micro-batch before, as it is for the operator on slices. Windows that merge
follow a watermark 1 ms behind, and emit that one: a row at the very end of a session is part of it,
and may come as long as the watermark has not reached it (`runtime.streaming.operators.session`).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle

from runtime.compute.kernels.columns import int64_values, one_chunk
from runtime.spec.stream import TIME
from runtime.spec.windows import WINDOW_TIME_LAG_US
from runtime.streaming.general import Emission, GeneralWindowOperator, WindowJob
from runtime.streaming.general.operator import OperatorState
from runtime.streaming.general.rows import own_key, results_batch
from runtime.streaming.operators.base import Emitted, KeyGroupOperator, MicroBatch, Output
from runtime.streaming.state.blobs import BlobStore, Owner, checked, known_blob, versioned
from runtime.streaming.wall_clock import wall_watermark_us
from runtime.streaming.watermarks import (
    WatermarkRules,
    Watermarks,
    emitted_by_sessions_us,
    later_us,
)

# The column with the cell of a row.
CELL = "$cell"
_MAX_RESULTS = 4096
_MAX_ROWS = 1024


@dataclass(frozen=True)
class GeneralSpec:
    """What an operator does; the same for all key groups.

    Attributes:
        job: windows, triggers and functions.
        keys: the key columns.
        schema: what is emitted: the keys, `window_start`, `window_end`, the columns of a result.
        n_sources: how many sources have watermarks.
        rules: how these make the operator's watermark.
        time_zone: the zone of the wall clock that windows are on.
        run, owner, by: as in `runtime.streaming.operators.base.KeyGroupSpec`.
    """

    job: WindowJob
    keys: tuple[str, ...]
    schema: pa.Schema
    n_sources: int
    rules: WatermarkRules
    time_zone: str
    run: str = ""
    owner: Owner | None = None
    by: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Cell:
    """What is known of a cell without reading it.

    Attributes:
        next_event_us: its next timer by the watermark.
        next_clock_us: its next timer of processing time, on the wall clock.
        n_windows: how many windows it keeps something of.
        n_bytes: the size of its blob.
    """

    next_event_us: int | None
    next_clock_us: int | None
    n_windows: int
    n_bytes: int


class GeneralGroup(KeyGroupOperator):
    """The general window operator of one key group.

    Args:
        spec: what it does.
        store: its state.
    """

    def __init__(self, spec: GeneralSpec, store: BlobStore) -> None:
        super().__init__(spec, store)
        self._spec = spec
        self._cells = {int(n): Cell(*cell) for n, cell in self._known.get("cells", {}).items()}
        # Another lateness than the last run's does not open what was closed. An older sqlwin did
        # not write it.
        self._closed_us: int | None = self._known.get("closed")

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        # the tables of the micro-batch hold rows with TIME and CELL
        clock_us = None
        if batch.clock_us is not None:
            clock_us = wall_watermark_us(batch.clock_us, self._spec.time_zone)
        rows = _by_cell(batch.partials)
        n_late = 0
        for number in sorted(rows.keys() | self._due(after, clock_us)):
            operator = self._open(number)
            known_us = self._followed(before)
            if known_us is not None:
                # the cell may have slept; no timer of its own was due meanwhile
                yield from self._results(operator.on_watermark(known_us))
            found = self._run(operator, rows.get(number), after, clock_us)
            yield from self._results(found)
            n_late += operator.state.n_late
            self._close(number, operator.state)
        if (reached_us := self._followed(after)) is not None:
            lateness_us = 0 if after.is_final else self._spec.job.allowed_lateness_us
            self._closed_us = later_us(self._closed_us, reached_us - lateness_us)
        return [n_late]

    def _run(
        self,
        operator: GeneralWindowOperator,
        rows: pa.Table | None,
        after: Watermarks,
        clock_us: int | None,
    ) -> Iterator[Emission]:
        is_processing_time = self._spec.job.is_processing_time
        reached_us = self._followed(after)
        if clock_us is not None:
            yield from operator.on_processing_time(clock_us)
        for row, time_us in () if rows is None else _values(rows):
            key = own_key(tuple(row[name] for name in self._spec.keys))
            if is_processing_time:
                assert clock_us is not None
                yield from operator.on_row(key, row, clock_us)
                continue
            if reached_us is not None:
                # a window that ends right here is still open: the row may make a session longer
                behind = time_us - WINDOW_TIME_LAG_US - 1
                yield from operator.on_watermark(min(behind, reached_us))
            yield from operator.on_row(key, row, time_us)
        if after.is_final:
            yield from operator.on_end()
        elif reached_us is not None:
            yield from operator.on_watermark(reached_us)

    def _followed(self, watermarks: Watermarks) -> int | None:
        """The watermark by which windows close and rows are late."""
        merges = self._spec.job.assigner.merges
        return emitted_by_sessions_us(watermarks) if merges else watermarks.combined_us

    def _results(self, emissions: Iterable[Emission]) -> Iterator[Output]:
        waiting: list[Emission] = []
        for emission in emissions:
            waiting.append(emission)
            if len(waiting) == _MAX_RESULTS:
                yield self._batch(waiting)
                waiting = []
        if waiting:
            yield self._batch(waiting)

    def _batch(self, emissions: list[Emission]) -> Output:
        return Output(results_batch(emissions, len(self._spec.keys), self._spec.schema))

    # -- state -----------------------------------------------------------------------------------

    def _due(self, after: Watermarks, clock_us: int | None) -> set[int]:
        """The cells with a timer that is due; at the end of input all of them."""
        return {
            number
            for number, cell in self._cells.items()
            if after.is_final
            or _reached(cell.next_event_us, self._followed(after))
            or _reached(cell.next_clock_us, clock_us)
        }

    def _open(self, number: int) -> GeneralWindowOperator:
        state = None
        if number in self._cells:
            blob = known_blob(self._store, f"c{number}")
            state = pickle.loads(memoryview(blob)[checked(blob) :])
        return GeneralWindowOperator(self._spec.job, state, closed_us=self._closed_us)

    def _close(self, number: int, state: OperatorState) -> None:
        kept = (state.contents, state.merging, state.memories)
        if not any(kept) and not state.event_timers.standing and not state.clock_timers.standing:
            if self._cells.pop(number, None) is not None:
                self._store.remove(f"c{number}")
            return
        state.n_late = 0
        # by value, where a class is of a module that only the driver has
        blob = versioned(cloudpickle.dumps(state))  # type: ignore[no-untyped-call]
        self._store.put(f"c{number}", blob)
        self._cells[number] = Cell(
            state.event_timers.next_us, state.clock_timers.next_us, len(state.contents), len(blob)
        )

    def _facts(self) -> dict[str, Any]:
        cells = {str(number): astuple(cell) for number, cell in self._cells.items()}
        return {"cells": cells, "closed": self._closed_us}

    def _size(self) -> tuple[int, int]:
        cells = self._cells.values()
        return sum(cell.n_windows for cell in cells), sum(cell.n_bytes for cell in cells)

    def _next_window_end_us(self, reader: int) -> int | None:
        is_processing_time = self._spec.job.is_processing_time
        timers = [
            c.next_clock_us if is_processing_time else c.next_event_us for c in self._cells.values()
        ]
        due = [time_us for time_us in timers if time_us is not None]
        return min(due) + WINDOW_TIME_LAG_US if due else None

    def _emitted_us(self, watermarks: Watermarks) -> int | None:
        return self._followed(watermarks)


def _reached(timer_us: int | None, now_us: int | None) -> bool:
    return timer_us is not None and now_us is not None and timer_us <= now_us


def _by_cell(tables: Iterable[pa.Table]) -> dict[int, pa.Table]:
    """The rows of each cell, in the order of their times."""
    some = [table for table in tables if table.num_rows]
    if not some:
        return {}
    table = pa.concat_tables(some)
    cells = int64_values(one_chunk(table.column(CELL)).cast(pa.int64()))
    times = int64_values(one_chunk(table.column(TIME)))
    order = np.lexsort((times, cells))
    table, cells = table.take(pa.array(order)).drop_columns([CELL]), cells[order]
    starts = np.flatnonzero(np.diff(cells, prepend=cells[0] - 1))
    ends = [*starts[1:].tolist(), len(cells)]
    return {
        int(cells[start]): table.slice(start, end - start)
        for start, end in zip(starts.tolist(), ends, strict=True)
    }


def _values(rows: pa.Table) -> Iterator[tuple[dict[str, object], int]]:
    """Rows as functions get them, and their times."""
    times_us = int64_values(one_chunk(rows.column(TIME))).tolist()
    position = 0
    for batch in rows.drop_columns([TIME]).to_batches(max_chunksize=_MAX_ROWS):
        for row in batch.to_pylist():
            yield row, times_us[position]
            position += 1
