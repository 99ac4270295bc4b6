"""All histories of a stream give the rows of the batch query."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runtime.engines.local.execute import computed_batches
from runtime.plan.simulated import SimulatedWholeWindows
from runtime.simulator.arrivals import cut_at_every_row
from runtime.simulator.check import disagreement, final_rows_of, first_disagreement
from runtime.simulator.compare import difference, rows_of
from runtime.simulator.flows import Mark, TaskFlow
from runtime.simulator.histories import Arrival, Batch, Crash, Restart, StreamHistory, Write
from runtime.simulator.micro_batch import RunningQuery
from runtime.simulator.shrink import shrink
from runtime.simulator.state_size import needless_state
from runtime.simulator.storage import Storage
from runtime.simulator.timeline import timeline
from runtime.simulator.whole_windows import RunningWholeWindows
from runtime.streaming.state.blobs import METADATA
from runtime.streaming.state.codec import decode_metadata, encode_metadata
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from tests.runtime.simulator.queries import (
    ON_WHOLE_WINDOWS,
    RANGES,
    START,
    WINDOWS,
    of_window,
    simulated,
    stream,
)

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


@pytest.mark.variants(2)
@pytest.mark.parametrize("window", WINDOWS)
@example(rows=[(4_999, "a", 1, 0.0), (4_999, "a", 1, 0.0), (5_000, "a", 1, 0.0)], seed=0)
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_every_history_of_rows_on_time_gives_the_rows_of_batch(window, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    of = stream(of_window(window), in_order)
    assert not of.shape.late
    check(of, 2, seed)


@pytest.mark.variants(1)
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


LATENESS = (("table.exec.emit.allow-lateness", "5 s"),)
EARLY = (
    *LATENESS,
    ("table.exec.emit.early-fire.enabled", "true"),
    ("table.exec.emit.early-fire.delay", "0 s"),
)


@pytest.mark.long
@pytest.mark.parametrize("name", ["lateness", "early"])
@settings(max_examples=20)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_each_row_is_in_a_session_or_late_when_sessions_are_emitted_again(name, rows, seed):
    of = stream(of_window("session"), rows, settings={"lateness": LATENESS, "early": EARLY}[name])
    for outcome in (of.run(cut_at_every_row(of.order, of.shape)), of.run(of.history(seed))):
        n_rows = sum(row["n"] for row in final_rows_of(outcome))
        n_late = sum(batch.n_late for batch in outcome.batches)
        n_null_times = sum(batch.n_null_times for batch in outcome.batches)
        assert n_rows + n_late + n_null_times == len(rows)
        assert sum(len(batch.late) for batch in outcome.batches) == n_late
        assert not any(batch.needless for batch in outcome.batches)


QUERIES = {
    "named ranges": f"""
        SELECT name, window_start, window_end, COUNT(*) AS n, FIRST_VALUE(v) AS f, AVG(d) AS a
        FROM TABLE({RANGES}) WHERE v > 0 OR name <> 'p'
        GROUP BY name, window_start, window_end HAVING COUNT(*) > 1""",
    "rows of ranges": f"""
        SELECT name, k, v, window_end FROM (SELECT *, RANK() OVER (
          PARTITION BY name, window_start, window_end ORDER BY v DESC) AS r FROM TABLE({RANGES}))
        WHERE r <= 2""",
    "top of ranges": f"""
        SELECT name, n, window_end FROM (SELECT *, RANK() OVER (
          PARTITION BY window_start, window_end ORDER BY n DESC) AS r FROM (
            SELECT name, window_start, window_end, COUNT(*) AS n
            FROM TABLE({RANGES}) GROUP BY name, window_start, window_end)) WHERE r = 1""",
    "ranges that end together": f"""
        SELECT window_end, COUNT(*) AS c, SUM(n) AS n FROM (
          SELECT name, window_start, window_end, COUNT(*) AS n
          FROM TABLE({RANGES}) GROUP BY name, window_start, window_end) GROUP BY window_end""",
    "window over ranges": f"""
        SELECT window_end, COUNT(*) AS c, SUM(n) AS n FROM TABLE(TUMBLE((
          SELECT name, window_start AS s, window_end AS e, window_time AS wt, COUNT(*) AS n
          FROM TABLE({RANGES}) GROUP BY name, window_start, window_end, window_time
        ), DESCRIPTOR(wt), INTERVAL '20' SECONDS)) GROUP BY window_start, window_end""",
    "join of ranges": f"""
        SELECT a.name, b.name AS other, a.window_end, a.n, b.hi FROM (
          SELECT name, window_start, window_end, COUNT(*) AS n
          FROM TABLE({RANGES}) GROUP BY name, window_start, window_end) AS a
        LEFT JOIN (SELECT name, window_start, window_end, MAX(v) AS hi
          FROM TABLE({RANGES}) WHERE k = 'a' GROUP BY name, window_start, window_end) AS b
        ON a.window_start = b.window_start AND a.window_end = b.window_end""",
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


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", QUERIES)
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_every_history_of_other_queries_gives_the_rows_of_batch(name, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(QUERIES[name], in_order), 2, seed)


# times of several windows with ties and NULLs, in order
_STEPS = [(i * 650 - i % 4, "abc"[i % 3] if i % 7 else None, i % 5 - 1, i / 2) for i in range(50)]


@pytest.mark.variants(3)
@pytest.mark.parametrize("name", ON_WHOLE_WINDOWS)
def test_steps_on_whole_windows_give_the_rows_of_batch(name):
    of = stream(ON_WHOLE_WINDOWS[name], sorted(_STEPS, key=lambda row: row[0]))
    assert any(isinstance(part, SimulatedWholeWindows) for part in of.query.parts)
    assert of.batch_rows(of.order)
    assert disagreement(of, cut_at_every_row(of.order, of.shape), of.batch_rows(of.order)) is None
    check(of, 3, 0)


def test_the_rows_of_a_step_are_spread_over_tasks():
    of = stream(ON_WHOLE_WINDOWS["full join"], sorted(_STEPS, key=lambda row: row[0]))
    (part,) = (part for part in of.query.parts if isinstance(part, SimulatedWholeWindows))
    step = RunningWholeWindows(part, 3)
    windows = list(computed_batches(of.query.parts[0].rows, _given(of)))
    flow = [TaskFlow(windows, [Mark("window operator 0", 7)]), TaskFlow([], [Mark("", 0)])]
    tasks = step.run(dict.fromkeys(("$operator0", "$operator1"), flow))
    assert sum(bool(task.rows) for task in tasks) > 1
    # the watermarks of the left side pass through
    marks = [mark for task in tasks for mark in task.marks]
    assert marks == [Mark("window operator 0", 7), Mark("", 0)]


def _given(of):
    return {name: [table.of(of.order)] for name, table in of.tables.items()}


@pytest.mark.variants(2)
@pytest.mark.parametrize("window", ["tumble", "hop", "cumulate", "session", "ranges"])
@pytest.mark.parametrize("config", [LATENESS, EARLY], ids=["lateness", "early"])
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_the_final_state_of_updated_windows_is_that_of_batch(window, config, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(of_window(window), in_order, settings=config), 2, seed)


def _ranked(window: str, rank: str, condition: str, keys: str = "k", having: str = "") -> str:
    return f"""
        SELECT * FROM (SELECT *, {rank}) AS r FROM (
          SELECT {keys}, window_start, window_end, COUNT(*) AS n, SUM(v) AS s
          FROM TABLE({WINDOWS[window]}) GROUP BY {keys}, window_start, window_end {having}))
        WHERE r {condition}"""


_BY_WINDOW = "OVER (PARTITION BY window_start, window_end"
RANKED = {
    "row numbers": _ranked("tumble", f"ROW_NUMBER() {_BY_WINDOW} ORDER BY n DESC, k", "<= 2"),
    "ties": _ranked("hop", f"RANK() {_BY_WINDOW} ORDER BY n", "= 1"),
    "by key": _ranked("hop", f"DENSE_RANK() {_BY_WINDOW}, k ORDER BY s, v", "<= 2", keys="k, v"),
    "first of a key": _ranked(
        "cumulate", f"ROW_NUMBER() {_BY_WINDOW}, k ORDER BY n DESC, v", "= 1", keys="k, v"
    ),
    "having": _ranked(
        "cumulate", f"ROW_NUMBER() {_BY_WINDOW} ORDER BY n, k", "= 1", having="HAVING COUNT(*) < 3"
    ),
}


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", RANKED)
@pytest.mark.parametrize("config", [LATENESS, EARLY], ids=["lateness", "early"])
@settings(max_examples=5)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_the_final_state_of_ranked_windows_that_change_is_that_of_batch(name, config, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(RANKED[name], in_order, settings=config), 2, seed)


def test_rows_leave_a_rank_when_others_take_their_place():
    of = stream(RANKED["row numbers"], _STEPS, settings=EARLY)
    outcome = of.run(cut_at_every_row(of.order, of.shape))
    kinds = [kind for output in outcome.batches for kind in output.rows["$row_kind"].to_pylist()]
    assert {"+I", "-D"} == set(kinds)


@pytest.mark.slow
@pytest.mark.parametrize(
    "sql", [*map(of_window, WINDOWS), *QUERIES.values(), *ON_WHOLE_WINDOWS.values()]
)
@settings(max_examples=300)
@given(rows=ROWS, seed=st.integers(0, 1 << 30))
def test_many_histories_give_the_rows_of_batch(sql, rows, seed):
    in_order = sorted(rows, key=lambda row: -(10**15) if row[0] is None else row[0])
    check(stream(sql, in_order), 5, seed)


SOME = [(i * 700, "ab"[i % 2], i, i / 2) for i in range(30)]


@pytest.mark.variants(2)
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


def test_a_split_key_group_forgets_the_results_of_closed_windows():
    # after the split, one key group has only results of windows that have closed
    of = stream(
        of_window("cumulate"), [(0, None, None, None), (59_999, "a", None, None)], settings=EARLY
    )
    both = tuple(map(Arrival, range(2)))
    history = StreamHistory((Batch(both), Restart(2), Batch((), has_ended=True)))
    assert disagreement(of, history, of.batch_rows(of.order)) is None


def test_a_seed_reproduces_its_history():
    of = stream(of_window("tumble"), SOME)
    assert of.history(7) == of.history(7)
    assert len({of.history(seed) for seed in range(20)}) > 15
    one, other = of.run(of.history(7)), of.run(of.history(7))
    assert [b.rows for b in one.batches] == [b.rows for b in other.batches]


@pytest.mark.long
@pytest.mark.parametrize("window", ["hop_uneven", "cumulate", "session"])
def test_a_seed_gives_the_same_history_alone_and_after_others(window):
    of = stream(of_window(window), SOME)
    after_others = [of.run(of.history(seed)) for seed in range(12)]
    for seed in (0, 5, 11):
        # also a stream without the readers and columns that histories of a stream share
        simulated.cache_clear()
        alone = stream(of_window(window), SOME)
        assert alone is not of and alone.history(seed) == of.history(seed)
        assert alone.run(alone.history(seed)) == after_others[seed]


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


def test_closed_slices_in_state_are_needless():
    state = _state_after([Batch((Arrival(0),)), Batch((Arrival(1),))])
    # row 1 (12 s) closes the window of row 0
    assert needless_state(state, Tumble(5_000_000)) is None
    (metadata,) = (blob for name, blob in state.items() if name == METADATA)
    group = decode_metadata(metadata)
    late = encode_metadata(
        replace(group, closed_us=group.contents.slices.levels[0].slabs[0].end_us)
    )
    text = needless_state({**state, METADATA: late}, Tumble(5_000_000))
    assert text == "slices are in state after their last window has closed"


def test_a_closed_session_in_state_is_needless():
    batches = [Batch((Arrival(0),)), Batch((Arrival(1),))]
    state = _state_after(batches, "session")
    window = SessionWindow(3_000_000, ("k",))
    assert needless_state(state, window) is None
    group = decode_metadata(state[METADATA])
    # the session of row 1 ends 3 s after it
    ends_us = int(pa.scalar(START.replace(second=15), pa.timestamp("us")).value)
    closed = {**state, METADATA: encode_metadata(replace(group, closed_us=ends_us + 1_000))}
    assert needless_state(closed, window) == "a session is in state after it has closed"
    still_open = {**state, METADATA: encode_metadata(replace(group, closed_us=ends_us + 999))}
    assert needless_state(still_open, window) is None


def test_any_blob_after_the_end_of_the_input_is_reported():
    state = _state_after([Batch((Arrival(0),)), Batch((Arrival(1),), has_ended=True)])
    assert needless_state(state, Tumble(5_000_000)) is None
    text = needless_state({**state, "c7": b""}, Tumble(5_000_000))
    assert text == "state is left after the end of the input"


def _state_after(batches, window="tumble"):
    """Return the blobs of the only key group after some micro-batches."""
    of = stream(of_window(window), [(0, "a", 1, 0.0), (12_000, "b", 2, 0.0)])
    storage = Storage(1, 1)
    options = replace(of.options, key_groups=1, partitions=1)
    running = RunningQuery(of.query, of.tables, options, storage, 16)
    for batch in batches:
        number = storage.plan(batch)
        running.run(number, batch)
    return storage.state(0, 0, len(batches)).blobs


@pytest.mark.parametrize("name", ["hop", "session"])
def test_a_stream_names_the_key_for_which_it_would_keep_too_many_values(name):
    sql = of_window(name).replace("COUNT(*)", "MODE(v)")
    rows = [(i * 400, "abb"[i % 3], i % 3, None) for i in range(30)]
    unlimited = stream(sql, rows, settings=(("sqlwin.state.max-values", "0"),))
    in_batch = unlimited.batch_rows(unlimited.order)
    assert disagreement(unlimited, unlimited.history(1), in_batch, 1) is None
    of = stream(sql, rows, settings=(("sqlwin.state.max-values", "6"),))
    failure = disagreement(of, of.history(1), in_batch, 1)
    assert failure is not None and "for k = b: the maximum is 6" in failure.reason


def test_the_watermark_of_a_table_that_is_read_twice_moves_on():
    query = (
        "SELECT window_end, COUNT(*) AS n FROM TABLE(TUMBLE((SELECT * FROM t UNION ALL "
        "SELECT * FROM t WHERE v > 0), DESCRIPTOR(ts), INTERVAL '5' SECONDS)) "
        "GROUP BY window_start, window_end"
    )
    of = stream(query, [(second * 1_000, "a", second % 2, 0.5) for second in range(20)])
    emitted = [[row["n"] for row in rows_of([b.rows])] for b in of.run(of.every_row).batches]
    assert {number: counts for number, counts in enumerate(emitted) if counts} == {
        7: [7], 12: [8], 17: [7], 20: [8]
    }  # fmt: skip
