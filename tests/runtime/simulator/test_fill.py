"""FILL on a stream: random histories give the windows of the definition."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.simulator.histories import Arrival, Batch, Crash, Restart, StreamHistory, Write
from tests.runtime.simulator.queries import START, WINDOWS, stream

S = 1_000_000
FILLED = (
    "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s, MAX(d) AS other "
    "FROM TABLE({window}) GROUP BY k, window_start, window_end FILL (n = 0, s = LOCF)"
)
KEEP = (("sqlwin.fill.keep", "30 s"),)
# Distance of the ends of windows, in seconds
STRIDES = {"tumble": 5, "tumble_offset": 5, "hop": 2, "hop_uneven": 4, "cumulate": 3}


def filled(name: str) -> str:
    return FILLED.format(window=WINDOWS[name])


def rows_of(outcome) -> list[tuple]:
    """Return (key, end in seconds, n, s, other) of all rows, in the order of emission."""
    rows = []
    for batch in outcome.batches:
        assert batch.needless is None
        for row in batch.rows.to_pylist():
            end = (row["window_end"] - START).total_seconds()
            rows.append((row["k"], end, row["n"], row["s"], row["other"], row["window_start"]))
    return rows


def by_key(rows) -> dict:
    result = defaultdict(list)
    for row in rows:
        result[row[0]].append(row)
    return result


def in_order(rows: list[tuple], *cuts: int) -> StreamHistory:
    """Return a history that reads the rows in order, with a micro-batch at each cut."""
    bounds = [0, *cuts, len(rows)]
    batches = [
        Batch(tuple(Arrival(n) for n in range(first, last)), 0) for first, last in pairwise(bounds)
    ]
    return StreamHistory((*batches, Batch((), 0, has_ended=True)), 4, 2)


#   0    5    10   15   20   25   30        watermark: 2 s behind the rows
#   [-a--)[-b-)              [-a--)
ROWS = [(1_000, "a", 1, 0.5), (6_000, "b", 7, 0.5), (26_000, "a", 4, None), (33_000, "b", 1, 0.0)]


def test_a_missing_window_is_emitted_once_the_watermark_passes_it():
    of = stream(filled("tumble"), ROWS, settings=KEEP)
    outcome = of.run(in_order(ROWS, 1, 2, 3))
    emitted = [
        sorted(
            (row["k"], (row["window_end"] - START).seconds, row["n"], row["s"], row["other"])
            for row in batch.rows.to_pylist()
        )
        for batch in outcome.batches
    ]
    assert emitted == [
        [],
        [],
        [
            ("a", 5, 1, 1, 0.5),
            ("a", 10, 0, 1, None),
            ("a", 15, 0, 1, None),
            ("a", 20, 0, 1, None),
            ("b", 10, 1, 7, 0.5),
            ("b", 15, 0, 7, None),
            ("b", 20, 0, 7, None),
        ],
        [
            ("a", 25, 0, 1, None),
            ("a", 30, 1, 4, None),
            ("b", 25, 0, 7, None),
            ("b", 30, 0, 7, None),
        ],
        [("b", 35, 1, 1, 0.0)],
    ]


def test_keys_leave_the_state_and_begin_again():
    # a has no row for more than 30 s, and c keeps the watermark moving
    rows = [(1_000, "a", 1, 0.0), *((s * 1000, "c", 2, 0.0) for s in range(2, 62, 5))]
    rows += [(63_000, "a", None, 0.0), (72_000, "a", 5, 0.0)]
    for cuts in [(), (3,), tuple(range(1, len(rows)))]:
        of = stream(filled("tumble"), rows, settings=KEEP)
        got = by_key(rows_of(of.run(in_order(rows, *cuts))))["a"]
        assert [(end, n, s) for _, end, n, s, *_ in got] == [
            (5, 1, 1),
            *((end, 0, 1) for end in (10, 15, 20, 25, 30, 35)),
            (65, 1, None),
            (70, 0, None),
            (75, 1, 5),
        ]


TIMES = st.integers(0, 400).map(lambda s: s * 500)
STREAMS = st.lists(
    st.tuples(
        TIMES,
        st.sampled_from(["a", "b", None]),
        st.one_of(st.none(), st.integers(-3, 3)),
        st.sampled_from([0.0, 1.5, None]),
    ),
    min_size=1,
    max_size=25,
)


def expected(window_rows: list[dict], stride: int, keep: int) -> tuple[list, dict]:
    """Return the rows that every history emits, and the last row of each key."""
    rows, last_of = [], {}
    of_key = defaultdict(list)
    for row in window_rows:
        of_key[row["k"]].append(row)
    for key, own in of_key.items():
        own.sort(key=lambda row: row["window_end"])
        value, before = None, None
        for row in own:
            end = (row["window_end"] - START).total_seconds()
            if before is not None:
                missing = before + stride
                while missing < end and missing <= before + keep:
                    rows.append((key, missing, 0, value, None))
                    missing += stride
                if end - before > keep:
                    value = None
            value = row["s"] if row["s"] is not None else value
            rows.append((key, end, row["n"], row["s"], row["other"]))
            before = end
        last_of[key] = (before, value)
    return rows, last_of


@pytest.mark.long
@pytest.mark.parametrize("name", STRIDES)
@settings(max_examples=8, deadline=None)
@given(rows=STREAMS, seed=st.integers(0, 1 << 30))
def test_every_history_fills_the_gaps_between_rows(name, rows, seed):
    """Windows after the last row of a key may be there, up to `sqlwin.fill.keep`."""
    rows = sorted(rows, key=lambda row: row[0])
    plain = filled(name).partition(" FILL")[0]
    of_batch = stream(plain, rows)
    batch = of_batch.batch_rows(of_batch.order)
    needed, last_of = expected(batch, STRIDES[name], 30)
    of = stream(filled(name), rows, settings=KEEP)
    for history in (in_order(rows), of.history(seed), of.history(seed + 1)):
        got = rows_of(of.run(history))
        assert len({row[:2] for row in got}) == len(got), "a window is emitted twice"
        rest = {row[:5] for row in got} - set(needed)
        assert set(needed) - {row[:5] for row in got} == set()
        for key, end, n, s, other in rest:
            last, value = last_of[key]
            assert last < end <= last + 30 and (n, s, other) == (0, value, None)


@pytest.mark.variants(2)
@pytest.mark.parametrize("write", list(Write))
@pytest.mark.parametrize("is_after", [False, True])
def test_a_crash_and_a_restart_with_more_tasks_change_nothing(write, is_after):
    rows = [(s * 1_000, "abcdefgh"[s % 8], s, 0.0) for s in range(0, 60, 3)]
    of = stream(filled("hop"), rows, settings=KEEP)
    calm = in_order(rows, 5, 10, 15)
    first, second, *others = calm.steps
    crashed = Batch(second.rows, 0, crash=Crash(write, is_after=is_after))
    steps = (first, crashed, *others[:1], Restart(4), *others[1:])
    again = of.run(StreamHistory(steps, 4, 2))
    assert sorted(rows_of(again), key=str) == sorted(rows_of(of.run(calm)), key=str)
