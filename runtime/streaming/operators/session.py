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
late, and all their partials are taken. Partitions are found by a mark, a hash of a few bits;
partitions that share a mark are taken too. Chunks are not rewritten when partials are taken: a
bitmap records which ones are gone. Chunks of similar size are merged when there are many, as in a
log-structured merge tree (O'Neil and others, 1996).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import (
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
from runtime.spec.windows import FIRST_TIME, LAST_TIME, SessionWindow
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.state.blobs import BlobStore, required_blob
from runtime.streaming.state.codec import decode_bits, decode_table, encode_bits
from runtime.streaming.state.columns import StateColumns
from runtime.streaming.state.key_sets import marks_of
from runtime.streaming.state.metadata import SessionChunk, SessionMetadata
from runtime.streaming.state.table_cache import CACHE, remove_table, unique_name, write_table
from runtime.streaming.watermarks import Watermarks, emitted_by_sessions_us

_MARK = "$mark"


@dataclass(frozen=True)
class SessionSpec:
    """Spec of the session operator. The same for all key groups.

    Attributes:
        aggregation: Window, keys and accumulators.
        columns: Columns of the partials that the local stage creates.
        common: Spec shared by all operators.
        is_processing_time: Whether rows' times are processing time: then no row is late.
    """

    aggregation: WindowAggregation
    columns: StateColumns
    common: KeyGroupSpec
    is_processing_time: bool = False


class SessionOperator(KeyGroupOperator):
    """The session operator of one key group. Emits each session once."""

    def __init__(self, spec: SessionSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        window = spec.aggregation.window
        assert isinstance(window, SessionWindow)
        self._spec = spec
        self._thresholds = spec.common.thresholds
        self._window = window
        before = self._metadata_before(SessionMetadata)
        self._chunks = [] if before is None else [*before.chunks]

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        closed, fires = before.combined_us, after.combined_us
        tables = [table for table in batch.partials if table.num_rows]
        new = pa.concat_tables(tables) if tables else None
        now = before.fired_until_us()
        if new is not None and self._spec.is_processing_time and now is not None:
            # the watermark is 1 ms behind: a row in between would touch a session that was emitted
            new = _not_before(new, now)
        n_late = 0
        if fires is not None and self._earliest_end(new) <= fires:
            candidates = self._candidates(batch.candidates, closed)
            may_end = self._may_end(new, candidates, fires)
            old = self._take_marked(may_end)
            left: list[pa.Table] = []
            if new is not None:
                is_taken = may_end.take(self._marks(new))
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
                        yield from _late(candidates, (end_us <= closed).take(of_candidate), closed)
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

    def _earliest_end(self, new: pa.Table | None) -> int:
        """Return a lower bound of the end of all sessions."""
        last = [chunk.last_us for chunk in self._chunks]
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
        may_end: BoolArray = np.zeros(self._thresholds.sessions_n_marks, np.bool_)
        old_enough = fires - self._window.gap_us
        for chunk in self._chunks:
            if chunk.last_us <= old_enough:
                table = self._table(chunk)
                is_old = (int64_column(table, LAST_TIME) <= old_enough) & self._is_remaining(
                    chunk, table
                )
                may_end[int64_column(table, _MARK)[is_old]] = True
        if new is not None:
            may_end[self._marks(new)[int64_column(new, LAST_TIME) <= old_enough]] = True
        if candidates is not None:
            may_end[self._marks(candidates)] = True
        return may_end

    def _marks(self, table: pa.Table) -> Int64Array:
        """Return a hash of each row's partition."""
        columns = [table.column(name) for name in self._window.partition]
        return marks_of(columns, len(table), self._thresholds.sessions_n_marks)

    def _candidates(self, tables: Sequence[pa.Table], closed: int | None) -> pa.Table | None:
        """Return the rows that are late unless an open session reaches them, or None."""
        if closed is None or not tables:
            return None
        table = pa.concat_tables(tables)
        may_be = int64_column(table, TIME) <= closed - self._window.gap_us
        return table.filter(pa.array(may_be)) if may_be.any() else None

    def _sessions(
        self, table: pa.Table, candidates: pa.Table | None = None
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return (session of each partial, end of each session, first time of each session).

        The sessions of candidates come after the partials' sessions. Candidates change no session:
        each is among the rows of a partial.
        """
        first_us, last_us = int64_column(table, FIRST_TIME), int64_column(table, LAST_TIME)
        keys = table.select(self._window.partition)
        if candidates is not None:
            time_us = int64_column(candidates, TIME)
            first_us, last_us = (np.concatenate([times, time_us]) for times in (first_us, last_us))
            keys = pa.concat_tables([keys, candidates.select(self._window.partition)])
        partition, _ = encode_keys(keys.columns, len(first_us))
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
        """Write partials as new chunks; if there are many runs, merge some of them first."""
        runs = Counter[str]()
        for chunk in self._chunks:
            runs[chunk.run] += chunk.n_rows
        if len(runs) < self._thresholds.sessions_max_runs:
            self._write(table)
            return
        alike, n_rows = set[str](), len(table)
        for run, n_rows_of_run in sorted(runs.items(), key=lambda run: run[1]):
            if alike and n_rows_of_run > self._thresholds.merge_size_ratio * n_rows:
                break
            alike.add(run)
            n_rows += n_rows_of_run
        chunks = [chunk for chunk in self._chunks if chunk.run in alike]
        table = pa.concat_tables([*self._take(chunks), table])
        self._note_bytes(table)
        session, _, first_us = self._sessions(table)
        self._write(self._merge_open(table, np.ones(len(table), np.bool_), first_us.take(session)))

    def _write(self, table: pa.Table) -> None:
        run = unique_name()
        # sorted by time, so that partials that may end are in few chunks
        for piece in pieces(table.sort_by(FIRST_TIME)):
            first_us, last_us = (int(int64_column(piece, t).min()) for t in (FIRST_TIME, LAST_TIME))
            name, n_bytes = write_table(self._store, piece)
            CACHE.put(name, self._add_marks(piece))
            rows = piece.num_rows
            self._chunks.append(SessionChunk(name, rows, n_bytes, first_us, last_us, run))

    def _take(self, chunks: list[SessionChunk]) -> list[pa.Table]:
        """Return the partials of some chunks, and remove the chunks."""
        tables = []
        for chunk in chunks:
            table = self._table(chunk)
            is_there = self._is_remaining(chunk, table)
            table = table if is_there.all() else table.filter(pa.array(is_there))
            tables.append(table.drop_columns([_MARK]))
            self._remove(chunk)
        return tables

    def _take_marked(self, is_marked: BoolArray) -> list[pa.Table]:
        """Take the partials of partitions with some marks out of their chunks."""
        tables = []
        for place, chunk in reversed(list(enumerate(self._chunks))):
            table = self._table(chunk)
            is_there = self._is_remaining(chunk, table)
            is_taken = is_marked.take(int64_column(table, _MARK)) & is_there
            if not is_taken.any():
                continue
            tables.append(table.filter(pa.array(is_taken)).drop_columns([_MARK]))
            is_there &= ~is_taken
            if not is_there.any():
                self._remove(chunk)
            else:
                self._chunks[place] = self._without(chunk, table, is_there)
        return tables

    def _without(self, chunk: SessionChunk, table: pa.Table, is_there: BoolArray) -> SessionChunk:
        """Return a chunk that has only some of its partials left."""
        if chunk.taken is not None:
            self._store.remove(chunk.taken)
        taken_blob = unique_name()
        self._store.put(taken_blob, encode_bits(~is_there))
        first_us, last_us = (
            int(int64_column(table, name)[is_there].min()) for name in (FIRST_TIME, LAST_TIME)
        )
        n_rows = int(np.count_nonzero(is_there))
        return chunk._replace(n_rows=n_rows, first_us=first_us, last_us=last_us, taken=taken_blob)

    def _is_remaining(self, chunk: SessionChunk, table: pa.Table) -> BoolArray:
        """Return which partials of a chunk have not been taken."""
        if chunk.taken is None:
            return np.ones(len(table), np.bool_)
        return ~decode_bits(required_blob(self._store, chunk.taken), len(table))

    def _table(self, chunk: SessionChunk) -> pa.Table:
        """Return all partials of a chunk with their marks, including those that were taken."""
        table = CACHE.get(chunk.name)
        if table is None:
            table = self._add_marks(decode_table(required_blob(self._store, chunk.name)))
            CACHE.put(chunk.name, table)
        return self._spec.columns.of(table, _MARK)

    def _add_marks(self, table: pa.Table) -> pa.Table:
        return table.append_column(_MARK, pa.array(self._marks(table)))

    def _remove(self, chunk: SessionChunk) -> None:
        self._chunks.remove(chunk)
        remove_table(self._store, chunk.name)
        if chunk.taken is not None:
            self._store.remove(chunk.taken)

    def _metadata(self) -> SessionMetadata:
        return SessionMetadata(self._chunks)

    def _size(self) -> tuple[int, int]:
        n_rows = sum(chunk.n_rows for chunk in self._chunks)
        return n_rows, sum(chunk.n_bytes for chunk in self._chunks)

    def _next_window_end_us(self, reader: int) -> int | None:
        if not self._chunks:
            return None
        # a session may go on for longer than its partials in state say
        next_end, reached = self._earliest_end(None), self._watermarks.combined_us
        return next_end if reached is None else max(next_end, reached + 1)

    def _output_watermark_us(self) -> int | None:
        return emitted_by_sessions_us(self._watermarks)


def _late(candidates: pa.Table, is_late: BoolArray, missed_us: int) -> Iterator[Output]:
    if is_late.any():
        rows = candidates.select([LATE_ROW]).filter(pa.array(is_late))
        yield Output(LateRows(rows, missed_us))


def _not_before(table: pa.Table, time_us: int) -> pa.Table:
    """Raise times before `time_us` to it, for when the clock was set back."""
    for name in (FIRST_TIME, LAST_TIME):
        table = replace_values(table, name, np.maximum(int64_column(table, name), time_us))
    return table
