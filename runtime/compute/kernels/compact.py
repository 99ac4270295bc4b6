"""Merge partials of equal key and slice, in an order that compresses well, to keep state small."""

from __future__ import annotations

import pyarrow as pa

from runtime.compute.kernels.columns import from_buffer, int64_values, of_type, one_chunk, ranks
from runtime.compute.kernels.grouping import MAX_CELLS, group_cells
from runtime.compute.kernels.key_digits import key_digits
from runtime.compute.kernels.partials import merge_partials
from runtime.spec.aggregates import Accumulator


def merge_equal_slices(
    table: pa.Table, n_keys: int, slice_end: str, accumulators: tuple[Accumulator, ...]
) -> pa.Table:
    """Return one row for each key and slice end; rows of a key are adjacent, in order of time.

    Args:
        table: Partials: `n_keys` key columns, the slice end (int64 microseconds), the columns of
            the accumulators.
        n_keys: Number of key columns.
        slice_end: Name of the slice end column.
        accumulators: Accumulators with their partial columns; `first` and `last` keep both.

    Raises:
        ExecutionError: A sum overflows its type.
    """
    if table.num_rows < 2:
        return table
    slot, distinct = ranks(one_chunk(table.column(slice_end)))
    n_slots = len(distinct)
    columns = [one_chunk(column) for column in table.columns[:n_keys]]
    keys = key_digits(columns, table.num_rows, MAX_CELLS // n_slots)
    groups = group_cells(keys.codes * n_slots + slot, keys.n_codes * n_slots)
    if len(groups) == table.num_rows:
        order, _ = groups.runs()
        return table.take(pa.array(order))
    key_codes = groups.cells // n_slots
    ends = int64_values(distinct)[groups.cells - key_codes * n_slots]
    merged = [*keys.decode(key_codes), from_buffer(ends, None, pa.int64(), len(ends))]
    for accumulator in accumulators:
        partials = [one_chunk(table.column(name)) for name in accumulator.columns]
        merged += merge_partials(accumulator, groups, partials)
    plain = [
        of_type(column, field.type) for column, field in zip(merged, table.schema, strict=True)
    ]
    return pa.Table.from_arrays(plain, schema=table.schema)
