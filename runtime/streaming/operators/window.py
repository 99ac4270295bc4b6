"""The window operator: slices in state, windows out as the watermark passes their ends.

One operator is the state of one key group. It sees a micro-batch as a whole and takes the steps
that Flink's slicing window operator takes row by row (AbstractSliceSyncStateWindowAggProcessor):

1. partials of slices whose windows are all closed are late: dropped and counted, in rows. What
   decides is the watermark at the end of the micro-batch before, so that a row is late or not
   whatever else comes with it. Where late rows are kept, the rows that may be late come beside
   their partials, and those that are go out again as they came;
2. the watermark moves on;
3. every window whose end it passed is put out;
4. slices that no open window needs are freed, and what is left of the new ones is kept.

Nothing here knows of Spark: state is behind `BlobStore`, results are record batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.columns import Int64Array, int64_values, one_chunk
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.windows.aligned import slice_assigner
from runtime.local.messages import SLICE_END, LateRows, Progress
from runtime.spec.aggregates import Accumulator, WindowAggregation
from runtime.spec.stream import FINAL_US, LATE_ROW
from runtime.spec.windows import CalendarCumulate, Cumulate, SessionWindow
from runtime.streaming.operators.updates import Moment, UpdateLog, UpdateRules
from runtime.streaming.state.blobs import BlobStore, decode_facts, encode_facts
from runtime.streaming.state.slices import SliceState, slab_us
from runtime.streaming.watermarks import (
    WatermarkRules,
    Watermarks,
    advance,
    closed_until_us,
    watermark_facts,
    watermarks_of,
)

_FACTS = "facts"
_NO_ENDS: Int64Array = np.zeros(0, np.int64)


@dataclass(frozen=True)
class OperatorSpec:
    """What an operator does; the same for all key groups.

    Attributes:
        aggregation: window, keys, what is merged.
        partials: the accumulators by their partial columns, as the local stage makes them.
        row_count: the name of a partial column with the number of rows, BIGINT, behind the
            accumulators' columns.
        n_sources: how many sources tell watermarks.
        rules: how these make the operator's watermark.
        updates: when windows are put out again; None: each once.
        by_clock: whether the rows' time is the clock's when they are processed: then none is late.
        run: tells this run of the stream from others, in which nobody listened to the sources.
    """

    aggregation: WindowAggregation
    partials: tuple[Accumulator, ...]
    row_count: str
    n_sources: int
    rules: WatermarkRules = field(default_factory=WatermarkRules)
    updates: UpdateRules | None = None
    by_clock: bool = False
    run: str = ""


@dataclass(frozen=True)
class MicroBatch:
    """What a key group gets in a micro-batch.

    Attributes:
        partials: tables of partials: keys, slice end, accumulators, row count.
        progress: what each task saw of each source.
        n_null_times: rows that were dropped because they have no time.
        clock_us: the clock, microseconds since 1970 in UTC.
        candidates: rows of the partials that may be late, all that are among them: tables of
            SLICE_END and LATE_ROW; of a SESSION, of its partition columns, TIME and LATE_ROW.
    """

    partials: Sequence[pa.Table]
    progress: Sequence[Progress]
    n_null_times: int = 0
    clock_us: int | None = None
    candidates: Sequence[pa.Table] = ()


@dataclass(frozen=True)
class Status:
    """How an operator stands at the end of a micro-batch.

    Attributes:
        watermarks: how far it and its sources have got.
        n_late: rows dropped in this micro-batch because all their windows were closed.
        n_null_times: rows dropped in it because they have no time.
        n_rows: partials in state.
        n_bytes: the size of their blobs.
        next_window_end_us: the end of the next window that waits for the watermark, if any does.
        told_us: the watermark of what the operator puts out, for whoever follows.
    """

    watermarks: Watermarks
    n_late: int
    n_null_times: int
    n_rows: int
    n_bytes: int
    next_window_end_us: int | None
    told_us: int | None


class WindowOperator:
    """The window operator of one key group.

    Args:
        spec: what it does.
        store: its state.
    """

    def __init__(self, spec: OperatorSpec, store: BlobStore) -> None:
        window = spec.aggregation.window
        assert not isinstance(window, SessionWindow)
        self._spec = spec
        self._is_cumulate = isinstance(window, Cumulate | CalendarCumulate)
        self._assigner = slice_assigner(window)
        self._store = store
        blob = store.get(_FACTS)
        facts = {} if blob is None else decode_facts(blob)
        self._watermarks = watermarks_of(facts, spec.n_sources, spec.run)
        self._slices = SliceState(
            store,
            facts.get("slices"),
            self._assigner,
            slab_us(window),
            len(spec.aggregation.keys),
            spec.aggregation.slice_end,
            spec.partials,
        )
        self._updates = None
        if spec.updates is not None:
            self._updates = UpdateLog(spec.updates, spec.aggregation, store, facts.get("updates"))

    def process(self, batch: MicroBatch) -> Iterator[pa.RecordBatch | LateRows | Status]:
        """Take a micro-batch in: windows as batches, and at the very end the status.

        The state is written when the iterator is exhausted, and not before.

        Raises:
            ExecutionError: a sum overflows its type.
        """
        before = self._watermarks
        closed = self._closed_until(before)
        yield from self._late(batch.candidates, before, closed)
        accepted, n_rows, n_late = self._accepted(batch.partials, closed)
        after = advance(before, batch.progress, self._spec.rules, batch.clock_us)
        oldest, newest = self._reach(accepted)
        if oldest is not None and newest is not None:
            moment = Moment(
                oldest,
                newest,
                (before.fired_until_us(), _or_never(after.fired_until_us())),
                (closed, self._closed_until(after)),
                n_rows,
                self._has_late(accepted, before.fired_until_us()),
                batch.clock_us,
            )
            yield from self._fire(accepted, moment)
        self._keep(accepted, self._closed_until(after))
        self._watermarks = after
        self._write_facts()
        yield self._status(n_late, batch)

    def _closed_until(self, watermarks: Watermarks) -> int | None:
        """Windows that end no later than this take no rows any more."""
        lateness = 0 if self._spec.updates is None else self._spec.updates.allowed_lateness_us
        return closed_until_us(watermarks.combined_us, lateness)

    def _late(
        self, candidates: Sequence[pa.Table], before: Watermarks, closed: int | None
    ) -> Iterator[LateRows]:
        """The rows among candidates that are late, by the rule for partials in `_accepted`."""
        if closed is None or before.combined_us is None:
            return
        for table in candidates:
            ends = int64_values(one_chunk(table.column(SLICE_END)))
            is_late = self._assigner.last_window_end(ends) <= closed
            if is_late.any():
                rows = table.select([LATE_ROW]).filter(pa.array(is_late))
                yield LateRows(rows, before.combined_us)

    def _accepted(
        self, tables: Sequence[pa.Table], closed: int | None
    ) -> tuple[list[pa.Table], int, int]:
        """(partials of which some window is open, without row counts; of so many rows; other rows).

        Of a CUMULATE window's rows that come when their own step is closed, the first open step
        takes account: its windows are the open ones of theirs.
        """
        accepted: list[pa.Table] = []
        n_accepted = n_late = 0
        for table in tables:
            n_rows = int64_values(one_chunk(table.column(self._spec.row_count)))
            n_accepted += int(n_rows.sum())
            if closed is not None and table.num_rows:
                ends = self._ends([table])
                if self._spec.by_clock and (ends <= closed).any():
                    # the clock was set back: they count in the windows of now, which are open
                    ends = np.maximum(ends, self._assigner.next_window_end(closed))
                    table = self._with_ends(table, ends)
                is_late = self._assigner.last_window_end(ends) <= closed
                if is_late.any():
                    n_late += int(n_rows[is_late].sum())
                    table, ends = table.filter(pa.array(~is_late)), ends[~is_late]
                if self._is_cumulate and (ends <= closed).any():
                    first_open = self._assigner.next_window_end(closed)
                    table = self._with_ends(table, np.maximum(ends, first_open))
            if table.num_rows:
                accepted.append(table.drop_columns([self._spec.row_count]))
        return accepted, n_accepted - n_late, n_late

    def _with_ends(self, table: pa.Table, ends: Int64Array) -> pa.Table:
        index = table.schema.get_field_index(self._spec.aggregation.slice_end)
        return table.set_column(index, table.schema.field(index), pa.array(ends))

    def _fire(self, accepted: list[pa.Table], moment: Moment) -> Iterator[pa.RecordBatch]:
        """The windows whose ends the watermark passed, and others that are due."""
        if self._updates is not None:
            yield from self._updates.fire(lambda ends: self._windows(accepted, ends), moment)
            return
        fired, fires = moment.fired_us
        after = moment.oldest_us - 1 if fired is None else fired
        yield from self._windows(accepted, (after, min(fires, moment.newest_us)))

    def _windows(self, accepted: list[pa.Table], ends: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The windows with an end above the first and up to the second of `ends`."""
        if self._assigner.next_window_end(ends[0]) > ends[1]:
            return
        tables = [*self._slices.read(ends[1]), *accepted]
        if tables:
            yield from merge_slices(
                pa.concat_tables(tables), self._spec.aggregation, window_ends=ends
            )

    def _reach(self, accepted: list[pa.Table]) -> tuple[int | None, int | None]:
        """The ends of the oldest and of the newest window of any slice, kept or new."""
        ends = [self._slices.ends(), self._ends(accepted)]
        slices = np.concatenate([each for each in ends if len(each)] or [_NO_ENDS])
        if len(slices) == 0:
            return None, None
        oldest = self._assigner.first_window_end(slices).min()
        newest = self._assigner.last_window_end(slices).max()
        return int(oldest), int(newest)

    def _has_late(self, accepted: list[pa.Table], fired: int | None) -> bool:
        """Whether a new row is in a window that has fired."""
        if fired is None or self._updates is None:
            return False
        return bool((self._assigner.first_window_end(self._ends(accepted)) <= fired).any())

    def _ends(self, tables: list[pa.Table]) -> Int64Array:
        name = self._spec.aggregation.slice_end
        parts = [int64_values(one_chunk(table.column(name))) for table in tables]
        return np.concatenate(parts) if parts else _NO_ENDS

    def _keep(self, accepted: list[pa.Table], closed: int | None) -> None:
        """Free what is closed, keep what is not."""
        if closed is not None:
            self._slices.expire(closed)
        if accepted:
            table = pa.concat_tables(accepted)
            if closed is not None:
                is_open = self._assigner.last_window_end(self._ends([table])) > closed
                table = table.filter(pa.array(is_open))
            self._slices.append(table)
        if closed is not None and self._is_cumulate and self._assigner.is_shared:
            self._slices.cumulate(self._assigner.previous_window_end(closed))

    def _write_facts(self) -> None:
        facts: dict[str, Any] = {
            **watermark_facts(self._watermarks, self._spec.run),
            "slices": self._slices.facts(),
        }
        if self._updates is not None:
            facts["updates"] = self._updates.facts()
        self._store.put(_FACTS, encode_facts(facts))

    def _status(self, n_late: int, batch: MicroBatch) -> Status:
        fired = self._watermarks.fired_until_us()
        kept = self._slices.ends()
        next_end = int(self._assigner.first_window_end(kept).min()) if len(kept) else None
        if next_end is not None and fired is not None:
            next_end = max(next_end, self._assigner.next_window_end(fired))
        return Status(
            self._watermarks,
            n_late,
            batch.n_null_times,
            self._slices.n_rows,
            self._slices.n_bytes,
            next_end,
            told_us=self._watermarks.combined_us,
        )


def _or_never(time_us: int | None) -> int:
    return -FINAL_US if time_us is None else time_us
