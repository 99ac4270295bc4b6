"""Joins of two streams within an interval give the pairs that a nested loop finds, each once."""

from __future__ import annotations

import datetime as dt
from itertools import zip_longest

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from sqlwin.testing.simulated import stream_over
from tests.runtime.simulator.queries import rows_table, simulated

TABLES = ("t", "u")
KEYS = st.sampled_from(["a", "b", None])
TIMES = st.one_of(
    st.integers(0, 60).map(lambda s: s * 500),
    st.sampled_from([0, 1, 999, 4_999, 5_000, 5_001, 600_000]),
    st.integers(-3, 3).map(lambda d: -1_704_067_200_000 + d * 2_500),
    st.none(),
)
ROWS = st.lists(st.tuples(TIMES, KEYS, st.integers(0, 2), st.just(0.0)), max_size=12)
# condition on the times, and the same in milliseconds
INTERVALS = {
    "b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND": lambda a, b: a <= b <= a + 5_000,
    "a.ts BETWEEN b.ts - INTERVAL '2' SECONDS AND b.ts + INTERVAL '3' SECONDS": (
        lambda a, b: b - 2_000 <= a <= b + 3_000
    ),
    "a.ts > b.ts AND a.ts - INTERVAL '4' SECONDS < b.ts": lambda a, b: b < a < b + 4_000,
    "b.ts >= a.ts + INTERVAL '10' SECOND AND b.ts + INTERVAL '1' SECOND <= a.ts + INTERVAL '20' SECONDS": (
        lambda a, b: a + 10_000 <= b <= a + 19_000
    ),
    "a.ts = b.ts": lambda a, b: a == b,
    "a.ts BETWEEN b.ts AND b.ts - INTERVAL '1' SECOND": lambda a, b: b <= a <= b - 1_000,
    "a.ts <= b.ts + INTERVAL '1' MILLISECOND AND b.ts <= a.ts + INTERVAL '1' MILLISECOND": (
        lambda a, b: abs(a - b) <= 1
    ),
}
JOINS = ("JOIN", "LEFT JOIN", "RIGHT OUTER JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")


def nested_loop(words, holds, left, right):
    """Return the values of the join's rows, by definition."""

    def matches(a, b):
        is_equal = a[1] is not None and a[1] == b[1]
        has_times = a[0] is not None and b[0] is not None
        return is_equal and has_times and holds(a[0], b[0])

    pairs = [(a[2], b[2]) for a in left for b in right if matches(a, b)]
    lonely = [a[2] for a in left if not any(matches(a, b) for b in right)]
    match words:
        case "LEFT JOIN":
            pairs += [(v, None) for v in lonely]
        case "RIGHT OUTER JOIN":
            pairs += [(None, b[2]) for b in right if not any(matches(a, b) for a in left)]
        case "LEFT SEMI JOIN":
            return [{"v": a[2]} for a in left if any(matches(a, b) for b in right)]
        case "LEFT ANTI JOIN":
            return [{"v": v} for v in lonely]
    return [{"v": v, "w": w} for v, w in pairs]


def check(sql, holds, words, left, right, seed):
    left, right = (
        sorted(rows, key=lambda row: -(1 << 62) if row[0] is None else row[0])
        for rows in (left, right)
    )
    of = stream_over(simulated(sql, tables=TABLES), {"t": rows_table(left), "u": rows_table(right)})
    expected = nested_loop(words, holds, left, right)
    # the query in the windows of a stream, over all rows at once
    assert difference(expected, of.batch_rows(of.order)) is None
    for number in range(seed, seed + 2):
        found = disagreement(of, of.history(number), expected, number)
        assert found is None, found


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    ("number", "words"),
    [(n, w) for n in range(len(INTERVALS)) for w in JOINS if n == 1 or w in JOINS[:2]],
)
@example(
    left=[(0, "a", 0, 0.0), (0, "a", 0, 0.0), (5_000, None, 1, 0.0), (None, "a", 2, 0.0)],
    right=[(0, "a", 1, 0.0), (5_000, "a", 1, 0.0), (19_000, "a", 2, 0.0), (None, "a", 0, 0.0)],
    seed=0,
)
@settings(max_examples=2)
@given(left=ROWS, right=ROWS, seed=st.integers(0, 1 << 30))
def test_a_join_within_an_interval_is_that_of_a_nested_loop(number, words, left, right, seed):
    condition, holds = list(INTERVALS.items())[number]
    items = "a.v" if words.endswith(("SEMI JOIN", "ANTI JOIN")) else "a.v, b.v AS w"
    sql = f"SELECT {items} FROM t AS a {words} u AS b ON a.k = b.k AND {condition}"
    check(sql, holds, words, left, right, seed)


