"""Results as charts for a terminal: lines by key over time, bars where there is a single time."""

from __future__ import annotations

import io
import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime.errors import AnalysisError
from sqlwin.display.formats import Write
from sqlwin.display.notation import is_number, shown_texts

# More lines, bars and charts than these are hard to distinguish
MOST_LINES = 8
MOST_BARS = 30
MOST_CHARTS = 4
# Rows that are looked at: a terminal has no room for more points
MOST_ROWS = 200_000

_TIME_NAMES = ("window_end", "window_start", "window_time")
_MARKERS = "•x+o*#%@"
_COLORS = ("blue+", "orange+", "green+", "red+", "magenta+", "cyan+", "gray", "gold")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def write_chart(
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    write: Write,
    *,
    size: tuple[int, int] | None = None,
    color: bool | None = None,
) -> int:
    """Draw each numeric column (four at most) over time, a line for each key.

    Time is `window_end`, else another window column, else the first timestamp. What is neither
    time nor number is the key. Rows of a single time, or without any, become bars. NULL and NaN
    leave no point.

    Args:
        columns: names of the columns.
        batches: the result, of which at most `MOST_ROWS` rows are drawn.
        write: takes the text.
        size: columns and rows of a chart; None for what the terminal has.
        color: whether lines differ by colour, and not by their marks; None: on a terminal.

    Returns:
        How many rows were drawn.

    Raises:
        AnalysisError: there is no numeric column.
    """
    table, is_cut = _first_rows(columns, batches)
    if table is None:
        write("no rows to draw\n")
        return 0
    time = _time_column(table)
    numbers = [i for i, field in enumerate(table.schema) if is_number(field.type)]
    if not numbers:
        raise AnalysisError(
            f"there is no numeric column to draw: {', '.join(columns)}",
            hint="a chart takes a time such as window_end, numbers, and maybe keys",
        )
    bounds = {i for i, name in enumerate(columns) if name.lower() in _TIME_NAMES}
    others = [i for i in range(len(columns)) if i not in {*numbers, *bounds, time}]
    keys = _keys(table, others)
    times = None if time is None else _seconds(table.column(time))
    distinct = set() if times is None else {t for t in times if t is not None}
    columns_and_rows = size or _terminal_size()
    is_colored = _is_terminal() if color is None else color
    for position, i in enumerate(numbers[:MOST_CHARTS]):
        values = [_point(v) for v in table.column(i).to_pylist()]
        if position:
            write("\n")
        if times is not None and len(distinct) > 1:
            write(_lines(columns[i], times, values, keys, columns_and_rows, is_colored))
        else:
            write(_bars(columns[i], values, keys, columns_and_rows[0], is_colored))
    left_out = [columns[i] for i in numbers[MOST_CHARTS:]]
    if left_out:
        write(f"not drawn: {', '.join(left_out)}\n")
    if is_cut:
        write(f"only the first {MOST_ROWS:,} rows are drawn\n")
    return int(table.num_rows)


def _first_rows(
    columns: Sequence[str], batches: Iterable[pa.RecordBatch]
) -> tuple[pa.Table | None, bool]:
    taken: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        taken.append(batch.slice(0, MOST_ROWS - n_rows))
        n_rows += batch.num_rows
        if n_rows > MOST_ROWS:
            break
    if not n_rows:
        return None, False
    # names may occur twice, places do not
    return pa.Table.from_batches(taken).rename_columns(list(columns)), n_rows > MOST_ROWS


def _time_column(table: pa.Table) -> int | None:
    names = [name.lower() for name in table.column_names]
    stamps = [i for i, field in enumerate(table.schema) if pa.types.is_timestamp(field.type)]
    for wanted in _TIME_NAMES:
        for i in stamps:
            if names[i] == wanted:
                return i
    return stamps[0] if stamps else None


def _seconds(column: pa.ChunkedArray) -> list[float | None]:
    """Seconds since 1970 of the wall clock that the column shows."""
    if column.type.tz is not None:
        column = pc.local_timestamp(column)
    micros = column.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return [None if us is None else us / 1e6 for us in micros]


def _keys(table: pa.Table, places: Sequence[int]) -> list[str]:
    if not places:
        return [""] * table.num_rows
    texts = [shown_texts(pa.concat_arrays(table.column(i).chunks)).to_pylist() for i in places]
    rows = zip(*texts, strict=True)
    return [", ".join("NULL" if t is None else str(t) for t in row) for row in rows]


def _point(value: object) -> float | None:
    if value is None or isinstance(value, timedelta):
        return None
    number = float(value)  # type: ignore[arg-type]
    return number if math.isfinite(number) else None


