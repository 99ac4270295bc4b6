"""Pictures of windows over time, with results of aggregates, drawn in characters.

Windows and results are computed from their definitions for a few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runtime.functions.aggregates.function import FromValues, MergedFunction, Picked
from runtime.spec.figures import count_text
from runtime.windows import Window
from runtime.windows.arguments import WindowKind

# Minutes of the rows in every picture: one row is on a window boundary, one follows a gap
_ROWS = (1, 4, 10, 12, 18, 33)
# Characters per minute
_SCALE = 2
_MARGIN = 6
# Minutes between marks on the time axis
_MARK_EVERY = 5


def picture(kind: WindowKind[Window]) -> str:
    """Return the picture of a window function.

    Example:
        >>> from dataclasses import replace
        >>> from runtime.windows.tumble import TUMBLE
        >>> print(picture(replace(TUMBLE, drawn_until=20)))
        rows    ●     ●           ●   ●           ●
        time  ┬─────────┬─────────┬─────────┬─────────┬
              :00       :05       :10       :15       :20
              [───────────────────)                     2 rows
                                  [───────────────────) 3 rows
    """
    until = kind.drawn_until
    rows = [row for row in _ROWS if row < until]
    # also windows without rows, unless rows make the windows
    times = range(until) if kind.drawn.has_slices else rows
    of_times = kind.drawn.windows_of_rows(times)
    windows = sorted({window for windows in of_times for window in windows if window[1] <= until})
    left = min([0, *(start for start, _ in windows)])

    lines = [marks_line("rows", [(row, "●") for row in rows], left), *axis(left, until)]
    for start, end in windows:
        n_rows = sum(start <= row < end for row in rows)
        count = count_text(n_rows, "rows")
        lines.append(marks_line("", [(start, bar(end - start)), (until + 1, count)], left))
    return "\n".join(lines)


def axis(left: int, right: int) -> list[str]:
    """Return the time axis between two minutes, and its labels."""
    marks = range(left, right + 1, _MARK_EVERY)
    line = list("─" * ((right - left) * _SCALE + 1))
    for mark in marks:
        line[(mark - left) * _SCALE] = "┬"
    return [
        marks_line("time", [(left, "".join(line))], left),
        marks_line("", [(mark, f":{mark % 60:02d}") for mark in marks], left),
    ]


def bar(minutes: int) -> str:
    """Return the bar of a window."""
    return "[" + "─" * (minutes * _SCALE - 1) + ")"


def marks_line(title: str, parts: Sequence[tuple[int, str]], left: int = 0) -> str:
    """Return a line with texts at their minutes. `left` is the leftmost minute."""
    line = title
    for minute, text in parts:
        line = line.ljust(_MARGIN + (minute - left) * _SCALE) + text
    return line


# -- aggregates --------------------------------------------------------------------------------

# Rows of every picture: minute, x, y. The two windows of ten minutes contain three and two rows.
ROWS = ((1, 5, 7), (4, 3, 9), (8, 5, 4), (12, 2, 8), (17, 6, 1))
_SIZE = 10

Rows = Sequence[tuple[int, int, int]]


def call(function: MergedFunction) -> str:
    """Return the aggregate call that the picture shows."""
    return function.call(function.drawn)


def results(function: MergedFunction) -> list[float | str]:
    """Return an aggregate's result for each of the two windows."""
    starts = (0, _SIZE)
    return [
        _result(function, [row for row in ROWS if start <= row[0] < start + _SIZE])
        for start in starts
    ]


def _result(function: MergedFunction, rows: Rows) -> Any:
    if isinstance(function.form, Picked):
        if not function.form.by_time:
            rows = sorted(rows, key=lambda row: row[2])
        return rows[-1 if function.form.is_last else 0][1]
    assert function.definition is not None
    least = function.drawn.partition("> ")[2]
    values = [x > int(least) if least else x for _, x, _ in rows]
    form = function.form
    if isinstance(form, FromValues) and form.has_percentage:
        return function.definition(values, float(function.drawn.partition(", ")[2]))
    return function.definition(values)


def aggregate_picture(function: MergedFunction) -> str:
    """Return the rows, the two windows, and an aggregate's result for each window.

    Example:
        >>> from runtime.functions.aggregates import AGGREGATES
        >>> print(aggregate_picture(AGGREGATES["SUM"]))
        x       5     3       5       2         6
        time  ┬─────────┬─────────┬─────────┬─────────┬
              :00       :05       :10       :15       :20
              [───────────────────)                     SUM(x) = 13
                                  [───────────────────) SUM(x) = 8
    """
    lines = [marks_line("x", [(minute, str(x)) for minute, x, _ in ROWS])]
    if call(function).endswith("(x, y)"):
        lines.append(marks_line("y", [(minute, str(y)) for minute, _, y in ROWS]))
    lines += axis(0, 2 * _SIZE)
    for number, result in enumerate(results(function)):
        start = number * _SIZE
        text = f"{call(function)} = {_text(result)}"
        lines.append(marks_line("", [(start, bar(_SIZE)), (2 * _SIZE + 1, text)]))
    return "\n".join(lines)


def _text(result: float | str) -> str:
    if isinstance(result, str):
        return f"'{result}'"
    if isinstance(result, list):
        return str(result)
    if isinstance(result, bool):
        return str(result).upper()
    return str(result) if isinstance(result, int) else f"{result:.2f}"
