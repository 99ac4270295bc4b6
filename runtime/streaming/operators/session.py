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

State is read only where a session can end or a row can be late: until then new partials are put
beside what is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import (
    BoolArray,
    Int64Array,
    from_buffer,
    int64_values,
    one_chunk,
)
from runtime.compute.kernels.compact import merge_equal_slices
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.session import find_sessions, merge_sessions
from runtime.local.streaming.messages import LateRows
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.stream import LATE_ROW, TIME
from runtime.spec.windows import FIRST_TIME, LAST_TIME, SessionWindow
from runtime.streaming.operators.base import Emitted, KeyGroupOperator, MicroBatch, Output
from runtime.streaming.state.blobs import BlobStore, Owner, decode_table, encode_state, known_blob
from runtime.streaming.watermarks import WatermarkRules, Watermarks, emitted_by_sessions_us

# More chunks than this are made one when the next one comes.
_MANY_CHUNKS = 16


@dataclass(frozen=True)
class SessionSpec:
    """What a session operator does; the same for all key groups.

    Attributes:
        aggregation: window, keys, what is merged.
        partials: the accumulators by their partial columns, as the local stage makes them.
        row_count: the name of a partial column with the number of rows, BIGINT, behind the
            accumulators' columns.
        n_sources: how many sources have watermarks.
        rules: how these make the operator's watermark.
        is_processing_time: whether the rows' time is the processing time: then none is late.
        run: the name of this run of the stream, unlike those in which nobody watched the sources.
        owner: the checkpoint that the state is part of; None: nobody asks.
    """

    aggregation: WindowAggregation
    partials: tuple[Accumulator, ...]
    row_count: str
    n_sources: int
    rules: WatermarkRules = field(default_factory=WatermarkRules)
    is_processing_time: bool = False
    run: str = ""
    owner: Owner | None = None


@dataclass(frozen=True)
class SessionChunk:
    """A blob of partials in state.

    Attributes:
        number: its own among them.
        n_rows: how many partials it has.
        n_bytes: the size of the blob.
        first_us: the earliest first time of a partial.
        last_us: the earliest last time of a partial.
    """

    number: int
    n_rows: int
    n_bytes: int
    first_us: int
    last_us: int

    @property
    def name(self) -> str:
        """The name of the blob."""
        return f"s{self.number}"


