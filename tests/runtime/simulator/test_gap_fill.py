"""FILL and GAP_FILL of streams with bounds, rows, calendars and clocks give the rows of a batch."""

from __future__ import annotations

import datetime as dt
from itertools import chain

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.refusal import Refusal
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from tests.runtime.simulator.queries import START, WINDOWS, simulated, stream
from tests.runtime.simulator.test_fill import in_order

FOREVER = (("sqlwin.fill.keep", "100000 d"),)
AGGREGATED = (
    "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, MAX(d) AS other "
    "FROM TABLE({window}) GROUP BY k, window_start, window_end"
)
TIMES = st.integers(0, 60).map(lambda n: n * 500)
STREAMS = st.lists(
    st.tuples(
        TIMES,
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.sampled_from([0.0, 1.5, None]),
    ),
    min_size=1,
    max_size=14,
)


def times(*seconds: float) -> list[str]:
    """Return the times that are some seconds after START, as literals."""
    return [f"TIMESTAMP '{START + dt.timedelta(seconds=second)}'" for second in seconds]


def filled(window: str, bounds: str = "", fill: str = "(n = 0, s = LOCF)") -> str:
    """Return a window aggregation with FILL."""
    return f"{AGGREGATED.format(window=window)} FILL {fill}{bounds}"


def gap_filled(data: str, step: int, fill: str, bounds: str, keys: str = "k") -> str:
    """Return GAP_FILL over windows."""
    return (
        f"SELECT * FROM TABLE(GAP_FILL(({data}) PARTITION BY {keys}, DESCRIPTOR(window_end), "
        f"INTERVAL '{step}' SECONDS, FILL => {fill}{bounds}))"
    )


def check(of, seed: int) -> None:
    """Check that random histories give the rows of the batch query."""
    defined = of.defined(of.order)
    assert not isinstance(defined, Refusal), defined
    for number in range(seed, seed + 2):
        mismatch = disagreement(of, of.history(number), defined.rows, number)
        assert mismatch is None, mismatch


# -2 and 17 are inside of windows, 40 is after the last row
BOUNDS = [times(*pair) for pair in [(-2, 17), (5, 25), (12, 40), (20, 20), (-30, -10)]]


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", ["tumble_offset", "hop", "hop_uneven", "cumulate"])
@pytest.mark.parametrize("first", ["", " FROM {}"])
@example(rows=[(500, "a", 1, 0.0), (28_000, "a", 2, 0.0)], bounds=BOUNDS[0], seed=0)
@settings(max_examples=3, deadline=None)
@given(rows=STREAMS, bounds=st.sampled_from(BOUNDS), seed=st.integers(0, 1 << 30))
def test_fill_with_bounds(name, first, rows, bounds, seed):
    sql = filled(WINDOWS[name], f"{first.format(bounds[0])} TO {bounds[1]}")
    check(stream(sql, sorted(rows, key=lambda row: row[0]), settings=FOREVER), seed)


