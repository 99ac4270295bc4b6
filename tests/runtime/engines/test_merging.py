"""Windows merged bucket by bucket on all cores, compared with all partials merged at once."""

import threading

import numpy as np
import pyarrow as pa
import pytest

from runtime.engines.local.merging import windows_of_partials
from runtime.errors import ExecutionError
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import FIRST_TIME, LAST_TIME
from runtime.windows.tumble import Tumble

WINDOWS = [Tumble(10), Hop(5, 20, -1), Cumulate(3, 12), SessionWindow(4, ("k", "c"))]
COUNT = Merge(("n",), MergeOp.COUNT)
SUM = Merge(("v",), MergeOp.SUM)


def aggregation(window, *accumulators):
    return WindowAggregation(window, ("k", "c"), "s", accumulators)


def partials(window, n_rows, n_keys, rng):
    """Return partials of two key columns; strings are dictionary-encoded, differently by chunk."""
    key = rng.integers(0, n_keys, n_rows)
    time_us = rng.integers(-500, 500, n_rows)
    names = np.array([None, "a", "b", "c"])[key % 4]
    halves = [pa.array(half).dictionary_encode() for half in np.array_split(names, 2)]
    columns = {
        "k": pa.array(np.where(key == 7, None, key), pa.int64(), from_pandas=True),
        "c": pa.chunked_array(halves),
    }
    if isinstance(window, SessionWindow):
        columns |= {FIRST_TIME: pa.array(time_us), LAST_TIME: pa.array(time_us + key % 3)}
    else:
        width = {Tumble: 10, Hop: 5, Cumulate: 3}[type(window)]
        offset = getattr(window, "offset_us", 0)
        columns["s"] = pa.array(((time_us - offset) // width + 1) * width + offset)
    columns |= {"n": pa.array(rng.integers(1, 9, n_rows)), "v": pa.array(rng.random(n_rows))}
    return pa.table(columns)


def merge_all(table, spec, bucket_rows):
    batches = list(windows_of_partials(table, spec, bucket_rows))
    merged = pa.Table.from_batches(batches)
    return merged.sort_by([(name, "ascending") for name in merged.column_names[:4]]), len(batches)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_buckets_of_keys_have_the_windows_of_all_partials(window):
    table = partials(window, 5_000, 300, np.random.default_rng(1))
    spec = aggregation(window, COUNT, SUM)
    whole, n_batches = merge_all(table, spec, len(table))
    assert n_batches == 1, "one bucket"
    buckets, n_batches = merge_all(table, spec, 500)
    assert n_batches == 10, "one batch from each bucket"
    assert whole.drop_columns("v") == buckets.drop_columns("v")
    np.testing.assert_allclose(whole["v"], buckets["v"])


def skewed():
    """Return partials and their aggregation; one key has over a million windows."""
    n_rows = 2_000
    key = pa.array(np.where(np.arange(n_rows) < 1_900, 0, np.arange(n_rows)))
    ends = pa.array(np.arange(n_rows) * 1_000)
    table = pa.table({"k": key, "c": key, "s": ends, "n": pa.array(np.ones(n_rows, np.int64))})
    return table, aggregation(Hop(1, 600), COUNT)


def test_a_bucket_may_have_more_windows_than_are_computed_ahead():
    table, spec = skewed()
    n_rows = sum(batch.num_rows for batch in windows_of_partials(table, spec, 500))
    assert n_rows == 2_000 * 600


def test_a_consumer_that_stops_early_leaves_no_thread():
    table, spec = skewed()
    threads = threading.active_count()
    windows = windows_of_partials(table, spec, 500)
    next(windows)
    windows.close()
    assert threading.active_count() == threads


def test_a_failure_in_a_bucket_is_raised():
    table, _ = skewed()
    huge = pa.array(np.full(len(table), 2**62))
    table = table.append_column("v", huge)
    with pytest.raises(ExecutionError, match="overflow"):
        list(windows_of_partials(table, aggregation(Tumble(1_000_000), SUM), 500))
