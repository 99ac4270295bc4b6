"""Calendar slice assigners, compared with plain Python dates, one row and window at a time."""

import re
from datetime import date

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.compute.kernels.merge import merge_slices
from runtime.compute.kernels.slots import slice_slots
from runtime.errors import AnalysisError
from runtime.spec.aggregates import Merge, MergeOp, WindowAggregation
from runtime.windows.cumulate import CalendarCumulate
from runtime.windows.hop import CalendarHop
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble
from tests.reference import windows_of

HOUR_US = DAY_US // 24

offset_months = st.integers(-30, 30)
offset_us = st.sampled_from([0, 0, 6 * HOUR_US, -36 * HOUR_US, 14 * DAY_US])
months = st.integers(1, 14)
windows = st.one_of(
    st.builds(CalendarTumble, months, offset_months, offset_us),
    st.builds(CalendarHop, st.integers(1, 5), months, offset_months, offset_us),
    st.builds(
        lambda step, steps, *offsets: CalendarCumulate(step * steps, step, 0, *offsets),
        st.integers(1, 4), st.integers(1, 4), offset_months, offset_us,
    ),
    st.builds(
        lambda size, step, *offsets: CalendarCumulate(size, 0, step, *offsets),
        st.integers(1, 3), st.sampled_from([DAY_US, 7 * DAY_US, 10 * DAY_US, 100 * HOUR_US]),
        offset_months, offset_us,
    ),
)  # fmt: skip
# Around 1970, and around the first and last years of Python's dates
FIRST_US = (date.min - date(1970, 1, 1)).days * DAY_US
LAST_US = (date.max - date(1970, 1, 1)).days * DAY_US
times = st.builds(
    int.__add__,
    st.sampled_from([0, 0, FIRST_US, LAST_US]),
    st.integers(-3 * 365 * DAY_US, 3 * 365 * DAY_US),
)


@given(windows, st.lists(times, min_size=1, max_size=10))
def test_a_row_belongs_to_exactly_the_windows_of_the_definition(window, ts):
    assigner = window.assigner()
    rows, ends = assigner.window_ends(np.array(ts))
    starts = assigner.window_start(ends)
    result = list(zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True))
    assert result == [(i, *bounds) for i, t in enumerate(ts) for bounds in windows_of(window, t)]


@given(windows, times)
def test_a_slice_ends_where_the_windows_of_a_row_change(window, t):
    assigner = window.assigner()
    (end,) = assigner.slice_end(np.array([t])).tolist()
    assert end > t
    assert windows_of(window, end - 1) == windows_of(window, t)
    assert windows_of(window, end) != windows_of(window, t) or not windows_of(window, t)
    first, last = (
        int(of(np.array([end]))[0]) for of in (assigner.first_window_end, assigner.last_window_end)
    )
    expected = windows_of(window, t)
    if expected:
        assert (first, last) == (expected[0][1], expected[-1][1])
    else:
        assert first > last


@given(windows, times)
def test_windows_are_numbered_in_the_order_of_their_ends(window, t):
    assigner = window.assigner()
    ends = [t]
    for _ in range(6):
        ends.append(assigner.next_window_end(ends[-1]))
    numbers = assigner.window_number(np.array(ends[1:]))
    assert assigner.window_end_of(numbers).tolist() == ends[1:]
    steps = np.diff(numbers)
    assert (steps >= 1).all()
    # numbers are skipped only if the step does not divide the month
    if not (isinstance(window, CalendarCumulate) and window.step_us):
        assert (steps == 1).all()


@given(windows, times)
def test_the_next_window_end_is_the_first_one_after_the_time(window, t):
    assigner = window.assigner()
    result = assigner.next_window_end(t)
    assert result > t
    assert result in {end for _, end in windows_of(window, result - 1)}
    assert assigner.previous_window_end(result) == result
    assert assigner.previous_window_end(t) == assigner.previous_window_end(result - 1) <= t
    # the next window end after the time is the first end of its windows
    assert all(end >= result for _, end in windows_of(window, t))


@given(windows, st.lists(times, min_size=1, max_size=30))
def test_the_slots_of_the_local_stage_are_the_slices(window, ts):
    assigner = window.assigner()
    slot, slot_end = slice_slots(np.array(ts), window, assigner)
    assert slot_end[slot].tolist() == assigner.slice_end(np.array(ts)).tolist()