# of GAP_FILL: the data, its step in seconds, the keys, the filled columns
DATA = {
    "windows": (AGGREGATED.format(window=WINDOWS["hop"]), 2, "k", "(n = 0, s = LOCF)"),
    "windows with fewer keys": (
        "SELECT k, v, window_start, window_end, COUNT(*) AS n "
        f"FROM TABLE({WINDOWS['tumble']}) GROUP BY k, v, window_start, window_end",
        5,
        "k",
        "(n = 0)",
    ),
    "renamed windows": (
        f"SELECT k, window_start, window_end, n + 1 AS n, s FROM ("
        f"{AGGREGATED.format(window=WINDOWS['cumulate'])}) WHERE n < 9",
        3,
        "k",
        "(n = 0, s = LOCF)",
    ),
    "rows in windows": (f"SELECT * FROM TABLE({WINDOWS['tumble']})", 5, "k", "(v = 0, d = NULL)"),
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("first", ["", ", FROM => {}"])
@settings(max_examples=3, deadline=None)
@given(rows=STREAMS, bounds=st.sampled_from(BOUNDS), seed=st.integers(0, 1 << 30))
def test_gap_fill_of_windows_with_bounds(data, first, rows, bounds, seed):
    query, step, keys, fill = DATA[data]
    sql = gap_filled(query, step, fill, f"{first.format(bounds[0])}, TO => {bounds[1]}", keys)
    check(stream(sql, sorted(rows, key=lambda row: row[0]), settings=FOREVER), seed)


ROWS = "SELECT * FROM TABLE(GAP_FILL(TABLE t PARTITION BY k, DESCRIPTOR(ts), INTERVAL '5' SECONDS, {}))"


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(
    rows=st.lists(STREAMS.map(lambda rows: rows[0]), max_size=14, unique_by=lambda row: row[0]),
    seed=st.integers(0, 1 << 30),
)
def test_gap_fill_of_rows(rows, seed):
    sql = ROWS.format(f"FILL => (v = LOCF, d = 7.5), FROM => {times(-7)[0]}, TO => {times(36)[0]}")
    # equal rows stay as many
    rows = sorted(rows + rows[:2], key=lambda row: row[0])
    check(stream(sql, rows, settings=FOREVER), seed)


def test_rows_of_gap_fill_are_in_windows_above_it():
    above = f"""SELECT window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE((
        {ROWS.format(f"FILL => (v = LOCF), TO => {times(40)[0]}")}
        ), DESCRIPTOR(ts), INTERVAL '7' SECONDS)) GROUP BY window_start, window_end"""
    rows = [(s * 1_000, "ab"[s % 2], s, None) for s in (0, 1, 2, 13, 14, 29)]
    check(stream(above, rows, settings=FOREVER), 0)


def test_filled_windows_are_in_windows_above_them():
    above = f"""SELECT window_end, SUM(n) AS n, MAX(s) AS s FROM TABLE(TUMBLE((SELECT n, s, window_time AS wt FROM (
        {
        filled(WINDOWS["tumble"], f" TO {times(40)[0]}")
        .replace("window_end, COUNT", "window_end, window_time, COUNT")
        .replace("window_end FILL", "window_end, window_time FILL")
    })
        ), DESCRIPTOR(wt), INTERVAL '10' SECONDS)) GROUP BY window_start, window_end"""
    rows = [(s * 1_000, "ab"[s % 2], s, None) for s in (0, 1, 2, 13, 14, 29)]
    check(stream(above, rows, settings=FOREVER), 0)


def emitted(of, rows: list[tuple], *cuts: int) -> list[list[tuple]]:
    """Return (key, end in seconds, n) of each micro-batch, sorted."""
    return [
        sorted(
            (row["k"], (row["window_end"] - START).total_seconds(), row["n"])
            for row in batch.rows.to_pylist()
        )
        for batch in of.run(in_order(rows, *cuts)).batches
    ]


#   0    5    10   15   20   25   30   35        keep: 20 s
#        FROM                          TO
#        |    |[-a--)                            added from FROM
#                            [-b--)[b--)         20 s after FROM: added from FROM
#                                 [-c--)         25 s after FROM: not added from FROM
BOUND_ROWS = [
    (11_000, "a", 1, None),
    (21_000, "b", 2, None),
    (26_000, "b", 3, None),
    (26_000, "c", 4, None),
    (47_000, "z", 5, None),
]


def test_a_key_is_filled_from_the_bound_if_its_first_row_is_within_keep():
    first, last = times(5, 35)
    sql = filled(WINDOWS["tumble"], f" FROM {first} TO {last}")
    of = stream(sql, BOUND_ROWS, settings=(("sqlwin.fill.keep", "20 s"),))
    for cuts in [(1, 2, 4), (), (1, 3)]:
        assert sorted(chain.from_iterable(emitted(of, BOUND_ROWS, *cuts))) == [
            ("a", 10, 0),
            ("a", 15, 1),
            *(("a", end, 0) for end in (20, 25, 30, 35)),
            ("b", 10, 0),
            ("b", 15, 0),
            ("b", 20, 0),
            ("b", 25, 1),
            ("b", 30, 1),
            ("b", 35, 0),
            ("c", 30, 1),
            ("c", 35, 0),
            ("z", 50, 1),
        ]
    # in the micro-batch in which the watermark passes them, or the key has its first row
    assert emitted(of, BOUND_ROWS, 1, 2, 4)[1] == [("a", 10, 0), ("a", 15, 1)]


@pytest.mark.long
@settings(max_examples=5, deadline=None)
@given(rows=STREAMS, seed=st.integers(0, 1 << 30))
def test_a_key_that_has_left_the_state_is_not_filled_from_the_bound_again(rows, seed):
    first, last = times(-6, 30)
    sql = filled(WINDOWS["hop"], f" FROM {first} TO {last}", "(n = 0)")
    rows = sorted(rows, key=lambda row: row[0])
    of = stream(sql, rows, settings=(("sqlwin.fill.keep", "5 s"),))
    results = []
    for history in (in_order(rows), of.history(seed), of.history(seed + 1)):
        batches = of.run(history).batches
        got = [(r["k"], r["window_end"], r["n"]) for b in batches for r in b.rows.to_pylist()]
        assert len({row[:2] for row in got}) == len(got), "a window is emitted twice"
        results.append(sorted(got, key=str))
    # with TO the outcome does not depend on the cut into micro-batches
    assert results[0] == results[1] == results[2]


def operators_of(sql: str):
    return [
        (part.step.aggregation, getattr(part.step, "filling", None), part.step.input.window)
        for part in simulated(sql).query.parts
    ]


def test_gap_fill_of_windows_and_the_clause_are_one_operator():
    clause = filled(WINDOWS["hop"], fill="(n = 0, s = LOCF)")
    function = gap_filled(AGGREGATED.format(window=WINDOWS["hop"]), 2, "(n = 0, s = LOCF)", "")
    assert operators_of(function) == operators_of(clause)


@pytest.mark.variants(3)
@pytest.mark.parametrize("bound", ["window_start", "window_time"])
@pytest.mark.parametrize("name", ["tumble_offset", "hop", "hop_uneven"])
@settings(max_examples=2, deadline=None)
@given(rows=STREAMS, seed=st.integers(0, 1 << 30))
def test_gap_fill_over_one_bound_uses_the_windows(name, bound, rows, seed):
    stride = {"tumble_offset": 5, "hop": 2, "hop_uneven": 4}[name]
    data = (
        f"SELECT k, {bound}, COUNT(*) AS n FROM TABLE({WINDOWS[name]}) "
        "GROUP BY k, window_start, window_end, window_time"
    )
    sql = gap_filled(data, stride, "(n = 0)", f", TO => {times(40)[0]}")
    sql = sql.replace("DESCRIPTOR(window_end)", f"DESCRIPTOR({bound})")
    of = stream(sql, sorted(rows, key=lambda row: row[0]), settings=FOREVER)
    whole = filled(WINDOWS[name], f" TO {times(40)[0]}", "(n = 0)")
    both = stream(
        whole.replace("window_end, COUNT", "window_end, window_time, COUNT").replace(
            "window_end FILL", "window_end, window_time FILL"
        ),
        sorted(rows, key=lambda row: row[0]),
        settings=FOREVER,
    )
    expected = [
        {column: row[column] for column in ("k", bound, "n")} for row in both.batch_rows(both.order)
    ]
    assert difference(expected, of.batch_rows(of.order)) is None
    check(of, seed)
