"""Counts of values: merged in any order, they are the values that remain."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from runtime.compute.kernels.grouping import group_cells
from runtime.compute.values.percentiles import RangePercentiles
from runtime.compute.values.value_counts import counts_of_rows, merge_counts
from runtime.compute.values.value_lists import value_lists
from runtime.compute.values.window_values import results_of_values
from runtime.errors import ComputationError
from runtime.spec.aggregates import ResultOfValues
from runtime.spec.table import Column

NAN = float("nan")


def counts(changes: list[tuple[int, float | None, int]]) -> pa.Array:
    """Return the counts of rows (group, value, change) of groups 0 to 2."""
    group, value, change = zip(*[(n, None, 1) for n in range(3)], *changes, strict=True)
    groups = group_cells(np.array(group), 3)
    args = [pa.array(value, pa.float64()), pa.array(change, pa.int64())]
    return counts_of_rows(groups, args, None)


def as_counters(lists: pa.Array) -> list[Counter[str]]:
    """Return the counts by the values' texts, in which NaN equals NaN."""
    items = [[(str(item["value"]), item["weight"]) for item in one] for one in lists.to_pylist()]
    assert [len(dict(one)) for one in items] == [len(one) for one in items]
    return [Counter(dict(one)) for one in items]


@pytest.mark.parametrize("seed", range(5))
def test_counts_of_changes_are_sums_without_zeros_in_any_order_of_merges(seed):
    source = random.Random(seed)
    values = [None, 0.0, 1.5, NAN, -2.0]
    changes = [
        (source.randrange(3), source.choice(values), source.choice([1, -1])) for _ in range(60)
    ]
    cuts = sorted(source.sample(range(60), 3))
    parts = [changes[a:b] for a, b in zip([0, *cuts], [*cuts, 60], strict=True)]
    expected = [Counter[str]() for _ in range(3)]
    for group, value, change in changes:
        if value is not None:
            expected[group][str(value)] += change
    groups = group_cells(np.tile(np.arange(3), len(parts)), 3)
    merged = merge_counts(groups, pa.concat_arrays(map(counts, parts)))
    assert as_counters(merged) == [
        Counter({value: n for value, n in counter.items() if n}) for counter in expected
    ]


def test_values_that_are_often_repeated_are_kept_once():
    few = counts([*[(0, 1.0, 1)] * 13, (0, 2.0, 1), (2, -0.0, 1), (2, 0.0, 1)])
    assert as_counters(few) == [Counter({"1.0": 13, "2.0": 1}), Counter(), Counter({"0.0": 2})]
    many = counts([(0, float(n), 1) for n in range(8)])
    assert [len(one) for one in many.to_pylist()] == [8, 0, 0]


def test_windows_have_the_values_that_remain_in_each_slice():
    # two lists of slice 0 (group 0), and one of slice 1: 1.0 is deleted before it is inserted
    lists = value_lists(
        pa.concat_arrays([counts([(0, 1.0, -1), (0, 3.0, 1)])[:1], counts([(0, 2.0, 2)])[:1]])
    )
    values = lists.slice_values(np.arange(2), np.array([0, 0]))
    percentiles = RangePercentiles(values, 1)
    window, number, weight = percentiles.values_in(np.array([0]), np.array([0]))
    assert percentiles.counts(np.array([0]), np.array([0])).tolist() == [3]
    assert percentiles.distinct.take(pa.array(number)).to_pylist() == [2.0, 3.0]
    assert window.tolist() == [0, 0] and weight.tolist() == [2, 1]


def test_a_sum_of_counted_values_is_exact_and_names_its_column_if_it_does_not_fit():
    most = 2**63 - 1
    items = [{"value": most, "weight": 2}, {"value": 1 - most, "weight": 1}]
    lists = pa.array([items], pa.list_(pa.struct({"value": pa.int64(), "weight": pa.int64()})))
    values = value_lists(lists).slice_values(np.arange(1), np.arange(1))
    percentiles, window = RangePercentiles(values, 1), np.arange(1)
    of_set = ResultOfValues(("s$values",), Column("s$result", "bigint"), "SUM", is_distinct=True)
    assert results_of_values(of_set, percentiles, window, window).to_pylist() == [1]
    with pytest.raises(ComputationError, match="SUM overflows BIGINT in column s"):
        results_of_values(replace(of_set, is_distinct=False), percentiles, window, window)
