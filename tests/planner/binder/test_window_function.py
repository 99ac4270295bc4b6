"""From the arguments of a window function to the window."""

from __future__ import annotations

import pytest

from planner.binder.window_function import time_column, window_of
from planner.sql.nodes import WindowFunctionCall
from runtime.errors import AnalysisError
from runtime.spec.table import Column
from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.session import SessionWindow
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble
from sqlwin.parser.parser import parse_query

WEEK_US = 7 * DAY_US


def window(call: str) -> Window:
    sql = f"SELECT * FROM TABLE({call})"
    function = parse_query(sql).find(WindowFunctionCall)
    assert function is not None
    return window_of(function, sql)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '7' DAYS)", Tumble(WEEK_US)),
        # the first Monday at or before 1 January 1970 is 29 December 1969
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '2' WEEKS)", Tumble(2 * WEEK_US, -3 * DAY_US)),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1 week', INTERVAL '1' DAY)",
            Tumble(WEEK_US, -2 * DAY_US),
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' WEEK)",
            Hop(DAY_US, WEEK_US),
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' DAY, INTERVAL '1' WEEK)",
            Cumulate(DAY_US, WEEK_US, -3 * DAY_US),
        ),
        ("TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' QUARTER)", CalendarTumble(3)),
        (
            "TUMBLE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' YEAR, INTERVAL '-9' MONTHS)",
            CalendarTumble(12, 3),
        ),
        (
            "HOP(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1-6' YEAR TO MONTH, "
            "INTERVAL '6' HOURS)",
            CalendarHop(1, 18, 0, DAY_US // 4),
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' MONTH, INTERVAL '1' YEAR)",
            CalendarCumulate(12, 1),
        ),
        (
            "CUMULATE(TABLE t, DESCRIPTOR(ts), INTERVAL '1' WEEK, INTERVAL '1' MONTH, true)",
            CalendarCumulate(1, 0, WEEK_US, emit_only_on_update=True),
        ),
        ("SESSION(TABLE t, DESCRIPTOR(ts), INTERVAL '1' WEEK)", SessionWindow(WEEK_US)),
    ],
)
def test_a_call_means_this_window(call: str, expected: Window) -> None:
    assert window(call) == expected


@pytest.mark.parametrize(
    ("kind", "makes"),
    [
        ("bigint", "TIMESTAMP_MILLIS(`at`), TIMESTAMP_SECONDS"),
        ("string", "CAST(`at` AS TIMESTAMP)"),
    ],
)
def test_a_column_that_is_no_time_is_refused_with_a_cast(kind: str, makes: str) -> None:
    sql = "SELECT * FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR))"
    function = parse_query(sql).find(WindowFunctionCall)
    assert function is not None
    with pytest.raises(AnalysisError, match=f"`at` is {kind.upper()}") as caught:
        time_column(function, (Column("at", kind),), sql)
    assert makes in str(caught.value.hint)
