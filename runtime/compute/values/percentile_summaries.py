"""Mergeable summaries of the values of slices, for APPROX_PERCENTILE.

A stream's slice grows with every micro-batch, so its values have to be reduced repeatedly. A
summary (Greenwald, Khanna: Space-efficient online computation of quantile summaries, 2001; merged
as in their Power-conserving computation of order-statistics, 2004) records two numbers for each
value that it keeps. `weight` is the number of values after the previously kept one, up to this one.
`spread` is how many more values than the weights up to here may not be larger. Neighbours are
merged only while weight and spread together stay within n / accuracy of n values. So ranks are as
exact after any number of merges as after one.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runtime.compute.kernels.conversions import (
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


def summaries_of_rows(
    groups: Groups, values: pa.Array, condition: BoolArray | None, accuracy: int
) -> pa.ListArray:
    """Return a summary of the values of each group of rows.

    Args:
        groups: Groups of the rows.
        values: One value per row; NULLs are ignored.
        condition: Rows to aggregate; None for all.
        accuracy: Ranks are off by at most 1 / accuracy of a group's values.
    """
    values = one_chunk(values)
    group = groups.group_of_row()
    valid = all_valid([values], condition)
    if valid is not None:
        group, values = group[valid], values.filter(pa.array(valid))
    order = _order(group, values, accuracy)
    weight, spread = np.ones(len(order), np.int64), np.zeros(len(order), np.int64)
    return _summaries(group[order], len(groups), values, order, weight, spread, accuracy)


def merge_summaries(groups: Groups, lists: pa.ListArray, accuracy: int) -> pa.ListArray:
    """Merge the summaries of each group to one.

    Args:
        groups: Groups of the summaries.
        lists: Summaries; NULL counts as empty.
        accuracy: Accuracy with which they were made.
    """
    n_values = list_lengths(lists)
    items = one_chunk(pc.list_flatten(lists))
    values = items.field(VALUE)
    weight, spread = int64_values(items.field(WEIGHT)), int64_values(items.field(SPREAD))
    group = np.repeat(groups.group_of_row(), n_values)
    if (weight == 1).all():
        order = _order(group, values, accuracy)
        spread = spread[order]
    else:
        order = np.lexsort((ranks(values)[0], group))
        spread = _spread_of_union(n_values, weight, spread, group, order)
    return _summaries(group[order], len(groups), values, order, weight[order], spread, accuracy)


def _order(group: Int64Array, values: pa.Array, accuracy: int) -> Int64Array:
    """Return the order by group. If a group must be reduced, its values are sorted, too.

    Values that all stay need no order: each counts once.
    """
    if (np.bincount(group) > 2 * accuracy).any():
        return np.lexsort((ranks(values)[0], group))
    return np.argsort(group, kind="stable")


def _spread_of_union(
    n_values: Int64Array,
    weight: Int64Array,
    spread: Int64Array,
    group: Int64Array,
    order: Int64Array,
) -> Int64Array:
    """Return the spread of each value in the union of its group's summaries, in `order`.

    In every other summary, a value lies between two neighbours. Of the values that the second one
    represents, all except itself and its spread may not be larger.
    """
    if len(order) == 0:
        return spread
    doubt = weight + spread - 1
    end = np.cumsum(n_values)
    is_first = np.zeros(len(order), np.bool_)
    is_first[(end - n_values)[n_values > 0]] = True
    doubt_of_next = np.append(doubt[1:], 0)
    doubt_of_next[end[n_values > 0] - 1] = 0
    # Sum over all summaries of a group of the uncertainty at their next value
    at_first = np.zeros(int(group.max()) + 1, np.int64)
    np.add.at(at_first, group[is_first], doubt[is_first])
    grouped = group[order]
    change = (doubt_of_next - doubt)[order]
    changed = np.cumsum(change)
    starts = np.flatnonzero(np.append(True, grouped[1:] != grouped[:-1]))
    before = np.repeat(changed[starts] - change[starts], np.diff(np.append(starts, len(order))))
    of_all = at_first[grouped] + changed - before
    union_spread: Int64Array = spread[order] + of_all - doubt_of_next[order]
    return union_spread


def _summaries(
    group: Int64Array,
    n_groups: int,
    values: pa.Array,
    order: Int64Array,
    weight: Int64Array,
    spread: Int64Array,
    accuracy: int,
) -> pa.ListArray:
    """Reduce summaries of more than twice `accuracy` values as far as the accuracy allows.

    Args:
        group: Group of each value, ascending.
        n_groups: Number of groups.
        values: Values.
        order: Indices of the values by group, and by value where a group is reduced.
        weight: Weight of each value, in this order.
        spread: Spread of each value, in this order.
        accuracy: As for `summaries_of_rows`.
    """
    n_items = np.bincount(group, minlength=n_groups)
    indices = np.arange(len(order))
    if (n_items > 2 * accuracy).any():
        total = np.zeros(n_groups, np.int64)
        np.add.at(total, group, weight)
        allowed = np.where(n_items > 2 * accuracy, total // accuracy, 0)
        indices = _indices_to_keep(group, n_items, weight, spread, allowed)
        up_to = np.cumsum(weight)[indices]
        group, spread = group[indices], spread[indices]
        # the first value does not include weight of the previous group, whose last value is kept
        weight = np.diff(up_to, prepend=0)
        n_items = np.bincount(group, minlength=n_groups)
    columns = [values.take(pa.array(order[indices])), *map(_int64, (weight, spread))]
    return list_array(n_items, pa.StructArray.from_arrays(columns, [VALUE, WEIGHT, SPREAD]))


def _indices_to_keep(
    group: Int64Array,
    n_items: Int64Array,
    weight: Int64Array,
    spread: Int64Array,
    allowed: Int64Array,
) -> Int64Array:
    """Return the indices of the values to keep, ascending, going back from the last of each group.

    The first of a group is kept too, so that ranks below it are certain. The predecessor that each
    value would keep is computed for all at once; then the values reachable from the last of their
    group are found by doubling the number of steps.
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
    indices: Int64Array = np.flatnonzero(is_kept)
    return indices


def _int64(values: Int64Array) -> pa.Array:
    return from_buffer(np.ascontiguousarray(values), None, pa.int64(), len(values))
