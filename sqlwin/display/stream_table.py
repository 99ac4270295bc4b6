"""Rows of a stream as a table to read, line by line as they come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from sqlwin.display.notation import is_number, shown_texts
from sqlwin.display.table import MAX_CELL_WIDTH, one_line

# Room for values that are longer than the first ones
_ROOM = 10
_NULL = "NULL"


def write_stream_table(
    columns: Sequence[str], batches: Iterable[pa.RecordBatch], console: Console
) -> int:
    """Print rows as they come; the header is repeated when a column has to get wider.

    Args:
        columns: names of the columns.
        batches: the rows, in the order of the columns.
        console: where to; lines are cut at its width if it is a terminal.

    Returns:
        How many rows there were.
    """
    headers = [one_line(name) for name in columns]
    widths = [0] * len(headers)
    n_rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        cells = [
            [_NULL if text is None else one_line(text) for text in _texts(column)]
            for column in batch.columns
        ]
        needed = [min(max(map(cell_len, column)), MAX_CELL_WIDTH) for column in cells]
        if any(need > width for need, width in zip(needed, widths, strict=True)):
            widths = [
                max(width, need, cell_len(header), min(need + 2, _ROOM), len(_NULL))
                for width, need, header in zip(widths, needed, headers, strict=True)
            ]
            _print(console, " │ ".join(map(set_cell_size, headers, widths)), "bold")
            _print(console, "─┼─".join("─" * width for width in widths), "dim")
        right = [is_number(type_) for type_ in batch.schema.types]
        for row in zip(*cells, strict=True):
            fitted = [
                cell.rjust(width) if to_right else set_cell_size(cell, width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            _print(console, " │ ".join(fitted), "")
        n_rows += batch.num_rows
        console.file.flush()
    return n_rows


def _texts(column: pa.Array) -> list[str | None]:
    texts: list[str | None] = shown_texts(column, uniform=False).to_pylist()
    return texts


def _print(console: Console, line: str, style: str) -> None:
    if console.is_terminal:
        console.print(Text(line.rstrip(), style=style), no_wrap=True, overflow="ellipsis")
    else:
        console.file.write(line.rstrip() + "\n")
