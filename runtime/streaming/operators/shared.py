"""The window operator whose slices several window aggregations read: the INSERTs of a set.

Each reader is served as `operators.window.WindowOperator` would serve it alone, step by
step: what is late for it, which of its windows come out. What is kept is kept once for all of them,
see `runtime.streaming.state.shared_slices`. Windows come out once; there are no updates here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import BoolArray, Int64Array, int64_values, one_chunk
from runtime.compute.kernels.merge import merge_slices
from runtime.local.messages import SLICE_END, LateRows
from runtime.spec.stream import FINAL_US, LATE_ROW
from runtime.streaming.operators.window import MicroBatch, Status
from runtime.streaming.state.blobs import BlobStore, decode_facts, encode_facts
from runtime.streaming.state.shared_slices import Reader, SharedSlices, SharedSpec
from runtime.streaming.watermarks import (
    WatermarkRules,
    Watermarks,
    advance,
    closed_until_us,
    watermark_facts,
    watermarks_of,
)

_FACTS = "facts"


@dataclass(frozen=True)
class SharedOperatorSpec:
    """What an operator does; the same for all key groups.

    Attributes:
        shared: the readers and the partials that they share.
        row_count: the name of a partial column with the number of rows, BIGINT, behind the
            accumulators' columns.
        n_sources: how many sources tell watermarks.
        rules: how these make the operator's watermark.
        run: tells this run of the stream from others, in which nobody listened to the sources.
    """

    shared: SharedSpec
    row_count: str
    n_sources: int
    rules: WatermarkRules = field(default_factory=WatermarkRules)
    run: str = ""


@dataclass(frozen=True)
class ReaderResult:
    """A result of one of the readers.

    Attributes:
        reader: its number.
        result: some of its windows, rows that are late for all of them, or how it stands at the
            end of the micro-batch. The size of the state stands with the first reader alone.
    """

    reader: int
    result: pa.RecordBatch | LateRows | Status


# Partials with the set of readers for whom they are not late
_Accepted = Sequence[tuple[int, pa.Table]]


class SharedOperator:
    """The window operator of one key group.

    Args:
        spec: what it does.
        store: its state.
    """

    def __init__(self, spec: SharedOperatorSpec, store: BlobStore) -> None:
        self._spec = spec
        self._store = store
        blob = store.get(_FACTS)
        facts = {} if blob is None else decode_facts(blob)
        self._watermarks = watermarks_of(facts, spec.n_sources, spec.run)
        self._slices = SharedSlices(spec.shared, store, facts.get("levels"))

    def process(self, batch: MicroBatch) -> Iterator[ReaderResult]:
        """Take a micro-batch in: windows as batches, and at the very end the status of each reader.

        The state is written when the iterator is exhausted, and not before.

        Raises:
            ExecutionError: a sum overflows its type.
        """
        before = self._watermarks
        yield from self._late(batch.candidates, before)
        accepted, n_late = self._accepted(batch.partials, _closed(before))
        after = advance(before, batch.progress, self._spec.rules, batch.clock_us)
        for number in range(len(self._slices.readers)):
            for windows in self._fire(number, accepted, before, after):
                yield ReaderResult(number, windows)
        self._slices.keep(accepted, _closed(after))
        self._watermarks = after
        facts = {**watermark_facts(after, self._spec.run), "levels": self._slices.facts()}
        self._store.put(_FACTS, encode_facts(facts))
        for number, late in enumerate(n_late):
            yield ReaderResult(number, self._status(number, late, batch))

    def _late(self, candidates: Sequence[pa.Table], before: Watermarks) -> Iterator[ReaderResult]:
        """The rows among candidates that are late, for each reader for which they are."""
        closed = _closed(before)
        if closed is None or before.combined_us is None:
            return
        for table in candidates:
            ends = int64_values(one_chunk(table.column(SLICE_END)))
            for number, reader in enumerate(self._slices.readers):
                is_late = _is_late(reader, ends, closed)
                if is_late.any():
                    rows = table.select([LATE_ROW]).filter(pa.array(is_late))
                    yield ReaderResult(number, LateRows(rows, before.combined_us))

    def _accepted(
        self, tables: Sequence[pa.Table], closed: int | None
    ) -> tuple[_Accepted, list[int]]:
        """(partials of which some window is open, without row counts; late rows of each reader)."""
        accepted: list[tuple[int, pa.Table]] = []
        n_late = [0] * len(self._slices.readers)
        for table in tables:
            if closed is not None:
                ends = int64_values(one_chunk(table.column(self._spec.shared.slice_end)))
                n_rows = int64_values(one_chunk(table.column(self._spec.row_count)))
                for number, reader in enumerate(self._slices.readers):
                    n_late[number] += int(n_rows[_is_late(reader, ends, closed)].sum())
            plain = table.drop_columns([self._spec.row_count])
            accepted += self._slices.placed(plain, closed, self._slices.everybody)
        return accepted, n_late

    def _fire(
        self, number: int, accepted: _Accepted, before: Watermarks, after: Watermarks
    ) -> Iterator[pa.RecordBatch]:
        """The windows of a reader whose ends the watermark passed."""
        reader = self._slices.readers[number]
        new = [table for members, table in accepted if members >> number & 1]
        first, last = self._ends(number, new)
        if len(first) == 0:
            return
        oldest = int(reader.first_window_end(first).min())
        newest = int(reader.last_window_end(last).max())
        fired, fires = before.fired_until_us(), after.fired_until_us()
        after_us = oldest - 1 if fired is None else fired
        until_us = min(-FINAL_US if fires is None else fires, newest)
        if reader.assigner.next_window_end(after_us) > until_us:
            return
        tables = list(self._slices.read(number, after_us, until_us))
        tables += [reader.own_table(table, self._spec.shared.slice_end) for table in new]
        if tables:
            yield from merge_slices(
                pa.concat_tables(tables),
                reader.spec.aggregation,
                window_ends=(after_us, until_us),
            )

    def _ends(self, number: int, new: Sequence[pa.Table]) -> tuple[Int64Array, Int64Array]:
        """The oldest and the newest slice ends of what a reader reads, kept or new."""
        first, last = self._slices.chunk_ends(number)
        ends = [int64_values(one_chunk(t.column(self._spec.shared.slice_end))) for t in new]
        return np.concatenate([first, *ends]), np.concatenate([last, *ends])

    def _status(self, number: int, n_late: int, batch: MicroBatch) -> Status:
        reader = self._slices.readers[number]
        first, last = self._slices.chunk_ends(number)
        first, last = reader.first_window_end(first), reader.last_window_end(last)
        fired = self._watermarks.fired_until_us()
        # others may still need what this reader has put out, or what is in none of its windows
        is_waiting = (first <= last) & (last > (-FINAL_US if fired is None else fired))
        next_end = int(first[is_waiting].min()) if is_waiting.any() else None
        if next_end is not None and fired is not None:
            next_end = max(next_end, reader.assigner.next_window_end(fired))
        return Status(
            self._watermarks,
            n_late,
            batch.n_null_times,
            self._slices.n_rows if number == 0 else 0,
            self._slices.n_bytes if number == 0 else 0,
            next_end,
            told_us=self._watermarks.combined_us,
        )


def _is_late(reader: Reader, ends: Int64Array, closed: int) -> BoolArray:
    """Whether all windows of a reader with slices of these ends are closed."""
    last = reader.last_window_end(ends)
    # rows in a gap between windows are in none, and so late for none
    is_late: BoolArray = (last <= closed) & (reader.first_window_end(ends) <= last)
    return is_late


def _closed(watermarks: Watermarks) -> int | None:
    """Windows that end no later than this take no rows any more."""
    return closed_until_us(watermarks.combined_us, 0)
