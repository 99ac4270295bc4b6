"""The operators of SESSION over rows that may be deleted, which split sessions.

State has the partials of each time, not of each session, until a session has ended. Sessions are
made of the times with rows that remain. A deletion that arrives before its insertion waits until
the watermark has passed the end of the session that its row would begin.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_column
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.session import merge_sessions, net_copies
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import WindowAggregation
from runtime.streaming.operators.base import Emitted, MicroBatch, Output
from runtime.streaming.operators.session import SessionOperator
from runtime.streaming.operators.updated_sessions import (
    SessionFiring,
    SessionSpans,
    TakenPartials,
    UpdatedSessionOperator,
)
from runtime.streaming.watermarks import Watermarks
from runtime.windows.times import FIRST_TIME, LAST_TIME


class ChangedSessionOperator(SessionOperator):
    """The operator of sessions of one key group, over rows that may be deleted.

    It emits each session once, with the rows that remain when it ends. Of a session that has ended,
    rows in state are emitted: a deletion has split them off. Rows of this micro-batch are late.
    """

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        closed, fires = before.combined_us, after.combined_us
        new = self._new_partials(batch, before)
        if fires is None or self._earliest_end(new) > fires:
            if new is not None:
                self._append(new.drop_columns([ROW_COUNT]))
            return [0]
        may_end = self._may_end(new, None, fires)
        old = [self._spec.columns.of(table) for _, table in self._partials.take_marked(may_end)]
        left: list[pa.Table] = []
        if new is not None:
            is_taken = may_end.take(self._partials.marks(new))
            left.append(new.filter(pa.array(~is_taken)).drop_columns([ROW_COUNT]))
            new = new.filter(pa.array(is_taken))
        table, n_rows = self._concat_partials(old, new)
        n_late = 0
        if table is not None and len(table):
            table = table.combine_chunks()
            net = self._net(table)
            # without rows, a deletion and another row of its time may wait for an insertion
            waits = (net <= 0) & (int64_column(table, LAST_TIME) > fires - self._window.gap_us)
            n_late = int(n_rows[(net < 0) & ~waits].sum())
            left.append(table.filter(pa.array(waits)))
            table, n_rows = table.filter(pa.array(net > 0)), n_rows[net > 0]
        if table is not None and len(table):
            session, end_us, _ = self._sessions(table)
            is_known = np.zeros(len(end_us), np.bool_)
            is_known[session[n_rows == 0]] = True
            is_late = np.zeros(len(end_us), np.bool_)
            if closed is not None:
                is_late = ~is_known & (end_us <= closed)
            n_late += int(n_rows[is_late[session]].sum())
            has_ended = end_us <= fires
            ended = table.filter(pa.array((has_ended & ~is_late)[session]))
            yield from map(Output, merge_sessions(ended, self._spec.aggregation))
            left.append(table.filter(pa.array(~has_ended[session])))
        if any(rest.num_rows for rest in left):
            self._append(self._merge_all(pa.concat_tables(left)))
        return [n_late]

    def _net(self, table: pa.Table) -> Int64Array:
        return remaining_rows(table, self._spec.aggregation)

    def _merge_all(self, table: pa.Table) -> pa.Table:
        """Return one partial for each key and time, without those whose sums are all zero.

        Others without rows stay: an update replaces a value of a row in another chunk.
        """
        self._note_bytes(table)
        table = table.combine_chunks()
        columns = self._spec.columns
        return columns.merge([columns.with_ends(table, row_spans(table))])


class UpdatedChangedSessionOperator(UpdatedSessionOperator):
    """The operator of sessions over rows that may be deleted, which emits sessions more than once.

    A deletion replaces an emitted session by the sessions that it has split into, or by none. Times
    without rows stay in state until this has been emitted.
    """

    def _spans(
        self, taken: TakenPartials, candidates: pa.Table | None, firing: SessionFiring
    ) -> SessionSpans:
        assert candidates is None, "late rows are only counted"
        taken, n_late = self._without_closed(taken, firing.closed_us[1])
        table, results = taken.partials, taken.results
        of_partial, of_result = self._touching(table, results)
        remains = remaining_rows(table, self._spec.aggregation) > 0
        session = np.full(len(table), -1)
        end_us = of_session = np.zeros(0, np.int64)
        if remains.any():
            session[remains], end_us, _ = self._sessions(table.filter(pa.array(remains)))
            of_session = np.empty(len(end_us), np.int64)
            of_session[session[remains]] = of_partial[remains]
        is_known = np.zeros(len(end_us), np.bool_)
        is_known[session[remains & (taken.n_rows == 0)]] = True
        is_late = ~is_known & (end_us <= firing.closed_us[0])
        if results is not None:
            # without a session in their span, results are due to be deleted by their own ends
            is_alone = ~np.isin(of_result, of_session[~is_late])
            ends = int64_column(results, LAST_TIME)[is_alone] + self._window.gap_us
            end_us = np.concatenate([end_us, ends])
            of_session = np.concatenate([of_session, of_result[is_alone]])
            is_late = np.concatenate([is_late, np.zeros(len(ends), np.bool_)])
        cells = row_spans(table)
        spans = SessionSpans(
            taken, session, end_us, is_late, cells, of_session, of_partial, of_result
        )
        return replace(spans, n_late=n_late)

    def _without_closed(self, taken: TakenPartials, closed_us: int) -> tuple[TakenPartials, int]:
        """Drop times without rows in closed sessions.

        Args:
            taken: Partials and results.
            closed_us: End up to which sessions are closed.

        Returns:
            The others, and the number of deletions among the dropped ones, which are late.
        """
        table, n_rows = taken.partials.combine_chunks(), taken.n_rows
        net = remaining_rows(table, self._spec.aggregation)
        # without rows, a deletion and another row of its time may wait for an insertion
        may_wait = int64_column(table, LAST_TIME) > self._last_us(closed_us)
        stays = (net > 0) | may_wait
        is_changed = np.full(np.count_nonzero(stays), taken.is_changed.any())
        others = TakenPartials(
            table.filter(pa.array(stays)), n_rows[stays], is_changed, taken.results
        )
        return others, int(n_rows[(net < 0) & ~stays].sum())

    def _touching(self, table: pa.Table, results: pa.Table | None) -> tuple[Int64Array, Int64Array]:
        """Return the spans of partials, and of results. They are numbered from 0."""
        if not len(table) and results is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        spans, _, _ = self._sessions(table, results=results)
        of_partial, of_result = np.split(spans, [len(table)])
        return of_partial, of_result

    def _may_have_fired(self, new: pa.Table, fired_us: int) -> BoolArray:
        # a deletion splits off rows before it
        is_old: BoolArray = int64_column(new, FIRST_TIME) <= fired_us
        return is_old

    def _merge_open(
        self, table: pa.Table, is_open: BoolArray, session_first_us: Int64Array
    ) -> pa.Table:
        columns = replace(self._spec.columns, drops_zeros=False)
        table = columns.with_ends(table, session_first_us)
        return columns.merge([table.filter(pa.array(is_open))])

    def _merge_all(self, table: pa.Table) -> pa.Table:
        self._note_bytes(table)
        every = np.ones(len(table), np.bool_)
        merged = self._merge_open(table, every, row_spans(table))
        return self._spec.columns.without_zeros(merged) if self._drops_zeros else merged

    def _keep(self, partials: pa.Table, *, is_changed: bool) -> None:
        # zeros of a time without rows mark results that are still to be deleted
        self._drops_zeros = not (is_changed or self._changed)
        if not is_changed:
            partials = self._spec.columns.without_zeros(partials)
        super()._keep(partials, is_changed=is_changed)


def remaining_rows(table: pa.Table, aggregation: WindowAggregation) -> Int64Array:
    """Return for each partial how many rows with its keys and time remain."""
    assert aggregation.remaining is not None, "rows may be deleted"
    return net_copies(table, aggregation.keys, aggregation.remaining)


def row_spans(table: pa.Table) -> Int64Array:
    """Return a number for each partial, the same for rows with equal times and gaps."""
    first_us, last_us = (int64_column(table, name) for name in (FIRST_TIME, LAST_TIME))
    if (first_us == last_us).all():
        return first_us
    codes, _ = encode_keys([table.column(name) for name in (FIRST_TIME, LAST_TIME)], len(table))
    return codes
