"""The window operator: keeps slices in state and emits windows as the watermark passes their ends.

It serves one window aggregation, or several that read the same slices (the INSERTs of a set). For
each of these readers it takes the steps of Flink's slicing window operator
(AbstractSliceSyncStateWindowAggProcessor), a micro-batch at a time:

1. drop and count partials whose windows are all closed: their rows are late. If late rows are kept,
   rows that may be late arrive with their partials, and the late ones are output unchanged;
2. advance the watermark;
3. emit every window whose end it passed;
4. free slices that no open window needs and store the rest of the new ones, once for all readers
   (`runtime.streaming.slices.levels`).
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import BoolArray, Int64Array, int64_column
from runtime.compute.kernels.merge import merge_slices
from runtime.local.streaming.messages import SLICE_END, LateRows
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.stream import FINAL_US, LATE_ROW, UNTIMED
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.operators.expiry import KeyExpiry
from runtime.streaming.operators.firing import UpdateRules
from runtime.streaming.operators.updates import FireContext, UpdateLog
from runtime.streaming.slices.levels import Reader, SharedSpec
from runtime.streaming.slices.opening import open_slices
from runtime.streaming.slices.plain import PlainSlices
from runtime.streaming.slices.store import Horizon
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.changed_keys import FIRST_WINDOW, LAST_WINDOW
from runtime.streaming.state.metadata import ExpiringWindowMetadata, WindowMetadata
from runtime.streaming.state.ranges import Range, union
from runtime.streaming.watermarks import Watermarks, closed_until_us, later_us
from runtime.windows.all_time import N_PARTS

_DAY_US = 86_400_000_000
_UNTIMED_US = int(np.datetime64(UNTIMED, "us").astype(np.int64))


@dataclass(frozen=True)
class WindowSpec:
    """Spec of the window operator. The same for all key groups.

    Attributes:
        shared: The readers and the partials that they share.
        common: Spec shared by all operators.
        updates: When the only reader emits windows again. None emits each window once.
        is_processing_time: Whether the only reader is on processing time: then no row is late.
        generation: Increases when windows or accumulators change with a restart.
        emits_untimed: Whether the only reader emits rows at UNTIMED at once, without state.
    """

    shared: SharedSpec
    common: KeyGroupSpec
    updates: UpdateRules | None = None
    is_processing_time: bool = False
    generation: int = 0
    emits_untimed: bool = False


class WindowOperator(KeyGroupOperator):
    """The window operator of one key group."""

    def __init__(self, spec: WindowSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        self._spec = spec
        self._columns = spec.shared.columns
        self._has_levels = len(spec.shared.readers) > 1
        assert not self._has_levels or (spec.updates is None and not spec.is_processing_time)
        metadata, thresholds = self._metadata_before(WindowMetadata), spec.common.thresholds
        if not spec.shared.readers[0].aggregation.window.closes:
            # the slices are parts of one, and would else keep as many deleted rows each
            merge_rows = thresholds.slices_merge_rows // N_PARTS
            thresholds = replace(thresholds, slices_merge_rows=merge_rows)
        slices = None if metadata is None else metadata.slices
        self._slices = open_slices(spec.shared, store, slices, spec.generation, thresholds)
        # Not computed from the watermark: closed slices are deleted, even if the allowed lateness
        # has been raised since.
        self._closed_us = None if self._before is None else self._before.closed_us
        self._updates = None
        self._expiry = None
        if spec.updates is not None:
            aggregation = spec.shared.readers[0].aggregation
            updates = None if metadata is None else metadata.updates
            self._updates = UpdateLog(spec.updates, aggregation, store, updates, thresholds)
            ttl_us = aggregation.window.state_ttl_us
            if ttl_us is not None:
                assert isinstance(self._slices, PlainSlices), "one window has no running aggregates"
                searched_us = None
                if isinstance(metadata, ExpiringWindowMetadata):
                    searched_us = metadata.searched_us
                self._expiry = KeyExpiry(
                    ttl_us, aggregation, self._slices, self._updates, searched_us
                )

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        if not self._slices.readers[0].spec.aggregation.window.closes:
            # it passes on the watermark of its rows, which closes nothing
            before, after = (
                marks if marks.has_ended else replace(marks, combined_us=None)
                for marks in (before, after)
            )
        closed = self._closed_us, later_us(self._closed_us, self._closing_us(after))
        yield from self._late(batch.candidates, before, closed[0])
        fired = before.fired_until_us()
        timed = batch.partials
        if self._expiry is not None:
            timed = self._expiry.begin(timed, batch.clock_us)
        if self._spec.emits_untimed:
            timed = yield from self._emit_untimed(timed)
        partials, n_late, n_new, n_again = self._accept(timed, closed[0], fired)
        horizon = Horizon((fired, after.fired_until_us()), closed)
        for number, new in enumerate(self._slices.add(partials, horizon)):
            first, last = self._slices.window_ends(number)
            if len(first):
                context = FireContext(
                    int(first.min()),
                    int(last.max()),
                    (fired, _or_never(after.fired_until_us())),
                    closed,
                    self._changed_windows(new),
                    self._changed_keys(new),
                    n_new,
                    n_again,
                    batch.clock_us,
                )
                for windows in self._fire(number, context):
                    yield Output(windows, number)
            elif self._updates is not None:
                self._updates.close(closed[1])
        self._slices.expire(closed[1])
        self.most_bytes = max(self.most_bytes, self._slices.most_bytes)
        self._closed_us = closed[1]
        return n_late

    def _closed_until_us(self) -> int | None:
        return self._closed_us

    def _closing_us(self, watermarks: Watermarks) -> int | None:
        """Return the time up to which watermarks close windows."""
        lateness = 0 if self._spec.updates is None else self._spec.updates.allowed_lateness_us
        return closed_until_us(watermarks.combined_us, lateness, has_ended=watermarks.has_ended)

    def _emit_untimed(self, tables: Sequence[pa.Table]) -> Generator[Output, None, list[pa.Table]]:
        """Yield the rows at UNTIMED as results. Returns the other partials."""
        timed, untimed = [], []
        for table in tables:
            is_untimed = pa.array(self._is_untimed(self._columns.ends(table)))
            timed.append(table.filter(pc.invert(is_untimed)))
            untimed.append(table.filter(is_untimed).drop_columns([ROW_COUNT]))
        if any(table.num_rows for table in untimed):
            aggregation = self._spec.shared.readers[0].aggregation
            for windows in merge_slices(pa.concat_tables(untimed), aggregation):
                yield Output(windows)
        return timed

    def _is_untimed(self, ends: Int64Array) -> BoolArray:
        """Return for each slice end whether the rows of the slice are at UNTIMED."""
        if not self._spec.emits_untimed:
            return np.zeros(len(ends), np.bool_)
        times = np.array([_UNTIMED_US - _DAY_US, _UNTIMED_US + _DAY_US])
        first, last = self._slices.readers[0].assigner.slice_end(times)
        is_untimed: BoolArray = (first <= ends) & (ends <= last)
        return is_untimed

    def _late(
        self, candidates: Sequence[pa.Table], before: Watermarks, closed: int | None
    ) -> Iterator[Output]:
        """Yield the late rows among the candidates, for each reader for which they are late."""
        if closed is None or before.combined_us is None:
            return
        for table in candidates:
            ends = int64_column(table, SLICE_END)
            for number, reader in enumerate(self._slices.readers):
                is_late = _is_late(reader, ends, closed) & ~self._is_untimed(ends)
                if is_late.any():
                    rows = table.select([LATE_ROW]).filter(pa.array(is_late))
                    yield Output(LateRows(rows, before.combined_us), number)

    def _accept(
        self, tables: Sequence[pa.Table], closed: int | None, fired: int | None
    ) -> tuple[list[pa.Table], list[int], int, int]:
        """Count the late rows among new partials.

        Returns:
            The partials; the number of late rows for each reader; for the first reader the number
            of rows that are not late, and how many of these are in a window that has fired.
        """
        accepted: list[pa.Table] = []
        n_late = [0] * len(self._slices.readers)
        n_rows = n_again = 0
        for table in tables:
            counts = int64_column(table, ROW_COUNT)
            n_rows += int(counts.sum())
            plain = table.drop_columns([ROW_COUNT])
            if closed is not None and table.num_rows:
                plain = self._move_closed(plain, closed)
                ends = self._columns.ends(plain)
                for number, reader in enumerate(self._slices.readers):
                    first, last = reader.first_window_end(ends), reader.last_window_end(ends)
                    # rows in a gap between windows are in no window, so they are not late
                    n_late[number] += int(counts[(first <= last) & (last <= closed)].sum())
                    if self._updates is not None and fired is not None:
                        is_again = (first <= fired) & (first <= last) & (last > closed)
                        n_again += int(counts[is_again].sum())
            accepted.append(plain)
        return accepted, n_late, n_rows - n_late[0], n_again

    def _move_closed(self, table: pa.Table, closed: int) -> pa.Table:
        """Move partials of closed slices to the next open slice, for a single reader.

        In processing time this affects all partials if the clock was set back. In CUMULATE windows,
        a row whose step is closed but whose largest window is open counts in the first open step.
        """
        reader = self._slices.readers[0]
        if self._has_levels or not (self._spec.is_processing_time or reader.grows):
            return table
        ends = self._columns.ends(table)
        is_moved = ends <= closed
        if not self._spec.is_processing_time:
            is_moved &= reader.last_window_end(ends) > closed
        if not is_moved.any():
            return table
        ends = np.where(is_moved, np.maximum(ends, reader.assigner.next_window_end(closed)), ends)
        return self._columns.with_ends(table, ends)

    def _fire(self, number: int, context: FireContext) -> Iterator[pa.RecordBatch]:
        """Yield a reader's windows that the watermark passed, and others that are due."""
        if self._updates is not None:
            yield from self._updates.fire(partial(self._slices.windows, number), context)
            self.most_bytes = max(self.most_bytes, self._updates.most_bytes)
            return
        fired, fires = context.fired_us
        after = context.oldest_us - 1 if fired is None else fired
        yield from self._slices.windows(number, (after, min(fires, context.newest_us)))

    def _changed_windows(self, new: Sequence[pa.Table]) -> list[Range]:
        """Return the windows that contain new rows, if windows are emitted again."""
        if self._updates is None:
            return []
        reader, distinct = self._slices.readers[0], [np.unique(self._columns.ends(t)) for t in new]
        ends = np.unique(np.concatenate([np.zeros(0, np.int64), *distinct]))
        bounds = zip(
            reader.first_window_end(ends).tolist(),
            reader.last_window_end(ends).tolist(),
            strict=True,
        )
        before = reader.assigner.previous_window_end
        return union((before(first - 1), last) for first, last in bounds if first <= last)

    def _changed_keys(self, new: Sequence[pa.Table]) -> list[tuple[pa.Table, int]]:
        """Return the keys of new rows with their windows, as `ChangedKeys` takes them.

        Empty if windows are emitted once.
        """
        if self._updates is None:
            return []
        reader, changed = self._slices.readers[0], []
        number_of = reader.assigner.window_number
        for table in new:
            ends = self._columns.ends(table)
            first, last = reader.first_window_end(ends), reader.last_window_end(ends)
            n_windows = int(np.maximum(number_of(last) - number_of(first) + 1, 0).sum())
            table = table.select(self._columns.keys)
            table = table.append_column(FIRST_WINDOW, pa.array(first))
            changed.append((table.append_column(LAST_WINDOW, pa.array(last)), n_windows))
        return changed

    def _metadata(self) -> WindowMetadata:
        updates = None if self._updates is None else self._updates.metadata()
        slices = self._slices.metadata()
        if self._expiry is not None:
            return ExpiringWindowMetadata(slices, updates, self._expiry.searched_us)
        return WindowMetadata(slices, updates)

    def _size(self) -> tuple[int, int]:
        return self._slices.n_rows, self._slices.n_bytes

    def _next_window_end_us(self, reader: int) -> int | None:
        if not self._slices.readers[reader].spec.aggregation.window.closes:
            return None
        first, last = self._slices.window_ends(reader)
        # another reader may still need chunks that this reader has emitted or never emits
        is_waiting = (first <= last) & (last > _or_never(self._closed_us))
        if not is_waiting.any():
            return None
        next_end = int(first[is_waiting].min())
        fired = self._watermarks.fired_until_us()
        if fired is None:
            return next_end
        return max(next_end, self._slices.readers[reader].assigner.next_window_end(fired))


def _is_late(reader: Reader, ends: Int64Array, closed: int) -> BoolArray:
    """Return for each slice end whether all of a reader's windows with that slice are closed."""
    last = reader.last_window_end(ends)
    # rows in a gap between windows are in no window, so they are not late
    is_late: BoolArray = (last <= closed) & (reader.first_window_end(ends) <= last)
    return is_late


def _or_never(time_us: int | None) -> int:
    return -FINAL_US if time_us is None else time_us
