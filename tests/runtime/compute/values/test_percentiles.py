"""APPROX_PERCENTILE from weighted values: every window's percentile is within the rank error bound."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.partials import merge_equal_slices
from runtime.compute.kernels.session import merge_sessions
from runtime.compute.values.percentiles import condense
from runtime.errors import ExecutionError
from runtime.spec.aggregates import ApproxPercentile, ResultOfValues, Summaries, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from runtime.windows.tumble import Tumble
from tests.reference import windows_of

WINDOWS = [Tumble(10), Hop(10, 60), Hop(10, 35), Cumulate(10, 50)]
PERCENTAGES = (0.0, 0.01, 0.25, 0.5, 0.9, 0.999, 1.0)


def percentiles_of(table, window, accuracy, type_="double"):
    """Return the percentiles of each (key, window end), with the slices' values condensed."""
    output = Column("p", f"array<{type_}>")
    call = ApproxPercentile(("v",), output, accuracy, PERCENTAGES)
    lists = condense(table["v"], accuracy)
    assert max(map(len, lists.to_pylist()), default=0) <= 2 * accuracy
    thin = table.set_column(table.schema.get_field_index("v"), "v", lists)
    result = {}
    for batch in merge_slices(thin, WindowAggregation(window, ("key",), "slice", (call,)), 7):
        keys, ends = batch["key"].to_pylist(), batch["window_end"].cast(pa.int64()).to_pylist()
        result |= dict(zip(zip(keys, ends, strict=True), batch["p"].to_pylist(), strict=True))
    return result


def partials(rng, n_partials, longest, make):
    """Return (key, slice end, values) of random partials, several for a slice."""
    rows = [
        (int(rng.integers(3)), int(rng.integers(-8, 8)) * 10, make(int(rng.integers(longest))))
        for _ in range(n_partials)
    ]
    key, ends, values = zip(*rows, strict=True)
    return rows, pa.table(
        {
            "key": pa.array(key, pa.int32()),
            "slice": pa.array(ends, pa.int64()),
            "v": pa.array(values, pa.list_(pa.float64())),
        }
    )


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(seed=st.integers(0, 2**32), accuracy=st.sampled_from([1, 3, 10, 100]))
def test_percentiles_are_within_the_promised_rank_in_every_window(window, seed, accuracy):
    rng = np.random.default_rng(seed)
    rows, table = partials(rng, 40, 60, lambda n: rng.integers(0, 50, n).astype(float).tolist())
    rows = [(k, end - 5, v) for k, end, v in rows]
    if window == Hop(10, 35):
        # its slices have two widths; these times are in the wider one
        table = table.set_column(1, "slice", pa.array([t + 5 for _, t, _ in rows], pa.int64()))
    expected = {}
    for key, time, values in rows:
        for _, end in windows_of(window, time):
            expected.setdefault((key, end), []).extend(values)
    result = percentiles_of(table, window, accuracy)
    assert result.keys() == expected.keys()
    for group, values in expected.items():
        if not values:
            assert result[group] is None
            continue
        values.sort()
        n = len(values)
        for percentage, value in zip(PERCENTAGES, result[group], strict=True):
            rank = max(math.ceil(percentage * n), 1)
            lowest, highest = (
                np.searchsorted(values, value),
                np.searchsorted(values, value, "right"),
            )
            assert lowest < highest, "it is one of the values"
            off = max(lowest + 1 - rank, rank - highest, 0)
            assert off <= n / accuracy
            if n < accuracy:
                assert off == 0


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(seed=st.integers(0, 2**32), percentage=st.sampled_from([0.0, 0.1, 0.5, 0.999, 1.0]))
def test_exact_percentiles_are_interpolated_between_all_values(window, seed, percentage):
    rng = np.random.default_rng(seed)
    rows, table = partials(rng, 40, 60, lambda n: rng.integers(0, 50, n).astype(float).tolist())
    values = {}
    for key, end, list_ in rows:
        for _, window_end in windows_of(window, end - 5):
            values.setdefault((key, window_end), []).extend(list_)
    call = ResultOfValues(("v",), Column("p", "double"), "PERCENTILE", (percentage,))
    lists = condense(table["v"], call.condenses_to)
    whole = table.set_column(table.schema.get_field_index("v"), "v", lists)
    result = {}
    for batch in merge_slices(whole, WindowAggregation(window, ("key",), "slice", (call,)), 7):
        keys, ends = batch["key"].to_pylist(), batch["window_end"].cast(pa.int64()).to_pylist()
        result |= dict(zip(zip(keys, ends, strict=True), batch["p"].to_pylist(), strict=True))
    assert result.keys() == values.keys()
    for place, percentile in result.items():
        if not values[place]:
            assert percentile is None
        else:
            assert percentile == pytest.approx(np.percentile(values[place], percentage * 100))


