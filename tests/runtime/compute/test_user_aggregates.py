"""User-defined aggregates from slices equal those over the rows of each window."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.buffer import BufferRows, WindowBuffer
from runtime.compute.kernels.merge import merge_slices
from runtime.compute.user_aggregates import (
    UserDefinedAggregateFunction,
    accumulate_rows,
    finish_states,
    merge_states,
)
from runtime.errors import ExecutionError
from runtime.spec.aggregates import UserDefined, WindowAggregation
from runtime.spec.table import Column
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of
from tests.runtime.compute.user_functions import Longest, WeightedMean

EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001  # windows are on the wall clock
MEAN = UserDefined(("total", "weight"), Column("mean", "double"), WeightedMean())
LONGEST = UserDefined(("text",), Column("longest", "string"), Longest())
SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        pa.field("$end", pa.int64(), nullable=False),
        ("total", pa.float64()),
        ("weight", pa.int64()),
        ("text", pa.string()),
    ]
)
ROWS = st.lists(
    st.tuples(
        st.integers(-30, 60),
        st.sampled_from([1, 2, None]),
        st.one_of(st.none(), st.integers(-9, 9)),
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.text("ab", max_size=3)),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


@given(
    rows=ROWS,
    n_batches=st.integers(1, 4),
    window=st.sampled_from([Tumble(10), Hop(2, 10), Hop(3, 7), Hop(1, 30), Cumulate(5, 20)]),
)
def test_windows_from_slices_equal_those_from_rows(rows, n_batches, window):
    buffer = WindowBuffer(window, ("key",), "$end", (MEAN, LONGEST), SCHEMA, 1 << 20)
    tables = []
    for batch in np.array_split(np.arange(len(rows)), n_batches):
        if len(batch) == 0:
            continue
        time, key, value, weight, text, taken = zip(*(rows[i] for i in batch), strict=True)
        args = [
            [pa.array(value, pa.int32()), pa.array(weight, pa.int64())],
            [pa.array(text, pa.string())],
        ]
        conditions = [np.array(taken), None]
        keys = [pa.array(key, pa.int64())]
        tables += buffer.add(BufferRows(np.array(time), keys, args, conditions))
    tables += buffer.flush()
    spec = WindowAggregation(window, ("key",), "$end", (MEAN, LONGEST))
    result = {}
    for batch in merge_slices(pa.concat_tables(tables), spec):
        for row in batch.to_pylist():
            bounds = (row["window_start"], row["window_end"])
            result[row["key"], *map(_micros, bounds)] = (row["mean"], row["longest"])
    by_window = defaultdict(list)
    for row in rows:
        for start, end in windows_of(window, row[0]):
            by_window[row[1], start, end].append(row)
    expected = {group: _results_of_rows(inside) for group, inside in by_window.items()}
    assert result.keys() == expected.keys()
    for group, (mean, longest) in expected.items():
        assert result[group] == (pytest.approx(mean) if mean is not None else None, longest)


def _results_of_rows(rows):
    weighted = [(v, w) for _, _, v, w, _, taken in rows if taken and None not in (v, w)]
    weight = sum(w for _, w in weighted)
    mean = sum(v * w for v, w in weighted) / weight if weight else None
    texts = [row[4] for row in rows if row[4] is not None]
    return mean, max(texts, key=lambda text: (len(text), text), default=None)


def _micros(time):
    return (time - EPOCH) // dt.timedelta(microseconds=1)


class Wrong(UserDefinedAggregateFunction):
    state = {"n": "bigint"}
    returns = "bigint"

    def __init__(self, answer):
        self.answer = answer

    def accumulate(self, groups, n_groups, values):
        return self.answer

    def merge(self, groups, n_groups, states):
        raise ZeroDivisionError("no luck")

    def finish(self, states):
        return [1]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({}, "the result of Wrong.accumulate has no key `n`"),
        ({"n": [1]}, "Wrong.accumulate: `n` has 1 values for 2 groups"),
        ({"n": ["a", "b"]}, "Wrong.accumulate: `n` cannot be converted to BIGINT: "),
        (None, "Wrong.accumulate must return a dict"),
    ],
)
def test_an_invalid_result_of_an_aggregate_is_an_error(answer, message):
    with pytest.raises(ExecutionError) as error:
        accumulate_rows(Wrong(answer), np.array([0, 1]), 2, [pa.array([5, 6])])
    assert str(error.value).startswith(message)


def test_an_exception_of_an_aggregate_names_its_method():
    with pytest.raises(ExecutionError, match=r"Wrong\.merge failed: ZeroDivisionError: no luck"):
        merge_states(Wrong({}), np.array([0]), 1, [pa.array([5])])
    with pytest.raises(ExecutionError, match=r"Wrong\.finish: the result has 1 values"):
        finish_states(Wrong({}), [pa.array([5, 6])])
