"""Results with one line for each value: for rows that are too wide for a table."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from sqlwin.display.formats import cut_batches
from sqlwin.display.notation import shown_texts
from sqlwin.display.table import one_line


def write_vertical(
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    console: Console,
    *,
    max_rows: int | None = None,
    null: str = "NULL",
    more: str = "use --max-rows or --output",
) -> tuple[int, bool]:
    """Print rows as blocks of lines `column │ value`, long values over several lines.

    Args:
        columns: names of the columns.
        batches: the result, its columns in the same order.
        console: where to; its width is kept to if it is a terminal.
        max_rows: the most rows shown; None shows all.
        null: what stands for NULL.
        more: how to see the rows that are not shown.

    Returns:
        How many rows were shown, and whether there are more.
    """
    headers = [one_line(name) for name in columns]
    name_width = max((cell_len(header) for header in headers), default=0)
    room = max(20, console.width - name_width - 3) if console.is_terminal else None
    n_rows = 0
    for piece in cut_batches(batches):
        cells = [shown_texts(array, uniform=True).to_pylist() for array in piece.columns]
        for row in range(piece.num_rows):
            if max_rows is not None and n_rows == max_rows:
                _print(console, Text(f"… more rows: {more}", style="dim"))
                return n_rows, True
            n_rows += 1
            title = f"── row {n_rows:,} "
            _print(console, Text(title + "─" * max(3, name_width + 12 - len(title)), style="dim"))
            for header, column in zip(headers, cells, strict=True):
                _print_value(console, header, column[row], name_width, room, null)
    return n_rows, False


def _print_value(
    console: Console, header: str, cell: str | None, name_width: int, room: int | None, null: str
) -> None:
    name = Text(header + " " * (name_width - cell_len(header)), style="bold")
    lines = [null] if cell is None else [one_line(line) for line in cell.split("\n")]
    if room is not None:
        lines = [part for line in lines for part in textwrap.wrap(line, room) or [""]]
    for i, line in enumerate(lines):
        left = name if i == 0 else Text(" " * name_width)
        value = Text(line, style="dim" if cell is None else "")
        _print(console, Text.assemble(left, (" │ ", "dim"), value))


def _print(console: Console, text: Text) -> None:
    text.rstrip()
    console.print(text, soft_wrap=True, highlight=False)
