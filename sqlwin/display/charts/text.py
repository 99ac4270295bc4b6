"""Terminal charts of results: lines by key over time, or bars if there is a single time."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from rich.bar import Bar
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime.errors import packages_of
from sqlwin.display.charts.data import BarChart, LineChart, charts_of, number_ticks, time_ticks
from sqlwin.display.formats import Write

_MARKERS = "•x+o*#%@"
_COLORS = ("blue+", "orange+", "green+", "red+", "magenta+", "cyan+", "gray", "gold")


def write_chart(
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    write: Write,
    *,
    size: tuple[int, int] | None = None,
    color: bool | None = None,
) -> int:
    """Draw `charts_of` the rows.

    Args:
        columns: Names of the columns.
        batches: Rows of the result.
        write: Receives the text.
        size: Columns and rows of a chart. None: the size of the terminal.
        color: Whether lines differ by colour instead of marker. None: True on a terminal.

    Returns:
        Number of rows drawn.

    Raises:
        AnalysisError: The result has no numeric column.
    """
    charts = charts_of(columns, batches)
    columns_and_rows = size or _terminal_size()
    is_colored = _is_terminal() if color is None else color
    for position, chart in enumerate(charts.charts):
        if position:
            write("\n")
        if isinstance(chart, LineChart):
            write(_lines(chart, columns_and_rows, is_colored))
        else:
            write(_bars(chart, columns_and_rows[0], is_colored))
        if chart.note:
            write(f"{chart.note}\n")
    for note in charts.notes:
        write(f"{note}\n")
    return charts.n_rows


def _lines(chart: LineChart, size: tuple[int, int], is_colored: bool) -> str:
    # slow to import, and rarely needed
    with packages_of("charts", "a line chart"):
        import plotext

    if not chart.lines:
        return f"{chart.title}: only NULL\n"
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.plot_size(*size)
    plotext.title(chart.title)
    for i, (key, line) in enumerate(chart.lines.items()):
        x, y = zip(*line, strict=True)
        mark = "braille" if is_colored or len(chart.lines) == 1 else _MARKERS[i]
        plotext.plot(x, y, label=key or None, marker=mark, color=_COLORS[i])
    times, points = zip(*chart.points, strict=True)
    plotext.xticks(*time_ticks(min(times), max(times), max(2, size[0] // 18)))
    plotext.yticks(*number_ticks(min(points), max(points), max(2, size[1] // 3)))
    text: str = plotext.build()
    return (text if is_colored else plotext.uncolorize(text)).rstrip("\n") + "\n"


def _bars(chart: BarChart, width: int, is_colored: bool) -> str:
    low, high = chart.low, chart.high
    grid = Table.grid(padding=(0, 1), expand=True)
    grid.add_column(max_width=width // 3, no_wrap=True, overflow="ellipsis")
    grid.add_column(ratio=1)
    grid.add_column(justify="right", no_wrap=True)
    for key, total in chart.bars.items():
        begin, end = sorted((-low, total - low))
        bar: Any = Bar(high - low or 1.0, begin, end, color="blue" if is_colored else "default")
        grid.add_row(Text(key or chart.title), bar, Text(f"{total:,.6g}"))
    text = io.StringIO()
    console = Console(
        file=text,
        width=width,
        force_terminal=is_colored,
        color_system="standard" if is_colored else None,
    )
    console.print(Text(chart.title), justify="center")
    console.print(grid)
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _terminal_size() -> tuple[int, int]:
    columns, rows = shutil.get_terminal_size((100, 30))
    return max(40, min(columns, 160)), max(12, min(rows - 4, 24))


def _is_terminal() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
