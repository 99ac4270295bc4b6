"""The operator of FILL on a stream: adds windows without rows once the watermark passes them.

It reads the windows of another operator, or their rows. They arrive in the micro-batch in which the
watermark passes them. For each key it keeps one row: the end of the last window that was emitted or
added, the end of the last one with a row, and the last value of each column that is not NULL.

1. The rows of a key, after the one in state, are cut into runs: a window more than `keep_us` after
   the previous one begins a new run, whose values do not come from the earlier one.
2. Missing windows between the rows of a run are added, and after its last row the windows that the
   watermark has passed, up to `keep_us`. At the end of the input no windows follow the last row,
   unless TO says where windows end.
3. Keys whose last row is older than that leave the state.

With FROM, times before it count as FROM in these rules. A run that begins at most `keep_us` after
FROM gets the windows from there: the key cannot have had an earlier run, because its row would
still be in state. Windows outside of FROM and TO are not added.

The outcome does not depend on the cut into micro-batches, except for the windows after the last row
at the end of the input: the ones that the watermark passed before are there.

Each window that the watermark passes is added for every key, so a micro-batch with such a window
reads and writes the whole state. In state, the first time of a row is the end of its last window,
its last time the end of the last window with a row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    int64_array,
    int64_column,
    one_chunk,
    replace_values,
    validity,
)
from runtime.compute.kernels.gap_fill import fill_gaps, has_instants
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.ranks import order_codes
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.expressions import Constant
from runtime.spec.filling import FillConstant, GapFilling
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.marked_chunks import MarkedChunks
from runtime.streaming.state.metadata import FillMetadata, MarkedMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.watermarks import Watermarks, watermark_of_rows_us
from runtime.windows.times import FIRST_TIME, LAST_TIME

_RUN, _KIND = "$run", "$kind"
# Kinds of rows: from the state, new, and the bounds of a run between which windows are added
_OLD, _NEW, _BOUND = 0, 1, 2


@dataclass(frozen=True)
class FillSpec:
    """Spec of the operator of FILL. The same for all key groups.

    Attributes:
        filling: Windows, and the values of the columns in added windows.
        aggregation: Merge of the partials; its windows end where the ones of `filling` do.
        columns: Columns of the partials: group keys, window end and partials. If a key may have
            several rows in a window, all columns of the rows are group keys.
        common: Spec shared by all operators.
        time_zone: Time zone of the windows' wall clock.
    """

    filling: GapFilling
    aggregation: WindowAggregation
    columns: StateColumns
    common: KeyGroupSpec
    time_zone: str

    @property
    def has_rows(self) -> bool:
        """Whether the input are rows in windows, rather than one result per key and window."""
        return any(name in self.aggregation.keys for name, _ in self.filling.fillers)


@dataclass(frozen=True)
class _Rows:
    """Rows of the state and new ones, by key and window.

    Attributes:
        table: Partials.
        ends: int64[n], window ends.
        seen: int64[n], end of the last window with a row, up to each row.
        is_old: bool[n], whether the row is the one of the state.
        run: int64[n], number of the run.
        first: int64[r], position of the first row of each run.
        last: int64[r], position of the last row of each run.
        is_last_of_key: bool[r], whether a run is the last one of its key.
    """

    table: pa.Table
    ends: Int64Array
    seen: Int64Array
    is_old: BoolArray
    run: Int64Array
    first: Int64Array
    last: Int64Array
    is_last_of_key: BoolArray


class FillOperator(KeyGroupOperator):
    """The operator of FILL of one key group."""

    def __init__(self, spec: FillSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        self._spec = spec
        assert spec.aggregation.window.has_slices
        self._grid = spec.aggregation.window.assigner()
        before = self._metadata_before(MarkedMetadata)
        self._state = MarkedChunks(
            store,
            spec.filling.keys,
            spec.common.thresholds,
            () if before is None else before.chunks,
            lambda table: spec.columns.of(table, FIRST_TIME, LAST_TIME),
        )

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        fired, fires = before.fired_until_us(), after.fired_until_us()
        tables = [table.drop_columns([ROW_COUNT]) for table in batch.partials if table.num_rows]
        is_passed = fires is not None and (
            fired is None or self._grid.next_window_end(fired) <= fires
        )
        if not tables and not (is_passed and self._state.chunks):
            return [0]
        rows = self._rows(tables)
        if rows is None:
            return [0]
        until = self._until(rows, None if after.has_ended else fires)
        filled = self._filled(rows, until)
        for windows in merge_slices(filled, self._spec.aggregation):
            yield Output(self._with_starts(windows))
        left = self._left(rows, until, fires)
        if left.num_rows:
            self._state.append(left)
        return [0]

    def _rows(self, tables: list[pa.Table]) -> _Rows | None:
        """Take the rows out of the state, and return them with the new ones."""
        columns, filling = self._spec.columns, self._spec.filling
        old = self._state.take_all()
        new = [columns.merge(tables)] if tables else []
        n_old = sum(map(len, old))
        if not n_old and not new:
            return None
        seen = [int64_column(table, LAST_TIME) for table in old]
        seen += [columns.ends(table) for table in new]
        plain = [table.drop_columns([FIRST_TIME, LAST_TIME]) for table in old]
        table = pa.concat_tables([*plain, *new]).combine_chunks()
        self._note_bytes(table)
        codes, _ = encode_keys(table.select(filling.keys).columns, len(table))
        ends, of_seen = columns.ends(table), np.concatenate(seen)
        ties: tuple[Int64Array, ...] = ()
        if filling.order is not None:
            ties = (order_codes(table.column(filling.order), descending=False, nulls_first=True),)
        order = np.lexsort((*ties, ends, codes))
        codes, ends, of_seen = codes[order], ends[order], of_seen[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = codes[1:] != codes[:-1]
        begins = is_first.copy()
        begins[1:] |= ends[1:] > self._kept_until(of_seen[:-1])
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(order)) - 1
        is_last_of_key = np.append(is_first[1:], True)[last]
        return _Rows(
            table.take(int64_array(order, None, pa.int64())),
            ends,
            of_seen,
            order < n_old,
            np.cumsum(begins) - 1,
            first,
            last,
            is_last_of_key,
        )

    def _until(self, rows: _Rows, fires: int | None) -> Int64Array:
        """Return the end of the last window of each run, with or without rows.

        `fires` is the end that the watermark has passed. None at the end of the input.
        """
        last_end, to_us = rows.ends[rows.last], self._spec.filling.to_us
        most = self._kept_until(rows.seen[rows.last])
        if fires is not None:
            passed = np.minimum(most, fires)
        else:
            passed = last_end if to_us is None else most
        if to_us is not None:
            most, passed = (np.minimum(bound, to_us) for bound in (most, passed))
        until = np.maximum(np.where(rows.is_last_of_key, passed, most), last_end)
        # the last window end that is not after it
        number = self._grid.window_number(self._grid.slice_end(until)) - 1
        return self._grid.window_end_of(number)

    def _filled(self, rows: _Rows, until: Int64Array) -> pa.Table:
        """Return the new rows and the added windows as partials."""
        columns, filling = self._spec.columns, self._spec.filling
        table = rows.table.append_column(_RUN, pa.array(rows.run))
        kinds = np.where(rows.is_old, _OLD, _NEW).astype(np.int8)
        table = table.append_column(_KIND, pa.array(kinds))
        # the kernel adds the windows between rows, so bounds are rows outside of the windows
        has_more = np.flatnonzero(until > rows.ends[rows.last])
        bounds = [(rows.last[has_more], self._grid.slice_end(until[has_more]))]
        if filling.from_us is not None:
            before_us = self._grid.previous_window_end(filling.from_us)
            first_end = rows.ends[rows.first]
            is_new = ~rows.is_old[rows.first] & (first_end > before_us)
            is_new &= first_end - filling.from_us <= filling.keep_us
            bounds.append((rows.first[is_new], np.full(np.count_nonzero(is_new), before_us)))
        tables = [table]
        for place, ends in bounds:
            markers = table.take(int64_array(place, None, pa.int64()))
            markers = columns.with_ends(markers, ends)
            for name, _ in filling.fillers:
                place_of, field = markers.schema.get_field_index(name), markers.schema.field(name)
                markers = markers.set_column(place_of, field, pa.nulls(len(markers), field.type))
            kind = np.full(len(markers), _BOUND, np.int8)
            tables.append(replace_values(markers, _KIND, kind))
        (whole,) = pa.concat_tables(tables).combine_chunks().to_batches()
        of_kind = (_KIND, FillConstant(Constant(None, "tinyint")))
        of = replace(
            filling,
            keys=(*filling.keys, _RUN),
            start=None,
            fillers=(*filling.fillers, of_kind),
            from_us=None,
            to_us=None,
            is_of_instants=False,
        )
        parts = []
        for part in fill_gaps(whole, of, ""):
            kinds_of = part.column(_KIND)
            is_added = ~_is_valid(kinds_of) & self._may_be_added(columns.ends(part))
            is_new = kinds_of.fill_null(_OLD).to_numpy(zero_copy_only=False) == _NEW
            parts.append(part.filter(pa.array(is_added | is_new)))
        return pa.Table.from_batches(parts, whole.schema).drop_columns([_RUN, _KIND])

    def _kept_until(self, seen: Int64Array) -> Int64Array:
        """Return the time up to which keys are remembered.

        Args:
            seen: End of the last window with a row of each key.
        """
        filling = self._spec.filling
        if filling.from_us is not None:
            seen = np.maximum(seen, filling.from_us)
        return seen + filling.keep_us

    def _may_be_added(self, ends: Int64Array) -> BoolArray:
        """Return which windows are within FROM and TO, and on the clock of the time zone."""
        filling = self._spec.filling
        starts = filling.window.assigner().window_start(ends)
        may_be = np.ones(len(ends), np.bool_)
        if filling.from_us is not None:
            may_be &= starts >= filling.from_us
        if filling.to_us is not None:
            may_be &= ends <= filling.to_us
        if filling.is_of_instants:
            may_be &= has_instants(starts, ends, self._spec.time_zone)
        return may_be

    def _with_starts(self, windows: pa.RecordBatch) -> pa.RecordBatch:
        """Return windows with their own starts instead of the ones of the grid."""
        of = self._spec.aggregation
        ends = int64_column(pa.Table.from_batches([windows]), of.window_end)
        starts = self._spec.filling.window.assigner().window_start(ends)
        place = windows.schema.get_field_index(of.window_start)
        field = windows.schema.field(place)
        columns = [*windows.columns]
        columns[place] = int64_array(starts, None, field.type)
        return pa.RecordBatch.from_arrays(columns, schema=windows.schema)

    def _left(self, rows: _Rows, until: Int64Array, fires: int | None) -> pa.Table:
        """Return the rows to keep, one per key: its last values and its last windows."""
        columns = self._spec.columns
        is_kept = rows.is_last_of_key
        if fires is not None:
            is_kept = is_kept & (self._kept_until(rows.seen[rows.last]) > fires)
        last, ends = rows.last[is_kept], until[is_kept]
        table = rows.table.take(int64_array(last, None, pa.int64()))
        n_rows, values = len(rows.run), {name for name, _ in self._spec.filling.fillers}
        for place, name in enumerate(rows.table.column_names):
            if name not in values:
                continue
            column = one_chunk(rows.table.column(name))
            at = np.maximum.accumulate(np.where(_is_valid(column), np.arange(n_rows), -1))[last]
            is_of_run = (at >= 0) & (rows.run[at] == rows.run[last])
            value = column.take(int64_array(at, is_of_run, pa.int64()))
            table = table.set_column(place, table.schema.field(place), value)
        table = columns.with_ends(table, ends)
        table = table.append_column(FIRST_TIME, pa.array(ends))
        return table.append_column(LAST_TIME, pa.array(rows.seen[last]))

    def _output_watermark_us(self) -> int | None:
        if not self._spec.has_rows:
            return self._watermarks.combined_us
        return watermark_of_rows_us(self._watermarks, self._grid)

    def _metadata(self) -> FillMetadata:
        return FillMetadata(self._state.chunks)

    def _size(self) -> tuple[int, int]:
        return self._state.size

    def _next_window_end_us(self, reader: int) -> int | None:
        fired = self._watermarks.fired_until_us()
        if not self._state.chunks or fired is None or self._watermarks.has_ended:
            return None
        return self._grid.next_window_end(fired)


def _is_valid(column: pa.Array) -> BoolArray:
    valid = validity(column)
    return np.ones(len(column), np.bool_) if valid is None else valid