SPELLINGS = {
    "itself": "SELECT t.v, u.v AS w FROM t JOIN t AS u ON t.k = u.k AND {0}",
    "comma": "SELECT t.v, u.v AS w FROM t, u WHERE t.k = u.k AND {0}",
    "subqueries": """SELECT v, w FROM (SELECT ts, k, v FROM t) AS t
        JOIN (SELECT ts, k, v AS w FROM u) AS u ON t.k = u.k AND {0}""",
    "ctes": """WITH x AS (SELECT ts, k, v FROM t), y AS (SELECT ts, k, v AS w FROM u)
        SELECT v, w FROM x AS t JOIN y AS u ON t.k = u.k AND {0}""",
    "around": """SELECT v, w FROM (SELECT t.v, u.v AS w FROM t JOIN u ON t.k = u.k AND {0})
        WHERE v >= 0""",
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_other_spellings_of_a_join_within_an_interval(spelling):
    rows = [
        (s * 1_000, k, v, 0.0) for s, k, v in [(0, "a", 0), (3, "a", 1), (4, "b", 2), (40, "a", 3)]
    ]
    sql = SPELLINGS[spelling].format("u.ts BETWEEN t.ts AND t.ts + INTERVAL '5' SECOND")
    check(sql, lambda a, b: a <= b <= a + 5_000, "JOIN", rows, rows, 0)


@pytest.mark.long
def test_a_row_without_a_match_is_emitted_when_no_more_matches_can_come():
    on = "a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '4' SECOND"
    sql = f"SELECT a.ts, b.v AS w FROM t AS a LEFT JOIN u AS b ON {on}"
    left, right = ([(s * 1_000, k, s, 0.0) for s in range(40)] for k in "ab")
    of = stream_over(
        simulated(sql, "0", tables=TABLES), {"t": rows_table(left), "u": rows_table(right)}
    )
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    for batch in outcome.batches[:-1]:
        for row in batch.rows.to_pylist():
            assert batch.watermark_us is not None and row["w"] is None
            waited_s = batch.watermark_us / 1e6 - row["ts"].replace(tzinfo=dt.UTC).timestamp()
            # the interval, and at most one step of 1 s until the end of the window
            assert 4 < waited_s <= 5
    assert sum(batch.rows.num_rows for batch in outcome.batches) == len(left)


LEFT_ROWS = st.lists(st.integers(0, 80).map(lambda s: s * 500), min_size=1, max_size=20)


def run_in_order(words: str, condition: str, left: list[int], right: list[int]):
    """Run a join with one row per micro-batch, alternating between the tables.

    Returns:
        The values `v` of the left rows in the result, and the number of late rows.
    """
    sql = f"SELECT a.v FROM t AS a {words} u AS b ON a.k = b.k AND {condition}"
    rows = {
        name: rows_table([(ms, name, v, 0.0) for v, ms in enumerate(times)])
        for name, times in (("t", left), ("u", right))
    }
    of = stream_over(simulated(sql, "0", tables=TABLES), rows)
    # rows of `u` are numbered after the rows of `t`
    firsts = [n for n in of.order if n < len(left)], [n for n in of.order if n >= len(left)]
    order = [n for pair in zip_longest(*firsts) for n in pair if n is not None]
    outcome = of.run(cut_at_every_row(order, of.shape))
    emitted = [row["v"] for batch in outcome.batches for row in batch.rows.to_pylist()]
    return emitted, sum(batch.n_late for batch in outcome.batches)


def test_a_row_is_late_when_the_only_window_that_needs_it_is_closed():
    condition = "b.ts BETWEEN a.ts - INTERVAL '4' SECOND AND a.ts + INTERVAL '4' SECOND"
    right = [1_000, 5_000, 20_000, 21_000]
    # the window that needs 1 s ends at 6 s; later windows with the row need it no more
    assert run_in_order("LEFT JOIN", condition, [0, 7_000, 1_000, 8_000], right) == (
        [0, 2, 1, 3],
        0,
    )
    assert run_in_order("LEFT JOIN", condition, [0, 9_000, 9_500, 1_000], right) == ([0, 1, 2], 1)


@settings(max_examples=4)
@given(number=st.integers(0, len(INTERVALS) - 1), times=LEFT_ROWS)
def test_every_row_is_emitted_or_counted_as_late(number, times):
    # the other side is in order, so none of its rows is late
    emitted, n_late = run_in_order("LEFT JOIN", list(INTERVALS)[number], times, sorted(times))
    assert len(set(emitted)) == len(emitted) == len(times) - n_late


@settings(max_examples=4)
@given(times=LEFT_ROWS)
def test_every_row_of_a_right_join_is_emitted_or_counted_as_late(times):
    condition = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND"
    sql = f"SELECT b.v FROM u AS a RIGHT JOIN t AS b ON a.k = b.k AND {condition}"
    rows = {"t": rows_table([(ms, "t", v, 0.0) for v, ms in enumerate(times)])}
    rows["u"] = rows_table([(ms, "u", 0, 0.0) for ms in sorted(times)])
    of = stream_over(simulated(sql, "0", tables=TABLES), rows)
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    emitted = sum(batch.rows.num_rows for batch in outcome.batches)
    assert emitted + sum(batch.n_late for batch in outcome.batches) == len(times)


# how a join keeps the rows of `t` alone, and its FROM
KEEPING = {
    "LEFT JOIN": "t AS a LEFT JOIN u AS b",
    "RIGHT JOIN": "u AS b RIGHT JOIN t AS a",
    "LEFT ANTI JOIN": "t AS a LEFT ANTI JOIN u AS b",
}


@pytest.mark.variants(3)
@pytest.mark.parametrize("condition", [list(INTERVALS)[n] for n in (0, 1, 4)])
@pytest.mark.parametrize("words", KEEPING)
def test_a_row_without_a_time_is_emitted_in_its_micro_batch(words, condition):
    sql = f"SELECT a.v FROM {KEEPING[words]} ON a.k = b.k AND {condition}"
    # twice before any watermark, and between rows that have moved it
    times = [None, None, 0, 100_000, None, 200_000, None]
    left = [(ms, "a", v, 0.0) for v, ms in enumerate(times)]
    right = [(ms, "b", 0, 0.0) for ms in (0, 100_000, 200_000)]
    of = stream_over(
        simulated(sql, "0", tables=TABLES), {"t": rows_table(left), "u": rows_table(right)}
    )
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    batch_of = {
        row["v"]: number
        for number, batch in enumerate(outcome.batches)
        for row in batch.rows.to_pylist()
    }
    assert sorted(batch_of) == list(range(len(times)))
    # rows are numbered table by table, as FROM names them
    first = len(right) if words == "RIGHT JOIN" else 0
    untimed = [v for v, ms in enumerate(times) if ms is None]
    assert {v: batch_of[v] for v in untimed} == {v: of.order.index(first + v) for v in untimed}
    assert sum(batch.n_late + batch.n_null_times for batch in outcome.batches) == 0


@pytest.mark.parametrize("words", ["JOIN", "LEFT JOIN", "LEFT SEMI JOIN"])
def test_other_rows_without_a_time_are_dropped_and_counted(words):
    condition = "b.ts BETWEEN a.ts AND a.ts + INTERVAL '3' SECOND"
    sql = f"SELECT a.v FROM t AS a {words} u AS b ON a.k = b.k AND {condition}"
    rows = rows_table([(0, "a", 0, 0.0), (None, "a", 1, 0.0), (9_000, "a", 2, 0.0)])
    of = stream_over(simulated(sql, "0", tables=TABLES), {"t": rows, "u": rows})
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    kept = [row["v"] for batch in outcome.batches for row in batch.rows.to_pylist()]
    assert sorted(kept) == ([0, 1, 2] if words == "LEFT JOIN" else [0, 2])
    n_dropped = sum(batch.n_null_times for batch in outcome.batches)
    assert n_dropped == (1 if words == "LEFT JOIN" else 2)
