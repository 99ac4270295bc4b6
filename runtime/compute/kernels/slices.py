"""Slices of one bucket of keys: partials grouped by key and slice, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.compute.accumulators import accumulator
from runtime.compute.accumulators.base import AccumulatorState, ColumnarAccumulator
from runtime.compute.accumulators.segments import run_starts
from runtime.compute.kernels.conversions import Int64Array, distinct_codes, int64_values, one_chunk
from runtime.compute.kernels.keys import encode_keys
from runtime.compute.values.value_lists import SliceValues, ValueLists, value_lists
from runtime.spec.aggregates import WindowAggregation
from runtime.windows.assigner import SliceAssigner

# A merge sort is fastest up to this many sorted runs, such as one per sending task.
_FEW_RUNS = 64
# A table of all possible cells pays up to this many cells per row.
_CELLS_PER_ROW = 4
# Number of rows processed together, so that their arrays fit the CPU cache.
PART_ROWS = 1 << 17


@dataclass(frozen=True)
class Slices:
    """One row for each (key, slice) of some keys, ordered by key code, then slice end; n > 0 rows.

    Attributes:
        cell: int64[n], ascending: (key code - smallest key code) * n_slots + slot.
        key_code: int64[n], group key of each row.
        keys: Value of each code, for each key column.
        slot: int64[n], index of each row's slice end in `slot_end`.
        slot_end: int64[n_slots], the distinct slice ends, ascending.
        first_window: int64[n_slots], number of the oldest window with each slice.
        last_window: int64[n_slots], number of the newest window with each slice.
        window_origin: Offset to add to window numbers to get the assigner's numbers.
        accumulators: Accumulators of the states.
        states: State of n rows for each accumulator.
        values: Columns of lists by name.
    """

    cell: Int64Array
    key_code: Int64Array
    keys: list[pa.Array]
    slot: Int64Array
    slot_end: Int64Array
    first_window: Int64Array
    last_window: Int64Array
    window_origin: int
    accumulators: list[ColumnarAccumulator]
    states: list[AccumulatorState]
    values: dict[str, SliceValues]

    def __len__(self) -> int:
        return len(self.key_code)

    def newest_up_to(self, cell: Int64Array) -> Int64Array:
        """Return the last row whose cell is at most `cell`; no cell precedes the first row."""
        n_cells = int(max(self.cell[-1], cell[-1])) + 1
        if n_cells > _CELLS_PER_ROW * len(self):
            return np.searchsorted(self.cell, cell, side="right") - 1
        row_of_cell = np.zeros(n_cells, np.int64)
        row_of_cell[self.cell] = 1
        np.cumsum(row_of_cell, out=row_of_cell)
        row_of_cell -= 1
        rows: Int64Array = row_of_cell[cell]
        return rows


def group_slices(
    table: pa.Table,
    spec: WindowAggregation,
    assigner: SliceAssigner,
    window_ends: tuple[int, int] | None = None,
    part_rows: int = PART_ROWS,
) -> Iterator[Slices]:
    """Group the partials of one bucket by key and slice, some keys at a time.

    All rows are sorted once; then they are processed in parts of whole keys that fit the cache.

    Args:
        table: Partials in any order, several of a (key, slice) allowed. Partials of finer slices
            are assigned to the window's slice that contains them.
        spec: Names of keys, slice end and accumulators.
        assigner: Slice assigner of the window.
        window_ends: Windows to emit, see `merge_slices`.
        part_rows: Approximate number of rows per part.

    Yields:
        Slices that belong to an emitted window; each key is in one part only.
    """
    if table.num_rows == 0:
        return
    slot, slot_end = _slots(table.column(spec.slice_end), assigner)
    first, last = assigner.first_window_end(slot_end), assigner.last_window_end(slot_end)
    if window_ends is not None:
        after_us, until_us = window_ends
        first = np.maximum(first, assigner.next_window_end(after_us))
        last = np.minimum(last, assigner.previous_window_end(until_us))
    in_window = first <= last
    if not in_window.all():
        table = table.filter(pa.array(in_window[slot]))
        yield from group_slices(table, spec, assigner, window_ends, part_rows)
        return
    if spec.window.grows and not spec.window.emit_only_on_update:
        place, ends = _last_of_equal(first, last)
        slot, slot_end, first, last = place[slot], slot_end[ends], first[ends], last[ends]
    first, last = assigner.window_number(first), assigner.window_number(last)
    origin = int(first.min())
    first, last = first - origin, last - origin
    codes, keys = encode_keys([table.column(key) for key in spec.keys], table.num_rows)
    n_keys, n_slots = len(keys[0]) if keys else 1, len(slot_end)
    cell = codes * n_slots + slot
    order = ascending_order(cell, n_keys * n_slots)
    if order is not None:
        cell = cell[order]
    accumulators, states = [], []
    lists: dict[str, ValueLists] = {}
    for accumulator_spec in spec.accumulators:
        columns = [table.column(name) for name in accumulator_spec.columns]
        if accumulator_spec.merges_in_windows:
            if accumulator_spec.columns[0] not in lists:
                is_set = accumulator_spec.compares_items
                lists[accumulator_spec.columns[0]] = value_lists(
                    columns[0], are_distinguished=is_set
                )
            continue
        accumulators.append(
            accumulator(accumulator_spec, [plain_type(column.type) for column in columns])
        )
        states.append(accumulators[-1].from_arrow(columns))
    for start, end in _parts(cell, n_slots, _values_before(lists, order), part_rows):
        rows = slice(start, end) if order is None else order[start:end]
        part = cell[start:end] - cell[start] // n_slots * n_slots
        starts = run_starts(part[1:] != part[:-1])
        if len(starts) < len(part):
            part = part[starts]
        key_code = part // n_slots
        pairs = zip(accumulators, states, strict=True)
        slice_row = np.repeat(np.arange(len(starts)), np.diff(starts, append=end - start))
        yield Slices(
            cell=part,
            key_code=key_code + cell[start] // n_slots,
            keys=keys,
            slot=part - key_code * n_slots,
            slot_end=slot_end,
            first_window=first,
            last_window=last,
            window_origin=origin,
            accumulators=accumulators,
            states=[a.reduce_runs(a.take(state, rows), starts) for a, state in pairs],
            values={name: column.slice_values(rows, slice_row) for name, column in lists.items()},
        )


def _last_of_equal(first: Int64Array, last: Int64Array) -> tuple[Int64Array, Int64Array]:
    """Join the slices of CUMULATE that are in the same emitted windows.

    A deletion may be in a later slice than its insertion, whose step is closed. Values whose counts
    are added need both in one slice.

    Args:
        first: First emitted window of each slice, in the order of the slices.
        last: Last one.

    Returns:
        The number of each slice's joined slice, and the last slice of each joined one.
    """
    starts = run_starts(row_changes([first, last]))
    lengths = np.diff(starts, append=len(first))
    return np.repeat(np.arange(len(starts)), lengths), starts + lengths - 1


def _values_before(lists: dict[str, ValueLists], order: Int64Array | None) -> Int64Array | None:
    """Return int64[n_rows], the number of list values in earlier rows; None without lists."""
    if not lists:
        return None
    n_values: Int64Array = np.sum([column.n_values for column in lists.values()], axis=0)
    if order is not None:
        n_values = n_values[order]
    before: Int64Array = np.cumsum(n_values) - n_values
    return before


def _parts(
    cell: Int64Array, n_slots: int, values_before: Int64Array | None, part_rows: int
) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of parts of about `part_rows` rows, cut between keys.

    List values count as rows; `values_before` is their number before each row.
    """
    start = 0
    while start < len(cell):
        last = min(start + part_rows, len(cell)) - 1
        if values_before is not None:
            enough = int(values_before[start]) + part_rows
            last = min(last, int(np.searchsorted(values_before, enough, side="right")) - 1)
        last_key = cell[last] // n_slots
        end = int(np.searchsorted(cell, (last_key + 1) * n_slots))
        yield start, end
        start = end


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Return the value type of a dictionary type; any other type unchanged."""
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def row_changes(arrays: Sequence[Int64Array]) -> npt.NDArray[np.bool_]:
    """Return whether row n + 1 differs from row n in any of `arrays`."""
    changed: npt.NDArray[np.bool_] = arrays[0][1:] != arrays[0][:-1]
    for array in arrays[1:]:
        changed |= array[1:] != array[:-1]
    return changed


def _slots(slice_end: pa.ChunkedArray, assigner: SliceAssigner) -> tuple[Int64Array, Int64Array]:
    """Return the index of each row's slice among the distinct ones, and their ends, ascending."""
    codes, distinct = distinct_codes(one_chunk(slice_end))
    # The end of the window's own slice: assign the time just before the end of the finer one.
    ends = assigner.slice_end(int64_values(distinct) - 1)
    order = np.argsort(ends)
    begins = np.concatenate(([True], ends[order[1:]] != ends[order[:-1]]))
    slot_of_code = np.empty(len(order), np.int64)
    slot_of_code[order] = np.cumsum(begins) - 1
    return slot_of_code[codes], ends[order][begins]


def ascending_order(cell: Int64Array, n_cells: int) -> Int64Array | None:
    """Return the order that sorts cells 0 .. n_cells - 1; None if they are sorted."""
    n_rows = len(cell)
    n_runs = 1 + int(np.count_nonzero(cell[1:] < cell[:-1]))
    if n_runs == 1:
        return None
    if n_runs <= _FEW_RUNS:
        return np.argsort(cell, kind="stable")
    if n_cells <= _CELLS_PER_ROW * n_rows:
        n_rows_of_cell = np.bincount(cell, minlength=n_cells)
        if int(n_rows_of_cell.max()) == 1:
            row_of_cell = np.empty(n_cells, np.int64)
            row_of_cell[cell] = np.arange(n_rows)
            return row_of_cell[np.flatnonzero(n_rows_of_cell)]
    # Radix sort: numpy has one for 16-bit integers, so use one pass for every 16 bits.
    order: Int64Array | None = None
    for shift in range(0, n_cells.bit_length(), 16):
        digit = (cell >> shift).astype(np.uint16)
        if order is None:
            order = np.argsort(digit, kind="stable")
        else:
            order = order[np.argsort(digit[order], kind="stable")]
    return order
