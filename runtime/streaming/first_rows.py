"""Of rows that are kept for a Top-N those that can be in it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from runtime.kernels.columns import distinct_codes, int64_values, one_chunk
from runtime.kernels.ranks import order_codes, ranked_rows
from runtime.stream_spec import FirstRows


def first_rows(table: pa.Table, first: FirstRows, slice_end: str, row_count: str) -> pa.Table:
    """The rows of each slice that no N others of it are ahead of.

    A row that stands for several alike is counted as one here: what stays is no less than what can
    be among the first.

    Args:
        table: partials, each a row of a slice and how often it came; at least one.
        first: what ranks them.
        slice_end: the column with the slice, int64.
        row_count: the column with the number of rows, int64; what goes is counted in a row of its
            slice that stays, for rows that turn out to be late are counted.
    """
    orders = [
        order_codes(table.column(each.column), each.is_descending, each.nulls_first)
        for each in first.order
    ]
    groups = [table.column(name) for name in (slice_end, *first.by)]
    rows, _ = ranked_rows(groups, orders, table.num_rows, first.function, (1, first.last))
    if len(rows) == table.num_rows:
        return table
    slots, slices = distinct_codes(one_chunk(table.column(slice_end)))
    counts = int64_values(one_chunk(table.column(row_count)))
    gone = np.zeros(len(slices), np.int64)
    np.add.at(gone, slots, counts)
    np.subtract.at(gone, slots[rows], counts[rows])
    kept_slots, places = np.unique(slots[rows], return_index=True)
    kept_counts = counts[rows]
    kept_counts[places] += gone[kept_slots]
    index = table.schema.get_field_index(row_count)
    kept = table.take(pa.array(rows))
    return kept.set_column(index, table.schema.field(index), pa.array(kept_counts))
