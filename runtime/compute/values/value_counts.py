"""Counts of the values of slices: (value, weight) pairs, merged by adding the weights.

Over changes, a deleted row counts -1. A value whose weight is 0 is dropped, so a list of counts has
the size of the rows that remain. A negative weight waits for the insertion.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import (
    BoolArray,
    Int64Array,
    all_valid,
    distinct_codes,
    from_buffer,
    int64_values,
    list_array,
    normalise_floats,
    one_chunk,
)
from runtime.compute.kernels.grouping import Groups, SortedGroups
from runtime.compute.values.percentile_summaries import SPREAD
from runtime.compute.values.percentiles import VALUE, WEIGHT
from runtime.compute.values.value_sets import list_lengths

# Values from which it is estimated how many are repeated
_SAMPLE = 1 << 14


def counts_of_rows(
    groups: Groups, args: Sequence[pa.Array], condition: BoolArray | None
) -> pa.ListArray:
    """Return the counts of the values of each group of rows.

    Args:
        groups: Groups of the rows.
        args: One value per row; NULLs are ignored. Over changes, the value or its fields, and the
            number that the row adds to the count of the value.
        condition: Rows to aggregate; None for all.
    """
    *fields, change = map(one_chunk, args if len(args) > 1 else (*args, args[0]))
    values = (
        fields[0]
        if len(fields) == 1
        else pa.StructArray.from_arrays(fields, [f"v{n}" for n in range(len(fields))])
    )
    group = groups.group_of_row()
    weight = int64_values(change) if len(args) > 1 else np.ones(len(group), np.int64)
    valid = all_valid([values], condition)
    if valid is not None:
        group, values, weight = group[valid], values.filter(pa.array(valid)), weight[valid]
    return _counts(group, len(groups), values, weight)


def merge_counts(groups: Groups, lists: pa.ListArray) -> pa.ListArray:
    """Merge the counts of each group; NULL counts as empty."""
    group = np.repeat(groups.group_of_row(), list_lengths(lists))
    items = one_chunk(pc.list_flatten(lists))
    return _counts(group, len(groups), items.field(VALUE), int64_values(items.field(WEIGHT)))


def _counts(group: Int64Array, n_groups: int, values: pa.Array, weight: Int64Array) -> pa.ListArray:
    """Return a list per group. Values that are hardly repeated are not compared."""
    if (weight < 0).any() or _are_repeated(group, values):
        values = normalise_floats(values)
        codes, distinct = distinct_codes(values)
        cells = SortedGroups(group * len(distinct) + codes, n_groups * len(distinct))
        order, starts = cells.runs()
        weight = np.add.reduceat(weight.take(order), starts)
        (some,) = np.nonzero(weight != 0)
        order, weight = order.take(starts.take(some)), weight.take(some)
    else:
        order = np.argsort(group, kind="stable")
        weight = weight.take(order)
    weights, spreads = (
        from_buffer(column, None, pa.int64(), len(column))
        for column in (weight, np.zeros(len(weight), np.int64))
    )
    items = [values.take(pa.array(order)), weights, spreads]
    lengths = np.bincount(group.take(order), minlength=n_groups)
    return list_array(lengths, pa.StructArray.from_arrays(items, [VALUE, WEIGHT, SPREAD]))


def _are_repeated(group: Int64Array, values: pa.Array) -> bool:
    """Return whether merging leaves a quarter of the values, by all values of some groups."""
    if len(values) > _SAMPLE:
        last = int(np.searchsorted(np.cumsum(np.bincount(group)), _SAMPLE))
        row = np.flatnonzero(group <= last)[:_SAMPLE]
        group, values = group.take(row), values.take(pa.array(row))
    codes, distinct = distinct_codes(values)
    cells = np.unique(group * len(distinct) + codes)
    return 4 * len(cells) <= len(values) > 0