def _lines(
    title: str,
    times: Sequence[float | None],
    values: Sequence[float | None],
    keys: Sequence[str],
    size: tuple[int, int],
    is_colored: bool,
) -> str:
    # takes a while to import, and few runs draw
    import plotext

    lines: dict[str, list[tuple[float, float]]] = {}
    for t, value, key in zip(times, values, keys, strict=True):
        if t is not None and value is not None:
            lines.setdefault(key, []).append((t, value))
    if not lines:
        return f"{title}: nothing but NULL\n"
    largest = sorted(lines, key=lambda key: -sum(abs(v) for _, v in lines[key]))[:MOST_LINES]
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(*size)
    plotext.title(title)
    for i, key in enumerate(sorted(largest)):
        x, y = zip(*sorted(lines[key]), strict=True)
        mark = "braille" if is_colored or len(largest) == 1 else _MARKERS[i]
        plotext.plot(x, y, label=key or None, marker=mark, color=_COLORS[i])
    every = [t for key in largest for t, _ in lines[key]]
    places, texts = time_ticks(min(every), max(every), max(2, size[0] // 18))
    plotext.xticks(places, texts)
    points = [value for key in largest for _, value in lines[key]]
    plotext.yticks(*number_ticks(min(points), max(points), max(2, size[1] // 3)))
    text: str = plotext.build()
    more = len(lines) - len(largest)
    note = f"and {more:,} more keys, of smaller values\n" if more else ""
    return (text if is_colored else plotext.uncolorize(text)).rstrip("\n") + "\n" + note


_TICK_SECONDS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200),
    *(86400 * n for n in (1, 2, 7, 14, 28, 56, 91, 182, 364)),
)


def time_ticks(first: float, last: float, most: int) -> tuple[list[float], list[str]]:
    """Places on an axis of time, at round times, and their texts.

    Args:
        first: seconds since 1970.
        last: seconds since 1970.
        most: how many there may be.
    """
    fitting = (step for step in _TICK_SECONDS if (last - first) / step < most)
    step = next(fitting, math.ceil((last - first) / most / 86400) * 86400)
    places = [float(n * step) for n in range(math.ceil(first / step), math.floor(last / step) + 1)]
    if not places:
        places = [first]
    day = "%Y-%m-%d" if step >= 86400 else "%m-%d %H:%M"
    form = day if step >= 86400 or last - first > 86400 else "%H:%M" if step >= 60 else "%H:%M:%S"
    return places, [(_EPOCH + timedelta(seconds=place)).strftime(form) for place in places]


def number_ticks(low: float, high: float, most: int) -> tuple[list[float], list[str]]:
    """Places on an axis of numbers, at round numbers, and their texts.

    Args:
        low: the least number.
        high: the largest.
        most: how many there are at most, and one more.

    Example:
        >>> number_ticks(3532, 10457, 6)[1]
        ['4,000', '6,000', '8,000', '10,000']
        >>> number_ticks(0.13, 0.14, 3)[1]
        ['0.130', '0.135', '0.140']
        >>> number_ticks(7, 7, 3)[1]
        ['7']
    """
    least = (high - low) / most
    # below that, the powers of ten are beyond the range of floats
    if not 1e-300 < least < math.inf:
        return [low], [f"{low:,.6g}"]
    power = math.floor(math.log10(least))
    step = next(n for n in (1, 2, 5, 10) if n * 10.0**power >= least * (1 - 1e-9))
    # by whole numbers of steps: 0.1 cannot be added up
    scale = 10.0**-power / step
    numbers = range(math.ceil(low * scale - 1e-9), math.floor(high * scale + 1e-9) + 1)
    places = [number / scale for number in numbers]
    decimals = max(0, -power - (step == 10))
    is_plain = max(abs(low), abs(high)) < 1e15 and decimals <= 9
    return places, [f"{p:,.{decimals}f}" if is_plain else f"{p:.6g}" for p in places]


def _bars(
    title: str, values: Sequence[float | None], keys: Sequence[str], width: int, is_colored: bool
) -> str:
    totals: dict[str, float] = {}
    for value, key in zip(values, keys, strict=True):
        if value is not None:
            totals[key] = totals.get(key, 0.0) + value
    largest = sorted(totals, key=lambda key: -abs(totals[key]))[:MOST_BARS]
    low = min(0.0, *totals.values()) if totals else 0.0
    high = max(0.0, *totals.values()) if totals else 0.0
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(max_width=width // 3, no_wrap=True, overflow="ellipsis")
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    for key in largest:
        begin, end = sorted((-low, totals[key] - low))
        bar: Any = Bar(high - low or 1.0, begin, end, color="blue" if is_colored else "default")
        grid.add_row(Text(key or title), bar, Text(f"{totals[key]:,.6g}"))
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
    )
    console.print(Text(title), justify="center")
    console.print(grid)
    more = len(totals) - len(largest)
    note = f"and {more:,} more, of smaller values\n" if more else ""
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n" + note


def _terminal_size() -> tuple[int, int]:
    columns, rows = shutil.get_terminal_size((100, 30))
    return max(40, min(columns, 160)), max(12, min(rows - 4, 24))


def _is_terminal() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
