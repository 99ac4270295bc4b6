"""Pictures of windows over time, with results of aggregates, drawn in characters.

Windows and results are computed from their definitions for a few rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from operator import and_, or_, xor

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
# Threshold in `x > LEAST`, the condition of aggregates that take one
LEAST = 2
# Percentage of APPROX_PERCENTILE
SHARE = 0.95

Rows = Sequence[tuple[int, int, int]]


def _xs(rows: Rows) -> list[int]:
    return [x for _, x, _ in rows]


def _variance(rows: Rows, fewer: int) -> float:
    """Return the variance divided by n - `fewer`, as in VAR_POP (0) and VAR_SAMP (1)."""
    xs = _xs(rows)
    mean = sum(xs) / len(xs)
    return sum((x - mean) ** 2 for x in xs) / (len(xs) - fewer)


def _y_of(pick: Callable[..., tuple[int, int, int]]) -> Callable[[Rows], int]:
    return lambda rows: pick(rows, key=lambda row: row[2])[1]


_FIRST: Callable[[Rows], int] = lambda rows: rows[0][1]  # noqa: E731  (an entry of _RESULTS)

_RESULTS: dict[str, Callable[[Rows], float | str]] = {
    "COUNT": len,
    "COUNT_IF": lambda rows: sum(x > LEAST for x in _xs(rows)),
    "APPROX_COUNT_DISTINCT": lambda rows: len(set(_xs(rows))),
    "APPROX_PERCENTILE": lambda rows: sorted(_xs(rows))[math.ceil(SHARE * len(rows)) - 1],
    "SUM": lambda rows: sum(_xs(rows)),
    "AVG": lambda rows: sum(_xs(rows)) / len(rows),
    "MIN": lambda rows: min(_xs(rows)),
    "MAX": lambda rows: max(_xs(rows)),
    "MIN_BY": _y_of(min),
    "MAX_BY": _y_of(max),
    "FIRST_VALUE": _FIRST,
    "LAST_VALUE": lambda rows: rows[-1][1],
    "LISTAGG": lambda rows: ",".join(map(str, _xs(rows))),
    "VAR_POP": lambda rows: _variance(rows, 0),
    "VAR_SAMP": lambda rows: _variance(rows, 1),
    "STDDEV_POP": lambda rows: math.sqrt(_variance(rows, 0)),
    "STDDEV_SAMP": lambda rows: math.sqrt(_variance(rows, 1)),
    "BOOL_AND": lambda rows: all(x > LEAST for x in _xs(rows)),
    "BOOL_OR": lambda rows: any(x > LEAST for x in _xs(rows)),
    "BIT_AND": lambda rows: reduce(and_, _xs(rows)),
    "BIT_OR": lambda rows: reduce(or_, _xs(rows)),
    "BIT_XOR": lambda rows: reduce(xor, _xs(rows)),
}

# Aliases of aggregates
SAME = {
    "MEAN": "AVG",
    "FIRST": "FIRST_VALUE",
    "LAST": "LAST_VALUE",
    "ANY_VALUE": "FIRST_VALUE",
    "VARIANCE": "VAR_SAMP",
    "STDDEV": "STDDEV_SAMP",
    "STD": "STDDEV_SAMP",
    "STRING_AGG": "LISTAGG",
    "EVERY": "BOOL_AND",
    "SOME": "BOOL_OR",
    "ANY": "BOOL_OR",
    "PERCENTILE_APPROX": "APPROX_PERCENTILE",
}


def call(name: str) -> str:
    """Return the aggregate call that the picture shows."""
    kind = SAME.get(name, name)
    if kind == "COUNT":
        return "COUNT(*)"
    if kind in ("COUNT_IF", "BOOL_AND", "BOOL_OR"):
        return f"{name}(x > {LEAST})"
    if kind == "LISTAGG":
        return f"{name}(x, ',')"
    if kind == "APPROX_PERCENTILE":
        return f"{name}(x, {SHARE})"
    return f"{name}(x, y)" if kind.endswith("_BY") else f"{name}(x)"


def results(name: str) -> list[float | str]:
    """Return an aggregate's result for each of the two windows."""
    kind = SAME.get(name, name)
    starts = (0, _SIZE)
    return [
        _RESULTS[kind]([row for row in ROWS if start <= row[0] < start + _SIZE]) for start in starts
    ]


def aggregate_picture(name: str) -> str:
    """Return the rows, the two windows, and an aggregate's result for each window.

    Example:
        >>> print(aggregate_picture("SUM"))
        x       5     3       5       2         6
        time  ┬─────────┬─────────┬─────────┬─────────┬
              :00       :05       :10       :15       :20
              [───────────────────)                     SUM(x) = 13
                                  [───────────────────) SUM(x) = 8
    """
    lines = [marks_line("x", [(minute, str(x)) for minute, x, _ in ROWS])]
    if call(name).endswith("(x, y)"):
        lines.append(marks_line("y", [(minute, str(y)) for minute, _, y in ROWS]))
    lines += axis(0, 2 * _SIZE)
    for number, result in enumerate(results(name)):
        start = number * _SIZE
        text = f"{call(name)} = {_text(result)}"
        lines.append(marks_line("", [(start, bar(_SIZE)), (2 * _SIZE + 1, text)]))
    return "\n".join(lines)


def _text(result: float | str) -> str:
    if isinstance(result, str):
        return f"'{result}'"
    if isinstance(result, bool):
        return str(result).upper()
    return str(result) if isinstance(result, int) else f"{result:.2f}"
