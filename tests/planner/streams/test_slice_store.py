"""The planner's choice of a stream's slice store, with the reason."""

from __future__ import annotations

import pytest

from planner.streams.slice_store import choose_slice_store, reason_of_store
from runtime.plan.streams import SliceStoreKind
from runtime.windows import AlignedWindow
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.session import SessionWindow
from runtime.windows.tumble import Tumble

PLAIN, RUNNING, TOTALS = SliceStoreKind
MINUTE = 60_000_000
ONE_SLICE, CLOSED_STEPS = "a window is one slice", "closed steps are merged into one slice"


@pytest.mark.parametrize(
    ("window", "store", "reason"),
    [
        (Tumble(MINUTE), PLAIN, ONE_SLICE),
        (Hop(MINUTE, MINUTE), PLAIN, ONE_SLICE),
        (Hop(2 * MINUTE, MINUTE), PLAIN, ONE_SLICE),
        (Hop(MINUTE, 5 * MINUTE), PLAIN, "each slice is in only 5 windows"),
        (Hop(2 * MINUTE, 11 * MINUTE), RUNNING, "each slice is in 6 windows"),
        (Hop(MINUTE, 60 * MINUTE), RUNNING, "each slice is in 60 windows"),
        (CalendarHop(1, 12), RUNNING, "each slice is in 12 windows"),
        (Cumulate(MINUTE, 60 * MINUTE), PLAIN, CLOSED_STEPS),
        (CalendarCumulate(1, step_us=86_400_000_000), PLAIN, CLOSED_STEPS),
        (Cumulate(MINUTE, MINUTE), PLAIN, ONE_SLICE),
    ],
    ids=repr,
)
def test_slices_that_many_windows_read_have_running_aggregates(
    window: AlignedWindow, store: SliceStoreKind, reason: str
) -> None:
    assert choose_slice_store(window, has_allowed_lateness=False) is store
    assert reason_of_store(store, window) == reason


@pytest.mark.parametrize(
    ("window", "store"),
    [
        (Tumble(MINUTE), PLAIN),
        (Hop(MINUTE, 60 * MINUTE), RUNNING),
        (Cumulate(MINUTE, 60 * MINUTE), TOTALS),
        (Cumulate(MINUTE, MINUTE), PLAIN),
    ],
    ids=repr,
)
def test_steps_that_may_still_change_have_running_totals(
    window: AlignedWindow, store: SliceStoreKind
) -> None:
    assert choose_slice_store(window, has_allowed_lateness=True) is store
    if store is TOTALS:
        assert reason_of_store(store, window) == "steps stay separate while late rows are allowed"


def test_sessions_have_no_slices() -> None:
    assert choose_slice_store(SessionWindow(MINUTE, ()), has_allowed_lateness=False) is PLAIN
