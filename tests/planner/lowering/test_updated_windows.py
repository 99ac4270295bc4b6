"""The condition that keeps CUMULATE windows with rows in their own step."""

from __future__ import annotations

import pytest

from planner.lowering.updated_windows import is_updated
from planner.sql.build import to_sql
from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.tumble import Tumble

DAY_US = 86_400_000_000


@pytest.mark.parametrize(
    ("window", "parts"),
    [
        (Cumulate(60_000_000, 600_000_000, 0, True), ["`e` - ", "60000000 / 1000000.000000"]),
        (CalendarCumulate(12, 3, 0, 0, DAY_US, True), ["MAKE_YM_INTERVAL(0, 3)", f"{DAY_US} /"]),
        (CalendarCumulate(1, 0, DAY_US, 0, 0, True), ["(`e` - `s`)", " DIV "]),
    ],
)
def test_a_row_of_the_last_step_updates_its_window(window: Window, parts: list[str]) -> None:
    condition = is_updated(window, "ts", "s", "e")
    assert condition is not None
    text = to_sql(condition)
    assert text.startswith("BOOL_OR(CAST(`ts` AS TIMESTAMP_NTZ) >= ")
    assert all(part in text for part in parts)


@pytest.mark.parametrize(
    "window", [Tumble(60_000_000, 0), Cumulate(60_000_000, 600_000_000), CalendarCumulate(12, 3)]
)
def test_other_windows_are_unchanged(window: Window) -> None:
    assert is_updated(window, "ts", "s", "e") is None
