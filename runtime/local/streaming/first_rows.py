"""Select the rows that can be in a Top-N."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.compute.buffer import BufferRows
from runtime.compute.kernels.conversions import (
    Int64Array,
    distinct_codes,
    int64_column,
    int64_values,
    one_chunk,
    replace_values,
)
from runtime.compute.kernels.ranks import first_places
from runtime.compute.kernels.slots import slice_slots
from runtime.spec.expressions import FirstRows
from runtime.windows import AlignedWindow


class FirstRowsOfSlices:
    """Selection of one task's rows, as they arrive and again when they are emitted.

    A dropped row is added to the count of a remaining row of its slice, because late rows are
    counted.

    Args:
        first: Ranking of the rows.
        window: Window of the slices.
        keys: Key columns.
        slice_end: Slice end column, int64.
        row_count: Row count column, int64.
    """

    def __init__(
        self,
        first: FirstRows,
        window: AlignedWindow,
        keys: tuple[str, ...],
        slice_end: str,
        row_count: str,
    ) -> None:
        self._first = first
        self._window = window
        self._assigner = window.assigner()
        self._keys = keys
        self._slice_end = slice_end
        self._row_count = row_count
        # number of dropped rows by slice end
        self._n_dropped: dict[int, int] = {}

    def among(self, rows: BufferRows | pa.RecordBatch) -> BufferRows | pa.RecordBatch:
        """Return the rows that can be among the first N of their slice. Messages pass unchanged."""
        if isinstance(rows, pa.RecordBatch) or len(rows.time_us) == 0:
            return rows
        slot, slot_end = slice_slots(rows.time_us, self._window, self._assigner)
        columns = dict(zip(self._keys, rows.keys, strict=True))
        places = _first_places(self._first, slot, columns)
        if len(places) == len(slot):
            return rows
        n_gone = np.bincount(slot, minlength=len(slot_end))
        n_gone -= np.bincount(slot[places], minlength=len(slot_end))
        for index in np.flatnonzero(n_gone).tolist():
            end = int(slot_end[index])
            self._n_dropped[end] = self._n_dropped.get(end, 0) + int(n_gone[index])
        selected = pa.array(places)
        return BufferRows(
            rows.time_us[places],
            [key.take(selected) for key in rows.keys],
            [[arg.take(selected) for arg in args] for args in rows.args],
            [None if mask is None else mask[places] for mask in rows.conditions],
        )

    def of(self, table: pa.Table) -> pa.Table:
        """Return the partials that can be among the first N of their slice. At least one remains.

        A partial of several equal rows counts as one here, so no row that can be among the first is
        dropped.
        """
        slot, slices = distinct_codes(one_chunk(table.column(self._slice_end)))
        columns = {name: one_chunk(table.column(name)) for name in self._keys}
        places = _first_places(self._first, slot, columns)
        ends = int64_values(slices).tolist()
        n_more = np.array([self._n_dropped.pop(end, 0) for end in ends], np.int64)
        counts = int64_column(table, self._row_count)
        np.add.at(n_more, slot, counts)
        np.subtract.at(n_more, slot[places], counts[places])
        kept_counts = counts[places]
        kept_slots, carriers = np.unique(slot[places], return_index=True)
        kept_counts[carriers] += n_more[kept_slots]
        return replace_values(table.take(pa.array(places)), self._row_count, kept_counts)


def _first_places(first: FirstRows, slot: Int64Array, columns: dict[str, pa.Array]) -> Int64Array:
    """Return the positions of rows that can be among the first, ascending."""
    groups = [pa.array(slot), *(columns[name] for name in first.by)]
    return first_places(groups, columns, first.order, first.function, first.last)
