"""Emit windows more than once: before their end, and again for late rows.

The last emitted result of each open window is stored and compared with the window's current result:
a new result is +I, a changed one retracts the old (-U) and emits the new (+U), an equal one is not
emitted, and one whose rows are all deleted is -D. Processing time and the number of new rows decide
when to compare.

Only windows with new rows since they were last computed are computed and compared; they are stored
as ranges of time. If they have been computed before, only the keys with new rows are; see
`runtime.streaming.state.changed_keys`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from runtime.compute.kernels.conversions import int64_column
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.stream import FINAL_US
from runtime.spec.thresholds import Thresholds
from runtime.streaming.operators.firing import Pending, UpdateRules
from runtime.streaming.operators.row_changes import inserts, updates, whole_window
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.changed_keys import FIRST_WINDOW, ChangedKeys
from runtime.streaming.state.key_sets import KeySet
from runtime.streaming.state.metadata import UpdateMetadata
from runtime.streaming.state.ranges import Range, union, within, without
from runtime.streaming.state.results import ResultStore

# Computes the windows of a range, for all keys or for at least the given ones
Windows = Callable[[Range, KeySet | None], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class FireContext:
    """Properties of a micro-batch that decide which windows are emitted.

    Attributes:
        oldest_us: End of the oldest window of any slice.
        newest_us: End of the newest window of any slice.
        fired_us: End up to which windows have fired, before and after this micro-batch.
        closed_us: End up to which windows are closed, before and after this micro-batch.
        changed: Windows that contain new rows.
        new: New rows as `ChangedKeys` takes them, with the number of windows they are in.
        n_new: Number of new rows.
        n_late: Number of new rows in windows that have fired.
        clock_us: Processing time.
    """

    oldest_us: int
    newest_us: int
    fired_us: tuple[int | None, int]
    closed_us: tuple[int | None, int | None]
    changed: Sequence[Range]
    new: Sequence[tuple[pa.Table, int]]
    n_new: int
    n_late: int
    clock_us: int | None


class UpdateLog:
    """The emitted results of one key group's open windows.

    Args:
        rules: When windows are emitted again.
        aggregation: Aggregation, for the names of keys and window columns.
        store: State that holds the results.
        metadata: Return value of `metadata` at the end of the last micro-batch. None at first.
        thresholds: How results and changed keys are stored.

    Attributes:
        most_bytes: Largest number of bytes of old and new results compared at once.
    """

    def __init__(
        self,
        rules: UpdateRules,
        aggregation: WindowAggregation,
        store: BlobStore,
        metadata: UpdateMetadata | None,
        thresholds: Thresholds,
    ) -> None:
        self._rules = rules
        self._thresholds = thresholds
        self._keys = aggregation.keys
        self._identity = [*aggregation.keys, aggregation.window_end]
        assert aggregation.window.has_slices
        self._assigner = aggregation.window.assigner()
        if metadata is None:
            metadata = UpdateMetadata((), (), (), -FINAL_US, 0, None, None, 0)
        self._results = ResultStore(
            self._identity,
            aggregation.window_end,
            store,
            metadata.runs,
            thresholds,
            aggregation.remaining,
        )
        self._changed = [*metadata.changed]
        self._changed_keys = ChangedKeys(self._keys, store, metadata.keys, thresholds)
        # windows up to this end have been computed, or are in `_changed`
        self._computed_us = metadata.computed_us
        self._pending = Pending(
            metadata.n_pending, metadata.n_late, metadata.early_at_us, metadata.late_at_us
        )
        self.most_bytes = 0

    def metadata(self) -> UpdateMetadata:
        """Return the metadata for the next micro-batch."""
        return UpdateMetadata(
            self._results.runs,
            self._changed,
            self._changed_keys.metadata(),
            self._computed_us,
            self._pending.n_rows,
            self._pending.early_at_us,
            self._pending.late_at_us,
            self._pending.n_late,
        )

    def fire(self, windows: Windows, context: FireContext) -> Iterator[pa.RecordBatch]:
        """Yield the results that are due.

        Yields:
            Batches of the window's columns, preceded by a row kind column.
        """
        self._record(context)
        early = self._pending.is_early_due(self._rules, context.n_new, context.clock_us)
        late = self._is_late_due(context)
        fired = context.fired_us[0]
        start = context.closed_us[0] if late else fired
        after = context.oldest_us - 1 if start is None else start
        until = context.newest_us if early else min(context.fired_us[1], context.newest_us)
        if after < until:
            # compute fired windows separately from those that fire now: the latter fire in order
            cut = after if fired is None else min(max(after, fired), until)
            yield from self._compute(windows, [*self._due(after, cut), *self._due(cut, until)])
            self._changed = without(self._changed, after, until)
            self._changed_keys.forget((after, until))
            self._computed_us = max(self._computed_us, until)
            self._pending.forget(early=early, late=late)
        self.close(context.closed_us[1])

    @property
    def has_pending(self) -> bool:
        """Whether rows have arrived since their windows were last emitted."""
        return self._pending.n_rows > 0

    def forget_keys(self, ends: Range, keys: pa.Table) -> None:
        """Forget the results of some keys in the windows of a range. Nothing is emitted."""
        self._results.forget_keys(ends, keys.select(self._keys))

    def close(self, closed_us: int | None) -> None:
        """Forget windows that end at or before `closed_us`.

        A key group without slices, such as a part of a split one, has nothing to fire but may still
        have results of closed windows.
        """
        if closed_us is not None:
            self._changed = within(self._changed, closed_us, FINAL_US)
            self._changed_keys.forget((-FINAL_US, closed_us))
            self._results.forget(closed_us)
        self._changed = union([*self._changed, *self._changed_keys.keep()])
        self.most_bytes = max(self.most_bytes, self._results.most_bytes)

    def _due(self, after_us: int, until_us: int) -> list[tuple[Range, bool]]:
        """Return the due windows of a range in order, and whether each is computed for all keys."""
        all_keys = within(self._changed, after_us, until_us)
        partly = within(self._changed_keys.ranges, after_us, until_us)
        for changed_range in all_keys:
            partly = without(partly, *changed_range)
        # if many keys have changed, computing all keys is faster than selecting these
        many = [
            ends
            for ends in partly
            if 2 * self._changed_keys.most_results(ends) >= self._results.n_rows(ends)
        ]
        due = [(ends, False) for ends in partly if ends not in many]
        return sorted([*due, *((ends, True) for ends in union([*all_keys, *many]))])

    def _compute(
        self, windows: Windows, due: Sequence[tuple[Range, bool]]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the changes in due windows, for the keys that may have changed."""
        part_rows = self._thresholds.results_part_rows
        to_add = []
        for ends, is_of_all in due:
            keys = None if is_of_all else self._changed_keys.of(ends)
            fresh = list(windows(ends, keys))
            if not fresh:
                continue
            now = pa.Table.from_batches(fresh)
            old = self._results.read(ends, keys)
            n_bytes = now.nbytes + (0 if old is None else old.nbytes)
            self.most_bytes = max(self.most_bytes, n_bytes)
            changed = yield from self._changes(now.slice(0, 0) if old is None else old, now)
            if keys is not None:
                to_add.append(changed)
            elif self._rules.early is not None and now.num_rows < part_rows:
                # store it with the others: otherwise each window would be a part of its own
                self._results.replace(ends, None)
                to_add.append(now)
            else:
                self._results.replace(ends, now)
        if sum(table.num_rows for table in to_add):
            self._results.add(pa.concat_tables(to_add))

    def _record(self, context: FireContext) -> None:
        """Record new rows, and when windows with them are due."""
        if not context.n_new:
            return
        is_by_key = bool(self._keys) and not self._rules.is_whole
        before = within(context.changed, -FINAL_US, self._computed_us) if is_by_key else []
        changed = (
            within(context.changed, self._computed_us, FINAL_US) if before else context.changed
        )
        self._changed = union([*self._changed, *changed])
        for table, n_results in context.new if before else ():
            first = int64_column(table, FIRST_WINDOW)
            is_before = pa.array(first <= self._computed_us)
            self._changed_keys.add(table.filter(is_before), before, n_results)
        self._pending.add(self._rules, context.n_new, context.n_late, context.clock_us)

    def _is_late_due(self, context: FireContext) -> bool:
        if not self._pending.n_late:
            return False
        # emit windows with late rows before they are closed for good
        closed = context.closed_us[1]
        last_chance = closed == FINAL_US
        if closed is not None and not last_chance:
            changed = [*self._changed, *self._changed_keys.ranges]
            last_end = self._assigner.previous_window_end(closed)
            last_chance = bool(within(changed, -FINAL_US, last_end))
        clock_us = context.clock_us
        return last_chance or self._pending.is_late_due(self._rules, context.n_new, clock_us)

    def _changes(self, old: pa.Table, new: pa.Table) -> Generator[pa.RecordBatch, None, pa.Table]:
        """Yield the changes from old to new results, in the order of the new ones.

        If a key and window has several old results, the last one counts. Returns the new results
        that differ from the old ones.
        """
        if self._rules.is_whole:
            yield from whole_window(old, new)
            return new
        if old.num_rows == 0:
            yield from inserts(self._results.present(new))
            return new
        changed, changes = updates(old, new, self._identity, self._results.is_present)
        yield from changes
        return changed
