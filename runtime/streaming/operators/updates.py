"""Results that are emitted more than once: before a window's end, and again for late rows.

What was emitted last of each open window is kept, and compared with what the window holds now: a
new result is +I, a changed one takes the old back (-U) and gives the new (+U), an equal one
nothing. When to compare is a matter of processing time and of how many rows came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import int64_values, one_chunk
from runtime.compute.kernels.keys import encode_keys
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.stream import FINAL_US
from runtime.streaming.state.blobs import BlobStore, decode_table, encode_state, known_blob

# Emits the windows with an end above the first and up to the second.
Windows = Callable[[tuple[int, int]], Iterator[pa.RecordBatch]]

INSERT, UPDATE_BEFORE, UPDATE_AFTER = "+I", "-U", "+U"


@dataclass(frozen=True)
class FireRule:
    """When windows fire by rule, as `runtime.streaming.options.Firing` has it."""

    delay_us: int | None = None
    rows: int | None = None


@dataclass(frozen=True)
class UpdateRules:
    """When windows are emitted again.

    Attributes:
        allowed_lateness_us: for so long after the watermark passed its end a window takes rows.
        early: windows are emitted before their end; None: not.
        late: how often windows that take late rows are emitted; None: with every micro-batch.
        row_kind: the name of the column that is put before the others, STRING.
    """

    allowed_lateness_us: int
    early: FireRule | None
    late: FireRule | None
    row_kind: str


@dataclass(frozen=True)
class Moment:
    """A micro-batch, as far as it matters for what is emitted.

    Attributes:
        oldest_us: the end of the oldest window of any slice.
        newest_us: the end of the newest one.
        fired_us: up to which end windows have fired, before and after this micro-batch.
        closed_us: up to which end they take no rows, before and after it.
        n_new: how many rows came.
        has_late: whether any of them is in a window that has fired.
        clock_us: the processing time.
    """

    oldest_us: int
    newest_us: int
    fired_us: tuple[int | None, int]
    closed_us: tuple[int | None, int | None]
    n_new: int
    has_late: bool
    clock_us: int | None


class UpdateLog:
    """What one key group has emitted of the windows that can change.

    Args:
        rules: when windows are emitted again.
        aggregation: the aggregation, for the names of keys and window.
        store: where the results are kept.
        facts: what `facts` said at the end of the last micro-batch; None at first.
    """

    def __init__(
        self,
        rules: UpdateRules,
        aggregation: WindowAggregation,
        store: BlobStore,
        facts: dict[str, Any] | None,
    ) -> None:
        self._rules = rules
        self._identity = [*aggregation.keys, aggregation.window_end]
        self._window_end = aggregation.window_end
        self._store = store
        facts = facts or {}
        self._n_blobs: int = facts.get("blobs", 0)
        self._pending: int = facts.get("pending", 0)
        self._early_at: int | None = facts.get("early")
        self._late_at: int | None = facts.get("late")
        self._has_late: bool = facts.get("has_late", False)

    def facts(self) -> dict[str, Any]:
        """What is to be remembered for the next micro-batch, as JSON has it."""
        return {
            "blobs": self._n_blobs,
            "pending": self._pending,
            "early": self._early_at,
            "late": self._late_at,
            "has_late": self._has_late,
        }

    def fire(self, windows: Windows, moment: Moment) -> Iterator[pa.RecordBatch]:
        """Emit what is due.

        Yields:
            Batches of the windows' columns behind a column with the kind of the change.
        """
        self._note(moment)
        early, late = self._is_early_due(moment), self._is_late_due(moment)
        start = moment.closed_us[0] if late else moment.fired_us[0]
        ends = (
            moment.oldest_us - 1 if start is None else start,
            moment.newest_us if early else min(moment.fired_us[1], moment.newest_us),
        )
        closes = moment.closed_us[1] is not None and moment.closed_us[0] != moment.closed_us[1]
        if ends[0] >= ends[1] and not closes:
            return
        known = self._read()
        if ends[0] < ends[1]:
            fresh = list(windows(ends))
            if early:
                self._pending, self._early_at = 0, None
            if late:
                self._has_late, self._late_at = False, None
            if fresh:
                now = pa.Table.from_batches(fresh)
                if known is None:
                    known = now.slice(0, 0)
                in_range = _between(known, self._window_end, *ends)
                yield from self._changes(known.filter(in_range), now)
                known = pa.concat_tables([known.filter(pc.invert(in_range)), now])
        if known is not None and moment.closed_us[1] is not None:
            known = known.filter(_between(known, self._window_end, moment.closed_us[1], FINAL_US))
        self._write(known)

    def _note(self, moment: Moment) -> None:
        """Note rows that came, and when windows with them are due."""
        rules, clock = self._rules, moment.clock_us
        if not moment.n_new:
            return
        self._pending += moment.n_new
        self._has_late = self._has_late or moment.has_late
        if rules.early is not None and rules.early.delay_us and clock is not None:
            self._early_at = self._early_at or clock + rules.early.delay_us
        if moment.has_late and rules.late is not None and rules.late.delay_us and clock is not None:
            self._late_at = self._late_at or clock + rules.late.delay_us

    def _is_early_due(self, moment: Moment) -> bool:
        rule = self._rules.early
        return rule is not None and self._pending > 0 and self._is_due(rule, self._early_at, moment)

    def _is_late_due(self, moment: Moment) -> bool:
        if not self._has_late:
            return False
        # before windows are closed for good, what came late is emitted
        last_chance = moment.closed_us[0] != moment.closed_us[1]
        rule = self._rules.late or FireRule(delay_us=0)
        return last_chance or self._is_due(rule, self._late_at, moment)

    def _is_due(self, rule: FireRule, at_us: int | None, moment: Moment) -> bool:
        if rule.rows is not None and self._pending >= rule.rows:
            return True
        if rule.delay_us == 0:
            return moment.n_new > 0
        return at_us is not None and moment.clock_us is not None and moment.clock_us >= at_us

    def _changes(self, old: pa.Table, new: pa.Table) -> Iterator[pa.RecordBatch]:
        """What turns the old results into the new ones, in the order of the new ones."""
        both = pa.concat_tables([old, new]).combine_chunks()
        values = [name for name in both.column_names if name not in self._identity]
        which, _ = encode_keys([both.column(name) for name in self._identity], both.num_rows)
        what, _ = encode_keys([both.column(name) for name in values], both.num_rows)
        old_row = np.full(int(which.max(initial=0)) + 1, -1)
        old_row[which[: old.num_rows]] = np.arange(old.num_rows)
        new_rows = np.arange(old.num_rows, both.num_rows)
        before = old_row[which[new_rows]]
        is_new = before < 0
        changed = is_new | (what[new_rows] != what[np.maximum(before, 0)])
        new_rows, before, is_new = new_rows[changed], before[changed], is_new[changed]
        rows = np.stack((before, new_rows), axis=1).ravel()
        kinds = np.stack((np.where(is_new, -1, 1), np.where(is_new, 0, 2)), axis=1).ravel()
        rows, kinds = rows[kinds >= 0], kinds[kinds >= 0]
        names = pa.array([INSERT, UPDATE_BEFORE, UPDATE_AFTER], pa.string())
        table = both.take(pa.array(rows))
        table = table.add_column(0, self._rules.row_kind, names.take(pa.array(kinds)))
        yield from table.combine_chunks().to_batches()

    def _read(self) -> pa.Table | None:
        blobs = [known_blob(self._store, f"u{number}") for number in range(self._n_blobs)]
        tables = [decode_table(blob) for blob in blobs]
        return pa.concat_tables(tables) if tables else None

    def _write(self, known: pa.Table | None) -> None:
        parts = [] if known is None or known.num_rows == 0 else pieces(known.combine_chunks())
        for number, part in enumerate(parts):
            self._store.put(f"u{number}", encode_state(part))
        for number in range(len(parts), self._n_blobs):
            self._store.remove(f"u{number}")
        self._n_blobs = len(parts)


def _between(table: pa.Table, column: str, after_us: int, until_us: int) -> pa.Array:
    ends = int64_values(one_chunk(table.column(column)))
    return pa.array((ends > after_us) & (ends <= until_us))