def test_values_are_thinned_out_to_the_last_of_each_run():
    lists = pa.array([[5, 1, 3, 2, 4, 7, 6], [9, 8], [], None], pa.list_(pa.int64()))
    thin = condense(lists, 3)
    assert [[(i["value"], i["weight"]) for i in row] for row in thin.to_pylist()] == [
        [(2, 2), (4, 2), (6, 2), (7, 1)],
        [(8, 1), (9, 1)],
        [],
        [],
    ]


def test_nan_is_the_largest_value_and_weights_are_counted():
    values = [float("nan"), 1.0, -0.0, 0.0, 2.0]
    table = pa.table(
        {
            "key": pa.array([0], pa.int32()),
            "slice": pa.array([10], pa.int64()),
            "v": pa.array([values], pa.list_(pa.float64())),
        }
    )
    (result,) = percentiles_of(table, Tumble(10), 10_000).values()
    assert result[:5] == [0.0, 0.0, 0.0, 1.0, pytest.approx(math.nan, nan_ok=True)]


MEDIAN = ResultOfValues(("v",), Column("m", "double"), "MEDIAN", max_values=3)


def lists_of(*rows):
    """Return partials (key, slice end, values) with the columns of slices and of sessions."""
    key, ends, values = zip(*rows, strict=True)
    lists = condense(pa.array(values, pa.list_(pa.float64())), MEDIAN.condenses_to)
    times = pa.array(ends, pa.int64())
    return pa.table(
        {"k": pa.array(key), "slice": times, "v": lists, FIRST_TIME: times, LAST_TIME: times}
    )


@pytest.mark.parametrize("merge", [merge_slices, merge_sessions])
def test_a_window_with_more_values_than_allowed_names_its_key(merge):
    window = Hop(10, 20) if merge is merge_slices else SessionWindow(15, ("k",))
    of = WindowAggregation(window, ("k",), "slice", (MEDIAN,))
    few = lists_of(("a", 10, [1, 2]), ("a", 20, [3]), ("b", 10, [1, 2]))
    assert len(pa.Table.from_batches(merge(few, of))) > 1
    many = lists_of(("a", 10, [1, 2]), ("b", 10, [1, 2]), ("b", 20, [3, 3]))
    with pytest.raises(ExecutionError, match="4 values of a window for k = b: the maximum is 3"):
        list(merge(many, of))


def test_a_slice_of_a_stream_with_more_values_than_allowed_names_its_key():
    lists = [
        [{"value": value, "weight": 1, "spread": 0} for value in values]
        for values in ([1.0, 2.0], [2.0, 3.0], [3.0, 4.0])
    ]
    table = pa.table({"k": ["a", "b", "b"], "slice": [10, 10, 10], "v": lists})
    assert merge_equal_slices(table.slice(1), 1, "slice", (Summaries(("v",), 10),)).num_rows == 1
    with pytest.raises(ExecutionError, match="4 values of a window for k = b: the maximum is 3"):
        merge_equal_slices(table, 1, "slice", (MEDIAN.collector,))
