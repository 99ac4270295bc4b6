"""Roll up partials of fine slices to wider slices, for windows that share slices.

A wider slice consists of whole fine slices. So its end follows from the end of any of them, and its
partial is their merged partials.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from runtime.compute.kernels.conversions import (
    as_type,
    combine_chunks,
    from_buffer,
    int64_values,
    list_array,
    one_chunk,
)
from runtime.compute.kernels.grouping import MAX_CELLS, Groups, SortedGroups, group_cells
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.kernels.partials import merge_partials
from runtime.compute.kernels.slots import slice_slots
from runtime.compute.values.texts import merge_rows
from runtime.compute.values.value_lists import value_lists
from runtime.plan.exchange import SliceLevel
from runtime.spec.aggregates import Accumulator
from runtime.windows import AlignedWindow
from runtime.windows.tumble import Tumble


def roll_up_levels(
    table: pa.Table,
    keys: Sequence[str],
    slice_end: str,
    accumulators: Sequence[Accumulator],
    levels: Sequence[SliceLevel],
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the partials on every level that is read, each rolled up from its source.

    Args:
        table: Partials on the first level: keys, slice ends, the accumulators' columns. Several
            rows of a key and slice are allowed.
        keys: Names of the group key columns.
        slice_end: Name of the slice end column, int64 microseconds.
        accumulators: Accumulators of the partial columns.
        levels: Levels, each after its source.

    Yields:
        (index of the level, table with keys, slice ends and the columns that are read on it).

    Raises:
        ExecutionError: A sum overflows its type.
    """
    always = [*keys, slice_end]
    tables: list[pa.Table] = []
    for number, (level, needed) in enumerate(zip(levels, _columns_by_level(levels), strict=True)):
        if level.source is None:
            tables.append(table)
        else:
            names = [n for n in table.column_names if n in needed or n in always]
            finer = tables[level.source].select(names)
            tables.append(roll_up(finer, keys, slice_end, accumulators, level))
        if level.is_read:
            yield number, tables[-1].select([*always, *level.columns])


def _columns_by_level(levels: Sequence[SliceLevel]) -> list[set[str]]:
    """Return the partial columns read on each level or on a level rolled up from it."""
    needed = [set(level.columns) for level in levels]
    for number in range(len(levels) - 1, -1, -1):
        source = levels[number].source
        if source is not None:
            needed[source] |= needed[number]
    return needed


def roll_up(
    table: pa.Table,
    keys: Sequence[str],
    slice_end: str,
    accumulators: Sequence[Accumulator],
    level: SliceLevel,
) -> pa.Table:
    """Return one row for each key and slice of `level`; arguments as for `roll_up_levels`."""
    window = Tumble(level.width_us, level.offset_us)
    return merge_to(table, keys, slice_end, accumulators, window)


def merge_to(
    table: pa.Table,
    keys: Sequence[str],
    slice_end: str,
    accumulators: Sequence[Accumulator],
    window: AlignedWindow,
) -> pa.Table:
    """Return one row per key and slice of a window whose slices are whole slices of the table.

    Accumulators whose columns are not in the table are ignored. A column that two accumulators read
    is merged once. Other arguments are as for `roll_up_levels`.

    Raises:
        ExecutionError: A sum overflows its type.
    """
    n_rows = table.num_rows
    if n_rows == 0:
        return table
    # A slice end is exclusive; the time just before it belongs to the slice.
    time_us = int64_values(one_chunk(table.column(slice_end))) - 1
    slot, slot_end = slice_slots(time_us, window, window.assigner())
    key_columns = [combine_chunks(table.column(key)) for key in keys]
    digits = key_digits(key_columns, n_rows, MAX_CELLS // len(slot_end))
    groups = group_cells(digits.codes * len(slot_end) + slot, digits.n_codes * len(slot_end))
    codes = groups.cells // len(slot_end)
    ends = slot_end[groups.cells - codes * len(slot_end)]
    merged = dict(zip(keys, digits.decode(codes), strict=True))
    merged[slice_end] = from_buffer(ends, None, pa.int64(), len(ends))
    for accumulator in accumulators:
        first = accumulator.columns[0]
        if first in merged or first not in table.column_names:
            continue
        columns = [one_chunk(table.column(name)) for name in accumulator.columns]
        if not accumulator.compares_items:
            parts = [merge_rows(groups, columns[0])]
        elif accumulator.merges_in_windows:
            parts = [_merge_lists(groups, columns[0])]
        else:
            parts = merge_partials(accumulator, groups, columns)
        merged |= zip(accumulator.columns, parts, strict=True)
    arrays = [as_type(merged[field.name], field.type) for field in table.schema]
    return pa.Table.from_arrays(arrays, schema=table.schema)


def _merge_lists(groups: Groups, column: pa.Array) -> pa.Array:
    """Merge the lists of each group, every value once."""
    lists = value_lists(column)
    if len(lists.values) == 0:
        return list_array(np.zeros(len(groups), np.int64), lists.values)
    group = np.repeat(groups.group_of_row(), lists.n_values)
    # Runs are grouped, because the value's code is the lower digit.
    order, starts = SortedGroups(
        group * lists.n_codes + lists.code, len(groups) * lists.n_codes
    ).runs()
    first = order[starts]
    n_values = np.bincount(group[first], minlength=len(groups))
    return list_array(n_values, lists.values.take(pa.array(first)))
