"""Groups and windows over results of a stream that change: after each micro-batch as in batch."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from planner.streams.refusals import StreamRefusal
from runtime.compute.kernels import session as of_partials
from runtime.errors import ExecutionError
from runtime.refusal import Refusal
from runtime.simulator.check import disagreement
from runtime.simulator.compare import difference, rows_of
from runtime.simulator.histories import Arrival, Batch, StreamHistory
from runtime.spec.stream import FINAL_US
from runtime.streaming.operators import changed_sessions, row_changes
from runtime.streaming.operators.ranks import RankOperator
from runtime.streaming.watermarks import FIRE_LAG_US
from sqlwin.testing.simulated import resume, stream_over
from tests.runtime.simulator.queries import START, rows_table, simulated, stream
from tests.runtime.simulator.queries import WINDOWS as OF_TABLE
from tests.runtime.simulator.test_all_time import difference_after_a_micro_batch, rows
from tests.runtime.simulator.test_changelog import CHANGELOG, changes
from tests.runtime.simulator.test_first_rows import rows_in_time

LAST = "SELECT k, v, d FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1"
_COUNTED = "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k"
GROUPS = {
    "last rows": f"SELECT v % 2 AS g, COUNT(*) AS n, AVG(d) AS a, MAX(d) AS m, "
    f"COUNT(DISTINCT k) AS c FROM ({LAST}) WHERE v > 0 GROUP BY v % 2",
    "top 2": "SELECT rn, SUM(v) AS s FROM (SELECT k, v, ROW_NUMBER() OVER (PARTITION BY k "
    "ORDER BY v DESC, d) AS rn FROM t WHERE v IS NOT NULL) WHERE rn <= 2 GROUP BY rn",
    "a total": f"WITH l AS ({LAST}) SELECT COUNT(*) AS n, SUM(v) AS s FROM l",
    "groups of groups": f"SELECT c, COUNT(*) AS m FROM (SELECT n, COUNT(*) AS c, MIN(s) AS lo "
    f"FROM ({_COUNTED}) GROUP BY n) WHERE lo > 0 GROUP BY c",
    "groups that no longer pass": f"SELECT MAX(n) AS hi, COUNT(*) AS c FROM ({_COUNTED} "
    "HAVING COUNT(*) % 2 = 1)",
    "distinct": f"SELECT DISTINCT v FROM ({LAST})",
    "a union with rows that stay": f"SELECT k, SUM(v) AS s, COUNT(*) AS c FROM (SELECT k, v "
    f"FROM ({LAST}) WHERE v > 0 UNION ALL SELECT k, v FROM t WHERE v > 1) GROUP BY k",
    "a union of changes": f"SELECT k, SUM(n) AS n FROM (SELECT k, n FROM ({_COUNTED}) UNION ALL "
    f"SELECT k, v FROM ({LAST})) GROUP BY k",
    "a count of distinct rows": "SELECT COUNT(*) AS n FROM (SELECT DISTINCT k, v FROM t)",
    "rollup": f"SELECT v, k, COUNT(*) AS n FROM ({LAST}) GROUP BY ROLLUP (v, k)",
}
_TOP = "SELECT {} FROM (SELECT *, {}() OVER ({} ORDER BY {}) AS rn FROM ({})) WHERE {}"
_TOTALS = "SELECT k, v, COUNT(*) AS n, SUM(v) AS s FROM t GROUP BY k, v"
_BY = "PARTITION BY k"
RANKS = {
    "top of totals": _TOP.format("*", "ROW_NUMBER", _BY, "n DESC", _TOTALS, "rn <= 2"),
    "the best of totals": _TOP.format("k, v, n", "ROW_NUMBER", _BY, "s DESC", _TOTALS, "rn = 1"),
    "ranks of totals": _TOP.format("*", "RANK", _BY, "n", _TOTALS, "rn <= 2"),
    "second totals": _TOP.format("k, v", "DENSE_RANK", _BY, "s DESC, n", _TOTALS, "rn = 2"),
    "totals that no longer pass": _TOP.format(
        "k, v, n", "ROW_NUMBER", _BY, "n", f"{_TOTALS} HAVING COUNT(*) % 2 = 1", "rn <= 2"
    ),
    "top of all last rows": _TOP.format("k, v, rn", "ROW_NUMBER", "", "v DESC", LAST, "rn <= 3"),
    "equal last rows": _TOP.format(
        "g, x",
        "ROW_NUMBER",
        "PARTITION BY g",
        "x DESC",
        f"SELECT v % 2 AS g, v AS x FROM ({LAST})",
        "rn <= 2",
    ),
    "equal last rows with ranks": _TOP.format(
        "g, x",
        "RANK",
        "PARTITION BY g",
        "x DESC",
        f"SELECT v % 2 AS g, v AS x FROM ({LAST})",
        "rn <= 2",
    ),
    "last of a top": _TOP.format(
        "v, k, d",
        "ROW_NUMBER",
        "PARTITION BY v",
        "d DESC",
        "SELECT k, v, d FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, d) <= 2",
        "rn = 1",
    ),
    "groups of a top of totals": "SELECT v, COUNT(*) AS c, SUM(n) AS n FROM ("
    + _TOP.format("*", "ROW_NUMBER", _BY, "n DESC", _TOTALS, "rn <= 2")
    + ") GROUP BY v",
    "top of a top of totals": _TOP.format(
        "k, n",
        "ROW_NUMBER",
        "",
        "n DESC, k",
        _TOP.format("k, n", "ROW_NUMBER", _BY, "n DESC", _TOTALS, "rn <= 2"),
        "rn <= 2",
    ),
    "a union of a CTE": f"WITH c AS ({_COUNTED}) SELECT k, x, rn FROM (SELECT *, ROW_NUMBER() OVER "
    "(PARTITION BY k ORDER BY x DESC) AS rn FROM (SELECT k, n AS x FROM c UNION ALL "
    "SELECT k, v FROM t WHERE v > 1)) WHERE rn <= 2",
    "a union": _TOP.format(
        "k, x, rn",
        "ROW_NUMBER",
        _BY,
        "x DESC",
        f"SELECT k, n AS x FROM ({_COUNTED}) UNION ALL SELECT k, v FROM t WHERE v > 1",
        "rn <= 2",
    ),
}
WINDOWS = {"TUMBLE": (5,), "HOP": (2, 6), "CUMULATE": (3, 12)}
CHANGING = {
    "last rows": "SELECT k, v, ts FROM t WHERE ts IS NOT NULL "
    "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) = 1",
    "top 2": "SELECT k, v, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v, d) <= 2",
    "groups": "SELECT k, COUNT(*) AS v, MAX(ts) AS ts FROM t GROUP BY k",
    "top of totals": "SELECT k, n AS v, ts FROM (SELECT k, v, COUNT(*) AS n, MAX(ts) AS ts FROM t "
    "GROUP BY k, v) QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC) <= 2",
}


def ends_of(second: int, kind: str) -> list[int]:
    """Return the ends of the windows with a time, in seconds."""
    step, size = WINDOWS[kind][0], WINDOWS[kind][-1]
    if kind == "CUMULATE":
        start = second - second % size
        return [start + end for end in range(step, size + 1, step) if second < start + end]
    first = second - second % step + step
    return [end for end in range(first, first + size, step) if second >= end - size]


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("seed", range(3))
def test_groups_over_results_that_change_are_those_of_batch_after_each_micro_batch(name, seed):
    of = stream(GROUPS[name], rows(seed))
    history = of.history(seed)
    assert difference_after_a_micro_batch(of, history) is None
    assert disagreement(of, history, of.batch_rows(of.order), seed) is None


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", RANKS)
@pytest.mark.parametrize("seed", range(3))
def test_ranks_of_results_that_change_are_those_of_batch_after_each_micro_batch(name, seed):
    of = stream(RANKS[name], rows(seed, 24))
    history = of.history(seed)
    assert difference_after_a_micro_batch(of, history) is None
    assert disagreement(of, history, of.batch_rows(of.order), seed) is None


@pytest.mark.parametrize("other", ["ORDER BY n DESC) <= 3", "ORDER BY n) <= 2"])
def test_a_stream_resumes_only_with_the_same_ranks_of_totals(other):
    sql = f"SELECT k, v, n FROM ({_TOTALS}) QUALIFY ROW_NUMBER() OVER (PARTITION BY k {{}}"
    before, after = (simulated(sql.format(part)) for part in ("ORDER BY n DESC) <= 2", other))
    given = {"t": rows_table(rows(1, 4))}
    changed = resume(before, after, stream_over(before, given), given)
    assert isinstance(changed, Refusal)
    assert "its plan has changed" in changed.reason


def _remaining_only(operator, tables, *merge):
    inserted = [t.filter(pc.greater(t.column(operator._copies), 0)) for t in tables]
    return _APPEND(operator, inserted, *merge)


_APPEND = RankOperator._append


def test_a_row_that_is_taken_back_and_stays_in_state_is_found(monkeypatch):
    monkeypatch.setattr(RankOperator, "_append", _remaining_only)
    of = stream(RANKS["top of totals"], rows(1, 24))
    with pytest.raises(ExecutionError, match="retracts a row that it has not emitted"):
        difference_after_a_micro_batch(of, of.every_row)


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", CHANGING)
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_a_window_has_the_results_that_are_true_when_it_closes(kind, name, seed):
    intervals = ", ".join(f"INTERVAL '{seconds}' SECONDS" for seconds in WINDOWS[kind])
    sql = (
        f"SELECT window_end, COUNT(*) AS n, SUM(v) AS s, MAX(v) AS hi FROM TABLE({kind}("
        f"({CHANGING[name]}), DESCRIPTOR(ts), {intervals})) GROUP BY window_start, window_end"
    )
    of, below = (stream(query, rows(seed, 20)) for query in (sql, CHANGING[name]))
    outcome = of.run(of.history(seed))
    read: list[int] = []
    passed = -FINAL_US
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [arrival.row for arrival in planned.rows]
        mark = FINAL_US if planned.has_ended else output.watermark_us
        windows = defaultdict(list)
        for row in below.batch_rows(read) if read else []:
            if row["ts"] is not None and mark is not None:
                for end in ends_of((row["ts"] - START) // dt.timedelta(seconds=1), kind):
                    time = START + dt.timedelta(seconds=end)
                    end_us = (time - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)  # noqa: DTZ001
                    if passed < end_us - FIRE_LAG_US <= mark:
                        windows[time].append(row["v"])
        expected = [
            {
                "window_end": end,
                "n": len(values),
                "s": sum(filter(None, values)) if any(v is not None for v in values) else None,
                "hi": max((v for v in values if v is not None), default=None),
            }
            for end, values in windows.items()
        ]
        assert difference(expected, rows_of([output.rows])) is None
        passed = passed if mark is None else mark
    assert disagreement(of, of.history(seed), of.batch_rows(of.order), seed) is None


_MINUTES = (
    "SELECT window_end, window_time AS wt, k, COUNT(*) AS n, SUM(v) AS s FROM TABLE({}) "
    "GROUP BY k, window_start, window_end, window_time"
)
_TUMBLE = _MINUTES.format(OF_TABLE["tumble"])
_SESSION = _MINUTES.format(OF_TABLE["session"])
OVER_WINDOWS = {
    "groups": f"SELECT k, MAX(n) AS hi, SUM(s) AS s FROM ({_TUMBLE}) WHERE n > 1 GROUP BY k",
    "groups by an expression": f"SELECT SECOND(window_end) % 2 AS m, MAX(n) AS hi FROM ({_TUMBLE}) "
    "GROUP BY SECOND(window_end) % 2",
    "windows": f"SELECT window_end, SUM(n) AS n, MAX(s) AS s FROM TABLE(HOP((SELECT wt, n, s FROM ({_TUMBLE})), "
    "DESCRIPTOR(wt), INTERVAL '5' SECONDS, INTERVAL '15' SECONDS)) "
    "GROUP BY window_start, window_end",
    "groups of sessions": f"SELECT n, COUNT(*) AS c FROM ({_SESSION}) GROUP BY n",
}
_EARLY = "table.exec.emit.early-fire."
SETTINGS = {
    "once": (),
    "early": ((f"{_EARLY}enabled", "true"), (f"{_EARLY}delay", "0 s")),
    "late": (("table.exec.emit.allow-lateness", "30 s"),),
    "after a delay": ((f"{_EARLY}enabled", "true"), (f"{_EARLY}delay", "5 s")),
}


def test_groups_count_the_first_windows_of_each_time():
    of = stream(
        "SELECT k, COUNT(*) AS n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_end "
        f"ORDER BY n DESC, k) AS rn FROM ({_TUMBLE})) WHERE rn = 1 GROUP BY k",
        rows_in_time(0),
    )
    assert disagreement(of, of.history(0), of.batch_rows(of.order), 0) is None


@pytest.mark.variants(2)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("order", ["n DESC, window_end", "window_end DESC"])
def test_results_of_windows_are_ranked_without_a_window(order, seed, settings):
    given = rows(seed, 24) if settings == "late" else rows_in_time(seed)
    sql = _TOP.format("k, n, window_end, rn", "ROW_NUMBER", _BY, order, _TUMBLE, "rn <= 2")
    of = stream(sql, given, settings=SETTINGS[settings])
    assert disagreement(of, of.history(seed), of.batch_rows(of.order), seed) is None


@pytest.mark.variants(2)
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", OVER_WINDOWS)
@pytest.mark.parametrize("seed", range(2))
def test_windows_and_groups_follow_windows_that_are_emitted_again(name, settings, seed):
    given = rows(seed, 24) if settings == "late" else rows_in_time(seed)
    of = stream(OVER_WINDOWS[name], given, settings=SETTINGS[settings])
    assert disagreement(of, of.history(seed), of.batch_rows(of.order), seed) is None


_FILLED = {
    "FILL": "{} FILL (n = 0, s = 0)",
    "GAP_FILL": "SELECT * FROM TABLE(GAP_FILL(({}) PARTITION BY k, DESCRIPTOR(window_end), "
    "INTERVAL '5' SECONDS, FILL => (n = 0, s = 0)))",
}
_CHANGED_ROWS = {name: CHANGING[name] for name in ("last rows", "top of totals")}
_CHANGED_ROWS["a changelog"] = f"SELECT v % 2 AS k, v, ts FROM {CHANGELOG}"


@pytest.mark.variants(1)
@pytest.mark.parametrize("name", _CHANGED_ROWS)
@pytest.mark.parametrize("kind", _FILLED)
@pytest.mark.parametrize("seed", [0, 6])
def test_gaps_between_windows_over_rows_that_change_are_filled(kind, name, seed):
    given = changes(seed, 30) if name == "a changelog" else rows_in_time(seed)
    of_windows = (
        "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(TUMBLE("
        f"({_CHANGED_ROWS[name]}), DESCRIPTOR(ts), INTERVAL '5' SECONDS)) "
        "GROUP BY k, window_start, window_end"
    )
    kept = (("sqlwin.fill.keep", "100000 d"),)
    filled = stream(_FILLED[kind].format(of_windows), given, settings=kept)
    history = filled.history(seed)
    outcome = filled.run(history)
    after = rows_of(output.rows for output in outcome.batches)
    windows = rows_of(output.rows for output in stream(of_windows, given).run(history).batches)
    passed_us = outcome.passed_us[max(outcome.passed_us)]
    until = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=passed_us)  # noqa: DTZ001
    assert difference(without_gaps(windows, until), after) is None
    assert len(after) > len(windows)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("last rows", "cannot be followed"), ("a changelog", "must be read by a window function")],
)
def test_gap_fill_of_single_rows_that_change_is_refused(name, reason):
    with pytest.raises(StreamRefusal, match=reason):
        stream(
            f"SELECT * FROM TABLE(GAP_FILL(({_CHANGED_ROWS[name]}) PARTITION BY k, DESCRIPTOR(ts), "
            "INTERVAL '5' SECONDS, FILL => (v = 0)))",
            rows(0),
        )


def without_gaps(windows: list[dict], until: dt.datetime) -> list[dict]:
    """Return windows of five seconds with the ones that a stream adds.

    They follow the first window of each key, up to its last one and those that end at `until`.
    """
    size, of_keys = dt.timedelta(seconds=5), defaultdict(dict)
    for row in windows:
        of_keys[row["k"]][row["window_end"]] = row
    result = []
    for key, of_key in of_keys.items():
        end = min(of_key)
        while end <= max(until, *of_key):
            added = {"k": key, "window_start": end - size, "window_end": end, "n": 0, "s": 0}
            result.append(of_key.get(end, added))
            end += size
    return result


@pytest.mark.parametrize("below", [_COUNTED, _TUMBLE])
def test_a_union_that_reads_the_results_of_one_query_twice_is_refused(below):
    both = "SELECT k, n AS x FROM c UNION ALL SELECT k, s FROM c"
    with pytest.raises(StreamRefusal, match="UNION ALL reads the results of one query twice"):
        stream(
            f"WITH c AS ({below}), u AS ({both}) SELECT k, x FROM u "
            "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY x) = 1",
            rows(0),
        )


def test_rows_and_ranks_of_windows_follow_results_that_change():
    sql = (
        "SELECT k, v, window_end FROM TABLE(TUMBLE("
        f"({CHANGING['last rows']}), DESCRIPTOR(ts), INTERVAL '5' SECONDS)) "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY v DESC, k) = 1"
    )
    given = [(1000, "a", 1, 0.0), (2000, "b", 3, 0.0), (3000, "b", 0, 0.0), (20_000, "a", 5, 0.0)]
    of = stream(sql, given)
    emitted = rows_of(output.rows for output in of.run(of.every_row).batches)
    shown = [(row["k"], row["v"], (row["window_end"] - START).seconds) for row in emitted]
    # the row of `a` moves to another window in the micro-batch that closes the first one
    assert shown == [("b", 0, 5), ("a", 5, 25)]


def test_a_row_leaves_a_window_when_its_step_has_closed():
    sql = (
        "SELECT window_end, COUNT(*) AS n, MAX(v) AS hi, COUNT(DISTINCT v) AS c FROM TABLE(CUMULATE("
        f"({CHANGING['last rows']}), DESCRIPTOR(ts), INTERVAL '3' SECONDS, INTERVAL '12' SECONDS)) "
        "GROUP BY window_start, window_end"
    )
    of = stream(sql, [(3000, "a", 5, 0.0), (11_500, "b", 2, 0.0), (16_500, "a", 1, 0.0)])
    batches = (Batch(tuple(map(Arrival, rows))) for rows in ((0, 1), (2,)))
    history = StreamHistory((*batches, Batch((), has_ended=True)))
    emitted = [rows_of([output.rows]) for output in of.run(history).batches]
    shown = [
        [((row["window_end"] - START).seconds, row["n"], row["hi"], row["c"]) for row in rows]
        for rows in emitted
    ]
    assert shown == [
        [(6, 1, 5, 1), (9, 1, 5, 1)],
        [(12, 1, 2, 1)],
        [(s, 1, 1, 1) for s in (18, 21, 24)],
    ]


def _lost(*arguments):
    changed, changes = row_changes.updates(*arguments)
    kinds = [[kind != "-U" for kind in batch.column(0).to_pylist()] for batch in changes]
    return changed, [b.filter(kept) for b, kept in zip(changes, kinds, strict=True)]


def test_a_lost_row_before_an_update_is_found(monkeypatch):
    from runtime.streaming.operators import ranks

    monkeypatch.setattr(ranks, "updates", _lost)
    of = stream(GROUPS["last rows"], rows(1))
    assert difference_after_a_micro_batch(of, of.every_row) is not None


GAP = dt.timedelta(seconds=3)
_CELL = ("k", "v", "ts")


class OpenSessions:
    """The rows that remain in sessions of a key that have not ended, by definition."""

    def __init__(self) -> None:
        self.known: Counter[tuple] = Counter()
        self.table: Counter[tuple] = Counter()

    def read(self, table: list[dict], before: dt.datetime | None, mark: dt.datetime) -> list[dict]:
        """Return the sessions that end, once a table has changed and the watermark has advanced."""
        now = Counter(tuple(row[name] for name in _CELL) for row in table)
        new = now - self.table
        for cell in (self.table - now).elements():
            self.known[cell] -= self.known[cell] > 0
        self.table, emitted = now, []
        for session in sessions_of([*self.known.elements(), *new.elements()]):
            end = session[-1][2] + GAP
            is_late = before is not None and end <= before and not any(map(self._knows, session))
            if end <= mark and not is_late:
                key, _, start = session[0]
                values = [v for _, v, _ in session if v is not None]
                row = {"k": key, "window_start": start, "window_end": end, "n": len(session)}
                emitted.append({**row, "s": sum(values) if values else None})
            if end <= mark:
                new -= Counter(session)
                self.known -= Counter(session)
        self.known += new
        return emitted

    def _knows(self, cell: tuple) -> bool:
        return self.known[cell] > 0


def sessions_of(cells: list[tuple]) -> list[list[tuple]]:
    """Return cells in order of time, by key, cut where the gap is longer than GAP."""
    sessions: list[list[tuple]] = []
    for cell in sorted(cells, key=lambda cell: (str(cell[0]), cell[2], str(cell))):
        last = sessions[-1][-1] if sessions else None
        if last is None or last[0] != cell[0] or cell[2] - last[2] > GAP:
            sessions.append([])
        sessions[-1].append(cell)
    return sessions


@pytest.mark.variants(2)
@pytest.mark.parametrize("last", [1, 3])
@pytest.mark.parametrize("seed", range(6))
def test_sessions_split_while_their_rows_are_taken_back(seed, last):
    rows_below = (
        "SELECT k, v, ts FROM t WHERE ts IS NOT NULL "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC, ts) <= {last}"
    )
    sql = (
        "SELECT k, window_start, window_end, COUNT(*) AS n, SUM(v) AS s FROM TABLE(SESSION("
        f"({rows_below}) PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' SECONDS)) "
        "GROUP BY k, window_start, window_end"
    )
    given = sorted(rows(seed, 40), key=lambda row: row[0] // 4000)
    of, below = (stream(query, given) for query in (sql, rows_below))
    outcome = of.run(of.history(seed))
    model, read, before = OpenSessions(), [], None
    for planned, output in zip(outcome.planned, outcome.batches, strict=True):
        read += [arrival.row for arrival in planned.rows]
        mark = dt.datetime(1970, 1, 1)  # noqa: DTZ001
        if planned.has_ended:
            mark = START + dt.timedelta(days=365)
        elif output.watermark_us is not None:
            mark += dt.timedelta(microseconds=output.watermark_us)
        expected = model.read(below.batch_rows(read) if read else [], before, mark)
        assert difference(expected, rows_of([output.rows])) is None
        before = mark
    assert disagreement(of, of.history(seed), of.batch_rows(of.order), seed) is None


def test_a_deletion_that_does_not_split_a_session_is_found(monkeypatch):
    def every(table: pa.Table, keys: tuple[str, ...], copies: str) -> np.ndarray:
        return np.ones(table.num_rows, np.int64)

    for module in (changed_sessions, of_partials):
        monkeypatch.setattr(module, "net_copies", every)
    with pytest.raises(AssertionError):
        test_sessions_split_while_their_rows_are_taken_back(0, 1)
