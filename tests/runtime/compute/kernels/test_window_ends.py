"""Restricting windows to a range of ends selects the windows of an unrestricted run."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices
from runtime.spec.aggregates import Distinct, Merge, MergeOp, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble

WINDOWS = [
    Tumble(10),
    Tumble(7, -3),
    Hop(5, 20, -1),
    Hop(3, 10),
    Hop(10, 4, 3),
    Hop(1, 60),
    Cumulate(3, 12, 5),
    Cumulate(3, 12, 5, emit_only_on_update=True),
]
ACCUMULATORS = (
    Merge(("total",), MergeOp.SUM),
    Merge(("largest",), MergeOp.MAX),
    Distinct(("values",), Column("n_values", "bigint"), MergeOp.COUNT),
)
rows = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-60, 60), st.integers(0, 3)))


def windows(table, spec, window_ends=None):
    batches = merge_slices(table, spec, 5, window_ends)
    return sorted((tuple(row.values()) for b in batches for row in b.to_pylist()), key=str)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(rows=rows, after=st.integers(-80, 80), width=st.integers(0, 80))
def test_a_range_selects_windows_by_their_ends(window, rows, after, width):
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    table = pa.table(
        {
            "key": pa.array(keys, pa.string()),
            "slice": pa.array(window.assigner().slice_end(np.array(times, np.int64))),
            "total": pa.array(values, pa.int64()),
            "largest": pa.array([float(v) for v in values], pa.float64()),
            "values": pa.array([[v] for v in values], pa.list_(pa.int64())),
        }
    )
    spec = WindowAggregation(window, ("key",), "slice", ACCUMULATORS)
    ends = (
        pa.scalar(after, pa.timestamp("us")).as_py(),
        pa.scalar(after + width, pa.timestamp("us")),
    )
    expected = [w for w in windows(table, spec) if ends[0] < w[2] <= ends[1].as_py()]
    assert windows(table, spec, (after, after + width)) == expected
