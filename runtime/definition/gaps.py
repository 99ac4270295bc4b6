"""Gap filling by definition: the windows of each key, one after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from runtime.definition.order import key_of
from runtime.definition.windows import is_shown, next_window
from runtime.spec.in_process.relations import FilledRows
from runtime.spec.steps import FillConstant, GapFilling

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
    keys: defaultdict[Any, list[_Row]] = defaultdict(list)
    for values in rows:
        row = dict(zip(schema.names, values, strict=True))
        keys[tuple(key_of(row[name]) for name in filling.keys)].append(row)
    result = []
    for members in keys.values():
        own = [row for row in members if row[filling.end] is not None]
        own.sort(key=lambda row: (row[filling.end], row[filling.order] if filling.order else 0))
        result += own
        result += (
            _added(window, members[0], own, filling) for window in _missing(own, filling, of)
        )
    return [tuple(row[name] for name in schema.names) for row in result]


def _missing(
    rows: Sequence[_Row], filling: GapFilling, of: FilledRows
) -> Iterator[tuple[int, int]]:
    """Yield start and end of the windows to add to a key's rows, which are in order."""
    ends = [row[filling.end] for row in rows]
    if not ends and (filling.from_us is None or filling.to_us is None):
        return
    before = ends[0] - 1 if filling.from_us is None else filling.from_us
    last = ends[-1] if filling.to_us is None else filling.to_us
    start, end = next_window(filling.window, before)
    while end <= last:
        is_missing = end not in ends and (filling.from_us is None or start >= filling.from_us)
        if is_missing and filling.is_of_instants:
            # the clock skips windows when summer time begins
            is_missing = is_shown(start, of.time_zone) or is_shown(end - 1, of.time_zone)
        if is_missing:
            yield start, end
        start, end = next_window(filling.window, end)


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
