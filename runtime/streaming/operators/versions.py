"""The operator of a temporal join: joins rows with the versions that hold at their times.

It reads rows and versions of another operator, in which they wait for the watermark of both
streams. So all versions up to the times of the rows have arrived with them or before. For each key
it keeps one row: the last version that the watermark has passed. A deletion is a version too, but
is not kept: a key without a version has none.

A micro-batch reads the versions of its own keys, and replaces them for keys with new versions; see
`runtime.streaming.state.marked_chunks`. The first and the last time of a version in state are the
end of its slice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    int64_array,
    int64_column,
    one_chunk,
)
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.ranks import order_codes
from runtime.local.streaming.stage import ROW_COUNT
from runtime.spec.aggregates import WindowAggregation
from runtime.spec.filling import VersionJoining
from runtime.streaming.operators.base import (
    Emitted,
    KeyGroupOperator,
    KeyGroupSpec,
    MicroBatch,
    Output,
)
from runtime.streaming.state.blobs import BlobStore
from runtime.streaming.state.marked_chunks import MarkedChunks
from runtime.streaming.state.metadata import MarkedMetadata, VersionMetadata
from runtime.streaming.state.partial_columns import StateColumns
from runtime.streaming.watermarks import Watermarks, watermark_of_rows_us
from runtime.windows.times import FIRST_TIME, LAST_TIME


@dataclass(frozen=True)
class VersionSpec:
    """Spec of the operator of a temporal join. The same for all key groups.

    Attributes:
        versions: Columns of rows and versions.
        aggregation: Merge of the partials. Its windows are the ones in which the rows waited.
        columns: Columns of the partials: rows or versions, window end and number of copies.
        common: Spec shared by all operators.
    """

    versions: VersionJoining
    aggregation: WindowAggregation
    columns: StateColumns
    common: KeyGroupSpec


@dataclass(frozen=True)
class _Rows:
    """Versions of the state, and new rows and versions, by key and time.

    Attributes:
        table: Partials.
        codes: int64[n], number of the key of each row.
        is_version: bool[n].
    """

    table: pa.Table
    codes: Int64Array
    is_version: BoolArray


class VersionOperator(KeyGroupOperator):
    """The operator of a temporal join of one key group."""

    def __init__(self, spec: VersionSpec, store: BlobStore) -> None:
        super().__init__(spec.common, store)
        self._spec = spec
        assert spec.aggregation.window.has_slices
        self._grid = spec.aggregation.window.assigner()
        before = self._metadata_before(MarkedMetadata)
        self._versions = MarkedChunks(
            store,
            spec.versions.keys,
            spec.common.thresholds,
            () if before is None else before.chunks,
            lambda table: spec.columns.of(table, FIRST_TIME, LAST_TIME),
        )

    def _emit(self, batch: MicroBatch, before: Watermarks, after: Watermarks) -> Emitted:
        tables = [table.drop_columns([ROW_COUNT]) for table in batch.partials if table.num_rows]
        if tables:
            new = self._spec.columns.merge(tables)
            rows = self._rows(new)
            for joined in merge_slices(self._joined(rows), self._spec.aggregation):
                yield Output(joined)
            if not after.has_ended:
                self._replace_versions(new, rows)
        if after.has_ended:
            self._versions.clear()
        return [0]

    def _rows(self, new: pa.Table) -> _Rows:
        """Return the new rows, and the versions of their keys in state."""
        of = self._spec.versions
        old = self._versions.rows_marked(self._marked(new))
        plain = [table.drop_columns([FIRST_TIME, LAST_TIME]) for table in old]
        table = pa.concat_tables([*plain, new]).combine_chunks()
        self._note_bytes(table)
        codes, _ = encode_keys([table.column(key) for key in of.keys], len(table))
        is_version = _booleans(table, of.is_version)
        times = int64_column(table, of.time)
        # a version holds at its own time
        order = np.lexsort((~is_version, times, codes))
        both = is_version[order][1:] & is_version[order][:-1]
        if (both & (np.diff(codes[order]) == 0) & (np.diff(times[order]) == 0)).any():
            values = [
                order_codes(table.column(name), descending=False, nulls_first=True)
                for name in reversed(of.columns)
            ]
            order = np.lexsort((*values, ~is_version, times, codes))
        table = table.take(int64_array(order, None, pa.int64())).combine_chunks()
        return _Rows(table, codes[order], is_version[order])

    def _joined(self, rows: _Rows) -> pa.Table:
        """Return the rows that are not versions, each with the version that holds at its time."""
        of = self._spec.versions
        numbers = np.arange(len(rows.codes))
        latest = np.maximum.accumulate(np.where(rows.is_version, numbers, -1))
        left = np.flatnonzero(~rows.is_version)
        version = latest[left]
        holds = (version >= 0) & (rows.codes[version] == rows.codes[left])
        at = int64_array(version, holds, pa.int64())
        table = rows.table.take(int64_array(left, None, pa.int64()))
        for name in of.columns:
            place, field = table.schema.get_field_index(name), table.schema.field(name)
            values = one_chunk(rows.table.column(name)).take(at)
            table = table.set_column(place, field, values)
        place, field = (
            table.schema.get_field_index(of.is_version),
            table.schema.field(of.is_version),
        )
        return table.set_column(place, field, pa.array(holds).cast(field.type))

    def _last_versions(self, rows: _Rows) -> pa.Table:
        """Return the last version of each key that is not deleted."""
        of_versions = np.flatnonzero(rows.is_version)
        codes = rows.codes[of_versions]
        is_last = np.append(codes[1:] != codes[:-1], True)
        table = rows.table.take(int64_array(of_versions[is_last], None, pa.int64()))
        if (is_deleted := self._spec.versions.is_deleted) is not None:
            table = table.filter(pa.array(~_booleans(table, is_deleted)))
        ends = pa.array(self._spec.columns.ends(table))
        return table.append_column(FIRST_TIME, ends).append_column(LAST_TIME, ends)

    def _replace_versions(self, new: pa.Table, rows: _Rows) -> None:
        """Replace the versions of keys that have new ones.

        Args:
            new: New rows and versions.
            rows: The same with the versions in state.
        """
        versions = new.filter(pa.array(_booleans(new, self._spec.versions.is_version)))
        if not versions.num_rows:
            return
        is_changed = self._marked(versions)
        for _ in self._versions.take_marked(is_changed):
            pass  # they are in `rows`
        last = self._last_versions(rows)
        # versions of other keys with these marks were taken too
        last = last.filter(pa.array(is_changed.take(self._versions.marks(last))))
        if last.num_rows:
            self._versions.append(last)

    def _marked(self, table: pa.Table) -> BoolArray:
        """Return for each mark whether it is the one of a row's key."""
        is_marked = self._versions.no_marks()
        is_marked[self._versions.marks(table)] = True
        return is_marked

    def _output_watermark_us(self) -> int | None:
        return watermark_of_rows_us(self._watermarks, self._grid)

    def _metadata(self) -> VersionMetadata:
        return VersionMetadata(self._versions.chunks)

    def _size(self) -> tuple[int, int]:
        return self._versions.size

    def _next_window_end_us(self, reader: int) -> int | None:
        return None


def _booleans(table: pa.Table, name: str) -> BoolArray:
    return np.asarray(one_chunk(table.column(name)).to_numpy(zero_copy_only=False), np.bool_)
