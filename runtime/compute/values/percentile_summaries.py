"""Summaries of the values of slices for APPROX_PERCENTILE that merge again and again.

A stream's slice grows with every micro-batch, and so it must do with few values more than once. A
summary (Greenwald, Khanna: Space-efficient online computation of quantile summaries, 2001; merged
as in their Power-conserving computation of order-statistics, 2004) has, of each value that it
keeps, how many values it stands for and how uncertain its rank is: `weight`, the values from
behind the one kept before up to this one; `spread`, how many more than the weights up to here may
not be larger. Neighbours become one only while weight and spread together stay within
n / accuracy of n values. So ranks are as exact after any number of merges as after one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.columns import (
    BoolArray,
    Int64Array,
    all_valid,
    from_buffer,
    int64_values,
    list_array,
    one_chunk,
    ranks,
)
from runtime.compute.kernels.grouping import Groups
from runtime.compute.values.percentiles import VALUE, WEIGHT
from runtime.compute.values.value_sets import list_lengths

SPREAD = "spread"


def summary_type(value: pa.DataType) -> pa.ListType:
    """The type of summaries of such values."""
    return pa.list_(pa.struct([(VALUE, value), (WEIGHT, pa.int64()), (SPREAD, pa.int64())]))


def summaries_of_rows(
    groups: Groups, values: pa.Array, condition: BoolArray | None, accuracy: int
) -> pa.ListArray:
    """A summary of the values of each group of rows.

    Args:
        groups: the groups of the rows.
        values: a value a row; NULLs are left out.
        condition: which rows take part; None: all.
        accuracy: ranks are off by at most one part in so many of a group's values.
    """
    values = one_chunk(values)
    group = groups.of_row()
    valid = all_valid([values], condition)
    if valid is not None:
        group, values = group[valid], values.filter(pa.array(valid))
    order = np.lexsort((ranks(values)[0], group))
    weight, spread = np.ones(len(order), np.int64), np.zeros(len(order), np.int64)
    return _summaries(group[order], len(groups), values, order, weight, spread, accuracy)


def merge_summaries(groups: Groups, lists: pa.ListArray, accuracy: int) -> pa.ListArray:
    """One summary of those of each group.

    Args:
        groups: the groups of the summaries.
        lists: the summaries; one that is NULL is empty.
        accuracy: as they were made with.
    """
    n_values = list_lengths(lists)
    items = one_chunk(pc.list_flatten(lists))
    values = items.field(VALUE)
    weight, spread = int64_values(items.field(WEIGHT)), int64_values(items.field(SPREAD))
    group = np.repeat(groups.of_row(), n_values)
    order = np.lexsort((ranks(values)[0], group))
    spread = _spread_of_union(n_values, weight, spread, group, order)
    return _summaries(group[order], len(groups), values, order, weight[order], spread, accuracy)


def _spread_of_union(
    n_values: Int64Array,
    weight: Int64Array,
    spread: Int64Array,
    group: Int64Array,
    order: Int64Array,
) -> Int64Array:
    """The spread of each value among those of all summaries of its group, in `order`.

    A value lies between two neighbours of each other summary. Of the values which the second of
    them stands for, some may be no larger: all but itself, and those of its own spread.
    """
    if len(order) == 0:
        return spread
    doubt = weight + spread - 1
    end = np.cumsum(n_values)
    is_first = np.zeros(len(order), np.bool_)
    is_first[(end - n_values)[n_values > 0]] = True
    doubt_of_next = np.append(doubt[1:], 0)
    doubt_of_next[end[n_values > 0] - 1] = 0
    # Of all summaries of a group, the doubt about what comes next in them
    at_first = np.zeros(int(group.max()) + 1, np.int64)
    np.add.at(at_first, group[is_first], doubt[is_first])
    grouped = group[order]
    change = (doubt_of_next - doubt)[order]
    changed = np.cumsum(change)
    starts = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1]))
    before = np.repeat(changed[starts] - change[starts], np.diff(np.append(starts, len(order))))
    of_all = at_first[grouped] + changed - before
    found: Int64Array = spread[order] + of_all - doubt_of_next[order]
    return found


def _summaries(
    group: Int64Array,
    n_groups: int,
    values: pa.Array,
    order: Int64Array,
    weight: Int64Array,
    spread: Int64Array,
    accuracy: int,
) -> pa.ListArray:
    """Summaries of as few values as the accuracy allows, where there are more than twice as many.

    Args:
        group: ascending, the group of each value.
        n_groups: how many groups there are.
        values: the values.
        order: by group and value, the places of the values.
        weight: of each, in this order.
        spread: of each, in this order.
        accuracy: as above.
    """
    n_items = np.bincount(group, minlength=n_groups)
    kept = np.arange(len(order))
    if (n_items > 2 * accuracy).any():
        total = np.zeros(n_groups, np.int64)
        np.add.at(total, group, weight)
        allowed = np.where(n_items > 2 * accuracy, total // accuracy, 0)
        kept = _kept(group, n_items, weight, spread, allowed)
        up_to = np.cumsum(weight)[kept]
        group, spread = group[kept], spread[kept]
        # the first of a group stands for nothing of the group before, whose last is kept
        weight = np.diff(up_to, prepend=0)
        n_items = np.bincount(group, minlength=n_groups)
    columns = [values.take(pa.array(order[kept])), *map(_int64, (weight, spread))]
    type_ = summary_type(values.type)
    items = pa.StructArray.from_arrays(columns, fields=list(type_.value_type))
    return list_array(n_items, items, type_)


def _kept(
    group: Int64Array,
    n_items: Int64Array,
    weight: Int64Array,
    spread: Int64Array,
    allowed: Int64Array,
) -> Int64Array:
    """The places of the values that are kept, ascending: from the last of a group as far as it may.

    The first of a group is kept too, so that nothing is uncertain about values that come before it.
    Which value is kept before another is known for all of them at once; which of them are reached
    from the last of their group is found by following twice as many steps each time.
    """
    up_to = np.cumsum(weight)
    end = np.cumsum(n_items)
    first, last = (end - n_items)[n_items > 0], end[n_items > 0] - 1
    place = np.arange(len(group))
    run = np.searchsorted(up_to - weight, up_to + spread - allowed[group])
    leads_to = np.minimum(np.maximum(run, (end - n_items)[group] + 1), place) - 1
    leads_to[first] = first
    is_kept = np.zeros(len(group), np.bool_)
    is_kept[first] = is_kept[last] = True
    while True:
        reached = leads_to[is_kept]
        if is_kept[reached].all():
            break
        is_kept[reached] = True
        leads_to = leads_to[leads_to]
    kept: Int64Array = np.flatnonzero(is_kept)
    return kept


def _int64(values: Int64Array) -> pa.Array:
    return from_buffer(np.ascontiguousarray(values), None, pa.int64(), len(values))
