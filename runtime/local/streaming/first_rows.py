"""Of rows that are kept for a Top-N those that can be in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.compute.buffer import Rows
from runtime.compute.kernels.columns import (
    Int64Array,
    distinct_codes,
    int64_column,
    int64_values,
    one_chunk,
    with_values,
)
from runtime.compute.kernels.ranks import order_codes, ranked_rows
from runtime.compute.kernels.slots import slice_slots
from runtime.compute.windows.aligned import slice_assigner
from runtime.spec.ranks import FirstRows
from runtime.spec.windows import AlignedWindow


class FirstRowsOfSlices:
    """Chooses among the rows of one task, as they come and once more when they are emitted.

    A row that goes is counted in one of its slice that stays, for rows that turn out to be late
    are counted.

    Args:
        first: what ranks rows.
        window: what slices are of.
        keys: the names of the key columns.
        slice_end: the column with the slice, int64.
        row_count: the column with the number of rows, int64.
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
        self._assigner = slice_assigner(window)
        self._keys = keys
        self._slice_end = slice_end
        self._row_count = row_count
        # rows of a slice that went as they came, by its end
        self._gone: dict[int, int] = {}

    def among(self, rows: Rows | pa.RecordBatch) -> Rows | pa.RecordBatch:
        """The rows that no N others of their slice are ahead of; a message as it is."""
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
            self._gone[end] = self._gone.get(end, 0) + int(n_gone[index])
        chosen = pa.array(places)
        return Rows(
            rows.time_us[places],
            [key.take(chosen) for key in rows.keys],
            [[arg.take(chosen) for arg in args] for args in rows.args],
            [None if mask is None else mask[places] for mask in rows.conditions],
        )

    def of(self, table: pa.Table) -> pa.Table:
        """The partials of these rows, of one at least, that no N others of a slice are ahead of.

        A row that stands for several alike is counted as one here: what stays is no less than what
        can be among the first.
        """
        slot, slices = distinct_codes(one_chunk(table.column(self._slice_end)))
        columns = {name: one_chunk(table.column(name)) for name in self._keys}
        places = _first_places(self._first, slot, columns)
        ends = int64_values(slices).tolist()
        n_more = np.array([self._gone.pop(end, 0) for end in ends], np.int64)
        counts = int64_column(table, self._row_count)
        np.add.at(n_more, slot, counts)
        np.subtract.at(n_more, slot[places], counts[places])
        kept_counts = counts[places]
        kept_slots, carriers = np.unique(slot[places], return_index=True)
        kept_counts[carriers] += n_more[kept_slots]
        return with_values(table.take(pa.array(places)), self._row_count, kept_counts)


def _first_places(first: FirstRows, slot: Int64Array, columns: dict[str, pa.Array]) -> Int64Array:
    """The places of rows that can be wanted, ascending."""
    orders = [
        order_codes(columns[each.column], each.is_descending, each.nulls_first)
        for each in first.order
    ]
    groups = [pa.array(slot), *(columns[name] for name in first.by)]
    places, _ = ranked_rows(groups, orders, len(slot), first.function, (1, first.last))
    return np.sort(places)
