"""Results that are emitted more than once: before a window's end, and again for late rows.

What was emitted last of each open window is kept, and compared with what the window holds now: a
new result is +I, a changed one takes the old back (-U) and gives the new (+U), an equal one
nothing. When to compare is a matter of processing time and of how many rows came.

Only windows that rows came for since they were computed last are computed and compared: they are
remembered as ranges of time. Results lie in parts of one window each, or of some where they are
few, so that a part is read when one of its windows changes, and dropped unread when all are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.accumulators.segments import run_starts
from runtime.compute.arrow.blobs import pieces
from runtime.compute.kernels.columns import Int64Array, int64_values, one_chunk
from runtime.compute.kernels.keys import encode_keys
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.stream import FINAL_US
from runtime.streaming.state.blobs import BlobStore, decode_table, encode_state, known_blob
from runtime.streaming.state.slices import CACHE, slices_between
from runtime.streaming.state.table_cache import unique_name

# Windows with an end above the first and up to the second
Range = tuple[int, int]
Windows = Callable[[Range], Iterator[pa.RecordBatch]]

# A part has so many results, or those of one window.
_PART_ROWS = 1 << 12

INSERT, UPDATE_BEFORE, UPDATE_AFTER = "+I", "-U", "+U"


@dataclass(frozen=True)
class FireRule:
    """When windows are emitted beside the moment at which the watermark passes their end.

    Attributes:
        delay_us: every so often in processing time, if rows came; 0: with every micro-batch that
            brought rows; None: not by time.
        rows: whenever so many rows of a key group's window came; None: not by rows.
    """

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
        changed: the windows that new rows are in.
        n_new: how many rows came.
        has_late: whether any of them is in a window that has fired.
        clock_us: the processing time.
    """

    oldest_us: int
    newest_us: int
    fired_us: tuple[int | None, int]
    closed_us: tuple[int | None, int | None]
    changed: Sequence[Range]
    n_new: int
    has_late: bool
    clock_us: int | None


@dataclass(frozen=True)
class _Part:
    """Results of the windows of a range; the blobs may hold others too, which do not count."""

    after_us: int
    until_us: int
    names: tuple[str, ...]