@given(windows, st.lists(times, min_size=1, max_size=8), st.sampled_from([1, 5, 65_536]))
def test_slices_merge_to_the_windows_of_the_definition(window, ts, max_rows):
    slice_end = window.assigner().slice_end(np.array(ts))
    table = pa.table({"s": slice_end, "n": np.ones(len(ts), np.int64), "m": np.array(ts)})
    spec = WindowAggregation(
        window, (), "s", (Merge(("n",), MergeOp.COUNT), Merge(("m",), MergeOp.MAX))
    )
    result = {}
    for batch in merge_slices(table, spec, max_rows):
        columns = [batch.column(0).cast(pa.int64()), batch.column(1).cast(pa.int64())]
        columns += batch.columns[2:]
        for start, end, n, latest in zip(*(c.to_pylist() for c in columns), strict=True):
            assert (start, end) not in result
            result[(start, end)] = (n, latest)
    expected_rows = {}
    for t in ts:
        for bounds in windows_of(window, t):
            n, latest = expected_rows.get(bounds, (0, t))
            expected_rows[bounds] = (n + 1, max(latest, t))
    assert result == expected_rows


def test_months_before_year_1_follow_the_proleptic_calendar():
    # year 0 is a leap year, as are 400 and 2000
    leap_day = FIRST_US - 307 * DAY_US
    (bounds,) = windows_of(CalendarTumble(1), leap_day)
    assert bounds == (FIRST_US - 335 * DAY_US, FIRST_US - 306 * DAY_US)


def test_month_to_date_by_day_in_a_leap_year_and_in_another():
    assigner = CalendarCumulate(1, 0, DAY_US).assigner()
    for year, days in [(2023, 28), (2024, 29)]:
        start = (date(year, 2, 1) - date(1970, 1, 1)).days * DAY_US
        _, ends = assigner.window_ends(np.array([start + 5]))
        assert ((ends - start) // DAY_US).tolist() == list(range(1, days + 1))


@pytest.mark.parametrize(
    "window",
    [
        CalendarTumble(1),
        CalendarTumble(3, 1, 6 * HOUR_US),
        CalendarHop(1, 12, 3),
        CalendarHop(2, 5, -7, -HOUR_US),
        CalendarHop(5, 2),
        CalendarCumulate(12, 3),
        CalendarCumulate(1, 0, 7 * DAY_US, 0, 14 * DAY_US),
        CalendarCumulate(2, 0, 100 * HOUR_US, 1),
    ],
    ids=str,
)
def test_sql_expressions_equal_the_array_functions(window):
    assigner = window.assigner()
    database = duckdb.connect()
    database.execute("CREATE MACRO pmod(a, n) AS ((a % n) + n) % n")
    database.execute('CREATE MACRO "if"(c, a, b) AS CASE WHEN c THEN a ELSE b END')
    database.execute("CREATE MACRO date_from_unix_date(n) AS DATE '1970-01-01' + n")
    database.execute("CREATE MACRO unix_date(d) AS d - DATE '1970-01-01'")
    database.execute("CREATE MACRO add_months(d, n) AS CAST(d + to_months(n) AS DATE)")
    ts = np.arange(-900, 900, 11) * DAY_US + 7 * HOUR_US

    def run(sql, values):
        # Spark's SQL, where DuckDB's differs
        sql = re.sub(r"\b(\d+)L\b", r"\1", sql).replace(" DIV ", " // ")
        sql = re.sub("sequence", "generate_series", sql, flags=re.IGNORECASE)
        sql = re.sub("TRANSFORM", "list_transform", sql).replace("array<bigint>", "bigint[]")
        sql = sql.replace("array(", "list_value(").replace("m ->", "lambda m:")
        sql = sql.replace("i ->", "lambda i:")
        database.register("times", pa.table({"t": values}))
        return [row[0] for row in database.execute(f"SELECT {sql} FROM times").fetchall()]

    assert run(assigner.slice_end_sql("t"), ts) == assigner.slice_end(ts).tolist()
    ends = [end for t in ts.tolist() for _, end in windows_of(window, t)]
    starts = [start for t in ts.tolist() for start, _ in windows_of(window, t)]
    assert run(assigner.window_start_sql("t"), np.array(ends)) == starts
    result = run(assigner.window_ends_sql("t"), ts)
    assert result == [[end for _, end in windows_of(window, t)] for t in ts.tolist()]


@pytest.mark.parametrize(
    "window",
    [CalendarTumble(0), CalendarHop(0, 1), CalendarCumulate(5, 2), CalendarCumulate(0, 0, DAY_US)],
    ids=str,
)
def test_lengths_that_make_no_windows_are_errors(window):
    with pytest.raises(AnalysisError):
        window.assigner()
