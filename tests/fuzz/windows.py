"""Random windows, and the rows in them by definition."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import ZoneInfo

from runtime.windows import Window
from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import CalendarHop, Hop
from runtime.windows.tumble import CalendarTumble, Tumble
from tests.fuzz.choices import Choices
from tests.fuzz.expressions import Aggregate
from tests.fuzz.values import DAY_US, EPOCH, HOUR_US, MINUTE_US, MS_US, SECOND_US, Row, same
from tests.reference import windows_of

# Python's dates begin with year 1; the calendar repeats after 400 years
_YEAR_2_US = (dt.date(2, 1, 1) - EPOCH.date()).days * DAY_US
_CYCLE_US = 146_097 * DAY_US


@dataclass(frozen=True)
class RowGap:
    """Gap of SESSION that depends on the column g, in microseconds.

    Attributes:
        per_g: Gap per g, if that is positive.
        other: Gap of other rows. None: they have none.
    """

    per_g: int
    other: int | None

    @property
    def sql(self) -> str:
        """The gap as SQL."""
        other = "" if self.other is None else f" ELSE {interval(self.other)}"
        return f"CASE WHEN g > 0 THEN g * {interval(self.per_g)}{other} END"

    def of(self, row: Row) -> int | None:
        """Return the gap of a row."""
        return self.per_g * row["g"] if (row["g"] or 0) > 0 else self.other


@dataclass(frozen=True)
class DrawnWindow:
    """A window table function.

    Attributes:
        kind: Name of the function.
        lengths: Its arguments after the time column.
        window: Windows, or the gap of SESSION, in microseconds if it is the same for all rows.
        length_us: Length of a window, about.
        is_calendar: Whether its units are months.
    """

    kind: str
    lengths: str
    window: Window | int | RowGap
    length_us: int
    is_calendar: bool = False

    def call(self, table: str, time: str, partition: Sequence[str] = ()) -> str:
        """Return the function over a table."""
        by = ", ".join(partition)
        by = f" PARTITION BY ({by})" if len(partition) > 1 else by and f" PARTITION BY {by}"
        return f"TABLE({self.kind}(TABLE {table}{by}, DESCRIPTOR({time}), {self.lengths}))"


def draw_window(draw: Choices) -> DrawnWindow:
    """Draw a window."""
    kind = draw.one_of(["TUMBLE", "HOP", "HOP", "CUMULATE", "SESSION", "CALENDAR"])
    if kind == "CALENDAR":
        return _calendar(draw)
    unit = draw.one_of([HOUR_US, MS_US, SECOND_US, MINUTE_US, DAY_US])
    offset = draw.between(-3 * unit, 3 * unit) // MS_US * MS_US if draw.chance(40) else 0
    last = [offset] if offset else []
    if kind == "TUMBLE":
        size = unit * draw.one_of([1, 7, 10, 90])
        return DrawnWindow(kind, _lengths(size, *last), Tumble(size, offset % size), size)
    if kind == "HOP":
        slide = unit * draw.one_of([1, 2, 3, 5, 7, 20])
        size = unit * draw.one_of([1, 2, 5, 10, 12, 21])
        window = Hop(slide, size, offset % slide)
        return DrawnWindow(kind, _lengths(slide, size, *last), window, size)
    if kind == "CUMULATE":
        step = unit * draw.one_of([1, 2, 5])
        size = step * draw.one_of([1, 2, 3, 7])
        cumulate = Cumulate(step, size, offset % size)
        return DrawnWindow(kind, _lengths(step, size, *last), cumulate, size)
    gap = unit * draw.one_of([1, 2, 10])
    if draw.chance(40):
        of_rows = RowGap(gap, draw.one_of([None, 0, -unit, unit, 3 * unit]))
        return DrawnWindow(kind, of_rows.sql, of_rows, gap)
    return DrawnWindow(kind, _lengths(gap), gap, gap)


def _calendar(draw: Choices) -> DrawnWindow:
    months = draw.one_of([1, 2, 3, 5, 12])
    length = months * 31 * DAY_US
    size = f"INTERVAL '{months}' MONTH"
    match draw.pick(5):
        case 0:
            return DrawnWindow("TUMBLE", size, CalendarTumble(months), length, True)
        case 1:
            slide = draw.one_of([1, 2, 4])
            sql = f"INTERVAL '{slide}' MONTH, {size}"
            return DrawnWindow("HOP", sql, CalendarHop(slide, months), length, True)
        case 2:
            total = months * draw.one_of([1, 2, 3])
            sql = f"{size}, INTERVAL '{total}' MONTH"
            window = CalendarCumulate(total, months)
            return DrawnWindow("CUMULATE", sql, window, length * (total // months), True)
        case 3:
            unit, months = draw.one_of([("QUARTER", 3), ("YEAR", 12)])
            count = draw.one_of([1, 2])
            window = CalendarTumble(count * months)
            sql = f"INTERVAL '{count}' {unit}"
            return DrawnWindow("TUMBLE", sql, window, count * months * 31 * DAY_US, True)
        case _:
            days = draw.one_of([1, 4, 7])
            sql = f"INTERVAL '{days}' DAY, INTERVAL '1' MONTH"
            window = CalendarCumulate(1, step_us=days * DAY_US)
            return DrawnWindow("CUMULATE", sql, window, 31 * DAY_US, True)


def _lengths(*lengths: int) -> str:
    return ", ".join(map(interval, lengths))


def interval(us: int) -> str:
    """Return a length in microseconds as an interval.

    Example:
        >>> interval(90_000_000)
        "INTERVAL '90.000000' SECOND"
    """
    sign = "-" if us < 0 else ""
    return f"INTERVAL '{sign}{abs(us) // SECOND_US}.{abs(us) % SECOND_US:06}' SECOND"


def local_us(time_us: int, zone: str) -> int:
    """Return the wall clock of an instant in a zone, in microseconds.

    Before the first clock change a zone has one offset, also before year 1.
    """
    cycles_us = max(-(time_us - _YEAR_2_US) // _CYCLE_US + 1, 0) * _CYCLE_US
    moment = (EPOCH + dt.timedelta(microseconds=time_us + cycles_us)).astimezone(ZoneInfo(zone))
    return (moment.replace(tzinfo=dt.UTC) - EPOCH) // dt.timedelta(microseconds=1) - cycles_us


def in_windows(
    rows: list[Row], window: Window | int | RowGap, time: str, zone: str, partition: Sequence[str]
) -> list[Row]:
    """Return a copy of each row for each of its windows; others than windows are gaps."""
    timed = [
        (row[time] if time == "ts" else local_us(row[time], zone), row)
        for row in rows
        if row[time] is not None
    ]
    if not isinstance(window, int | RowGap):
        return [
            {**row, "window_start": start, "window_end": end}
            for t, row in timed
            for start, end in windows_of(window, t)
        ]
    copies = []
    parts = defaultdict(list)
    for t, row in timed:
        gap = window.of(row) if isinstance(window, RowGap) else window
        if gap is not None and gap > 0:
            parts[tuple(same(row[name]) for name in partition)].append((t, t + gap, row))
    for members in parts.values():
        session: list[Row] = []
        bounds: dict[str, int] = {}
        for t, end, row in sorted(members, key=lambda member: member[0]):
            if session and t > bounds["window_end"]:
                copies += [{**member, **bounds} for member in session]
                session = []
            start = bounds["window_start"] if session else t
            last = bounds["window_end"] if session else end
            bounds = {"window_start": start, "window_end": max(last, end)}
            session.append(row)
        copies += [{**member, **bounds} for member in session]
    return copies


def group(rows: list[Row], keys: Sequence[str], calls: Sequence[Aggregate]) -> list[Row]:
    """Return a row per group: its keys, and `a0`, `a1`, ... for the calls."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(same(row[key]) for key in keys)].append(row)
    return [
        {key: members[0][key] for key in keys}
        | {f"a{i}": compute(members) for i, (_, compute) in enumerate(calls)}
        for members in groups.values()
    ]
