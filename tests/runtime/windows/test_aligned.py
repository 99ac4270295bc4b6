"""Slice assigners, compared with the windows' definition in plain Python integers."""

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.errors import AnalysisError
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of

lengths = st.integers(1, 40)
offsets = st.integers(-200, 200)
tumbles = st.builds(Tumble, lengths, offsets)
hops = st.builds(Hop, lengths, lengths, offsets)
cumulates = st.builds(
    lambda step, steps, offset: Cumulate(step, step * steps, offset),
    st.integers(1, 12),
    st.integers(1, 6),
    offsets,
)
windows = st.one_of(tumbles, hops, cumulates)
times = st.lists(st.integers(-300, 300), min_size=1, max_size=30)


@given(windows, times)
def test_a_row_belongs_to_exactly_the_windows_of_the_definition(window, ts):
    rows, ends = window.assigner().window_ends(np.array(ts))
    result = list(zip(rows.tolist(), ends.tolist(), strict=True))
    assert result == [(i, end) for i, t in enumerate(ts) for _, end in windows_of(window, t)]


@given(windows, times)
def test_a_slice_knows_its_first_and_last_window_and_a_window_its_start(window, ts):
    assigner = window.assigner()
    slice_end = assigner.slice_end(np.array(ts))
    first, last = assigner.first_window_end(slice_end), assigner.last_window_end(slice_end)
    for i, t in enumerate(ts):
        expected = windows_of(window, t)
        if not expected:
            assert first[i] > last[i]
            continue
        assert (first[i], last[i]) == (expected[0][1], expected[-1][1])
        ends = np.array([end for _, end in expected])
        assert assigner.window_start(ends).tolist() == [start for start, _ in expected]


@given(windows, st.integers(-300, 300))
def test_slices_are_as_long_as_their_windows_allow(window, t):
    #     t'          t' + 1 = slice end of t'
    #  ---|-----------|---
    # windows differ across a slice end, unless neither side is in a window
    assigner = window.assigner()
    end = int(assigner.slice_end(np.array([t]))[0])
    assert end > t
    assert all(windows_of(window, u) == windows_of(window, t) for u in range(t, end))
    assert windows_of(window, end) != windows_of(window, t) or not windows_of(window, t)


@given(windows, st.integers(-300, 300))
def test_the_next_window_end_is_the_first_one_after_the_time(window, t):
    assigner = window.assigner()
    result = assigner.next_window_end(t)
    ends = {end for u in range(t - 100, t + 200) for _, end in windows_of(window, u)}
    assert result == min(end for end in ends if end > t)
    assert assigner.next_window_end(result) == result + assigner.window_end_stride_us


@given(windows, times)
def test_slices_are_shared_if_some_row_belongs_to_several_windows(window, ts):
    is_shared = window.assigner().is_shared
    assert is_shared == any(len(windows_of(window, t)) > 1 for t in range(window.size_us * 2 + 40))


@pytest.mark.parametrize(
    "window",
    [
        Tumble(10, 3),
        Hop(3, 9, -1),
        Hop(4, 10, 5),
        Hop(10, 4, -3),
        Cumulate(4, 12, 7),
    ],
    ids=str,
)
def test_sql_expressions_equal_the_array_functions(window):
    assigner = window.assigner()
    database = duckdb.connect()
    database.execute("CREATE MACRO pmod(a, n) AS ((a % n) + n) % n")
    database.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    database.execute('CREATE MACRO "if"(c, a, b) AS CASE WHEN c THEN a ELSE b END')

    def run(sql):
        # Spark's SQL, where DuckDB's differs.
        for spark, duck in [("sequence(", "generate_series("), ("array(", "list_value(")]:
            sql = sql.replace(spark, duck)
        sql = sql.replace("list_value() AS list_value<bigint>", "list_value() AS bigint[]")
        sql = sql.replace("array<bigint>", "bigint[]")
        digits = "".join(c if c != "L" else "" for c in sql)
        query = f"SELECT {digits} FROM (SELECT unnest(range(-50, 50)) AS t) ORDER BY t"
        return [row[0] for row in database.execute(query).fetchall()]

    ts = np.arange(-50, 50)
    assert run(assigner.slice_end_sql("t")) == assigner.slice_end(ts).tolist()
    ends = run(assigner.window_ends_sql("t"))
    assert ends == [[end for _, end in windows_of(window, t)] for t in ts.tolist()]


def test_a_paired_hop_is_cut_where_windows_start_and_where_they_end():
    # HOP(slide 4, size 10)   0         4         8     10      12
    #                         [------------------------)
    #                         |    2    |    6    |     |       |
    ends = Hop(4, 10).assigner().slice_end(np.arange(-2, 8))
    assert ends.tolist() == [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]


def test_rows_between_windows_are_in_no_window():
    # HOP(slide 30, size 10):  [0, 10)  gap  [30, 40)
    rows, ends = Hop(30, 10).assigner().window_ends(np.array([1, 21, 30]))
    assert (rows.tolist(), ends.tolist()) == ([0, 2], [10, 40])


@pytest.mark.parametrize(
    ("window", "fault"),
    [
        (Tumble(0), "the size of TUMBLE"),
        (Hop(0, 5), "the slide of HOP"),
        (Hop(5, -1), "the size of HOP"),
        (Cumulate(0, 5), "the step of CUMULATE"),
        (Cumulate(4, 10), "is not a multiple of its step"),
    ],
)
def test_lengths_that_make_no_windows_are_errors(window, fault):
    with pytest.raises(AnalysisError, match=fault):
        window.assigner()
