"""All histories of a stream give the rows of the batch query."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import disagreement, final_rows_of, first_disagreement
from runtime.simulator.compare import difference
from runtime.simulator.histories import Arrival, Batch, Crash, Restart, StreamHistory, Write
from runtime.simulator.shrink import shrink
from runtime.simulator.timeline import timeline
from tests.runtime.simulator.queries import WINDOWS, of_window, stream

KEYS = st.sampled_from(["a", "b", None])
# the first two windows, edges of windows, and times before 1970
TIMES = st.one_of(
    st.integers(0, 40).map(lambda s: s * 500),
    st.sampled_from([0, 4_999, 5_000, 5_001, 9_999, 10_000, 12_000, 59_999, None]),
    st.integers(-3, 3).map(lambda d: -1_704_067_200_000 + d * 2_500),
)
NUMBERS = st.one_of(st.none(), st.integers(-3, 3))
FLOATS = st.one_of(st.none(), st.sampled_from([0.0, -0.0, 0.1, 1e9, float("nan")]))
ROWS = st.lists(st.tuples(TIMES, KEYS, NUMBERS, FLOATS), max_size=25)


def check(of, n_histories: int, seed: int) -> None:
    """Fail with the shrunk timeline if a random history does not give the rows of batch."""
    expected = of.batch_rows(of.order)
    found = first_disagreement(of, expected, n_histories, seed)
    if found is not None:
        small = shrink(of, found)
        pytest.fail("\n".join([small.reason, str(small.difference), *timeline(of, small.history)]))


@pytest.mark.parametrize("window", WINDOWS)
@example(rows=[(4_999, "a", 1, 0.0), (4_999, "a", 1, 0.0), (5_000, "a", 1, 0.0)], seed=0)
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_every_history_of_rows_on_time_gives_the_rows_of_batch(window, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    of = stream(of_window(window), in_order)
    assert not of.shape.late
    check(of, 2, seed)


@pytest.mark.parametrize("window", ["tumble", "hop_many", "cumulate"])
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_every_history_keeps_the_rows_that_are_late_at_every_row(window, rows, seed):
    of = stream(of_window(window), rows)
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    expected = final_rows_of(outcome)
    found = first_disagreement(of, expected, 2, seed)
    assert found is None, "\n".join(
        [found.reason, str(found.difference), *timeline(of, found.history)]
    )
    again = of.run(of.history(seed))
    assert sum(b.n_late for b in again.batches) == sum(b.n_late for b in outcome.batches)
    assert sorted(n for b in again.batches for n in b.late) == sorted(
        n for b in outcome.batches for n in b.late
    )


QUERIES = {
    "having": of_window("tumble") + " HAVING COUNT(*) > 1",
    "window over windows": """
        SELECT window_start, window_end, SUM(n) AS n FROM TABLE(TUMBLE((
          SELECT window_time AS wt, k, COUNT(*) AS n
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
          GROUP BY k, window_start, window_end, window_time
        ), DESCRIPTOR(wt), INTERVAL '20' SECONDS)) GROUP BY window_start, window_end""",
    "session of windows": """
        SELECT window_start, window_end, SUM(n) AS n FROM TABLE(SESSION((
          SELECT window_time AS wt, k, COUNT(*) AS n
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
          GROUP BY k, window_start, window_end, window_time
        ), DESCRIPTOR(wt), INTERVAL '6' SECONDS)) GROUP BY window_start, window_end""",
    "group again": f"""
        SELECT window_end, MAX(n) AS n, COUNT(*) AS c FROM ({of_window("hop")})
        GROUP BY window_end""",
    "top": f"""
        SELECT * FROM (SELECT *, RANK() OVER (
          PARTITION BY window_start, window_end ORDER BY n DESC) AS r
        FROM ({of_window("tumble")})) WHERE r <= 1""",
    "grouping sets": """
        SELECT k, window_start, window_end, COUNT(*) AS n
        FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
        GROUP BY GROUPING SETS ((k, window_start, window_end), (window_start, window_end))""",
    "join": f"""
        SELECT a.k, a.window_end, a.n, b.hi FROM ({of_window("tumble")}) AS a
        LEFT JOIN (SELECT window_start, window_end, MAX(v) AS hi
          FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS)) WHERE v > 0
          GROUP BY window_start, window_end) AS b
        ON a.window_start = b.window_start AND a.window_end = b.window_end""",
    "rows": "SELECT * FROM TABLE(HOP(TABLE t, DESCRIPTOR(ts), "
    "INTERVAL '2' SECONDS, INTERVAL '6' SECONDS)) WHERE v > 0",
    "distinct": "SELECT window_end, COUNT(DISTINCT v) AS n, SUM(v) FILTER (WHERE v > 0) AS s FROM "
    f"TABLE({WINDOWS['cumulate']}) GROUP BY window_start, window_end",
    "filter below": "SELECT window_start, window_end, COUNT(*) AS n, MAX(v) AS l FROM "
    f"TABLE({WINDOWS['hop']}) WHERE v > 0 AND k = 'a' GROUP BY window_start, window_end",
}


@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_every_history_of_other_queries_gives_the_rows_of_batch(name, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(QUERIES[name], in_order), 2, seed)


LATENESS = (("table.exec.emit.allow-lateness", "5 s"),)
EARLY = (
    *LATENESS,
    ("table.exec.emit.early-fire.enabled", "true"),
    ("table.exec.emit.early-fire.delay", "0 s"),
)


@pytest.mark.parametrize("window", ["tumble", "hop", "cumulate"])
@pytest.mark.parametrize("config", [LATENESS, EARLY], ids=["lateness", "early"])
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_the_final_state_of_updated_windows_is_that_of_batch(window, config, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(of_window(window), in_order, settings=config), 2, seed)


@pytest.mark.slow
@pytest.mark.parametrize("sql", [*map(of_window, WINDOWS), *QUERIES.values()])
@settings(max_examples=300)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_many_histories_give_the_rows_of_batch(sql, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(sql, in_order), 5, seed)


SOME = [(i * 700, "ab"[i % 2], i, i / 2) for i in range(30)]


@pytest.mark.parametrize("write", list(Write))
@pytest.mark.parametrize("is_after", [False, True])
def test_a_crash_at_each_write_changes_no_row(write, is_after):
    of = stream(of_window("hop_many"), SOME)
    thirds = [tuple(Arrival(n) for n in range(i, i + 10)) for i in (0, 10, 20)]
    for crashed in range(3):
        batches = [
            Batch(rows, crash=Crash(write, 3, is_after) if n == crashed else None)
            for n, rows in enumerate(thirds)
        ]
        history = StreamHistory((*batches, Batch((), has_ended=True)), 4, 2)
        assert disagreement(of, history, of.batch_rows(of.order)) is None
        n_batches = len(of.run(history).batches)
        assert n_batches == (3 if write is Write.OFFSETS and not is_after else 4)


@pytest.mark.parametrize("partitions", [1, 2, 3, 5])
def test_a_rescaled_stream_loses_no_row(partitions):
    of = stream(of_window("session"), SOME)
    halves = [tuple(Arrival(n) for n in range(i, i + 15)) for i in (0, 15)]
    history = StreamHistory(
        (Batch(halves[0]), Restart(partitions), Batch(halves[1]), Batch((), has_ended=True)), 2, 2
    )
    assert disagreement(of, history, of.batch_rows(of.order)) is None


def test_a_seed_reproduces_its_history():
    of = stream(of_window("tumble"), SOME)
    assert of.history(7) == of.history(7)
    assert len({of.history(seed) for seed in range(20)}) > 15
    one, other = of.run(of.history(7)), of.run(of.history(7))
    assert [b.rows for b in one.batches] == [b.rows for b in other.batches]


def test_a_late_row_is_dropped_and_named():
    #  0     5     10
    #  [-----)[-----)
    #  a              b (12) -> watermark 10, then c (1) is late
    of = stream(
        of_window("tumble"), [(0, "a", 1, 0.0), (12_000, "b", 2, 0.0), (1_000, "c", 3, 0.0)]
    )
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    assert [row for batch in outcome.batches for row in batch.late] == [2]
    assert sum(batch.n_late for batch in outcome.batches) == 1
    assert {row["k"] for row in final_rows_of(outcome)} == {"a", "b"}


def test_a_shrunk_history_has_the_rows_and_steps_that_matter():
    of = stream(of_window("tumble"), SOME)
    # two micro-batches in the wrong order: rows of the second are late
    rows = [tuple(Arrival(n) for n in range(i, i + 10)) for i in (20, 0, 10)]
    history = StreamHistory((*map(Batch, rows), Batch((), has_ended=True)), 2, 2)
    found = disagreement(of, history, of.batch_rows(of.order))
    assert found is not None and found.difference is not None
    small = shrink(of, found).history
    assert len([a for b in small.batches for a in b.rows]) == 2
    assert len(small.steps) == 2 and small.partitions == small.key_groups == 1
    text = "\n".join(timeline(of, small))
    assert "1 late row dropped" in text and "watermark 2024-01-01 " in text


def test_equal_rows_are_compared_as_often_as_they_occur():
    rows = [{"k": "a", "x": 0.1 + 0.2}, {"k": "a", "x": 0.3}]
    assert difference(rows, [{"k": "a", "x": 0.3}, {"k": "a", "x": 0.3}]) is None
    found = difference(rows, [{"k": "a", "x": 0.3}])
    assert found is not None and len(found.missing) == 1 and not found.unexpected
