"""The window operator for SESSION: keeps open sessions and emits them once no row can join them.

The counterpart of `operators.window` for windows that rows create and merge. A key group holds
whole partitions, and the operator sees a micro-batch as a whole:

1. Its partials and those in state are cut into sessions. If a session ends at or before the
   watermark of the previous micro-batch, it consists of new rows only, and these are late: they are
   dropped and counted. A late row that an open session reaches, directly or through other new rows,
   belongs to that session (Flink's rule for merging windows: the end of the merged window counts).
   If late rows are kept, rows that may be late arrive with their partials, and the late ones are
   output unchanged.
2. The watermark advances, and every session whose end it has reached is emitted and removed. This
   is 1 ms later than other windows fire: a row at the very end of a session belongs to it, as in a
   batch, and may arrive until the watermark has reached it. Downstream operators get a watermark
   that is 1 ms behind, so results, whose window_time is the end - 1 ms, are not late.
3. The rest of each session becomes one partial per key.

State is read only if a session can end or a row can be late; until then new partials are appended.
Then only partitions are read that have a partial old enough to end a session, or a row that may be
late, and all their partials are taken; see `runtime.streaming.state.marked_chunks`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    int64_column,
    replace_values,
)
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.session import find_sessions, merge_sessions
from runtime.local.streaming.messages import LateRows
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.stream import LATE_ROW, TIME
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.operators.firing import UpdateRules
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.marked_chunks import MarkedChunks
from runtime.streaming.state.metadata import MarkedChunk, OperatorMetadata, SessionMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.watermarks import Watermarks, emitted_by_sessions_us
from runtime.windows.times import FIRST_TIME, LAST_TIME


@dataclass(frozen=True)
class SessionSpec:
    """Spec of the session operator. The same for all key groups.

    Attributes:
        aggregation: Window, keys and accumulators.
        columns: Columns of the partials that the local stage creates.
        common: Spec shared by all operators.
        is_processing_time: Whether rows' times are processing time: then no row is late.
        updates: When sessions are emitted again. None emits each session once.
    """

    aggregation: WindowAggregation
    columns: StateColumns
    common: KeyGroupSpec
    is_processing_time: bool = False
    updates: UpdateRules | None = None


class SessionOperator(KeyGroupOperator):
    """The session operator of one key group. Emits each session once."""

    def __init__(self, spec: SessionSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        window = spec.aggregation.window
        assert not window.has_slices
        self._spec = spec
        self._window = window
        self._partials = MarkedChunks(
            store,
            window.partition,
            spec.common.thresholds,
            self._chunks_before(),
            spec.columns.of,
        )

    def _chunks_before(self) -> Sequence[MarkedChunk]:
        """Return the chunks of partials at the end of the previous micro-batch."""
        before = self._metadata_before(SessionMetadata)
        return () if before is None else before.chunks

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        closed, fires = before.combined_us, after.combined_us
        new = self._new_partials(batch, before)
        n_late = 0
        if fires is not None and self._earliest_end(new) <= fires:
            candidates = self._candidates(batch.candidates, closed)
            may_end = self._may_end(new, candidates, fires)
            old = [table for _, table in self._partials.take_marked(may_end)]
            left: list[pa.Table] = []
            if new is not None:
                is_taken = may_end.take(self._partials.marks(new))
                if not is_taken.all():
                    rest = new.filter(pa.array(~is_taken))
                    left.append(rest.drop_columns([ROW_COUNT]))
                    new = new.filter(pa.array(is_taken))
            table, n_rows = self._concat_partials(old, new)
            if table is not None and len(table):
                session, end_us, first_us = self._sessions(table, candidates)
                session, of_candidate = np.split(session, [len(table)])
                is_late = np.zeros(len(table), np.bool_)
                if closed is not None:
                    is_late = (end_us <= closed).take(session)
                    n_late = int(n_rows[is_late].sum())
                    if candidates is not None:
                        yield from late_rows(
                            candidates, (end_us <= closed).take(of_candidate), closed
                        )
                has_ended = (end_us <= fires).take(session)
                is_out = has_ended & ~is_late
                if is_out.any():
                    ended = table.filter(pa.array(is_out))
                    yield from map(Output, merge_sessions(ended, self._spec.aggregation))
                if not has_ended.all():
                    left.append(self._merge_open(table, ~has_ended, first_us.take(session)))
            if left:
                self._append(pa.concat_tables(left))
        elif new is not None:
            self._append(new.drop_columns([ROW_COUNT]))
        return [n_late]

    def _new_partials(self, batch: MicroBatch, before: Watermarks) -> pa.Table | None:
        """Return the partials of a micro-batch with their row counts. None if there are none."""
        tables = [table for table in batch.partials if table.num_rows]
        new = self._spec.columns.of(pa.concat_tables(tables), ROW_COUNT) if tables else None
        now = before.fired_until_us()
        if new is not None and self._spec.is_processing_time and now is not None:
            # the watermark is 1 ms behind: a row in between would touch a session that was emitted
            new = _not_before(new, now)
        return new

    def _earliest_end(self, new: pa.Table | None) -> int:
        """Return a lower bound of the end of all sessions."""
        last = [chunk.last_us for chunk in self._partials.chunks]
        if new is not None:
            last.append(int(int64_column(new, LAST_TIME).min()))
        return min(last) + self._window.gap_us if last else np.iinfo(np.int64).max

    def _concat_partials(
        self, old: list[pa.Table], new: pa.Table | None
    ) -> tuple[pa.Table | None, Int64Array]:
        """Return (partials of state and new ones, number of new rows in each)."""
        counts = [np.zeros(len(table), np.int64) for table in old]
        tables = list(old)
        if new is not None:
            counts.append(int64_column(new, ROW_COUNT))
            tables.append(new.drop_columns([ROW_COUNT]))
        if not tables:
            return None, np.zeros(0, np.int64)
        self._note_bytes(*tables)
        return pa.concat_tables(tables), np.concatenate(counts)

    def _may_end(self, new: pa.Table | None, candidates: pa.Table | None, fires: int) -> BoolArray:
        """Return for each mark whether its partitions may have an ending session or a late row."""
        may_end = self._partials.no_marks()
        old_enough = fires - self._window.gap_us
        self._partials.mark_ends(may_end, old_enough)
        if new is not None:
            is_old = int64_column(new, LAST_TIME) <= old_enough
            may_end[self._partials.marks(new)[is_old]] = True
        if candidates is not None:
            may_end[self._partials.marks(candidates)] = True
        return may_end

    def _candidates(self, tables: Sequence[pa.Table], closed: int | None) -> pa.Table | None:
        """Return the rows that are late unless an open session reaches them, or None."""
        if closed is None or not tables:
            return None
        table = pa.concat_tables(tables)
        may_be = int64_column(table, LAST_TIME) <= closed - self._window.gap_us
        return table.filter(pa.array(may_be)) if may_be.any() else None

    def _sessions(
        self,
        table: pa.Table,
        candidates: pa.Table | None = None,
        results: pa.Table | None = None,
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return (session of each partial, end of each session, first time of each session).

        The sessions of candidates and of emitted results come after the partials' sessions. They
        change no session: each is among the rows of a partial, or consists of such rows.
        """
        spans = [(table, FIRST_TIME, LAST_TIME)]
        if candidates is not None:
            spans.append((candidates, TIME, LAST_TIME))
        if results is not None:
            spans.append((results, FIRST_TIME, LAST_TIME))
        first_us = np.concatenate([int64_column(rows, first) for rows, first, _ in spans])
        last_us = np.concatenate([int64_column(rows, last) for rows, _, last in spans])
        keys = [rows.select(self._window.partition) for rows, _, _ in spans]
        partition, _ = encode_keys(pa.concat_tables(keys).columns, len(first_us))
        sessions = find_sessions(partition, first_us, last_us, self._window.gap_us)
        return (
            sessions.session_of_partial(),
            sessions.last_us + self._window.gap_us,
            sessions.first_us,
        )

    def _merge_open(
        self, table: pa.Table, is_open: BoolArray, session_first_us: Int64Array
    ) -> pa.Table:
        """Return one partial for each key of each open session."""
        # The first time identifies a session within its partition.
        columns = self._spec.columns
        table = columns.with_ends(table, session_first_us)
        return columns.merge([table.filter(pa.array(is_open))])

    def _append(self, table: pa.Table) -> None:
        """Write partials as new chunks."""
        self._partials.append(table, self._merge_all)

    def _merge_all(self, table: pa.Table) -> pa.Table:
        """Return one partial for each key of each session of some partials."""
        self._note_bytes(table)
        session, _, first_us = self._sessions(table)
        return self._merge_open(table, np.ones(len(table), np.bool_), first_us.take(session))

    def _metadata(self) -> OperatorMetadata:
        return SessionMetadata(self._partials.chunks)

    def _size(self) -> tuple[int, int]:
        return self._partials.size

    def _next_window_end_us(self, reader: int) -> int | None:
        if not self._partials.chunks:
            return None
        # a session may go on for longer than its partials in state say
        next_end, reached = self._earliest_end(None), self._watermarks.combined_us
        return next_end if reached is None else max(next_end, reached + 1)

    def _output_watermark_us(self) -> int | None:
        return emitted_by_sessions_us(self._watermarks)


def late_rows(candidates: pa.Table, is_late: BoolArray, missed_us: int) -> Iterator[Output]:
    """Yield the late rows among the candidates, if there are any."""
    if is_late.any():
        rows = candidates.select([LATE_ROW]).filter(pa.array(is_late))
        yield Output(LateRows(rows, missed_us))


def _not_before(table: pa.Table, time_us: int) -> pa.Table:
    """Raise times before `time_us` to it, for when the clock was set back."""
    for name in (FIRST_TIME, LAST_TIME):
        table = replace_values(table, name, np.maximum(int64_column(table, name), time_us))
    return table