class SessionOperator(KeyGroupOperator):
    """The session operator of one key group.

    Args:
        spec: what it does; the window is a SESSION, and each session is emitted once.
        store: its state.
    """

    def __init__(self, spec: SessionSpec, store: BlobStore) -> None:
        super().__init__(spec, store)
        window = spec.aggregation.window
        assert isinstance(window, SessionWindow)
        self._spec = spec
        self._window = window
        self._chunks = [SessionChunk(*chunk) for chunk in self._known.get("chunks", ())]
        self._next_number = 1 + max((chunk.number for chunk in self._chunks), default=-1)

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
            old = self._take([chunk for chunk in self._chunks if chunk.first_us <= fires])
            table, n_rows = self._together(old, new)
            if table is not None:
                candidates = self._candidates(batch.candidates, closed)
                session, end_us, first_us = self._sessions(table, candidates)
                session, of_candidate = np.split(session, [len(table)])
                is_late = np.zeros(len(table), np.bool_)
                if closed is not None:
                    is_late = (end_us <= closed).take(session)
                    n_late = int(n_rows[is_late].sum())
                    if candidates is not None:
                        yield from _late(candidates, (end_us <= closed).take(of_candidate), closed)
                has_ended = (end_us <= fires).take(session)
                yield from self._sessions_out(table, has_ended & ~is_late)
                self._keep(table, ~has_ended, first_us.take(session))
        elif new is not None:
            self._append(new.drop_columns([self._spec.row_count]))
        return [n_late]

    def _earliest_end(self, new: pa.Table | None) -> int:
        """No session ends before."""
        last = [chunk.last_us for chunk in self._chunks]
        if new is not None:
            last.append(int(_times(new, LAST_TIME).min()))
        return min(last) + self._window.gap_us if last else np.iinfo(np.int64).max

    def _together(
        self, old: list[pa.Table], new: pa.Table | None
    ) -> tuple[pa.Table | None, Int64Array]:
        """(partials of state and new ones, of how many new rows each is)."""
        counts = [np.zeros(len(table), np.int64) for table in old]
        tables = list(old)
        if new is not None:
            counts.append(_times(new, self._spec.row_count))
            tables.append(new.drop_columns([self._spec.row_count]))
        if not tables:
            return None, np.zeros(0, np.int64)
        return pa.concat_tables(tables), np.concatenate(counts)

    def _candidates(self, tables: Sequence[pa.Table], closed: int | None) -> pa.Table | None:
        """The rows that are late unless an open session reaches them; None: there are none."""
        if closed is None or not tables:
            return None
        table = pa.concat_tables(tables)
        may_be = _times(table, TIME) <= closed - self._window.gap_us
        return table.filter(pa.array(may_be)) if may_be.any() else None

    def _sessions(
        self, table: pa.Table, candidates: pa.Table | None = None
    ) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(the session of each partial, the end of each session, its first time).

        Behind the sessions of the partials come those of candidates, which change none: each is
        among the rows of a partial.
        """
        first_us, last_us = _times(table, FIRST_TIME), _times(table, LAST_TIME)
        keys = table.select(self._window.partition)
        if candidates is not None:
            time_us = _times(candidates, TIME)
            first_us, last_us = (np.concatenate([each, time_us]) for each in (first_us, last_us))
            keys = pa.concat_tables([keys, candidates.select(self._window.partition)])
        partition, _ = encode_keys(keys.columns, len(first_us))
        found = find_sessions(partition, first_us, last_us, self._window.gap_us)
        return found.of_partial(), found.last_us + self._window.gap_us, found.first_us

    def _sessions_out(self, table: pa.Table, has_ended: BoolArray) -> Iterator[Output]:
        if has_ended.any():
            ended = table.filter(pa.array(has_ended))
            yield from map(Output, merge_sessions(ended, self._spec.aggregation))

    def _keep(self, table: pa.Table, is_open: BoolArray, session_first_us: Int64Array) -> None:
        """One partial for each session and key of those that are still open."""
        if not is_open.any():
            return
        # Sessions of a partition differ in their first time, which distinguishes them.
        name = self._spec.aggregation.slice_end
        index = table.schema.get_field_index(name)
        first = from_buffer(session_first_us, None, pa.int64(), len(session_first_us))
        table = table.set_column(index, table.schema.field(index), first)
        n_keys = len(self._spec.aggregation.keys)
        open_partials = table.filter(pa.array(is_open))
        self._write(merge_equal_slices(open_partials, n_keys, name, self._spec.partials))

    def _append(self, table: pa.Table) -> None:
        """Put partials beside those that are there; now and then make one of them."""
        if len(self._chunks) < _MANY_CHUNKS:
            self._write(table)
            return
        table = pa.concat_tables([*self._take(list(self._chunks)), table])
        session, _, first_us = self._sessions(table)
        self._keep(table, np.ones(len(table), np.bool_), first_us.take(session))

    def _write(self, table: pa.Table) -> None:
        # in order of time, so that what comes late in a session need not be read early
        for piece in pieces(table.sort_by(FIRST_TIME)):
            blob = encode_state(piece)
            first_us, last_us = (int(_times(piece, t).min()) for t in (FIRST_TIME, LAST_TIME))
            chunk = SessionChunk(self._next_number, piece.num_rows, len(blob), first_us, last_us)
            self._next_number += 1
            self._store.put(chunk.name, blob)
            self._chunks.append(chunk)

    def _take(self, chunks: list[SessionChunk]) -> list[pa.Table]:
        """The tables of some chunks, which are removed."""
        tables = []
        for chunk in chunks:
            tables.append(decode_table(known_blob(self._store, chunk.name)))
            self._store.remove(chunk.name)
            self._chunks.remove(chunk)
        return tables

    def _facts(self) -> dict[str, Any]:
        return {"chunks": [astuple(chunk) for chunk in self._chunks]}

    def _size(self) -> tuple[int, int]:
        n_rows = sum(chunk.n_rows for chunk in self._chunks)
        return n_rows, sum(chunk.n_bytes for chunk in self._chunks)

    def _next_window_end_us(self, reader: int) -> int | None:
        if not self._chunks:
            return None
        # a session may go on for longer than its partials in state say
        next_end, reached = self._earliest_end(None), self._watermarks.combined_us
        return next_end if reached is None else max(next_end, reached + 1)

    def _emitted_us(self, watermarks: Watermarks) -> int | None:
        return emitted_by_sessions_us(watermarks)


def _late(candidates: pa.Table, is_late: BoolArray, missed_us: int) -> Iterator[Output]:
    if is_late.any():
        rows = candidates.select([LATE_ROW]).filter(pa.array(is_late))
        yield Output(LateRows(rows, missed_us))


def _not_before(table: pa.Table, time_us: int) -> pa.Table:
    """Partials of which no time is before one: where time was set back, rows are of now."""
    for name in (FIRST_TIME, LAST_TIME):
        index = table.schema.get_field_index(name)
        times = pa.array(np.maximum(_times(table, name), time_us))
        table = table.set_column(index, table.schema.field(index), times)
    return table


def _times(table: pa.Table, name: str) -> Int64Array:
    return int64_values(one_chunk(table.column(name)))
