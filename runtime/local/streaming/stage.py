"""The local stage of a stream: rows of one task to partials and progress.

Spark SQL has evaluated keys, arguments and conditions; this stage groups rows by key and slice. In
a micro-batch every key group gets at least one row, and the first key group of each task after the
exchange gets the watermarks of this task. So all key groups advance in lockstep; otherwise the same
row would be late in some and not in others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.blobs import MAX_BLOB_BYTES, pieces, split_by_bucket
from runtime.compute.buffer import BufferRows
from runtime.compute.counters import count, is_counting
from runtime.compute.kernels.conversions import as_type, int64_values, replace_values, table_bytes
from runtime.compute.kernels.keys import bucket_of
from runtime.compute.kernels.session import ends_of_rows
from runtime.local.stage import BufferPlan, aggregate
from runtime.local.streaming.first_rows import FirstRowsOfSlices
from runtime.local.streaming.messages import SLICE_END, LateCandidates, LateRows, Partials, encode
from runtime.local.streaming.progress import TaskProgress, is_first_task
from runtime.spec.expressions import FirstRows
from runtime.spec.stream import ALL_SOURCES, FINAL_US, KEEP, LATE_ROW, SOURCE, TIME, WATERMARK
from runtime.windows.all_time import N_PARTS
from runtime.windows.times import LAST_TIME

# Base for encoding rows that are not kept: this minus their source, which is below all sources
NOT_KEPT = 2 * ALL_SOURCES - 1
# Columns of rows by name
Columns: TypeAlias = pa.RecordBatch | Mapping[str, pa.Array]
# Partial column with the number of rows, for counting late ones
ROW_COUNT = "$rows"


@dataclass(frozen=True)
class LocalPlan:
    """Plan of the local stage.

    Attributes:
        buffer: Aggregates, the row count last.
        n_sources: Number of sources.
        numbers: Numbers of the key groups.
        heads: Numbers of the first key group in each task.
        keeps_late_rows: Whether rows that may be late are sent to the key groups, as LATE_ROW.
        carries_late_rows: Whether rows have LATE_ROW and include late rows of an upstream operator.
        delay_us: Watermark delay. None if rows come with their watermark.
        first: Selects the rows that are needed if the keys are whole rows. None means all.
        time_key: Key that is the time itself and is not sent separately.
        whole_by: Keys within which windows are emitted whole, see `Streaming`. None: they are not.
        by: Keys that are hashed into key groups. None for all keys.
    """

    buffer: BufferPlan
    n_sources: int
    numbers: tuple[int, ...]
    heads: tuple[int, ...]
    keeps_late_rows: bool = False
    carries_late_rows: bool = False
    delay_us: int | None = None
    first: FirstRows | None = None
    time_key: str | None = None
    whole_by: tuple[str, ...] | None = None
    by: tuple[str, ...] | None = None

    @property
    def hashed_columns(self) -> tuple[str, ...]:
        """Columns that are hashed into key groups."""
        if not self.buffer.window.has_slices:
            # a session's key group depends only on its partition, not on the other keys
            return self.buffer.window.partition
        if self.by is not None:
            return self.by
        # rows that are ranked together must be in one key group
        if self.whole_by is not None:
            return self.whole_by
        return self.buffer.keys if self.first is None else self.first.by


class LocalTask:
    """The local stage of one task in one micro-batch.

    Args:
        plan: Plan of the stage.
        closed_until_us: Upper bound of the ends of closed windows, as far as the task knows.

    Attributes:
        progress: Progress of the task in its sources.
    """

    def __init__(self, plan: LocalPlan, closed_until_us: int = FINAL_US) -> None:
        self._plan = plan
        self._closed_until_us = closed_until_us
        self._n_messages = 0
        self.progress = TaskProgress(plan.n_sources, plan.numbers, plan.heads)
        self._first = None
        if plan.first is not None:
            window = plan.buffer.window.cells
            self._first = FirstRowsOfSlices(
                plan.first, window, plan.buffer.keys, plan.buffer.slice_end, ROW_COUNT
            )

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert all rows of the task to messages of MESSAGE_SCHEMA.

        Raises:
            ExecutionError: A sum overflows its type.
        """
        return self.messages(self._rows_and_late_rows(batches))

    def messages(
        self, source: Iterable[BufferRows | pa.RecordBatch], *, is_second: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield messages of MESSAGE_SCHEMA: partials of rows, messages in `source`, progress.

        Args:
            source: Rows and messages.
            is_second: Whether messages of the first pass are among them. These have woken the key
                groups, so progress is sent only if this pass has rows.

        Raises:
            ExecutionError: The source fails, or a sum overflows its type.
        """
        for name in ("rows_in", "rows_out", "blobs_out", "bytes_out"):
            count(name, 0)
        rows = source if self._first is None else map(self._first.among, source)
        yield from aggregate(self._plan.buffer, rows, self._partials)
        if not (is_second and self.progress.is_nothing):
            yield self.progress.control(wakes=not is_second and is_first_task())

    def _rows_and_late_rows(
        self, batches: Iterable[pa.RecordBatch]
    ) -> Iterator[BufferRows | pa.RecordBatch]:
        """Yield rows that count and have a time, and messages with rows that may be late."""
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if self._plan.carries_late_rows:
                is_passing = _is_late(batch)
                if is_passing.true_count:
                    yield from self._passing(batch.filter(is_passing))
                    batch = batch.filter(pc.invert(is_passing))
            self.progress.observe(batch)
            batch = self.progress.drop_untimed(batch)
            if batch.num_rows:
                yield from self.timed_rows(batch)

    def timed_rows(self, columns: Columns) -> Iterator[BufferRows | pa.RecordBatch]:
        """Yield rows that count and have a time, after messages with those that may be late.

        Args:
            columns: TIME, keys, arguments, conditions; and LATE_ROW if late rows are kept.
        """
        if self._plan.keeps_late_rows:
            window = self._plan.buffer.window
            if not window.has_slices:
                yield from self._maybe_late_for_sessions(columns, window.gap_us)
            else:
                yield from self._maybe_late_for_slices(columns)
        yield self._plan.buffer.rows(columns)

    def _maybe_late_for_sessions(self, columns: Columns, gap_us: int) -> Iterator[pa.RecordBatch]:
        """Send rows that may be late to the key group of their sessions."""
        # the shortest session with a row is the one that has no other row
        newest_us = max(self._closed_until_us, gap_us - FINAL_US) - gap_us
        last_us = int64_values(columns[TIME])
        hidden = self._plan.buffer.window.row_length
        if hidden is not None:
            last_us = ends_of_rows(last_us, int64_values(columns[hidden]))
        is_candidate = last_us <= newest_us
        if not is_candidate.any():
            return
        schema = self._plan.buffer.schema
        sent = {
            n: as_type(columns[n], schema.field(n).type) for n in self._plan.buffer.window.partition
        }
        sent |= {name: columns[name] for name in (TIME, LATE_ROW)}
        sent[LAST_TIME] = pa.array(last_us)
        candidates = pa.table(sent).filter(pa.array(is_candidate))
        for group, rows in self._split_by_key_group(candidates):
            yield encode([(group, LateCandidates(rows))])

    def _maybe_late_for_slices(self, columns: Columns) -> Iterator[pa.RecordBatch]:
        """Send rows that may be late to any key group: all have the same watermark."""
        assigner = self._plan.buffer.window.cells.assigner()
        ends = assigner.slice_end(int64_values(columns[TIME]))
        newest = assigner.last_window_end(ends)
        # rows in a gap between windows are in no window, so they are not late
        is_candidate = (newest <= self._closed_until_us) & (
            assigner.first_window_end(ends) <= newest
        )
        if not is_candidate.any():
            return
        candidates = pa.table({SLICE_END: pa.array(ends), LATE_ROW: columns[LATE_ROW]})
        for piece in pieces(candidates.filter(pa.array(is_candidate))):
            yield encode([(self._any_key_group(), LateCandidates(piece))])

    def _passing(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Send rows that were late for an upstream operator to any key group for output."""
        marks = batch.column(WATERMARK)
        for missed in marks.unique():
            table = pa.table({LATE_ROW: batch.column(LATE_ROW).filter(pc.equal(marks, missed))})
            for piece in pieces(table):
                yield encode([(self._any_key_group(), LateRows(piece, missed.as_py()))])

    def _any_key_group(self) -> int:
        numbers = self._plan.numbers
        self._n_messages += 1
        return numbers[self._n_messages % len(numbers)]

    def _partials(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield partials in one or more messages for each key group that has any."""
        if self._first is not None:
            table = self._first.of(table)
        if not self._plan.buffer.window.closes and self._plan.buffer.keys:
            table = self._in_parts(table)
        count("rows_out", table.num_rows)
        # group small ones: each batch has a cost, here and in the JVM
        together: list[tuple[int, Partials]] = []
        n_bytes = 0
        for group, rows in self._split_by_key_group(table):
            rows_bytes = table_bytes(rows)
            if together and n_bytes + rows_bytes > MAX_BLOB_BYTES:
                yield _encode_partials(together)
                together, n_bytes = [], 0
            together.append((group, Partials(rows)))
            n_bytes += rows_bytes
        if together:
            yield _encode_partials(together)

    def _in_parts(self, table: pa.Table) -> pa.Table:
        """Distribute partials of all time over its parts by the hash of their keys."""
        buffer = self._plan.buffer
        columns = [table.column(key) for key in buffer.keys]
        # another seed than for key groups, whose keys would else be in few parts
        part = bucket_of(columns, table.num_rows, N_PARTS, seed=N_PARTS)
        return replace_values(table, buffer.slice_end, part.astype(np.int64) + 1)

    def _split_by_key_group(self, table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
        """Yield (key group number, some of its rows) for each key group, possibly several times."""
        numbers = self._plan.numbers
        keys = [table.column(key) for key in self._plan.hashed_columns]
        for group, part in split_by_bucket(table, bucket_of(keys, table.num_rows, len(numbers))):
            for piece in pieces(pa.Table.from_batches([part])):
                yield numbers[group], piece


def _encode_partials(partials: list[tuple[int, Partials]]) -> pa.RecordBatch:
    batch = encode(partials)
    if is_counting():
        count("blobs_out", len(partials))
        count("bytes_out", pc.sum(pc.binary_length(batch.column("rows"))).as_py())
    return batch


def decode_sent(
    batch: pa.RecordBatch, delay_us: int | None, time_key: str | None = None
) -> pa.RecordBatch:
    """Decode rows of `encode_columns` into rows of `local_sql`.

    Args:
        batch: Rows with SOURCE and TIME; also WATERMARK without a delay.
        delay_us: Watermark delay. None if rows come with their watermark.
        time_key: Key that equals TIME, or None.
    """
    code = int64_values(batch.column(SOURCE))
    is_kept = code >= ALL_SOURCES
    names = batch.schema.names
    columns = dict(zip(names, batch.columns, strict=True))
    columns[KEEP] = pa.array(is_kept)
    columns[SOURCE] = pa.array(np.where(is_kept, code, NOT_KEPT - code), pa.int32())
    time = columns[TIME]
    if delay_us is not None:
        # in rows that are not kept, TIME is already a watermark
        behind = np.where(is_kept, delay_us, 0)
        least = np.int64(-FINAL_US) + behind
        columns[WATERMARK] = pc.subtract(pc.max_element_wise(time, least, skip_nulls=False), behind)
    if not is_kept.all():
        columns[TIME] = pc.if_else(columns[KEEP], time, pa.scalar(None, pa.int64()))
    if time_key is not None:
        columns[time_key] = columns[TIME].view(pa.timestamp("us"))
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _is_late(batch: pa.RecordBatch) -> pa.Array:
    """Return which rows were late for an upstream operator."""
    return pc.and_not(batch.column(LATE_ROW).is_valid(), batch.column(KEEP).fill_null(False))
