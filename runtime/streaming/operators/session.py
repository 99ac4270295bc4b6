"""The window operator for SESSION: open sessions in state, sessions out once none can join them.

The twin of `operators.window` for windows that rows make and merge. A key group holds whole
partitions; a micro-batch is seen as a whole:

1. its partials and those in state are cut into sessions. A session that was to end no later than
   the watermark at the end of the micro-batch before holds only new rows, and they are late:
   dropped and counted. A late row that an open session reaches, itself or through other new
   rows, is part of that session (Flink's rule for merging windows: what counts is the end of the
   merged window). Where late rows are kept, the rows that may be late come beside their partials,
   and those that are go out again as they came;
2. the watermark moves on, and every session whose end it has reached is emitted and forgotten.
   That is 1 ms later than other windows fire: a row at the very end of a session is part of it,
   as in a batch, and may come as long as the watermark has not reached it. Whoever follows gets a
   watermark 1 ms behind, so that results, whose window_time is the end - 1 ms, are not late;
3. what is left of a session becomes one partial for each key.

State is touched only where a session can end or a row can be late: until then new partials are put
beside what is there. Then it is those partitions that have a partial so old that a session might
end with it, or a row that may be late: all their partials are taken, and no others. They are
found by a mark of each partition, a hash of some bits; partitions that share one come along. A
chunk is not written again for what was taken of it: a bit for each partial says that it is gone.
Chunks of like size are made one when there are many, so that there never are (a log-structured
merge tree: O'Neil and others, 1996).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import (
    BoolArray,
    Int64Array,
    int64_column,
    with_values,
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
from runtime.streaming.state.blobs import (
    BlobStore,
    decode_bits,
    decode_table,
    encode_bits,
    known_blob,
)
from runtime.streaming.state.columns import StateColumns
from runtime.streaming.state.contents import SessionChunk, session_chunks
from runtime.streaming.state.key_sets import marks_of
from runtime.streaming.state.table_cache import CACHE, remove_table, unique_name, write_table
from runtime.streaming.watermarks import Watermarks, emitted_by_sessions_us

# With so many runs of chunks some are made one when the next one comes.
MANY_RUNS = 16
# One that has so many times the rows of all smaller ones stays as it is.
_MUCH_LARGER = 4
# The marks of partitions: few enough for an array of all of them.
N_MARKS = 1 << 22
_MARK = "$mark"


@dataclass(frozen=True)
class SessionSpec:
    """What a session operator does; the same for all key groups.

    Attributes:
        aggregation: window, keys, what is merged.
        columns: those of the partials, as the local stage makes them.
        common: what all operators have.
        is_processing_time: whether the rows' time is the processing time: then none is late.
    """

    aggregation: WindowAggregation
    columns: StateColumns
    common: KeyGroupSpec
    is_processing_time: bool = False


class SessionOperator(KeyGroupOperator):
    """The session operator of one key group: each session is emitted once."""

    def __init__(self, spec: SessionSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        window = spec.aggregation.window
        assert isinstance(window, SessionWindow)
        self._spec = spec
        self._window = window
        self._chunks = session_chunks(self._known)

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        closed, fires = before.combined_us, after.combined_us
        tables = [table for table in batch.partials if table.num_rows]
        new = pa.concat_tables(tables) if tables else None
        now = before.fired_until_us()
        if new is not None and self._spec.is_processing_time and now is not None:
            # the watermark is 1 ms behind; a row there would touch a session that was emitted
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
            table, n_rows = self._together(old, new)
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
                    left.append(self._merged(table, ~has_ended, first_us.take(session)))
            if left:
                self._append(pa.concat_tables(left))
        elif new is not None:
            self._append(new.drop_columns([ROW_COUNT]))
        return [n_late]

    def _earliest_end(self, new: pa.Table | None) -> int:
        """No session ends before."""
        last = [chunk.last_us for chunk in self._chunks]
        if new is not None:
            last.append(int(int64_column(new, LAST_TIME).min()))
        return min(last) + self._window.gap_us if last else np.iinfo(np.int64).max

    def _together(
        self, old: list[pa.Table], new: pa.Table | None
    ) -> tuple[pa.Table | None, Int64Array]:
        """(partials of state and new ones, of how many new rows each is)."""
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
        """Of each mark whether a partition with it has a session that may end, or a late row."""
        may_end: BoolArray = np.zeros(N_MARKS, np.bool_)
        old_enough = fires - self._window.gap_us
        for chunk in self._chunks:
            if chunk.last_us <= old_enough:
                table = self._table(chunk)
                is_old = (int64_column(table, LAST_TIME) <= old_enough) & self._is_there(
                    chunk, table
                )
                may_end[int64_column(table, _MARK)[is_old]] = True
        if new is not None:
            may_end[self._marks(new)[int64_column(new, LAST_TIME) <= old_enough]] = True
        if candidates is not None:
            may_end[self._marks(candidates)] = True
        return may_end

    def _marks(self, table: pa.Table) -> Int64Array:
        """A hash of the partition of each row."""
        columns = [table.column(name) for name in self._window.partition]
        return marks_of(columns, len(table), N_MARKS)

    def _candidates(self, tables: Sequence[pa.Table], closed: int | None) -> pa.Table | None:
        """The rows that are late unless an open session reaches them; None: there are none."""
        if closed is None or not tables:
            return None
        table = pa.concat_tables(tables)
        may_be = int64_column(table, TIME) <= closed - self._window.gap_us
        return table.filter(pa.array(may_be)) if may_be.any() else None

    def _sessions(
        self, table: pa.Table, candidates: pa.Table | None = None
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(the session of each partial, the end of each session, its first time).

        Behind the sessions of the partials come those of candidates, which change none: each is
        among the rows of a partial.
        """
        first_us, last_us = int64_column(table, FIRST_TIME), int64_column(table, LAST_TIME)
        keys = table.select(self._window.partition)
        if candidates is not None:
            time_us = int64_column(candidates, TIME)
            first_us, last_us = (np.concatenate([each, time_us]) for each in (first_us, last_us))
            keys = pa.concat_tables([keys, candidates.select(self._window.partition)])
        partition, _ = encode_keys(keys.columns, len(first_us))
        found = find_sessions(partition, first_us, last_us, self._window.gap_us)
        return found.of_partial(), found.last_us + self._window.gap_us, found.first_us

    def _merged(
        self, table: pa.Table, is_open: BoolArray, session_first_us: Int64Array
    ) -> pa.Table:
        """One partial for each session and key of those that are still open."""
        # Sessions of a partition differ in their first time, which distinguishes them.
        columns = self._spec.columns
        table = columns.with_ends(table, session_first_us)
        return columns.merged([table.filter(pa.array(is_open))])

    def _append(self, table: pa.Table) -> None:
        """Put partials beside those that are there; now and then make fewer chunks of them."""
        runs = Counter[str]()
        for chunk in self._chunks:
            runs[chunk.run] += chunk.n_rows
        if len(runs) < MANY_RUNS:
            self._write(table)
            return
        alike, n_rows = set[str](), len(table)
        for run, n_rows_of_run in sorted(runs.items(), key=lambda run: run[1]):
            if alike and n_rows_of_run > _MUCH_LARGER * n_rows:
                break
            alike.add(run)
            n_rows += n_rows_of_run
        chunks = [chunk for chunk in self._chunks if chunk.run in alike]
        table = pa.concat_tables([*self._take(chunks), table])
        self._note_bytes(table)
        session, _, first_us = self._sessions(table)
        self._write(self._merged(table, np.ones(len(table), np.bool_), first_us.take(session)))

    def _write(self, table: pa.Table) -> None:
        run = unique_name()
        # in order of time, so that those that may end are in few of the chunks
        for piece in pieces(table.sort_by(FIRST_TIME)):
            first_us, last_us = (int(int64_column(piece, t).min()) for t in (FIRST_TIME, LAST_TIME))
            name, n_bytes = write_table(self._store, piece)
            CACHE.put(name, self._with_marks(piece))
            rows = piece.num_rows
            self._chunks.append(SessionChunk(name, rows, n_bytes, first_us, last_us, run))

    def _take(self, chunks: list[SessionChunk]) -> list[pa.Table]:
        """The partials of some chunks, which are removed."""
        tables = []
        for chunk in chunks:
            table = self._table(chunk)
            is_there = self._is_there(chunk, table)
            table = table if is_there.all() else table.filter(pa.array(is_there))
            tables.append(table.drop_columns([_MARK]))
            self._remove(chunk)
        return tables

    def _take_marked(self, is_marked: BoolArray) -> list[pa.Table]:
        """The partials of the partitions with some marks, which are taken out of their chunks."""
        tables = []
        for place, chunk in reversed(list(enumerate(self._chunks))):
            table = self._table(chunk)
            is_there = self._is_there(chunk, table)
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
        """A chunk of which only some partials are there."""
        if chunk.taken is not None:
            self._store.remove(chunk.taken)
        taken = unique_name()
        self._store.put(taken, encode_bits(~is_there))
        first_us, last_us = (
            int(int64_column(table, name)[is_there].min()) for name in (FIRST_TIME, LAST_TIME)
        )
        n_rows = int(np.count_nonzero(is_there))
        return chunk._replace(n_rows=n_rows, first_us=first_us, last_us=last_us, taken=taken)

    def _is_there(self, chunk: SessionChunk, table: pa.Table) -> BoolArray:
        """Which partials of a chunk have not been taken."""
        if chunk.taken is None:
            return np.ones(len(table), np.bool_)
        return ~decode_bits(known_blob(self._store, chunk.taken), len(table))

    def _table(self, chunk: SessionChunk) -> pa.Table:
        """All partials of a chunk, taken or not, with their marks."""
        table = CACHE.get(chunk.name)
        if table is None:
            table = self._with_marks(decode_table(known_blob(self._store, chunk.name)))
            if not _is_numbered(chunk.name):
                CACHE.put(chunk.name, table)
        return self._spec.columns.of(table, _MARK)

    def _with_marks(self, table: pa.Table) -> pa.Table:
        return table.append_column(_MARK, pa.array(self._marks(table)))

    def _remove(self, chunk: SessionChunk) -> None:
        self._chunks.remove(chunk)
        remove_table(self._store, chunk.name)
        if chunk.taken is not None:
            self._store.remove(chunk.taken)

    def _facts(self) -> dict[str, Any]:
        return {"chunks": self._chunks}

    def _size(self) -> tuple[int, int]:
        n_rows = sum(chunk.n_rows for chunk in self._chunks)
        return n_rows, sum(chunk.n_bytes for chunk in self._chunks)

    def _next_window_end_us(self, reader: int) -> int | None:
        if not self._chunks:
            return None
        # a session may go on for longer than its partials in state say
        next_end, reached = self._earliest_end(None), self._watermarks.combined_us
        return next_end if reached is None else max(next_end, reached + 1)

    def _emitted_us(self) -> int | None:
        return emitted_by_sessions_us(self._watermarks)


def _is_numbered(name: str) -> bool:
    return name.startswith("s") and name[1:].isdigit()


def _late(candidates: pa.Table, is_late: BoolArray, missed_us: int) -> Iterator[Output]:
    if is_late.any():
        rows = candidates.select([LATE_ROW]).filter(pa.array(is_late))
        yield Output(LateRows(rows, missed_us))


def _not_before(table: pa.Table, time_us: int) -> pa.Table:
    """Partials of which no time is before one: where time was set back, rows are of now."""
    for name in (FIRST_TIME, LAST_TIME):
        table = with_values(table, name, np.maximum(int64_column(table, name), time_us))
    return table
