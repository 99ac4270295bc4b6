"""State time-to-live on a stream: after each micro-batch as in a model with its processing time."""

from __future__ import annotations

from collections import defaultdict

import pytest

from runtime.refusal import Refusal
from runtime.simulator.check import SimulatedStream, disagreement
from runtime.simulator.compare import difference, rows_of
from runtime.simulator.histories import StreamHistory
from runtime.spec.stream import ROW_KIND
from sqlwin.testing.simulated import resume
from tests.runtime.simulator.queries import rows_table, simulated, stream
from tests.runtime.simulator.test_all_time import rows

TTL_US = 7_000_000
SETTING = (("table.exec.state.ttl", "7 s"),)
HINT = "/*+ STATE_TTL('t' = '7 s') */"
_RANKED = "SELECT {{}} k, v, d, ts FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY {}) {}"
# Queries with a place for the hint, and the number of their first columns that are the key of state
GROUPS = {
    "groups": ("SELECT {} k, COUNT(*) AS n, MIN(v) AS lo, AVG(d) AS a FROM t GROUP BY k", 1),
    "two keys": ("SELECT {} k, v, SUM(d) AS s FROM t GROUP BY k, v", 2),
    "distinct": ("SELECT {} DISTINCT k FROM t", 1),
    "a total": ("SELECT {} COUNT(*) AS n, SUM(v) AS s FROM t", 0),
    "within a query": (
        "SELECT k, n + 1 AS m FROM (SELECT {} k, COUNT(*) AS n FROM t GROUP BY k)",
        1,
    ),
}
RANKS = {
    "last row": (_RANKED.format("ts DESC, v, d", "= 1"), 1),
    "first row by another column": (_RANKED.format("v, d, ts", "= 1"), 1),
}
QUERIES = {**GROUPS, **RANKS}


def expected_sinks(of: SimulatedStream, history: StreamHistory, name: str) -> list[list[dict]]:
    """Return the rows of a table updated by key after each micro-batch, by definition.

    A key has the rows since it was last dropped. Each row of a group changes its key, and a row of
    a rank if it is among the first. Results of dropped keys stay in the table.
    """
    n_keys, given = QUERIES[name][1], rows_of([of.tables["t"].rows])
    live: dict[tuple, list[int]] = defaultdict(list)
    changed: dict[tuple, int] = {}
    sink: dict[tuple, list[dict]] = {}
    sinks = []
    for planned in of.run(history).planned:
        for key in [key for key, at in changed.items() if at + TTL_US <= planned.clock_us]:
            del live[key], changed[key]
        new: dict[tuple, list[int]] = defaultdict(list)
        for arrival in planned.rows:
            row = given[arrival.row]
            new[tuple(row[column] for column in ("k", "v")[:n_keys])].append(arrival.row)
        for key, numbers in new.items():
            live[key] += numbers
            before, sink[key] = sink.get(key), of.batch_rows(live[key])
            is_known = key in changed
            if name in GROUPS or not is_known or difference(before or [], sink[key]) is not None:
                changed[key] = planned.clock_us
        sinks.append([row for results in sink.values() for row in results])
    return sinks


def sinks_by_key(of: SimulatedStream, history: StreamHistory, n_keys: int) -> list[list[dict]]:
    """Return the rows of a table that is updated by the first columns of a stream's rows."""
    sink: dict[str, dict] = {}
    sinks = []
    for output in of.run(history).batches:
        for row in rows_of([output.rows]):
            kind = row.pop(ROW_KIND, "+I")
            key = str([*row.values()][:n_keys])
            if kind in ("+I", "+U"):
                sink[key] = row
            elif kind == "-D":
                del sink[key]
        sinks.append([*sink.values()])
    return sinks


@pytest.mark.variants(2)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("seed", range(3))
def test_after_each_micro_batch_a_table_has_the_results_of_keys_since_they_were_dropped(name, seed):
    sql, n_keys = QUERIES[name]
    by_hint = stream(sql.format(HINT), rows(seed, 30))
    history = by_hint.history(seed)
    expected = expected_sinks(by_hint, history, name)
    for of in (by_hint, stream(sql.format(""), rows(seed, 30), settings=SETTING)):
        for sink, should_be in zip(sinks_by_key(of, history, n_keys), expected, strict=True):
            assert difference(should_be, sink) is None
        assert isinstance(of.definition, Refusal)
        assert disagreement(of, history, of.batch_rows(of.order), seed) is None


@pytest.mark.variants(1)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n, COUNT(*) AS c FROM (SELECT k, COUNT(*) AS n FROM t GROUP BY k) GROUP BY n",
        "SELECT v % 2 AS g, COUNT(*) AS n, MAX(d) AS m FROM (SELECT k, v, d FROM t "
        "QUALIFY ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC, v, d) = 1) GROUP BY v % 2",
        "SELECT k, v, n, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY n DESC, v) "
        "AS rn FROM (SELECT k, v, COUNT(*) AS n FROM t GROUP BY k, v)) WHERE rn <= 2",
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_operators_above_each_other_forget_the_same_keys_after_crashes_and_rescales(sql, seed):
    of = stream(sql, rows(seed, 30), settings=SETTING)
    assert disagreement(of, of.history(seed), of.batch_rows(of.order), seed) is None


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("7 s", "1 d", None),
        ("7 s", "0 s", "'table.exec.state.ttl of operator 0' has changed from 'on' to 'off'"),
        ("0 s", "7 s", "'table.exec.state.ttl of operator 0' has changed from 'off' to 'on'"),
    ],
)
@pytest.mark.parametrize("name", ["groups", "last row"])
def test_a_stream_resumes_with_another_time_to_live(name, before, after, reason):
    given, sql = rows(1), QUERIES[name][0]
    first, second = (
        simulated(sql.format(f"/*+ STATE_TTL('t' = '{ttl}') */")) for ttl in (before, after)
    )
    of = stream(sql.format(HINT), given)
    outcome = resume(first, second, of, {"t": rows_table(given)})
    assert isinstance(outcome, Refusal) == (reason is not None)
    if isinstance(outcome, Refusal):
        assert reason in outcome.reason