class UpdateLog:
    """What one key group has emitted of the windows that can change.

    Args:
        rules: when windows are emitted again.
        aggregation: the aggregation, for the names of keys and window.
        store: where the results are kept.
        facts: what `facts` said at the end of the last micro-batch; None at first.

    Attributes:
        most_bytes: the most bytes of results, old ones and new ones, that were compared at a time.
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
        self._parts = [
            _Part(after, until, tuple(names)) for after, until, names in facts.get("parts", ())
        ]
        self._changed: list[Range] = [(after, until) for after, until in facts.get("changed", ())]
        if facts and "parts" not in facts:
            # of an older sqlwin: all results in blobs by number, and nobody knows what has changed
            for name in (f"u{number}" for number in range(facts.get("blobs", 0))):
                ends = self._ends(self._table(name))
                self._parts.append(_Part(int(ends.min()) - 1, int(ends.max()), (name,)))
            self._changed = [(-FINAL_US, FINAL_US)]
        self._pending: int = facts.get("pending", 0)
        self._early_at: int | None = facts.get("early")
        self._late_at: int | None = facts.get("late")
        self._has_late: bool = facts.get("has_late", False)
        self.most_bytes = 0

    def facts(self) -> dict[str, Any]:
        """What is to be remembered for the next micro-batch, as JSON has it."""
        return {
            # a blob that is not there, at which an older sqlwin stops, as it knows no parts
            "blobs": 1,
            "parts": [[part.after_us, part.until_us, part.names] for part in self._parts],
            "changed": self._changed,
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
        fired = moment.fired_us[0]
        start = moment.closed_us[0] if late else fired
        after = moment.oldest_us - 1 if start is None else start
        until = moment.newest_us if early else min(moment.fired_us[1], moment.newest_us)
        if after < until:
            # those that have fired apart: the others come one after the other
            cut = after if fired is None else min(max(after, fired), until)
            due = [*within(self._changed, after, cut), *within(self._changed, cut, until)]
            for each in due:
                yield from self._computed(windows, each)
            self._changed = without(self._changed, after, until)
            if early:
                self._pending, self._early_at = 0, None
            if late:
                self._has_late, self._late_at = False, None
        if moment.closed_us[1] is not None:
            self._changed = within(self._changed, moment.closed_us[1], FINAL_US)
            self._replace((-FINAL_US, moment.closed_us[1]))

    def _computed(self, windows: Windows, ends: Range) -> Iterator[pa.RecordBatch]:
        """What has changed in the windows of a range."""
        fresh = list(windows(ends))
        if not fresh:
            return
        now = pa.Table.from_batches(fresh)
        old = self._read(ends)
        n_bytes = now.nbytes + (0 if old is None else old.nbytes)
        self.most_bytes = max(self.most_bytes, n_bytes)
        yield from self._changes(now.slice(0, 0) if old is None else old, now)
        self._replace(ends, now)

    def _note(self, moment: Moment) -> None:
        """Note rows that came, and when windows with them are due."""
        rules, clock = self._rules, moment.clock_us
        if not moment.n_new:
            return
        self._changed = union([*self._changed, *moment.changed])
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
        if old.num_rows == 0:
            kinds = pa.repeat(pa.scalar(INSERT), new.num_rows)
            table = new.add_column(0, self._rules.row_kind, kinds)
            yield from table.combine_chunks().to_batches()
            return
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

    def _read(self, ends: Range) -> pa.Table | None:
        """What was emitted last of the windows of a range."""
        found = []
        for part in self._parts:
            after, until = max(part.after_us, ends[0]), min(part.until_us, ends[1])
            if after < until:
                tables = [self._table(name) for name in part.names]
                found += slices_between(tables, self._window_end, after, until)
        return pa.concat_tables(found) if found else None

    def _table(self, name: str) -> pa.Table:
        table = CACHE.get(name)
        if table is None:
            table = decode_table(known_blob(self._store, name))
            CACHE.put(name, table)
        return table

    def _replace(self, ends: Range, results: pa.Table | None = None) -> None:
        """Put results in place of those of a range; without any just forget these."""
        before = {name for part in self._parts for name in part.names}
        self._parts = [
            _Part(after, until, part.names)
            for part in self._parts
            for after, until in without([(part.after_us, part.until_us)], *ends)
        ]
        for name in before.difference(*(part.names for part in self._parts)):
            self._store.remove(name)
            CACHE.remove(name)
        if results is None:
            return
        until = ends[0]
        for table in self._cut(results):
            names = []
            for piece in pieces(table):
                names.append(unique_name())
                # most are never read again, so that they are not worth a place in the cache
                self._store.put(names[-1], encode_state(piece))
            after, until = until, int(self._ends(table).max())
            self._parts.append(_Part(after, until, tuple(names)))

    def _cut(self, results: pa.Table) -> Iterator[pa.Table]:
        """Results in order of their windows, a table for each part."""
        ends = self._ends(results)
        order = np.argsort(ends, kind="stable")
        table, ends = results.take(pa.array(order)), ends[order]
        starts = np.append(run_starts(ends[1:] != ends[:-1]), len(ends)).tolist()
        first = 0
        for start in starts[1:]:
            if start - first >= _PART_ROWS or start == len(ends):
                yield table.slice(first, start - first).combine_chunks()
                first = start

    def _ends(self, table: pa.Table) -> Int64Array:
        return int64_values(one_chunk(table.column(self._window_end)))


def union(ranges: Iterable[Range]) -> list[Range]:
    """What is in any of some ranges, in order and apart."""
    found: list[Range] = []
    for after, until in sorted(ranges):
        if found and after <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], until)
        else:
            found.append((after, until))
    return found


def within(ranges: Iterable[Range], after_us: int, until_us: int) -> list[Range]:
    """What of ranges is in another one."""
    cut = ((max(after, after_us), min(until, until_us)) for after, until in ranges)
    return [(after, until) for after, until in cut if after < until]


def without(ranges: Sequence[Range], after_us: int, until_us: int) -> list[Range]:
    """What of ranges is not in another one, which is not empty."""
    return [*within(ranges, -FINAL_US, after_us), *within(ranges, until_us, FINAL_US)]
