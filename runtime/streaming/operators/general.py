"""The general window operator of one key group on a stream.

The keys of a group are distributed over cells by hash (`runtime.streaming.state.cells`). A cell is
a pickled state of `runtime.streaming.general`. A cell is read and written as a whole, and only if
it has new rows or a due timer. The cost of a micro-batch depends on the cells it touches; one cell
at a time is in memory. Large cells are split, so the cost of a row does not grow with the number of
keys.

The rows of a micro-batch are processed in order of their times, each with the watermark right
behind it as far as the micro-batch advances it. So no row makes another row of the same micro-batch
late, and rows that arrive in order give the same results as in a batch. As in the operators on
slices, rows are late by the watermark at the end of the previous micro-batch. Windows that merge
follow a watermark that is 1 ms behind, and emit that one: a row at the very end of a session
belongs to it and may arrive until the watermark has reached it
(`runtime.streaming.operators.session`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import int64_column
from runtime.spec.stream import TIME
from runtime.streaming.general.operator import (
    Emission,
    GeneralWindowOperator,
    OperatorState,
    WindowJob,
)
from runtime.streaming.general.rows import function_key, results_batch
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.state.blobs import BlobStore, required_blob
from runtime.streaming.state.cells import Cell, Cells, metadata_of_cell
from runtime.streaming.state.codec import decode_cell, encode_cell
from runtime.streaming.state.metadata import GeneralMetadata
from runtime.streaming.watermarks import (
    Watermarks,
    emitted_by_sessions_us,
    later_us,
    wall_watermark_us,
)
from runtime.windows.times import WINDOW_TIME_LAG_US

# The position of a row's key among the positions of all key groups
POSITION = "$position"
# Cells larger than this are split; two halves are joined when together below 1 / _SMALL of it
_CELL_BYTES = 256 << 10
_SMALL = 2
_MAX_RESULTS = 4096
_MAX_ROWS = 1024


@dataclass(frozen=True)
class GeneralSpec:
    """Spec of the general window operator. The same for all key groups.

    Attributes:
        job: Windows, triggers and functions.
        keys: Key columns.
        schema: Columns of the results: keys, `window_start`, `window_end`, result columns.
        common: Spec shared by all operators.
        time_zone: Time zone of the wall clock that windows are computed on.
        n_positions: Number of positions for the keys of a key group.
        cell_bytes: Cells larger than this are split.
    """

    job: WindowJob
    keys: tuple[str, ...]
    schema: pa.Schema
    common: KeyGroupSpec
    time_zone: str
    n_positions: int = 64
    cell_bytes: int = _CELL_BYTES


class GeneralGroup(KeyGroupOperator):
    """The general window operator of one key group."""

    def __init__(self, spec: GeneralSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        self._spec = spec
        metadata = self._metadata_before(GeneralMetadata)
        cells = () if metadata is None else metadata.cells
        self._cells = {Cell(cell.number, cell.of): cell for cell in cells}
        # closed windows stay closed even if the allowed lateness has been raised
        self._closed_us = None if self._before is None else self._before.closed_us

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        # the tables of the micro-batch have the columns TIME and POSITION
        clock_us = None
        if batch.clock_us is not None:
            clock_us = wall_watermark_us(batch.clock_us, self._spec.time_zone)
        rows = self._rows_by_cell(batch.partials)
        n_late = 0
        touched = sorted(rows.keys() | self._due(after, clock_us))
        for cell in touched:
            operator = self._open(cell)
            before_us = self._closing_watermark_us(before)
            if before_us is not None:
                # the cell may be behind; none of its timers was due in between
                yield from self._results(operator.on_watermark(before_us))
            emissions = self._run(operator, rows.get(cell), after, clock_us)
            yield from self._results(emissions)
            n_late += operator.state.n_late
            self._close(cell, operator.state)
        for cell in touched:
            self._join_halves(cell)
        if (reached_us := self._closing_watermark_us(after)) is not None:
            lateness_us = 0 if after.has_ended else self._spec.job.allowed_lateness_us
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
        reached_us = self._closing_watermark_us(after)
        if clock_us is not None:
            yield from operator.on_processing_time(clock_us)
        for row, time_us, position in () if rows is None else _values(rows):
            key = function_key(tuple(row[name] for name in self._spec.keys))
            operator.state.positions.setdefault(key, position)
            if is_processing_time:
                assert clock_us is not None
                yield from operator.on_row(key, row, clock_us)
                continue
            if reached_us is not None:
                # stop before this time: the row may extend a session that ends exactly here
                behind = time_us - WINDOW_TIME_LAG_US - 1
                yield from operator.on_watermark(min(behind, reached_us))
            yield from operator.on_row(key, row, time_us)
        if after.has_ended:
            yield from operator.on_end()
        elif reached_us is not None:
            yield from operator.on_watermark(reached_us)

    def _closing_watermark_us(self, watermarks: Watermarks) -> int | None:
        """Return the watermark by which windows close and rows are late."""
        merges = self._spec.job.assigner.merges
        return emitted_by_sessions_us(watermarks) if merges else watermarks.combined_us

    def _results(self, emissions: Iterable[Emission]) -> Iterator[Output]:
        left = iter(emissions)
        while some := [*islice(left, _MAX_RESULTS)]:
            yield Output(results_batch(some, len(self._spec.keys), self._spec.schema))

    def _rows_by_cell(self, tables: Iterable[pa.Table]) -> dict[Cell, pa.Table]:
        """Return the rows of each cell, in order of their times."""
        some = [table for table in tables if table.num_rows]
        if not some:
            return {}
        table = pa.concat_tables(some)
        spec = self._spec
        positions = int64_column(table, POSITION)
        cells = Cells(self._cells, spec.n_positions)
        number, of = cells.cells_of(positions % spec.n_positions)
        times = int64_column(table, TIME)
        order = np.lexsort((times, number, of))
        table, number, of = table.take(pa.array(order)), number[order], of[order]
        is_new = (np.diff(number, prepend=-1) != 0) | (np.diff(of, prepend=-1) != 0)
        starts = np.flatnonzero(is_new)
        ends = [*starts[1:].tolist(), len(number)]
        return {
            Cell(int(number[start]), int(of[start])): table.slice(start, end - start)
            for start, end in zip(starts.tolist(), ends, strict=True)
        }

    # -- state -----------------------------------------------------------------------------------

    def _due(self, after: Watermarks, clock_us: int | None) -> set[Cell]:
        """Return the cells with a due timer; at the end of input all cells."""
        return {
            cell
            for cell, metadata in self._cells.items()
            if after.has_ended
            or _is_due(metadata.next_event_us, self._closing_watermark_us(after))
            or _is_due(metadata.next_clock_us, clock_us)
        }

    def _open(self, cell: Cell) -> GeneralWindowOperator:
        state = None
        if cell in self._cells:
            state = decode_cell(required_blob(self._store, cell.blob))
        return GeneralWindowOperator(self._spec.job, state, closed_us=self._closed_us)

    def _close(self, cell: Cell, state: OperatorState) -> None:
        state.tidy()
        if state.is_empty:
            self._remove(cell)
            return
        state.n_late = 0
        blob = encode_cell(state)
        parts = self._halves(cell, state) if len(blob) > self._spec.cell_bytes else {}
        if parts:
            self._remove(cell)
            for half, of_half in parts.items():
                self._close(half, of_half)
            return
        self._store.put(cell.blob, blob)
        self._cells[cell] = metadata_of_cell(cell, state, len(blob))

    def _halves(self, cell: Cell, state: OperatorState) -> dict[Cell, OperatorState]:
        """Split a cell's state into two cells, or return {} if all its keys have one position."""
        at = {key: position % self._spec.n_positions for key, position in state.positions.items()}
        of = cell.of
        while 2 * of <= self._spec.n_positions:
            of *= 2
            width = self._spec.n_positions // of
            numbers = {position // width for position in at.values()}
            if len(numbers) > 1:
                return {
                    Cell(number, of): state.select_keys(
                        {key for key, position in at.items() if position // width == number}
                    )
                    for number in numbers
                }
        return {}

    def _join_halves(self, cell: Cell) -> None:
        """Merge a cell with its other half as long as both together are small."""
        while cell.of > 1:
            other = cell.other_half
            both = [self._cells[part] for part in (cell, other) if part in self._cells]
            is_cut = Cells(self._cells, self._spec.n_positions).has_parts
            small = self._spec.cell_bytes // _SMALL
            if not both or is_cut(cell) or is_cut(other) or sum(k.n_bytes for k in both) > small:
                return
            state = self._open(cell).state
            if other in self._cells:
                state.add(self._open(other).state)
            self._remove(cell)
            self._remove(other)
            cell = cell.outer
            self._close(cell, state)

    def _remove(self, cell: Cell) -> None:
        if self._cells.pop(cell, None) is not None:
            self._store.remove(cell.blob)

    def _closed_until_us(self) -> int | None:
        return self._closed_us

    def _metadata(self) -> GeneralMetadata:
        return GeneralMetadata([*self._cells.values()])

    def _size(self) -> tuple[int, int]:
        cells = self._cells.values()
        return sum(metadata.n_windows for metadata in cells), sum(
            metadata.n_bytes for metadata in cells
        )

    def _next_window_end_us(self, reader: int) -> int | None:
        is_processing_time = self._spec.job.is_processing_time
        timers = [
            c.next_clock_us if is_processing_time else c.next_event_us for c in self._cells.values()
        ]
        due = [time_us for time_us in timers if time_us is not None]
        return min(due) + WINDOW_TIME_LAG_US if due else None

    def _output_watermark_us(self) -> int | None:
        return self._closing_watermark_us(self._watermarks)


def _is_due(timer_us: int | None, now_us: int | None) -> bool:
    return timer_us is not None and now_us is not None and timer_us <= now_us


def _values(rows: pa.Table) -> Iterator[tuple[dict[str, object], int, int]]:
    """Yield rows as functions receive them, with their times and the positions of their keys."""
    batches = rows.drop_columns([TIME, POSITION]).to_batches(max_chunksize=_MAX_ROWS)
    values = (row for batch in batches for row in batch.to_pylist())
    positions = rows.column(POSITION).to_pylist()
    yield from zip(values, int64_column(rows, TIME).tolist(), positions, strict=True)
