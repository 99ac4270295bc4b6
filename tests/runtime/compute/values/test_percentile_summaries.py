"""Summaries for APPROX_PERCENTILE stay within their error bound after any number of merges."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.compute.kernels.grouping import group_cells
from runtime.compute.values.percentile_summaries import merge_summaries, summaries_of_rows


def summaries(groups, values, accuracy, condition=None):
    result = group_cells(np.array(groups, np.int64), max(groups) + 1)
    return summaries_of_rows(result, pa.array(values, pa.float64()), condition, accuracy)


def plain(lists):
    return [[tuple(item.values()) for item in row] for row in lists.to_pylist()]


def assert_within_promise(summary, values, accuracy):
    """Check that ranks are underestimated by at most 1 / `accuracy`, and never overestimated."""
    values = np.sort(values)
    # Only where a group has too many values to keep all are they stored in this order
    by_value = sorted(summary, key=lambda item: item["value"])
    if len(summary) < len(values):
        assert by_value == summary
    sampled = [item["value"] for item in by_value]
    weights = np.cumsum([item["weight"] for item in by_value])
    assert weights[-1] == len(values)
    assert set(sampled) <= set(values.tolist())
    # just below and at every value; of equal kept values, the last counts them all
    for side in ("left", "right"):
        rank = np.searchsorted(values, values, side)
        place = np.searchsorted(sampled, values, side)
        rank_below = np.where(place > 0, weights[place - 1], 0)
        assert (rank_below <= rank).all()
        assert (rank - rank_below <= len(values) / accuracy).all()


@settings(max_examples=50)
@given(
    seed=st.integers(0, 2**32),
    accuracy=st.sampled_from([1, 2, 5, 20]),
    fewest=st.sampled_from([1, 30]),
)
def test_ranks_are_as_exact_after_any_tree_of_merges(seed, accuracy, fewest):
    rng = np.random.default_rng(seed)
    parts = []
    for _ in range(15):
        values = rng.normal(size=rng.integers(fewest, 80)).round(int(rng.integers(1, 4)))
        parts.append((summaries([0] * len(values), values, accuracy), values))
    while len(parts) > 1:
        chosen = rng.permutation(len(parts))[: rng.integers(2, 6)]
        both = pa.concat_arrays([parts[i][0] for i in chosen])
        merged = merge_summaries(group_cells(np.zeros(len(both), np.int64), 1), both, accuracy)
        values = np.concatenate([parts[i][1] for i in chosen])
        assert_within_promise(merged.to_pylist()[0], values, accuracy)
        parts = [part for i, part in enumerate(parts) if i not in chosen] + [(merged, values)]


@pytest.mark.variants(3)
@pytest.mark.parametrize("order", ["random", "ascending", "descending", "from both ends"])
def test_a_slice_that_grows_for_ever_keeps_few_values(order):
    accuracy, n = 50, 40_000
    values = np.random.default_rng(3).normal(size=n)
    if order != "random":
        values.sort()
    if order == "descending":
        values = values[::-1]
    if order == "from both ends":
        values = np.stack([values[: n // 2], values[: n // 2 - 1 : -1]], axis=1).ravel()
    one = group_cells(np.zeros(2, np.int64), 1)
    kept = summaries([0] * 100, values[:100], accuracy)
    for begin in range(100, n, 100):
        more = summaries([0] * 100, values[begin : begin + 100], accuracy)
        kept = merge_summaries(one, pa.concat_arrays([kept, more]), accuracy)
    assert_within_promise(kept.to_pylist()[0], values, accuracy)
    # Greenwald and Khanna's bound grows with the logarithm of n / accuracy
    assert len(kept[0]) < accuracy * np.log2(n / accuracy)


def test_groups_are_summarized_without_nulls_and_filtered_rows():
    result = summaries(
        [1, 0, 1, 2, 1, 0],
        [5.0, 2.0, None, None, -0.0, 1.0],
        10,
        np.array([True, True, True, True, True, False]),
    )
    # Values have an order only where a group has too many to keep all
    assert list(map(sorted, plain(result))) == [[(2.0, 1, 0)], [(0.0, 1, 0), (5.0, 1, 0)], []]


def test_small_summaries_merge_exactly():
    parts = summaries([0, 0, 1, 2, 2], [3.0, 1.0, 7.0, 2.0, float("nan")], 10)
    merged = merge_summaries(group_cells(np.array([1, 0, 1]), 2), parts, 10)
    assert [np.sort([v for v, _, _ in entry]).tolist() for entry in plain(merged)] == [
        [7.0],
        [1.0, 2.0, 3.0, pytest.approx(float("nan"), nan_ok=True)],
    ]
    assert all(w == 1 and s == 0 for entry in plain(merged) for _, w, s in entry)


def test_a_run_of_values_is_described_by_its_last_one():
    result = summaries([0] * 12, np.arange(12.0), 3)
    assert plain(result) == [[(0.0, 1, 0), (3.0, 3, 0), (7.0, 4, 0), (11.0, 4, 0)]]


def test_no_rows_make_an_empty_summary():
    nothing = summaries([0, 1], [None, None], 10)
    assert plain(nothing) == [[], []]
    assert plain(merge_summaries(group_cells(np.array([0, 0]), 1), nothing, 10)) == [[]]
