"""Temporal joins with a stream of versions give the versions that a nested loop finds."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.refusal import Refusal
from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference
from runtime.simulator.histories import Arrival, Batch, StreamHistory
from sqlwin.testing.simulated import stream_over
from tests.runtime.simulator.queries import rows_table, simulated

TABLES, KEYS = ("t", "u"), (("u", ("k",)),)
JOIN = "FROM t AS a {words} u FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k{more}"
ITEMS = "SELECT a.ts, a.k, a.v, b.ts AS since, b.v AS w, b.d AS x "
TIMES = st.one_of(
    st.integers(0, 60).map(lambda s: s * 500),
    st.sampled_from([0, 1, 999, 1_000, 4_999, 5_000, 5_001, 600_000]),
    st.integers(-3, 3).map(lambda d: -1_704_067_200_000 + d * 2_500),
)
VALUES = st.one_of(st.none(), st.integers(0, 2))
ROWS = st.lists(
    st.tuples(TIMES, st.sampled_from(["a", "b", None]), VALUES, st.sampled_from([0.5, None])),
    max_size=12,
)
# further conditions of ON, and the same on values of both sides
CONDITIONS = {
    "": lambda _v, _w: True,
    " AND b.v > 0": lambda _v, w: w is not None and w > 0,
    " AND a.v <= b.v": lambda v, w: v is not None and w is not None and v <= w,
}


def joined(sql: str):
    return simulated(sql, tables=TABLES, keys=KEYS)


def nested_loop(words, holds, left, right):
    """Return the rows of the join, by definition."""
    rows = []
    for ms, key, v, _ in left:
        held = [
            (since, (w is not None, w), (x is not None, x), w, x)
            for since, other, w, x in right
            if key is not None and other == key and since <= ms
        ]
        version = max(held, key=lambda row: row[:3]) if held else None
        if version is not None and not holds(v, version[3]):
            version = None
        if version is None and words == "JOIN":
            continue
        since, w, x = (None,) * 3 if version is None else (version[0], *version[3:])
        rows.append({"ts": _at(ms), "k": key, "v": v, "since": _at(since), "w": w, "x": x})
    return rows


def _at(ms):
    return None if ms is None else dt.datetime(2024, 1, 1) + dt.timedelta(milliseconds=ms)  # noqa: DTZ001


def check(sql, expected, left, right, seed):
    left, right = (sorted(rows, key=lambda row: row[0]) for rows in (left, right))
    of = stream_over(joined(sql), {"t": rows_table(left), "u": rows_table(right)})
    defined = of.defined(of.order)
    assert not isinstance(defined, Refusal), defined
    assert difference(expected, defined.rows) is None
    assert difference(expected, of.batch_rows(of.order)) is None
    for number in range(seed, seed + 3):
        mismatch = disagreement(of, of.history(number), expected, number)
        assert mismatch is None, mismatch


@pytest.mark.variants(1)
@pytest.mark.parametrize("more", CONDITIONS)
@pytest.mark.parametrize("words", ["JOIN", "LEFT JOIN"])
@example(
    left=[(0, "a", 0, 0.5), (0, "a", 0, 0.5), (5_000, None, 1, None), (5_000, "b", 2, 0.5)],
    right=[(0, "a", 1, 0.5), (0, "a", 2, None), (5_000, "a", 0, 0.5), (4_999, None, 2, 0.5)],
    seed=0,
)
@settings(max_examples=3)
@given(left=ROWS, right=ROWS, seed=st.integers(0, 1 << 30))
def test_each_row_is_joined_with_the_version_of_its_time(words, more, left, right, seed):
    sql = ITEMS + JOIN.format(words=words, more=more)
    check(sql, nested_loop(words, CONDITIONS[more], left, right), left, right, seed)


def rows_of(batch):
    return sorted((row["v"], row["w"]) for row in batch.rows.to_pylist())


def test_a_row_waits_until_the_watermarks_of_both_streams_have_passed_it():
    #  versions   10           20                            30
    #  rows            |12           |21      |25
    left = [(12_000, "a", 0, None), (21_000, "a", 1, None), (25_000, "a", 2, None)]
    left.append((40_000, "z", 3, None))
    right = [(s * 1_000, "a", s, None) for s in (10, 20, 30)]
    # rows have the numbers 0 to 3, versions 4 to 6
    of = stream_over(
        simulated(ITEMS + JOIN.format(words="LEFT JOIN", more=""), "0", tables=TABLES, keys=KEYS),
        {"t": rows_table(left), "u": rows_table(right)},
    )
    cuts = [(0, 1, 2, 3), (4,), (5,), (6,)]
    batches = [Batch(tuple(map(Arrival, numbers)), 0) for numbers in cuts]
    outcome = of.run(StreamHistory((*batches, Batch((), 0, has_ended=True)), 4, 2))
    assert [rows_of(batch) for batch in outcome.batches] == [
        [],
        [],
        [(0, 10)],
        [(1, 20), (2, 20)],
        [(3, None)],
    ]
    assert [batch.n_late for batch in outcome.batches] == [0] * 5


@pytest.mark.long
def test_the_state_is_the_last_version_of_each_key():
    # 40 versions of one key, each followed by a row
    right = [(s * 1_000, "a", s, None) for s in range(40)]
    left = [(s * 1_000, "a", s, None) for s in range(40)]
    of = stream_over(
        joined(ITEMS + JOIN.format(words="JOIN", more="")),
        {"t": rows_table(left), "u": rows_table(right)},
    )
    for batch in of.run(cut_at_every_row(of.order, of.shape)).batches:
        assert all(row["v"] == row["w"] for row in batch.rows.to_pylist())
        assert batch.needless is None


SPELLINGS = {
    "star of one side": "SELECT a.*, b.v AS w " + JOIN.format(words="JOIN", more=""),
    "stars": "SELECT b.*, a.v AS v2 " + JOIN.format(words="JOIN", more=""),
    "where": ITEMS + JOIN.format(words="JOIN", more="") + " WHERE a.v > 0 AND b.v < 9",
    "subquery on the left": """SELECT a.v, b.v AS w FROM (SELECT ts, k, v + 1 AS v FROM t WHERE v >= 0) AS a
        JOIN u FOR SYSTEM_TIME AS OF a.ts AS b ON b.k = a.k""",
    "around": "SELECT v + w AS s FROM (" + ITEMS + JOIN.format(words="LEFT JOIN", more="") + ")",
    "cte": "WITH a AS (SELECT * FROM t) SELECT a.v, b.v AS w FROM a "
    "JOIN u FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k",
    "itself": "SELECT a.v, b.v AS w FROM u AS a "
    "JOIN u FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k",
    "window over the join": f"""SELECT window_end, COUNT(*) AS n, SUM(w) AS s FROM TABLE(TUMBLE((
        {ITEMS + JOIN.format(words="LEFT JOIN", more="")}), DESCRIPTOR(ts), INTERVAL '700' MILLISECONDS))
        GROUP BY window_start, window_end""",
    "integers of other types": """SELECT a.v, b.v AS w FROM (SELECT ts, k, v FROM t) AS a
        JOIN u FOR SYSTEM_TIME AS OF a.ts AS b ON a.k = b.k AND a.v + 1 > b.v""",
    "key by CASE": "SELECT a.v, b.v AS w FROM t AS a LEFT JOIN u FOR SYSTEM_TIME AS OF a.ts AS b "
    "ON CASE WHEN a.v > 2 THEN 'b' ELSE a.k END = b.k",
}


@pytest.mark.variants(1)
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_other_spellings_of_a_temporal_join(spelling):
    rows = [
        (ms, k, v, 0.5)
        for ms, k, v in [
            (0, "a", 0),
            (300, "b", 5),
            (3_000, "a", 1),
            (4_100, "b", 2),
            (4_900, "a", 3),
        ]
    ]
    versions = [
        (-500, "a", 7, 0.5),
        (100, "b", 8, None),
        (2_900, "a", 9, 0.5),
        (4_900, "a", 1, 0.5),
    ]
    of = stream_over(
        joined(SPELLINGS[spelling]), {"t": rows_table(rows), "u": rows_table(versions)}
    )
    expected = of.defined(of.order)
    assert not isinstance(expected, Refusal), expected
    assert expected.rows
    for number in range(4):
        mismatch = disagreement(of, of.history(number), expected.rows, number)
        assert mismatch is None, mismatch
