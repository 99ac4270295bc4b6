"""EXPLAIN of a stream notes windows whose emission costs more than their changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.explain.streams import Firing, explain_stream, state_read_text
from runtime.plan.streams import EmissionMode, SliceStoreKind
from runtime.windows import Window
from runtime.windows.cumulate import Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble
from tests.runtime.simulator.queries import of_window, stream

MINUTE = 60_000_000
RUNNING = SliceStoreKind.RUNNING_AGGREGATES
EARLY, LATE = Firing(is_early=True), Firing(is_late=True)


@pytest.mark.parametrize("firing", [EARLY, LATE])
def test_sessions_that_are_emitted_again_have_results_in_state(firing: Firing) -> None:
    (operator,) = stream(of_window("session"), [(0, "a", 1, 1.0)]).query.operators
    step = replace(operator.step, emission=EmissionMode.AGAIN)
    again = explain_stream(step, 4, "min", firing)
    assert "state: one partial per key and open session, and its emitted results: k" in again
    assert "emitted again: a session that has grown or merged is -D, and +I with its new" in again
    once = explain_stream(operator.step, 4, "min", Firing())
    assert "emitted results" not in once and "emitted again" not in once


def test_windows_that_are_ranked_again_are_in_the_key_group_of_their_rank() -> None:
    settings = (("table.exec.emit.allow-lateness", "5 s"),)
    for keys, groups in (("", "1, because the query"), (", k", "4, by k")):
        sql = f"""
            SELECT * FROM (SELECT *, ROW_NUMBER() OVER (
              PARTITION BY window_start, window_end{keys} ORDER BY n DESC) AS r
            FROM (SELECT k, v, window_start, window_end, COUNT(*) AS n
              FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '5' SECONDS))
              GROUP BY k, v, window_start, window_end)) WHERE r <= 2"""
        operator, rank = stream(sql, [(0, "a", 1, 1.0)], settings=settings).query.parts
        text = explain_stream(operator.step, 4, "min", LATE)
        assert f"key groups: {groups}" in text.replace(
            "all rows of a window are ranked", "the query"
        )
        assert "a window that has changed arrives whole" in explain_stream(
            rank.step, 4, "min", LATE
        )


@pytest.mark.parametrize("firing", [Firing(), EARLY, LATE], ids=["end", "early", "late"])
@pytest.mark.parametrize(
    "window", [Tumble(MINUTE), SessionWindow(MINUTE, ()), Hop(MINUTE, MINUTE)], ids=str
)
def test_one_slice_or_session_is_not_worth_a_word(window: Window, firing: Firing) -> None:
    assert state_read_text(window, SliceStoreKind.PLAIN, firing) is None


@pytest.mark.parametrize("window", [Hop(MINUTE, 60 * MINUTE), CalendarHop(1, 12)], ids=["h", "y"])
def test_of_a_hop_it_says_when_running_aggregates_are_read(window: Window) -> None:
    running = "three partials per key, from running aggregates; with few rows, all its slices"
    assert state_read_text(window, RUNNING, Firing()) == running
    assert state_read_text(window, RUNNING, LATE) == (
        f"{running}; the same for late rows, all its slices for very late ones"
    )
    assert state_read_text(window, RUNNING, EARLY) == (
        f"{running}; for early results, all slices of the windows with new rows, read together"
    )


def test_windows_that_overlap_little_are_merged_from_slices() -> None:
    assert (
        state_read_text(Hop(MINUTE, 3 * MINUTE), SliceStoreKind.PLAIN, Firing()) == "all its slices"
    )


def test_cumulate_shows_the_length_of_the_total() -> None:
    window = Cumulate(MINUTE, 60 * MINUTE)
    assert (
        state_read_text(window, SliceStoreKind.PLAIN, Firing())
        == "the running total and the last step"
    )
    assert state_read_text(window, SliceStoreKind.RUNNING_TOTALS, LATE) == (
        "the running total and the last step; for late rows, all steps since theirs; with "
        "few rows, the total of the closed steps and all later steps"
    )
