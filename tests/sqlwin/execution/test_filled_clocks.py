"""Filled windows of instants: the windows that some instant falls into, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.times import DAY_US
from runtime.windows.tumble import CalendarTumble, Tumble
from sqlwin.session import Session
from sqlwin.testing import simulate_query
from tests.reference import Bounds, windows_of
from tests.unstarted import unstarted_spark

# Days on which a clock does what no other does
DAYS = {
    "no 02:00 to 03:00": ("Europe/Berlin", datetime(2024, 3, 31, tzinfo=UTC)),
    "twice 02:00 to 03:00": ("Europe/Berlin", datetime(2024, 10, 27, tzinfo=UTC)),
    "no midnight, in the west": ("America/Sao_Paulo", datetime(2018, 11, 4, tzinfo=UTC)),
    "no midnight, in the east": ("Asia/Beirut", datetime(2024, 3, 31, tzinfo=UTC)),
    "no half of an hour": ("Australia/Lord_Howe", datetime(2024, 10, 6, tzinfo=UTC)),
    "twice half of an hour": ("Australia/Lord_Howe", datetime(2024, 4, 7, tzinfo=UTC)),
    "no day": ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),
}
MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
# Windows, their function and the distance between them
WINDOWS: dict[str, tuple[Window, str]] = {
    "TUMBLE({}, INTERVAL '15' MINUTES)": (Tumble(15 * MINUTE_US), "'15' MINUTES"),
    "TUMBLE({}, INTERVAL '1' HOUR, INTERVAL '30' MINUTES)": (
        Tumble(HOUR_US, 30 * MINUTE_US),
        "'1' HOUR",
    ),
    "TUMBLE({}, INTERVAL '1' DAY)": (Tumble(DAY_US), "'1' DAY"),
    "HOP({}, INTERVAL '30' MINUTES, INTERVAL '45' MINUTES)": (
        Hop(30 * MINUTE_US, 45 * MINUTE_US),
        "'30' MINUTES",
    ),
    "HOP({}, INTERVAL '1' HOUR, INTERVAL '30' MINUTES)": (
        Hop(HOUR_US, 30 * MINUTE_US),
        "'1' HOUR",
    ),
    "HOP({}, INTERVAL '12' HOURS, INTERVAL '1' DAY)": (Hop(12 * HOUR_US, DAY_US), "'12' HOURS"),
    "CUMULATE({}, INTERVAL '15' MINUTES, INTERVAL '1' HOUR)": (
        Cumulate(15 * MINUTE_US, HOUR_US),
        "'15' MINUTES",
    ),
    "CUMULATE({}, INTERVAL '6' HOURS, INTERVAL '1' DAY)": (
        Cumulate(6 * HOUR_US, DAY_US),
        "'6' HOURS",
    ),
    "TUMBLE({}, INTERVAL '1' MONTH)": (CalendarTumble(1), "'1' MONTH"),
    "HOP({}, INTERVAL '1' MONTH, INTERVAL '2' MONTHS)": (CalendarHop(1, 2), "'1' MONTH"),
    "CUMULATE({}, INTERVAL '1' DAY, INTERVAL '1' MONTH)": (
        CalendarCumulate(1, step_us=DAY_US),
        "'1' DAY",
    ),
}
BOTH = "window_start, window_end"


@cache
def wall_clocks(day: str) -> tuple[int, ...]:
    """Return the wall clock, in microseconds, every 5 minutes from 40 hours before a day to 71 hours after."""
    zone, start = DAYS[day]
    clocks = []
    for step in range((40 + 71) * 12 + 6):
        instant = start - timedelta(hours=40) + timedelta(minutes=5 * step)
        wall = instant.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC)
        clocks.append((wall - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1))
    return tuple(clocks)


def times_of(day: str) -> list[datetime]:
    """Return the first, the seventh last and the last of these instants."""
    start = DAYS[day][1]
    # one of the last two is in a window of HOP with gaps
    return [start + timedelta(hours=hours) for hours in (-40, 70 + 55 / 60, 71 + 25 / 60)]


def windows_with_instants(day: str, window: Window) -> list[Bounds]:
    """Return the windows from the first to the last row that some instant falls into."""
    clocks = wall_clocks(day)
    rows = (clocks[0], clocks[-7], clocks[-1])
    ends = [end for clock in rows for _, end in windows_of(window, clock)]
    whole = {bounds for clock in clocks for bounds in windows_of(window, clock)}
    return sorted(bounds for bounds in whole if min(ends) <= bounds[1] <= max(ends))


def micros(column: pa.ChunkedArray) -> list[int]:
    return column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()


def filled(day: str, sql: str) -> pa.Table:
    """Return the rows of a query over these instants, computed in process."""
    session = Session(unstarted_spark(), settings={})
    session.execute(f"SET 'table.local-time-zone' = '{DAYS[day][0]}'")
    times = (f"(TIMESTAMP_LTZ '{time.isoformat(' ')}')" for time in times_of(day))
    session.execute(f"CREATE VIEW t AS SELECT * FROM VALUES {', '.join(times)} AS v(ts)")
    (result,) = session.execute(sql)
    return result.to_arrow()


def grouped(window: str, columns: str) -> str:
    call = window.format("TABLE t, DESCRIPTOR(ts)")
    return f"SELECT {columns}, COUNT(*) AS n FROM TABLE({call}) GROUP BY {BOTH}"


def in_cases(*, starts: bool = False) -> Iterator[tuple[str, str]]:
    """Yield days and windows. With `starts`, those whose start tells the window, in process."""
    for day in DAYS:
        for name, (window, _) in WINDOWS.items():
            if not starts or not isinstance(window, Cumulate | CalendarCumulate | CalendarHop):
                yield day, name


def on_streams() -> Iterator[object]:
    """Yield days and windows: each day and each window once, the others with `--long`."""
    names = [name for name, (of, _) in WINDOWS.items() if not isinstance(of, CalendarCumulate)]
    for number, day in enumerate(DAYS):
        for place, name in enumerate(names):
            is_default = place in (number, number + len(DAYS))
            yield pytest.param(day, name, marks=() if is_default else pytest.mark.long)


@pytest.mark.variants(12)
@pytest.mark.parametrize(("day", "name"), list(in_cases()))
def test_fill_adds_the_windows_that_an_instant_falls_into(day, name):
    window, _ = WINDOWS[name]
    rows = filled(day, f"{grouped(name, BOTH)} FILL (n = 0)")
    bounds = sorted(zip(micros(rows["window_start"]), micros(rows["window_end"]), strict=True))
    assert bounds == windows_with_instants(day, window)


@pytest.mark.variants(16)
@pytest.mark.parametrize(("day", "name"), list(in_cases(starts=True)))
def test_gap_fill_without_window_end_adds_the_same_windows(day, name):
    window, step = WINDOWS[name]
    rows = filled(
        day,
        f"SELECT * FROM TABLE(GAP_FILL(({grouped(name, 'window_start')}), "
        f"DESCRIPTOR(window_start), INTERVAL {step}, FILL => (n = 0)))",
    )
    starts = sorted(micros(rows["window_start"]))
    assert starts == [start for start, _ in windows_with_instants(day, window)]


@pytest.mark.parametrize(("day", "name"), list(on_streams()))
def test_a_stream_adds_the_same_windows(day, name):
    window, _ = WINDOWS[name]
    session = Session(unstarted_spark(), settings={})
    session.execute(f"SET 'table.local-time-zone' = '{DAYS[day][0]}'")
    session.execute("SET 'sqlwin.fill.keep' = '1000 d'")
    sql = f"{grouped(name, BOTH)} FILL (n = 0)"
    given = pa.table({"ts": pa.array(times_of(day), pa.timestamp("us", "UTC"))})
    rows = simulate_query(session, sql, {"t": given}, watermarks={"t": "ts"}, histories=1)
    assert sorted(
        tuple(
            (row[bound].replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC))
            // timedelta(microseconds=1)
            for bound in ("window_start", "window_end")
        )
        for row in rows
    ) == windows_with_instants(day, window)
