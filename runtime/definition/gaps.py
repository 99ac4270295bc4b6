"""Gap filling by definition: the windows of each key, one after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runtime.definition.order import key_of
from runtime.definition.wall_clock import has_instant
from runtime.plan.arrow_rows import FilledRows
from runtime.spec.filling import FillConstant, GapFilling

_Row = dict[str, Any]


def rows_with_gaps_filled(
    rows: Sequence[tuple[Any, ...]], schema: pa.Schema, of: FilledRows
) -> list[tuple[Any, ...]]:
    """Return the rows, and a row for every window of a key without rows.

    Args:
        rows: Rows. One whose window end is NULL only declares its key.
        schema: Their columns.
        of: Windows and fillers, without LINEAR.
    """
    filling = of.filling
    result = []
    for members in _by_key(rows, schema, filling):
        own = [row for row in members if row[filling.end] is not None]
        result += own
        ends = [row[filling.end] for row in own]
        if not ends and (filling.from_us is None or filling.to_us is None):
            continue
        before = ends[0] - 1 if filling.from_us is None else filling.from_us
        last = ends[-1] if filling.to_us is None else filling.to_us
        missing = _missing(ends, before, last, of)
        result += (_added(window, members[0], own, filling) for window in missing)
    return [tuple(row[name] for name in schema.names) for row in result]


def rows_with_gaps_filled_on_stream(
    rows: Sequence[tuple[Any, ...]], schema: pa.Schema, of: FilledRows, passed_us: int | None
) -> list[tuple[Any, ...]]:
    """Return the rows and the added windows of a stream.

    A key ends when it has no row for `keep_us`, and starts over with its next row. Without TO,
    windows follow the last row of a key until the watermark stops.

    Args:
        rows: Rows.
        schema: Their columns.
        of: Windows and fillers, without LINEAR.
        passed_us: Latest window end that the watermark passes before the end of the input. None if
            it passes none.
    """
    filling = of.filling
    result = []
    for members in _by_key(rows, schema, filling):
        runs: list[list[_Row]] = []
        for row in members:
            if not runs or row[filling.end] > _kept_until(runs[-1][-1][filling.end], filling):
                runs.append([])
            runs[-1].append(row)
        for run in runs:
            result += run
            ends = [row[filling.end] for row in run]
            before = ends[0] - 1
            if filling.from_us is not None and ends[0] - filling.from_us <= filling.keep_us:
                before = filling.from_us
            last = _kept_until(ends[-1], filling)
            if filling.to_us is not None:
                last = min(last, filling.to_us)
            elif run is runs[-1]:
                last = ends[-1] if passed_us is None else min(last, passed_us)
            missing = _missing(ends, before, max(last, ends[-1]), of)
            result += (_added(window, run[0], run, filling) for window in missing)
    for row in result:
        if filling.start is not None:
            # the rows have the starts of other windows with the same ends
            row[filling.start], _ = filling.window.next_window(row[filling.end] - 1)
    return [tuple(row[name] for name in schema.names) for row in result]


def _kept_until(end_us: int, filling: GapFilling) -> int:
    """Return the time up to which a key is kept after a window with a row."""
    start_us = end_us if filling.from_us is None else max(end_us, filling.from_us)
    return start_us + filling.keep_us


def _by_key(
    rows: Sequence[tuple[Any, ...]], schema: pa.Schema, filling: GapFilling
) -> Iterator[list[_Row]]:
    """Yield the rows of each key in the order of their windows, rows without a window first."""
    keys: defaultdict[Any, list[_Row]] = defaultdict(list)
    for values in rows:
        row = dict(zip(schema.names, values, strict=True))
        keys[tuple(key_of(row[name]) for name in filling.keys)].append(row)
    for members in keys.values():
        yield sorted(members, key=lambda row: _place(row, filling))


def _place(row: _Row, filling: GapFilling) -> tuple[Any, ...]:
    end = row[filling.end]
    if end is None:
        return (False,)
    return (True, end, row[filling.order] if filling.order else 0)


def _missing(
    ends: Sequence[int], before_us: int, last_us: int, of: FilledRows
) -> Iterator[tuple[int, int]]:
    """Yield start and end of the windows to add.

    Args:
        ends: Ends of the windows with rows.
        before_us: Time after which windows end.
        last_us: Time after which no window ends.
        of: Windows.
    """
    filling = of.filling
    start, end = filling.window.next_window(before_us)
    while end <= last_us:
        is_missing = (
            end not in ends
            and (filling.from_us is None or start >= filling.from_us)
            and (filling.to_us is None or end <= filling.to_us)
        )
        if is_missing and filling.is_of_instants:
            # the clock skips windows when summer time begins
            is_missing = has_instant(start, end, of.time_zone)
        if is_missing:
            yield start, end
        start, end = filling.window.next_window(end)


def _added(
    window: tuple[int, int], of_key: _Row, rows: Sequence[_Row], filling: GapFilling
) -> _Row:
    """Return the row of a missing window."""
    start, end = window
    row = {name: of_key[name] for name in filling.keys} | {filling.end: end}
    if filling.start is not None:
        row[filling.start] = start
    for name, filler in filling.fillers:
        if isinstance(filler, FillConstant):
            row[name] = filler.value.value
            continue
        before = (other[name] for other in reversed(rows) if other[filling.end] < end)
        row[name] = next((value for value in before if value is not None), None)
    return row
