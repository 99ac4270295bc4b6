"""A stream that resumes with another query: the allowed changes, and the rows after them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runtime.refusal import Refusal
from runtime.simulator.changed_query import ChangedStream
from runtime.simulator.histories import Arrival, Batch, Restart, StreamHistory
from runtime.simulator.timeline import timeline
from sqlwin.testing.simulated import resume, stream_over
from tests.runtime.simulator.queries import WINDOWS, rows_table, simulated

ROWS = [(i * 700, "abc"[i % 3], i % 5, i / 2) for i in range(40)]
FIRST = (
    "SELECT k, window_end, {calls} FROM TABLE({window}) {where}GROUP BY k, window_start, window_end"
)
SUM, ALL = "SUM(v) AS s", "COUNT(*) AS n, SUM(v) AS s, MAX(d) AS hi"


def _query(calls=ALL, window="tumble", where="", having=""):
    sql = FIRST.format(calls=calls, window=WINDOWS.get(window, window), where=where)
    return simulated(f"{sql} {having}")


def _resumed(after, before=None):
    before = before or _query()
    rows = {"t": rows_table(ROWS)}
    return resume(before, after, stream_over(before, rows), rows)


@pytest.mark.variants(2)
@pytest.mark.parametrize(
    "change",
    [
        {"having": "HAVING COUNT(*) > 1"},
        {"calls": SUM},
        {"calls": "MAX(d) + COUNT(*) AS x"},
        {"calls": "AVG(d) AS a, SUM(v) AS s"},
    ],
)
def test_an_allowed_change_emits_the_rows_of_the_new_query_from_then_on(change):
    before = _query("COUNT(*) AS n, SUM(v) AS s, MAX(d) AS hi, AVG(d) AS a")
    changed = _resumed(_query(**change), before)
    assert isinstance(changed, ChangedStream), changed
    mismatch = changed.first_disagreement(range(4))
    assert mismatch is None, (mismatch.reason, mismatch.difference)


def test_windows_of_the_same_slices_resume():
    wider = WINDOWS["tumble"].replace("TUMBLE", "HOP").replace("'5' SECONDS)", "'5' SECONDS, ")
    changed = _resumed(_query(window=f"{wider}INTERVAL '10' SECONDS)"))
    assert isinstance(changed, ChangedStream) and changed.has_other_windows
    assert changed.first_disagreement(range(4)) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"calls": "MIN(v) AS lo"}, "from which MIN(v) cannot be computed"),
        ({"where": "WHERE v > 0 "}, "had the conditions none, but now has v > 0"),
        ({"window": "session"}, "sessions have no slices"),
        ({"window": "hop"}, "its windows do not consist of the stored slices"),
    ],
)
def test_other_changes_are_refused_as_by_the_engine(change, reason):
    refusal = _resumed(_query(**change))
    assert isinstance(refusal, Refusal) and reason in refusal.reason


def test_a_history_that_forgets_the_state_fails():
    changed = _resumed(_query(having="HAVING COUNT(*) > 1"))
    halves = [tuple(Arrival(n) for n in range(i, i + 20)) for i in (0, 20)]
    steps = (
        Batch(halves[0]),
        Restart(is_changed=True),
        Batch(halves[1]),
        Batch((), has_ended=True),
    )
    history = StreamHistory(steps)
    assert changed.disagreement(history) is None
    text = list(timeline(changed.before, history, changed.change))
    assert "the stream stops and resumes with the changed query" in text
    # the rows of another query
    wrong = replace(changed, change=replace(changed.change, query=_query(SUM).query))
    assert "has other rows than the changed query" in wrong.disagreement(history).reason
