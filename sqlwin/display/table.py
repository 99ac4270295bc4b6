"""Tables for people: fitted to the terminal, row by row, or with a line per value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runtime.spec.figures import count_text
from sqlwin.display.formats import cut_batches, first_rows
from sqlwin.display.notation import display_texts, is_binary, is_number, is_text

DEFAULT_MAX_ROWS = 40

# Width between two columns: a space, a line, a space
GAP = 3
# Minimum width of a text column, unless it is the only column
MIN_TEXT_WIDTH = 12
MIN_HEADER_WIDTH = 6
# Maximum width of a cell without a terminal
MAX_CELL_WIDTH = 120
# Minimum column width in a table of a stream, for values longer than the first ones
_STREAM_WIDTH = 10
# Lists with at least this many columns are shown with a line per value if they are too wide
_MANY_COLUMNS = 8
# Maximum characters of a cell, far wider than any terminal
_MAX_CELL_LENGTH = 2_000

# Characters that move the cursor, change colours or the reading direction
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_CONTROL_NAMES = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


@dataclass(frozen=True)
class Layout:
    """Columns that are shown, and their widths.

    Attributes:
        shown: Indexes of the columns, ascending.
        widths: Widths in terminal cells.
        break_at: Number of columns before the gap that marks omitted ones. None: none is omitted.
    """

    shown: tuple[int, ...]
    widths: tuple[int, ...]
    break_at: int | None = None


def print_table(
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    console: Console,
    *,
    max_rows: int | None = DEFAULT_MAX_ROWS,
    null: str = "NULL",
    more: str = "use --max-rows or --output",
) -> tuple[int, bool]:
    """Print the first rows of a result as a table. A single multi-line value is printed as text.

    Args:
        columns: Names of the columns.
        batches: Rows of the result. At most one more than shown is read.
        console: Console to print on. The table fits its width if it is a terminal.
        max_rows: Maximum rows to show. None: all.
        null: Text for NULL.
        more: Hint how to see the other rows.

    Returns:
        Number of rows shown, and whether there are more.
    """
    shown_batches = first_rows(batches, max_rows)
    has_more = (
        max_rows is not None and shown_batches is not None and shown_batches.num_rows > max_rows
    )
    n_rows = 0
    cells: list[list[str | None]] = [[] for _ in columns]
    data_types: list[pa.DataType] = [pa.null() for _ in columns]
    if shown_batches is not None:
        rows = shown_batches.slice(0, max_rows)
        n_rows = rows.num_rows
        if len(columns) == n_rows == 1 and not has_more and _print_lines(rows.column(0), console):
            return 1, False
        cells = [_column_cells(column) for column in rows.columns]
        data_types = rows.schema.types

    headers = [one_line(name) for name in columns]
    data_widths = [max([_width(c, null) for c in column], default=0) for column in cells]
    natural = [max(cell_len(h), w, 1) for h, w in zip(headers, data_widths, strict=True)]
    if console.is_terminal:
        floors = [
            min(w, MIN_TEXT_WIDTH) if _shrinks(t) else max(d, min(w, MIN_HEADER_WIDTH))
            for w, d, t in zip(natural, data_widths, data_types, strict=True)
        ]
        layout = fit_columns(natural, floors, console.width)
    else:
        widths = tuple(min(width, MAX_CELL_WIDTH) for width in natural)
        layout = Layout(tuple(range(len(columns))), widths)

    table = _table(headers, cells, [is_number(t) for t in data_types], layout, n_rows, null)
    if console.is_terminal:
        console.print(table)
    else:
        width = sum(layout.widths) + GAP * len(columns) + 1
        plain = Console(file=console.file, width=width, color_system=None)
        with plain.capture() as capture:
            plain.print(table)
        for line in capture.get().splitlines():
            console.file.write(line.rstrip() + "\n")
    for note in _notes(headers, layout, has_more, more):
        console.print(Text(note, style="dim"), soft_wrap=True)
    return n_rows, has_more


def is_better_vertical(
    columns: Sequence[str], rows: Iterable[pa.RecordBatch], width: int, null: str = "NULL"
) -> bool:
    """Return whether SHOW-like rows have many columns and are wider than the terminal.

    A table would omit columns, or cut values that users copy, such as paths.
    """
    if len(columns) < _MANY_COLUMNS:
        return False
    widest = [cell_len(one_line(name)) for name in columns]
    for piece in rows:
        for number, array in enumerate(piece.columns):
            texts = display_texts(array, uniform=True).to_pylist()
            cells = [None if text is None else one_line(text) for text in texts]
            widest[number] = max([widest[number], *(_width(cell, null) for cell in cells)])
    return sum(widest) + GAP * (len(columns) - 1) > width


def _print_lines(column: pa.ChunkedArray, console: Console) -> bool:
    """Print a single value of several lines in full, so that it can be read and copied."""
    if not is_text(column.type):
        return False
    text = column[0].as_py() or ""
    if "\n" not in text.rstrip("\n"):
        return False
    lines = "\n".join(map(_printable, text.rstrip("\n").split("\n")))
    console.print(Text(lines), soft_wrap=True, highlight=False)
    return True


def fit_columns(natural: Sequence[int], floors: Sequence[int], available: int) -> Layout:
    """Fit columns into `available` terminal cells.

    The widest columns shrink first, none below its floor. If that is not enough, columns in the
    middle are omitted, since the first and last ones usually are the keys and the results.

    Example:
        >>> fit_columns([5, 40, 10], [5, 12, 10], 40)
        Layout(shown=(0, 1, 2), widths=(5, 19, 10), break_at=None)
        >>> fit_columns([9, 9, 9, 9], [9, 9, 9, 9], 30)
        Layout(shown=(0, 3), widths=(9, 9), break_at=1)
    """
    order = range(len(natural))
    if sum(floors) + GAP * (len(floors) - 1) <= available:
        return Layout(tuple(order), _shrink(natural, floors, available - GAP * (len(floors) - 1)))
    # The mark for omitted columns is one cell wide and has its own gap.
    room = available - 1 - GAP
    left, right = [0], list[int]()
    used = floors[0]
    low, high = 1, len(natural) - 1
    while low <= high:
        from_right = len(right) < len(left)
        column = high if from_right else low
        if used + GAP + floors[column] > room:
            break
        used += GAP + floors[column]
        (right if from_right else left).append(column)
        low, high = (low, high - 1) if from_right else (low + 1, high)
    shown = left + right[::-1]
    room -= GAP * (len(shown) - 1)
    lowest = [min(floors[c], max(room, 1)) for c in shown]
    widths = _shrink([natural[c] for c in shown], lowest, max(room, 1))
    return Layout(tuple(shown), widths, len(left) if len(shown) < len(natural) else None)


def _shrink(natural: Sequence[int], floors: Sequence[int], available: int) -> tuple[int, ...]:
    """Cut the widest columns to one level so that all fit, and distribute the remaining cells."""

    def at(level: int) -> list[int]:
        return [max(f, min(n, level)) for n, f in zip(natural, floors, strict=True)]

    low, high = 0, max(natural, default=0)
    while low < high:
        level = (low + high + 1) // 2
        if sum(at(level)) <= available:
            low = level
        else:
            high = level - 1
    widths = at(low)
    for i, width in enumerate(widths):
        if sum(widths) < available and width == low < natural[i]:
            widths[i] += 1
    return tuple(widths)


def _column_cells(column: pa.ChunkedArray) -> list[str | None]:
    array = column.combine_chunks()
    # Arrow keeps values in chunks if they are too large for one array
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    texts = [text for chunk in chunks for text in display_texts(chunk, uniform=True).to_pylist()]
    return [None if text is None else one_line(text) for text in texts]


def one_line(text: str) -> str:
    """Return the beginning of a text in one line, without control characters."""
    return _printable(text[:_MAX_CELL_LENGTH])


def _printable(text: str) -> str:
    return _CONTROL.sub(_control_name, text)


def _control_name(match: re.Match[str]) -> str:
    char = match.group()
    code = f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}"
    return _CONTROL_NAMES.get(char, code)


def _width(cell: str | None, null: str) -> int:
    return cell_len(null if cell is None else cell)


def _shrinks(data_type: pa.DataType) -> bool:
    """Return whether a shortened value of this type is still useful. A cut number would mislead."""
    return bool(is_text(data_type) or is_binary(data_type) or pa.types.is_nested(data_type))


def _table(
    headers: Sequence[str],
    cells: Sequence[Sequence[str | None]],
    right: Sequence[bool],
    layout: Layout,
    n_rows: int,
    null: str,
) -> Table:
    table = Table(
        box=box.MINIMAL,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1),
        header_style="bold",
        border_style="dim",
    )
    shown = [
        [Text(null, style="dim") if c is None else Text(c) for c in cells[column]]
        for column in layout.shown
    ]
    for position, (column, width) in enumerate(zip(layout.shown, layout.widths, strict=True)):
        if position == layout.break_at:
            table.add_column("…", width=1, no_wrap=True, style="dim")
        table.add_column(
            Text(headers[column]),
            justify="right" if right[column] else "left",
            width=width,
            no_wrap=True,
            overflow="ellipsis",
        )
    if layout.break_at == len(layout.shown):
        table.add_column("…", width=1, no_wrap=True, style="dim")
    if layout.break_at is not None:
        shown.insert(layout.break_at, [Text("…")] * n_rows)
    for row in zip(*shown, strict=True):
        table.add_row(*row)
    return table


def _notes(headers: Sequence[str], layout: Layout, has_more: bool, more: str) -> list[str]:
    notes = []
    if layout.break_at is not None:
        hidden = [name for i, name in enumerate(headers) if i not in layout.shown]
        more_columns = count_text(len(hidden), "more columns")
        notes.append(f"… {more_columns}: {', '.join(hidden)}")
    if has_more:
        notes.append(f"… more rows: {more}")
    return notes


# -- row by row ------------------------------------------------------------------------------------


def write_stream_table(
    columns: Sequence[str], batches: Iterable[pa.RecordBatch], console: Console
) -> int:
    """Print rows as they arrive. The header is repeated when a column gets wider.

    Args:
        columns: Names of the columns.
        batches: Rows, with columns in the same order.
        console: Console to print on. Lines are cut at its width if it is a terminal.

    Returns:
        Number of rows.
    """
    headers = [one_line(name) for name in columns]
    widths = [0] * len(headers)
    n_rows = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        cells = [
            [
                "NULL" if text is None else one_line(text)
                for text in display_texts(column).to_pylist()
            ]
            for column in batch.columns
        ]
        needed = [min(max(map(cell_len, column)), MAX_CELL_WIDTH) for column in cells]
        if any(need > width for need, width in zip(needed, widths, strict=True)):
            widths = [
                max(width, need, cell_len(header), min(need + 2, _STREAM_WIDTH), len("NULL"))
                for width, need, header in zip(widths, needed, headers, strict=True)
            ]
            _print_line(console, " │ ".join(map(set_cell_size, headers, widths)), "bold")
            _print_line(console, "─┼─".join("─" * width for width in widths), "dim")
        right = [is_number(type_) for type_ in batch.schema.types]
        for row in zip(*cells, strict=True):
            fitted = [
                cell.rjust(width) if to_right else set_cell_size(cell, width)
                for cell, width, to_right in zip(row, widths, right, strict=True)
            ]
            _print_line(console, " │ ".join(fitted), "")
        n_rows += batch.num_rows
        console.file.flush()
    return n_rows


def _print_line(console: Console, line: str, style: str) -> None:
    if console.is_terminal:
        console.print(Text(line.rstrip(), style=style), no_wrap=True, overflow="ellipsis")
    else:
        console.file.write(line.rstrip() + "\n")


def write_vertical(
    columns: Sequence[str],
    batches: Iterable[pa.RecordBatch],
    console: Console,
    *,
    max_rows: int | None = None,
    null: str = "NULL",
    more: str = "use --max-rows or --output",
) -> tuple[int, bool]:
    """Print rows as blocks of lines `column │ value`, wrapping long values.

    Args:
        columns: Names of the columns.
        batches: Rows of the result, with columns in the same order.
        console: Console to print on. Values fit its width if it is a terminal.
        max_rows: Maximum rows to show. None: all.
        null: Text for NULL.
        more: Hint how to see the other rows.

    Returns:
        Number of rows shown, and whether there are more.
    """
    headers = [one_line(name) for name in columns]
    name_width = max((cell_len(header) for header in headers), default=0)
    room = max(20, console.width - name_width - 3) if console.is_terminal else None
    n_rows = 0
    for piece in cut_batches(batches):
        cells = [display_texts(array, uniform=True).to_pylist() for array in piece.columns]
        for row in range(piece.num_rows):
            if max_rows is not None and n_rows == max_rows:
                _print_wrapped(console, Text(f"… more rows: {more}", style="dim"))
                return n_rows, True
            n_rows += 1
            title = f"── row {n_rows:,} "
            _print_wrapped(
                console, Text(title + "─" * max(3, name_width + 12 - len(title)), style="dim")
            )
            for header, column in zip(headers, cells, strict=True):
                _print_value(console, header, column[row], name_width, room, null)
    return n_rows, False


def _print_value(
    console: Console, header: str, cell: str | None, name_width: int, room: int | None, null: str
) -> None:
    name = Text(header + " " * (name_width - cell_len(header)), style="bold")
    lines = [null] if cell is None else list(map(_printable, cell.split("\n")))
    if room is not None:
        lines = [part.plain for line in lines for part in Text(line).wrap(console, room)]
    for i, line in enumerate(lines):
        left = name if i == 0 else Text(" " * name_width)
        value = Text(line, style="dim" if cell is None else "")
        _print_wrapped(console, Text.assemble(left, (" │ ", "dim"), value))


def _print_wrapped(console: Console, text: Text) -> None:
    text.rstrip()
    console.print(text, soft_wrap=True, highlight=False)
