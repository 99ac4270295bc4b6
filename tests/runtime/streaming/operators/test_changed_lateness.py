"""Changing the allowed lateness on a restart: closed windows stay closed, open ones accept rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.streaming.operators.firing import FireRule, UpdateRules
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.reference import windows_of
from tests.runtime.streaming.model import MS, Stream

S = 1000 * MS
LATE = FireRule(rows=1000)


def stream(window, lateness, late=None):
    return Stream(window, updates=rules(lateness, late))


def rules(lateness, late=None):
    return UpdateRules(lateness * MS, None, late)


def test_more_lateness_does_not_reopen_windows():
    run = stream(Tumble(10 * S), 1000)
    rows = [("a", at * 1000, 1) for at in range(10)]
    assert run.micro_batch(rows, 100_000) == [("+I", "a", 0, 10_000, 10, 10, 1)]
    run.updates = rules(3_600_000)
    assert run.micro_batch([("a", 5000, 1), ("a", 98_000, 1)], 120_000) == [
        ("+I", "a", 90_000, 100_000, 1, 1, 1)
    ]
    assert run.n_late == 1
    # windows that are open when the lateness is raised stay open longer
    assert run.micro_batch([("a", 95_000, 1)], 500_000) == [
        ("-U", "a", 90_000, 100_000, 1, 1, 1),
        ("+U", "a", 90_000, 100_000, 2, 2, 1),
    ]
    assert run.micro_batch([("a", 5000, 1)], 500_000) == []
    assert run.n_late == 2
    assert run.status.closed_us == 99_001 * MS


def test_late_rows_are_emitted_before_less_lateness_closes_their_window():
    run = stream(Tumble(10 * S), 100_000, LATE)
    run.micro_batch([("a", 1000, 1)], 20_000)
    # waits for more rows
    assert run.micro_batch([("a", 2000, 5)], 20_000) == []
    run.updates = rules(1000, LATE)
    assert run.micro_batch([("a", 3000, 7)], 20_000) == [
        ("-U", "a", 0, 10_000, 1, 1, 1),
        ("+U", "a", 0, 10_000, 3, 13, 7),
    ]
    assert run.micro_batch([("a", 4000, 1)], 20_000) == []
    assert run.n_late == 1
    assert run.status.n_rows == 0


@pytest.mark.parametrize("window", [Tumble(10 * S), Hop(5 * S, 20 * S), Cumulate(5 * S, 20 * S)])
@given(
    script=st.lists(
        st.tuples(
            st.sampled_from([0, 7000, 30_000, 90_000]),
            st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 90_000)), max_size=5),
            st.integers(0, 100_000),
        ),
        max_size=7,
    )
)
def test_no_window_ever_shows_fewer_rows_than_it_has_shown(window, script):
    run = stream(window, 0)
    shown, members = {}, {}
    watermark = closed = None
    n_late = 0
    for lateness, rows, mark in script:
        run.updates = rules(lateness)
        for key, time in rows:
            windows = windows_of(window, time, MS)
            removed = [item for item in windows if closed is None or item[1] - 1 > closed]
            n_late += bool(windows) and not removed
            for item in removed:
                members[key, *item] = members.get((key, *item), 0) + 1
        for kind, key, start, end, n, *_ in run.micro_batch([(*row, 1) for row in rows], mark):
            if kind == "-U":
                assert shown.pop((key, start, end)) == n
            else:
                assert (key, start, end) not in shown
                shown[key, start, end] = n
        watermark = mark if watermark is None else max(mark, watermark)
        passed = watermark - lateness
        closed = passed if closed is None else max(closed, passed)
        due = {item: n for item, n in members.items() if item[2] - 1 <= watermark}
        assert shown == due
    assert run.n_late == n_late
