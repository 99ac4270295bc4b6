"""The operator of SESSION over rows that may be deleted, which split sessions.

State has the partials of each time, not of each session, until a session has ended. Sessions are
made of the times with rows that remain. A deletion that arrives before its insertion waits until
the watermark has passed the end of the session that its row would begin.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, int64_column
from runtime.compute.kernels.session import merge_sessions, net_copies
from runtime.local.streaming.stage import ROW_COUNT
from runtime.streaming.operators.base import Emitted, MicroBatch, Output
from runtime.streaming.operators.session import SessionOperator
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
        if new is not None:
            new = self._spec.columns.of(new, ROW_COUNT)
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
        """Return for each partial how many rows with its keys and time remain."""
        copies = self._spec.aggregation.remaining
        assert copies is not None, "rows may be deleted"
        return net_copies(table, self._spec.columns.keys, copies)

    def _merge_all(self, table: pa.Table) -> pa.Table:
        """Return one partial for each key and time, without those whose sums are all zero.

        Others without rows stay: an update replaces a value of a row in another chunk.
        """
        self._note_bytes(table)
        table = table.combine_chunks()
        columns = self._spec.columns
        return columns.merge([columns.with_ends(table, int64_column(table, FIRST_TIME))])
