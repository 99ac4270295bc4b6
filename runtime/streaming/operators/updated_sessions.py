"""The session operator for early firing and allowed lateness: emits sessions more than once.

A session accepts rows until the watermark is the allowed lateness past its end; then it is closed.
In each micro-batch:

1. New rows that join no open session and would form a closed one are late, as in
   `operators.session`.
2. Sessions are due when the watermark passes their end, when they have late rows and the late rule
   applies, or when they have new rows and the early rule applies. The state of their partitions is
   read, and each due session is compared with the emitted results within its bounds. Rows merge
   and extend sessions, which changes their window_start and window_end: results of such sessions
   are -D, and the new session is +I. If only its values have changed, a session is -U and +U.
3. Closed sessions and their results leave the state.

An emitted session that goes on past the watermark because of late rows stays valid for readers
until the longer session is due: its -D and the +I of the longer one are in the same micro-batch.

Current sessions and emitted results that touch each other form a span, which is due as a whole. If
rows are only added, each session is a span.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_column
from runtime.compute.kernels.session import merge_sessions
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.stream import FINAL_US
from runtime.streaming.operators.base import Emitted, MicroBatch, Output
from runtime.streaming.operators.firing import Pending
from runtime.streaming.operators.row_changes import deletes, updates
from runtime.streaming.operators.session import SessionOperator, SessionSpec, late_rows
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.marked_chunks import MarkedChunks
from runtime.streaming.state.metadata import MarkedChunk, OperatorMetadata, UpdatedSessionMetadata
from runtime.streaming.watermarks import FIRE_LAG_US, Watermarks, closed_until_us, later_us
from runtime.windows.times import FIRST_TIME, LAST_TIME


@dataclass(frozen=True)
class SessionFiring:
    """Sessions that a micro-batch emits and closes. Times are ends of sessions.

    Attributes:
        fired_us: End up to which sessions have fired, before and after the micro-batch.
        closed_us: End up to which sessions are closed, before and after it.
        early: Whether open sessions with new rows are due.
        late: Whether fired sessions with late rows are due.
    """

    fired_us: tuple[int, int]
    closed_us: tuple[int, int]
    early: bool
    late: bool


@dataclass(frozen=True)
class TakenPartials:
    """Partials and emitted results of some partitions, taken out of the state.

    Attributes:
        partials: Partials of the state and new ones.
        n_rows: Number of new rows in each partial.
        is_changed: Whether no emitted result includes a partial.
        results: Emitted results. None if there are none.
    """

    partials: pa.Table
    n_rows: Int64Array
    is_changed: BoolArray
    results: pa.Table | None


@dataclass(frozen=True)
class SessionSpans:
    """Current sessions of some partitions, and the spans that they form with emitted results.

    Attributes:
        taken: The partials, and the results.
        session: Session of each partial. -1 if it is in none.
        end_us: End of each session.
        is_late: Whether a session consists of late rows.
        first_us: First time of each partial's session, or of the partial if it is in none.
        of_session: Span of each session.
        of_partial: Span of each partial.
        of_result: Span of each result.
        of_candidate: Session of each row that may be late. None if late rows are not kept.
        n_late: Number of late rows without a partial.
    """

    taken: TakenPartials
    session: Int64Array
    end_us: Int64Array
    is_late: BoolArray
    first_us: Int64Array
    of_session: Int64Array
    of_partial: Int64Array
    of_result: Int64Array
    of_candidate: Int64Array | None = None
    n_late: int = 0

    def with_any(self, of: Int64Array, marks: BoolArray) -> BoolArray:
        """Return for each span whether something in it is marked.

        Args:
            of: Span of each session, partial or result.
            marks: One mark for each.
        """
        n_spans = max(int(s.max(initial=-1)) for s in (self.of_session, self.of_partial)) + 1
        is_marked = np.zeros(n_spans, np.bool_)
        is_marked[of[marks]] = True
        return is_marked

    def in_sessions(self, marks: BoolArray) -> BoolArray:
        """Return for each partial whether it is in a session that is marked."""
        is_in = self.session >= 0
        is_in[is_in] = marks.take(self.session[is_in])
        return is_in


class UpdatedSessionOperator(SessionOperator):
    """The session operator of one key group that emits sessions more than once.

    Args:
        spec: Spec with `updates`.
        store: State.
    """

    def __init__(self, spec: SessionSpec, store: BlobStore) -> None:
        super().__init__(spec, store)
        assert spec.updates is not None
        self._rules = spec.updates
        aggregation = spec.aggregation
        self._may_delete = aggregation.remaining is not None
        self._identity = [*aggregation.keys, aggregation.window_start, aggregation.window_end]
        self._pending = Pending()
        self._changed = set[str]()
        results: Sequence[MarkedChunk] = ()
        before = self._metadata_before(UpdatedSessionMetadata)
        if before is not None:
            results, self._changed = before.results, set(before.changed)
            self._pending = Pending(
                before.n_pending, before.n_late, before.early_at_us, before.late_at_us
            )
        self._results = MarkedChunks(store, self._window.partition, spec.common.thresholds, results)
        # not computed from the watermark: the allowed lateness may have changed since
        self._closed_us = None if self._before is None else self._before.closed_us

    def _chunks_before(self) -> Sequence[MarkedChunk]:
        before = self._metadata_before(UpdatedSessionMetadata)
        return () if before is None else before.chunks

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        lateness_us = self._rules.allowed_lateness_us
        closing_us = closed_until_us(after.combined_us, lateness_us, has_ended=after.has_ended)
        closed_us = self._closed_us, later_us(self._closed_us, closing_us)
        self._closed_us = closed_us[1]
        new = self._new_partials(batch, before)
        fired_us = _or_never(before.combined_us), _or_never(after.combined_us)
        n_new, n_again = self._count(new, fired_us[0])
        self._pending.add(self._rules, n_new, n_again, batch.clock_us)
        firing = SessionFiring(
            fired_us,
            (_sessions_until_us(closed_us[0]), _sessions_until_us(closed_us[1])),
            self._pending.is_early_due(self._rules, n_new, batch.clock_us),
            self._pending.is_late_due(self._rules, n_new, batch.clock_us),
        )
        candidates = self._candidates(batch.candidates, firing.closed_us[0])
        is_marked = self._marked(new, candidates, firing)
        taken, rest = self._take(is_marked, new)
        n_late = 0
        if taken is not None:
            n_late = yield from self._emit_taken(taken, candidates, firing)
        if rest is not None:
            self._keep(rest, is_changed=self._rules.early is not None)
        self._changed &= self._partials.runs
        self._pending.forget(early=firing.early, late=firing.late)
        return [n_late]

    def _count(self, new: pa.Table | None, fired_us: int) -> tuple[int, int]:
        """Return (number of new rows, number of those that may be in a session that has fired)."""
        if new is None:
            return 0, 0
        counts = int64_column(new, ROW_COUNT)
        return int(counts.sum()), int(counts[self._may_have_fired(new, fired_us)].sum())

    def _may_have_fired(self, new: pa.Table, fired_us: int) -> BoolArray:
        """Return which partials may change a session with an end up to `fired_us`."""
        is_old: BoolArray = int64_column(new, LAST_TIME) <= self._last_us(fired_us)
        return is_old

    def _last_us(self, end_us: int) -> int:
        """Return the time of the last row of a session with this end."""
        return max(end_us - self._window.gap_us, -FINAL_US)

    def _marked(
        self, new: pa.Table | None, candidates: pa.Table | None, firing: SessionFiring
    ) -> BoolArray:
        """Return the marks of partitions with sessions that are due or close, or with late rows."""
        is_marked = self._partials.no_marks()
        for after_us, until_us in (firing.fired_us, firing.closed_us):
            if until_us > after_us:
                after_us, until_us = self._last_us(after_us), self._last_us(until_us)
                self._partials.mark_ends(is_marked, until_us, after_us)
        if firing.early or firing.late:
            self._partials.mark_runs(is_marked, self._changed)
        if new is not None:
            is_old = self._may_have_fired(new, firing.fired_us[1])
            is_marked[self._partials.marks(new)[is_old | firing.early]] = True
        if candidates is not None:
            is_marked[self._partials.marks(candidates)] = True
        return is_marked

    def _take(
        self, is_marked: BoolArray, new: pa.Table | None
    ) -> tuple[TakenPartials | None, pa.Table | None]:
        """Take partitions out of the state.

        Returns:
            Their rows, and the new partials of other partitions. None if there are none.
        """
        rest = None
        if new is not None:
            is_taken = is_marked.take(self._partials.marks(new))
            if not is_taken.all():
                rest = new.filter(pa.array(~is_taken)).drop_columns([ROW_COUNT])
                new = new.filter(pa.array(is_taken)) if is_taken.any() else None
        if not is_marked.any():
            return None, rest
        old = list(self._partials.take_marked(is_marked))
        is_changed = [np.full(len(table), run in self._changed) for run, table in old]
        table, n_rows = self._concat_partials([table for _, table in old], new)
        if table is None:
            return None, rest
        n_old = sum(map(len, is_changed))
        is_changed.append(np.ones(len(table) - n_old, np.bool_))
        results = [table for _, table in self._results.take_marked(is_marked)]
        emitted = pa.concat_tables(results) if results else None
        return TakenPartials(table, n_rows, np.concatenate(is_changed), emitted), rest

    def _emit_taken(
        self, taken: TakenPartials, candidates: pa.Table | None, firing: SessionFiring
    ) -> Generator[Output, None, int]:
        """Yield the changes and late rows of partitions, and write the rows that stay in state.

        Returns the number of late rows.
        """
        spans = self._spans(taken, candidates, firing)
        table, results, end_us = spans.taken.partials, taken.results, spans.end_us
        has_fired = end_us <= firing.fired_us[1]
        is_closed = end_us <= firing.closed_us[1]
        fires_now = has_fired & (end_us > firing.fired_us[0])
        last_chance = is_closed & (self._pending.n_late > 0 or self._may_delete)
        is_due = np.where(has_fired, fires_now | firing.late | last_chance, firing.early)
        due_spans = spans.with_any(spans.of_session, is_due & ~spans.is_late)
        if candidates is not None and spans.of_candidate is not None:
            is_late = spans.is_late.take(spans.of_candidate)
            yield from late_rows(candidates, is_late, firing.fired_us[0])
        has_results = has_fired | (self._rules.early is not None)
        is_emitted = has_results & due_spans.take(spans.of_session) & ~spans.is_late
        is_replaced = due_spans.take(spans.of_result)
        now = self._current(table, spans.in_sessions(is_emitted))
        if now is None and results is not None and is_replaced.any():
            now = results.slice(0, 0).drop_columns([FIRST_TIME, LAST_TIME])
        if now is not None:
            yield from self._changes(results, is_replaced, now)
        open_spans = spans.with_any(spans.of_session, ~is_closed)
        self._keep_results(results, (open_spans & ~due_spans).take(spans.of_result), now, firing)
        is_changed = spans.with_any(spans.of_partial, spans.taken.is_changed)
        is_changed &= spans.with_any(spans.of_session, has_results) & ~due_spans
        stays = (spans.session < 0) | spans.in_sessions(~is_closed)
        for changed in (False, True):
            is_kept = stays & (is_changed.take(spans.of_partial) == changed)
            if is_kept.any():
                open_partials = self._merge_open(table, is_kept, spans.first_us)
                self._keep(open_partials, is_changed=changed)
        return spans.n_late + int(spans.taken.n_rows[spans.in_sessions(spans.is_late)].sum())

    def _spans(
        self, taken: TakenPartials, candidates: pa.Table | None, firing: SessionFiring
    ) -> SessionSpans:
        """Return the sessions of partials, and the spans that they form with the results."""
        table = taken.partials
        session, end_us, first_us = self._sessions(table, candidates, taken.results)
        n_candidates = 0 if candidates is None else len(candidates)
        of_partial, of_candidate, of_result = np.split(
            session, [len(table), len(table) + n_candidates]
        )
        return SessionSpans(
            taken,
            of_partial,
            end_us,
            end_us <= firing.closed_us[0],
            first_us.take(of_partial),
            np.arange(len(end_us)),
            of_partial,
            of_result,
            of_candidate,
        )

    def _current(self, partials: pa.Table, is_due: BoolArray) -> pa.Table | None:
        """Return the results of the sessions that some partials form. None if there are none."""
        if not is_due.any():
            return None
        due = partials.filter(pa.array(is_due))
        return pa.Table.from_batches(merge_sessions(due, self._spec.aggregation))

    def _changes(
        self, results: pa.Table | None, is_replaced: BoolArray, now: pa.Table
    ) -> Iterator[Output]:
        """Yield the changes from emitted results to current ones: first all -D."""
        replaced = now.slice(0, 0)
        if results is not None:
            replaced = results.filter(pa.array(is_replaced)).select(now.column_names)
            replaced = replaced.cast(now.schema)
            yield from map(Output, deletes(replaced, now, self._identity))
        _, changes = updates(replaced, now, self._identity)
        yield from map(Output, changes)

    def _keep_results(
        self,
        results: pa.Table | None,
        is_kept: BoolArray,
        now: pa.Table | None,
        firing: SessionFiring,
    ) -> None:
        """Write the emitted results of sessions that are not closed."""
        tables = [] if results is None else [results.filter(pa.array(is_kept))]
        if now is not None:
            aggregation = self._spec.aggregation
            end_us = int64_column(now, aggregation.window_end)
            times = {
                FIRST_TIME: int64_column(now, aggregation.window_start),
                LAST_TIME: end_us - self._window.gap_us,
            }
            for name, time_us in times.items():
                now = now.append_column(name, pa.array(time_us))
            tables.append(now.filter(pa.array(end_us > firing.closed_us[1])))
        tables = [table for table in tables if len(table)]
        if tables:
            merged = pa.concat_tables([table.cast(tables[-1].schema) for table in tables])
            self._note_bytes(merged)
            self._results.append(merged, _as_it_is)

    def _keep(self, partials: pa.Table, *, is_changed: bool) -> None:
        """Write partials, and whether no emitted result includes them."""
        before = self._partials.runs
        merged_runs = self._partials.append(partials, self._merge_all)
        if is_changed or merged_runs & self._changed:
            self._changed |= self._partials.runs - before

    def _closed_until_us(self) -> int | None:
        return self._closed_us

    def _metadata(self) -> OperatorMetadata:
        pending = self._pending
        return UpdatedSessionMetadata(
            self._partials.chunks,
            self._results.chunks,
            sorted(self._changed),
            pending.n_rows,
            pending.early_at_us,
            pending.late_at_us,
            pending.n_late,
        )


def _or_never(time_us: int | None) -> int:
    return -FINAL_US if time_us is None else time_us


def _sessions_until_us(closed_us: int | None) -> int:
    """Return the end of the last session that is closed, by the end of other closed windows.

    Sessions close 1 ms later: a row at the very end of a session belongs to it.
    """
    if closed_us is None or closed_us == FINAL_US:
        return _or_never(closed_us)
    return closed_us - FIRE_LAG_US


def _as_it_is(results: pa.Table) -> pa.Table:
    return results
