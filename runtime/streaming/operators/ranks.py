"""The operator of the first rows of each key over all time: ranks without a window.

It reads rows as keys of partials, with their number of copies, and is used in three ways.

- Rows wait for the watermark, if windows close: the first row of a key is emitted once, when the
  watermark has passed the end of its slice. State has one row per key: the first one so far, or
  only the key, with 0 copies, once its row has been emitted. With a TTL, the emitted row hides
  later ones for that long, and the key then leaves the state.
- Otherwise the first rows so far are emitted, and again as changes when they change. State has
  these rows.
- If rows may be deleted, state has all rows, because any of them may be first later. Copies are
  changes of the number of a row. A deletion that arrives before its insertion waits for it.

With a TTL, the state of a key whose first rows change leaves the state when it has not changed for
that long in processing time. Then a micro-batch rewrites all rows of the keys that it changes, so
that they expire together, and a deletion of an unknown row is ignored.

A micro-batch reads and replaces the rows of its own keys; see
`runtime.streaming.state.marked_chunks`. Which rows are first does not depend on the order in which
they arrive, because the order by which ROW_NUMBER ranks has all columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_column, replace_values
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.merge import WINDOW_BOUND_TYPE, merged_schema, with_averages
from runtime.compute.kernels.ranks import codes_of, first_places, ranked_rows
from runtime.local.streaming.messages import SLICE_END, LateRows
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import FirstRows
from runtime.spec.stream import FINAL_US, LATE_ROW, ROW_KIND
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.operators.row_changes import DELETE, INSERT, deletes, differences, updates
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.marked_chunks import MarkedChunks
from runtime.streaming.state.metadata import (
    ExpiringRankMetadata,
    MarkedMetadata,
    RankMetadata,
)
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.watermarks import Watermarks, watermark_of_rows_us
from runtime.windows.times import FIRST_TIME, LAST_TIME

_NUMBER = "$number"
# Maximum number of stored changes per row that they add up to, before they are merged
_MAX_PARTS = 2
# How often expired rows are searched within a time-to-live
_SEARCHES_PER_TTL = 8


@dataclass(frozen=True)
class RankSpec:
    """Spec of the operator of first rows. The same for all key groups.

    Attributes:
        first: Keys, order and last rank.
        first_rank: First rank to emit. 1 if windows close.
        aggregation: Merge of the partials, whose only call is the number of copies. With
            `remaining`, copies are changes of this number, and rows may be deleted.
        columns: Columns of the partials: rows, slice end and number of copies.
        common: Spec shared by all operators.
        ttl_us: If windows close, as in `StreamRankStep`. Otherwise the processing time after which
            a key without changes leaves the state. None: never.
    """

    first: FirstRows
    first_rank: int
    aggregation: WindowAggregation
    columns: StateColumns
    common: KeyGroupSpec
    ttl_us: int | None = None


class RankOperator(KeyGroupOperator):
    """The operator of first rows of one key group."""

    def __init__(self, spec: RankSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        self._spec = spec
        self._of = spec.first
        self._copies = spec.columns.names[-1]
        self._may_delete = spec.aggregation.remaining is not None
        self._is_single = (self._of.function, self._of.last) == ("ROW_NUMBER", 1)
        assert spec.aggregation.window.has_slices
        self._waits = spec.aggregation.window.closes
        self._grid = spec.aggregation.window.assigner()
        before = self._metadata_before(MarkedMetadata)
        # processing time up to which expired keys were searched
        self._searched_us = before.searched_us if isinstance(before, ExpiringRankMetadata) else None
        # processing time, and when rows of this micro-batch expire, if rows do not wait
        self._now_us, self._expires_us = -FINAL_US, 0
        self._state = MarkedChunks(
            store,
            spec.first.by,
            spec.common.thresholds,
            () if before is None else before.chunks,
            lambda table: spec.columns.of(table, FIRST_TIME, LAST_TIME),
        )

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        if not self._waits:
            self._expire(batch.clock_us)
            change = self._changes_of_all if self._may_delete else self._changes
            yield from map(Output, change(self._new_rows(batch.partials, None)))
            if after.has_ended:
                self._state.clear()
            return [0]
        closed, fires = before.fired_until_us(), after.fired_until_us()
        if closed is not None and before.combined_us is not None:
            for table in batch.candidates:
                is_late = pa.array(int64_column(table, SLICE_END) <= closed)
                if is_late.true_count:
                    rows = table.select([LATE_ROW]).filter(is_late)
                    yield Output(LateRows(rows, before.combined_us))
        n_late = 0
        for table in batch.partials:
            if closed is not None and table.num_rows:
                is_late_row = self._spec.columns.ends(table) <= closed
                n_late += int(int64_column(table, ROW_COUNT)[is_late_row].sum())
        new = self._new_rows(batch.partials, closed)
        yield from map(Output, self._passed(new, fires))
        if after.has_ended:
            self._state.clear()
        return [n_late]

    def _new_rows(self, tables: Sequence[pa.Table], closed: int | None) -> pa.Table | None:
        """Return the rows of partials that are not late, or None without any."""
        accepted = []
        for table in tables:
            table = table.drop_columns([ROW_COUNT])
            if closed is not None and table.num_rows:
                table = table.filter(pa.array(self._spec.columns.ends(table) > closed))
            if table.num_rows:
                accepted.append(table)
        if not accepted:
            return None
        rows = pa.concat_tables(accepted)
        # if each key has one row, equal rows need not be merged before
        if self._may_delete or not self._is_single:
            rows = self._spec.columns.merge([rows])
        return self._with_times(rows)

    def _with_times(self, rows: pa.Table) -> pa.Table:
        """Return rows with the times by which the state orders them."""
        ends = np.full(len(rows), self._expires_us)
        if self._waits:
            ends = self._spec.columns.ends(rows)
        for name in (FIRST_TIME, LAST_TIME):
            rows = rows.append_column(name, pa.array(ends))
        return rows

    # -- rows that wait for the watermark ----------------------------------------------------------

    def _passed(self, new: pa.Table | None, fires: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the first rows of keys that the watermark has passed, and keep the others."""
        is_due = self._state.no_marks()
        if fires is not None:
            self._state.mark_ends(is_due, fires)
        to_add = []
        if new is not None:
            new = self._improving(new)
            marks = self._state.marks(new)
            if fires is not None:
                is_due[marks[int64_column(new, LAST_TIME) <= fires]] = True
            waits = pa.array(~is_due[marks])
            to_add.append(new.filter(waits))
            new = new.filter(pa.array(is_due[marks]))

        def stay(rows: pa.Table) -> BoolArray:
            """Return which rows hide later ones."""
            return self._is_seen(rows) & (int64_column(rows, LAST_TIME) > (fires or -FINAL_US))

        rows = [table for _, table in self._state.take_marked(is_due, stay)]
        if new is not None:
            rows.append(new)
        if sum(table.num_rows for table in rows):
            table = pa.concat_tables(rows).combine_chunks()
            self._note_bytes(table)
            assert fires is not None, "rows are due"
            first = self._first(self._unseen(table))
            is_passed = int64_column(first, LAST_TIME) <= fires
            passed = self._apart(first.filter(pa.array(is_passed)))
            to_add += [self._seen(passed)]
            to_add = [t.filter(pa.array(int64_column(t, LAST_TIME) > fires)) for t in to_add]
            to_add.append(first.filter(pa.array(~is_passed)))
            if passed.num_rows:
                yield self._results(passed, np.ones(len(passed), np.int64))
        self._append(to_add)

    def _improving(self, new: pa.Table) -> pa.Table:
        """Return the new rows that are the first ones of their keys so far."""
        known = self._state.rows_marked(self._marked(new))
        n_known = sum(table.num_rows for table in known)
        table = pa.concat_tables([*known, new]).combine_chunks()
        self._note_bytes(table)
        numbered = table.append_column(_NUMBER, pa.array(np.arange(len(table))))
        numbers = int64_column(self._first(self._unseen(numbered)), _NUMBER)
        return table.take(pa.array(np.sort(numbers[numbers >= n_known])))

    def _is_seen(self, table: pa.Table) -> BoolArray:
        """Return which rows are keys whose row has been emitted."""
        is_seen: BoolArray = int64_column(table, self._copies) == 0
        return is_seen

    def _unseen(self, table: pa.Table) -> pa.Table:
        """Return the rows that no emitted row of their key hides."""
        is_seen = self._is_seen(table)
        if not is_seen.any():
            return table
        codes = self._codes(table)
        hidden_until = np.full(int(codes.max()) + 1, -FINAL_US)
        np.maximum.at(hidden_until, codes[is_seen], int64_column(table, LAST_TIME)[is_seen])
        ends = self._spec.columns.ends(table)
        return table.filter(pa.array(~is_seen & (ends >= hidden_until[codes])))

    def _apart(self, passed: pa.Table) -> pa.Table:
        """Return the rows that no earlier one of their key hides."""
        ttl_us = self._spec.ttl_us
        if ttl_us is None or not passed.num_rows:
            return passed
        codes, ends = self._codes(passed), self._spec.columns.ends(passed)
        order = np.lexsort((ends, codes))
        kept, last, hidden_until = [], -1, -FINAL_US
        for place, code, end in zip(
            order.tolist(), codes[order].tolist(), ends[order].tolist(), strict=True
        ):
            if code != last or end >= hidden_until:
                kept.append(place)
                last, hidden_until = code, end + ttl_us
        return passed.take(pa.array(kept, pa.int64()))

    def _seen(self, rows: pa.Table) -> pa.Table:
        """Return the keys of emitted rows, for the state. The other columns are NULL.

        Their last time is the end of the slices that they hide.
        """
        ttl_us = self._spec.ttl_us
        ends = self._spec.columns.ends(rows)
        until = np.full(len(rows), FINAL_US) if ttl_us is None else ends + ttl_us
        for place, field in enumerate(rows.schema):
            if field.name not in (*self._of.by, *self._numbers):
                rows = rows.set_column(place, field, pa.nulls(len(rows), field.type))
        for name in self._numbers:
            values = until if name in (FIRST_TIME, LAST_TIME) else np.zeros(len(rows), np.int64)
            rows = replace_values(rows, name, values)
        return rows

    @property
    def _numbers(self) -> tuple[str, ...]:
        return (self._spec.columns.slice_end, self._copies, FIRST_TIME, LAST_TIME)

    def _first(self, table: pa.Table) -> pa.Table:
        """Return the first row of each key, or of each key and slice if keys are forgotten."""
        if not table.num_rows:
            return table
        by = [table.column(name) for name in self._of.by]
        if self._spec.ttl_us is not None:
            by.append(table.column(self._spec.columns.slice_end))
        places = first_places(by, table, self._of.order, self._of.function, self._of.last)
        return table.take(pa.array(places))

    # -- rows that change --------------------------------------------------------------------------

    def _changes(self, new: pa.Table | None) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the first rows, and keep the new ones."""
        if new is None:
            return
        new = self._repeated(new)
        known = self._known(self._marked(new), new)
        table = pa.concat_tables([known, new]).combine_chunks()
        self._note_bytes(table)
        places, _ = self._ranked(table)
        codes = self._codes(table)
        is_changed = np.zeros(int(codes.max()) + 1, np.bool_)
        is_changed[codes[places[places >= len(known)]]] = True
        if not is_changed.any():
            return
        now = self._renewed(table.take(pa.array(places)), is_changed[codes[places]])
        old = known.filter(pa.array(is_changed[codes[: len(known)]]))
        changed = now.filter(pa.array(is_changed[codes[places]]))
        yield from self._differences(old, changed)
        is_replaced = self._marked(changed)
        for _ in self._state.take_marked(is_replaced):
            pass  # they are in `known`
        # rows of other keys with these marks were taken too
        kept = now.filter(pa.array(is_replaced[self._state.marks(now)]))
        if self._of.is_deleted is not None:
            kept = kept.filter(pc.invert(kept.column(self._of.is_deleted)))
        self._append([kept])

    def _repeated(self, new: pa.Table) -> pa.Table:
        """Return each row as often as it can be among the first."""
        copies = int64_column(new, self._copies)
        if self._of.function == "ROW_NUMBER":
            copies = np.minimum(copies, self._of.last)
        if (copies > 1).any():
            new = new.take(pa.array(np.repeat(np.arange(len(new)), copies)))
        return replace_values(new, self._copies, np.ones(len(new), np.int64))

    def _differences(self, old: pa.Table, now: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the changes from emitted to current rows of some keys."""
        if self._is_single:
            both = (self._results(t, np.ones(len(t), np.int64)) for t in (old, now))
            before, after = (pa.Table.from_batches([batch]) for batch in both)
            is_deleted = self._of.is_deleted
            exists = None if is_deleted is None else lambda t: pc.invert(t.column(is_deleted))
            if self._may_delete:
                yield from deletes(before, after, self._of.by)
            yield from updates(before, after, self._of.by, exists)[1]
            return
        kinds = [(DELETE, old), (INSERT, now)]
        rows = [t.add_column(0, ROW_KIND, pa.repeat(pa.scalar(k), len(t))) for k, t in kinds]
        yield from differences(pa.concat_tables(rows), self._ranked_results).to_batches()

    def _ranked_results(self, table: pa.Table) -> pa.Table:
        places, ranks = self._ranked(table)
        is_emitted = ranks >= self._spec.first_rank
        rows = table.take(pa.array(places[is_emitted]))
        return pa.Table.from_batches([self._results(rows, ranks[is_emitted])])

    def _ranked(self, table: pa.Table) -> tuple[Int64Array, Int64Array]:
        """Return the first rows of each key, and their ranks."""
        of, by = self._of, [table.column(name) for name in self._of.by]
        codes = codes_of(table, of.order)
        return ranked_rows(by, codes, len(table), of.function, (1, of.last))

    # -- time-to-live of rows that change ----------------------------------------------------------

    def _expire(self, clock_us: int | None) -> None:
        """Begin a micro-batch, and remove expired rows if they have not been searched for long."""
        ttl_us, searched_us = self._spec.ttl_us, self._searched_us
        if ttl_us is None:
            return
        times = [us for us in (clock_us, searched_us) if us is not None]
        if not times:
            self._expires_us = FINAL_US
            return
        self._now_us = max(times)
        self._expires_us = self._now_us + ttl_us
        if searched_us is None:
            self._searched_us = self._now_us
        elif self._now_us - searched_us >= ttl_us // _SEARCHES_PER_TTL:
            self._searched_us = self._now_us
            is_due = self._state.no_marks()
            self._state.mark_ends(is_due, self._now_us)
            self._append([self._live(rows) for _, rows in self._state.take_marked(is_due)])

    def _live(self, rows: pa.Table) -> pa.Table:
        """Return the rows that have not expired."""
        return rows.filter(pa.array(int64_column(rows, LAST_TIME) > self._now_us))

    def _known(self, is_marked: BoolArray, new: pa.Table) -> pa.Table:
        """Return the stored rows of keys with some marks, with the columns of `new`."""
        known = pa.concat_tables([*self._state.rows_marked(is_marked), new.slice(0, 0)])
        return (known if self._spec.ttl_us is None else self._live(known)).combine_chunks()

    def _renewed(self, rows: pa.Table, is_changed: BoolArray) -> pa.Table:
        """Return rows, with new times for the rows of changed keys."""
        if self._spec.ttl_us is None:
            return rows
        for name in (FIRST_TIME, LAST_TIME):
            times = np.where(is_changed, self._expires_us, int64_column(rows, name))
            rows = replace_values(rows, name, times)
        return rows

    # -- rows that may be deleted ------------------------------------------------------------------

    def _changes_of_all(self, new: pa.Table | None) -> Iterator[pa.RecordBatch]:
        """Yield the changes of the first rows, and keep all rows."""
        if new is None or not new.num_rows:
            return
        is_marked = self._marked(new)
        stored = self._known(is_marked, new)
        known = self._merged(stored) if self._spec.ttl_us is None else stored
        now = self._merged(pa.concat_tables([known, new]))
        if self._spec.ttl_us is not None:
            now = now.filter(pa.array(int64_column(now, self._copies) > 0))
        self._note_bytes(now)
        both = pa.concat_tables([known, now, new]).combine_chunks()
        codes = self._codes(both)
        is_changed = np.zeros(int(codes.max()) + 1, np.bool_)
        is_changed[codes[len(known) + len(now) :]] = True
        is_read = pa.array(is_changed[codes])
        old, current = (
            self._first_remaining(table.filter(is_read.slice(start, len(table))))
            for table, start in ((known, 0), (now, len(known)))
        )
        if len(old) or len(current):
            yield from self._differences(old, current)
        if self._spec.ttl_us is None and len(stored) + len(new) <= _MAX_PARTS * len(now):
            self._append([new], self._merged)
            return
        for _ in self._state.take_marked(is_marked):
            pass  # they are in `now`
        if self._spec.ttl_us is not None:
            # keys that have not changed keep their times
            is_same = pc.invert(is_read.slice(0, len(known)))
            changed = now.filter(is_read.slice(len(known), len(now)))
            now = pa.concat_tables([changed, known.filter(is_same)])
        self._append([now])

    def _merged(self, rows: pa.Table) -> pa.Table:
        """Return rows with the sum of their changes, without those whose changes cancel out."""
        columns = self._spec.columns
        return self._with_times(columns.merge([rows.select(columns.names)]))

    def _first_remaining(self, rows: pa.Table) -> pa.Table:
        """Return the first rows of each key, each as often as it remains among them."""
        rows = rows.filter(pa.array(int64_column(rows, self._copies) > 0))
        return self._first(self._repeated(rows))

    # -- all ---------------------------------------------------------------------------------------

    def _codes(self, table: pa.Table) -> Int64Array:
        """Return a number for each row's key."""
        return encode_keys([table.column(name) for name in self._of.by], len(table))[0]

    def _marked(self, table: pa.Table) -> BoolArray:
        """Return for each mark whether it is the one of a row's key."""
        is_marked = self._state.no_marks()
        is_marked[self._state.marks(table)] = True
        return is_marked

    def _append(
        self,
        tables: Sequence[pa.Table],
        merge: Callable[[pa.Table], pa.Table] = lambda table: table,
    ) -> None:
        if sum(table.num_rows for table in tables):
            self._state.append(pa.concat_tables(tables).combine_chunks(), merge)

    def _results(self, rows: pa.Table, ranks: Int64Array) -> pa.RecordBatch:
        """Return rows as windows of the aggregation, with ranks as the number of copies."""
        of = self._spec.aggregation
        schema = merged_schema(rows.schema, of)
        ends = self._spec.columns.ends(rows)
        times = (self._grid.window_start(ends), ends)
        bounds = [pa.array(us).cast(WINDOW_BOUND_TYPE) for us in times]
        keys = [rows.column(name).combine_chunks() for name in of.keys]
        columns = [*keys, *bounds, pa.array(ranks)]
        return with_averages(columns, schema, of)

    def _output_watermark_us(self) -> int | None:
        return watermark_of_rows_us(self._watermarks, self._grid)

    def _metadata(self) -> RankMetadata:
        if self._spec.ttl_us is not None and not self._waits:
            return ExpiringRankMetadata(self._state.chunks, self._searched_us)
        return RankMetadata(self._state.chunks)

    def _size(self) -> tuple[int, int]:
        return self._state.size

    def _next_window_end_us(self, reader: int) -> int | None:
        ends = [chunk.last_us for chunk in self._state.chunks if chunk.last_us != FINAL_US]
        return min(ends, default=None) if self._waits else None
