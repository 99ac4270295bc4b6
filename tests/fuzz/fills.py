"""FILL in random queries: the added windows by definition, one after another."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from runtime.windows.cumulate import CalendarCumulate, Cumulate
from runtime.windows.hop import Hop
from runtime.windows.tumble import Tumble
from tests.fuzz.choices import Choices
from tests.fuzz.values import DAY_US, EPOCH, Row, same
from tests.fuzz.windows import DrawnWindow, RowGap, local_us
from tests.reference import Bounds, windows_of

# More windows of a key take long to define
_MAX_WINDOWS = 2_000


@dataclass(frozen=True)
class DrawnFill:
    """A FILL clause and the rows of its query.

    Attributes:
        clause: Clause.
        rows: Rows with the added windows.
        is_stream: Whether a stream gives the same rows.
    """

    clause: str
    rows: list[Row]
    is_stream: bool


def draw_fill(
    draw: Choices,
    window: DrawnWindow,
    zone: str | None,
    rows: list[Row],
    keys: Sequence[str],
    names: Sequence[str],
) -> DrawnFill | None:
    """Draw FILL for an aggregation. None if it would add too many windows, or has no rows.

    Args:
        draw: Choices.
        window: Windows, not SESSION.
        zone: Time zone of the windows' wall clock, if they are windows of instants.
        rows: Rows of the aggregation.
        keys: Its keys.
        names: Its aggregates; the last one is a count.
    """
    ends = [row["window_end"] for row in rows]
    if not ends:
        return None
    first_us, last_us = min(ends), max(ends)
    from_us = to_us = None
    if draw.chance(60):
        to_us = last_us + draw.between(-1, 3) * window.length_us
        from_us = first_us - draw.between(-1, 3) * window.length_us if draw.chance(50) else None
    bounds = [bound for bound in (from_us, to_us) if bound is not None]
    if any(abs(bound - last_us) > 20_000 * DAY_US for bound in bounds):
        return None
    lowest, highest = min([first_us, *bounds]), max([last_us, *bounds])
    if not -60_000_000 * DAY_US // 100 < lowest <= highest < 2_900_000 * DAY_US:
        from_us = to_us = None
        lowest, highest = first_us, last_us
    if (highest - lowest) // _stride_us(window) > _MAX_WINDOWS:
        return None
    if from_us is not None and to_us is not None and from_us > to_us:
        from_us = None
    filler = "LOCF" if draw.chance(60) else None
    if filler and _has_lines([row[names[0]] for row in rows]) and draw.chance(50):
        filler = "LINEAR"
    grows = isinstance(window.window, Cumulate | CalendarCumulate)
    every = [bounds for bounds in _windows(window, lowest, highest) if _exists(bounds, zone)]
    filled = list(rows)
    by_key: defaultdict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_key[tuple(same(row[key]) for key in keys)].append(row)
    for members in by_key.values():
        members.sort(key=lambda row: row["window_end"])
        own = [row["window_end"] for row in members]
        for start, end in every:
            is_inside = own[0] <= end if from_us is None else from_us <= start
            is_inside &= end <= own[-1] if to_us is None else end <= to_us
            if not is_inside or end in own:
                continue
            row = {key: members[0][key] for key in keys} | dict.fromkeys(names)
            row |= {"window_start": start, "window_end": end, names[-1]: 0}
            given = [member for member in members if member[names[0]] is not None]
            before = [member for member in given if member["window_end"] < end]
            if filler == "LOCF" and before:
                row[names[0]] = before[-1][names[0]]
            if filler == "LINEAR" and before and len(before) < len(given):
                pair = before[-1], given[len(before)]
                times = [(p["window_end"] if grows else p["window_start"]) for p in (*pair, row)]
                row[names[0]] = _on_line(*(member[names[0]] for member in pair), *times)
            filled.append(row)
    fillers = [f"{names[-1]} = 0", *([f"{names[0]} = {filler}"] if filler else [])]
    clause = f" FILL ({', '.join(fillers)})"
    clause += "" if from_us is None else f" FROM {_literal(from_us)}"
    clause += "" if to_us is None else f" TO {_literal(to_us)}"
    has_uneven_steps = isinstance(window.window, CalendarCumulate) and window.window.step_us > 0
    is_stream = to_us is not None and not has_uneven_steps and filler != "LINEAR"
    return DrawnFill(clause, filled, is_stream)


def _has_lines(values: Sequence[Any]) -> bool:
    """Return whether values are of a type that LINEAR takes, with the same digits."""
    given = [value for value in values if value is not None]
    if not given or any(isinstance(value, bool) for value in given):
        return False
    if all(isinstance(value, Decimal) for value in given):
        return len({value.as_tuple().exponent for value in given}) == 1
    return all(isinstance(value, int) for value in given) or all(
        isinstance(value, float) for value in given
    )


def _on_line(first: Any, second: Any, first_us: int, second_us: int, time_us: int) -> Any:
    """Return the value at a time, rounded half away from zero if it is not a float."""
    if isinstance(first, float):
        share = (time_us - first_us) / (second_us - first_us)
        line = first + (second - first) * share
        return line if math.isfinite(line) else first * (1 - share) + second * share
    share = Fraction(time_us - first_us, second_us - first_us)
    digits = first.as_tuple().exponent if isinstance(first, Decimal) else 0
    line = (Fraction(first) + (Fraction(second) - Fraction(first)) * share) / Fraction(10) ** digits
    units = math.floor(abs(line) + Fraction(1, 2)) * (1 if line > 0 else -1)
    return Decimal(units).scaleb(digits) if isinstance(first, Decimal) else units


def _literal(time_us: int) -> str:
    return f"TIMESTAMP '{(EPOCH + dt.timedelta(microseconds=time_us)).replace(tzinfo=None)}'"


def _stride_us(window: DrawnWindow) -> int:
    """Return the time between the ends of windows; a day for windows of months."""
    match window.window:
        case Tumble(size_us=stride) | Hop(slide_us=stride) | Cumulate(step_us=stride):
            return stride
    return DAY_US


def _windows(window: DrawnWindow, first_us: int, last_us: int) -> Iterator[Bounds]:
    """Yield all windows that end between two times."""
    of = window.window
    match of:
        case Tumble(size, offset) | Hop(_, size, offset):
            stride = _stride_us(window)
            first = first_us + (offset + size - first_us) % stride
            yield from ((end - size, end) for end in range(first, last_us + 1, stride))
        case Cumulate(step, size, offset):
            first = first_us + (offset - first_us) % step
            for end in range(first, last_us + 1, step):
                yield end - 1 - (end - 1 - offset) % size, end
        case _:
            assert not isinstance(of, int | RowGap), "sessions have no gaps"
            midnight_us = first_us // DAY_US * DAY_US - 13 * 31 * DAY_US
            days = range(midnight_us, last_us, DAY_US)
            whole = {bounds for day in days for bounds in windows_of(of, day)}
            yield from (bounds for bounds in whole if first_us <= bounds[1] <= last_us)


def _exists(bounds: Bounds, zone: str | None) -> bool:
    """Return whether the clock of a zone shows some time of a window."""
    if zone is None:
        return True
    start, end = bounds
    for edge in (start, end - 1):
        for day in (-DAY_US, DAY_US):
            offset = local_us(edge + day, zone) - (edge + day)
            if start <= local_us(edge - offset, zone) < end:
                return True
    return False
