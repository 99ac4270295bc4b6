"""Windows over time, drawn in characters.

The windows are those of the definitions, worked out for a few rows, so that a picture cannot say
anything else than the functions do.
"""

from __future__ import annotations

from collections.abc import Sequence

from runtime.spec.figures import counted

# Minutes of the rows in every picture; one lies on a boundary, and there is a pause
_ROWS = (1, 4, 10, 12, 18, 33)
# Characters a minute
_SCALE = 2
_MARGIN = 6

Window = tuple[int, int]


def picture(kind: str, *, step: int, size: int, until: int) -> str:
    """A picture of a window function, in minutes.

    Args:
        kind: TUMBLE, HOP, CUMULATE or SESSION.
        step: slide, step or gap.
        size: the size; of a SESSION, its gap.
        until: where time ends in the picture.

    Example:
        >>> print(picture("TUMBLE", step=10, size=10, until=20))
        rows    ●     ●           ●   ●           ●
        time  ┬─────────┬─────────┬─────────┬─────────┬
              :00       :05       :10       :15       :20
              [───────────────────)                     2 rows
                                  [───────────────────) 3 rows
    """
    rows = [row for row in _ROWS if row < until]
    if kind == "SESSION":
        windows, tick = sessions(rows, step), 5
    else:
        windows, tick = aligned(kind, step, size, until), 5
    left = min([0, *(start for start, _ in windows)])
    right = max([until, *(end for _, end in windows)])

    lines = [placed("rows", [(row, "●") for row in rows], left), *axis(left, right, tick)]
    for start, end in windows:
        n_rows = sum(start <= row < end for row in rows)
        count = counted(n_rows, "rows")
        lines.append(placed("", [(start, bar(end - start)), (right + 1, count)], left))
    return "\n".join(lines)


def axis(left: int, right: int, tick: int) -> list[str]:
    """The line of time from one minute to another, and the times below its marks."""
    marks = range(left, right + 1, tick)
    line = list("─" * ((right - left) * _SCALE + 1))
    for mark in marks:
        line[(mark - left) * _SCALE] = "┬"
    return [
        placed("time", [(left, "".join(line))], left),
        placed("", [(mark, f":{mark % 60:02d}") for mark in marks], left),
    ]


def bar(minutes: int) -> str:
    """A window that long."""
    return "[" + "─" * (minutes * _SCALE - 1) + ")"


def placed(title: str, parts: Sequence[tuple[int, str]], left: int = 0) -> str:
    """A line of the picture: texts at their minutes; `left` is the minute at the left."""
    line = title
    for minute, text in parts:
        line = line.ljust(_MARGIN + (minute - left) * _SCALE) + text
    return line


def aligned(kind: str, step: int, size: int, until: int) -> list[Window]:
    """The windows of TUMBLE, HOP and CUMULATE that touch the time from 0 to `until`."""
    if kind == "CUMULATE":
        return [
            (start, start + length)
            for start in range(0, until, size)
            for length in range(step, size + 1, step)
            if start + length <= until
        ]
    first = -((size - 1) // step) * step
    return [(start, start + size) for start in range(first, until, step) if start + size <= until]


def sessions(rows: Sequence[int], gap: int) -> list[Window]:
    """The sessions of rows in order of time."""
    found: list[Window] = []
    for row in rows:
        if found and row <= found[-1][1]:  # touching counts
            found[-1] = (found[-1][0], row + gap)
        else:
            found.append((row, row + gap))
    return found
