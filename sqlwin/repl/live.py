"""Live table of a stream's rows on the terminal."""

from __future__ import annotations

import io
import os
import re
import select
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from math import inf

import pyarrow as pa
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from runtime.errors import AnalysisError
from sqlwin.display.notation import display_texts
from sqlwin.display.status_line import fit_width
from sqlwin.display.table import print_table

# Screen lines without rows: column names, rule, status and prompt
_OTHER_LINES = 6
_DRAW_SECONDS = 0.25
# Maximum rows held for a growing screen, and maximum keys with a latest row
_MAX_ROWS = 500
_MAX_KEYS = 10_000
_BETWEEN = "  ·  "
_KEY_SECONDS = 0.1
# Escape sequences of arrow keys and other control characters, without Ctrl-D
_NO_TEXT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?|[\x00-\x03\x05-\x08\x0b-\x1f\x7f]")


def latest_places(
    latest: str, columns: Sequence[str], keys: Sequence[str] | None
) -> list[int] | None:
    r"""Return the positions of the key columns for a latest-row view, or None if unknown.

    Args:
        latest: `on`, or column names separated by commas.
        columns: Names of the columns.
        keys: GROUP BY columns of the query, if any.

    Raises:
        AnalysisError: A column does not exist.
    """
    if latest == "on":
        if keys is None:
            return None
        names = list(keys)
    else:
        names = [name.strip().strip("`") for name in latest.split(",")]
    spellings = [name.lower() for name in columns]
    for name in names:
        if name.lower() not in spellings:
            raise AnalysisError(
                f"column `{name}` for \\latest does not exist",
                hint=f"available columns: {', '.join(columns)}",
            )
    return [spellings.index(name.lower()) for name in names]


class LiveView:
    """Live table of a stream's last rows, or the latest row per key, with a status line.

    It redraws in place and adapts to the current size of the terminal.

    Args:
        columns: Names of the columns.
        status: Returns the status line of the stream, for each drawing.
        console: Console to draw on.
        null: Text for NULL.
        keys: Positions of the key columns whose latest row is shown. None: show the last rows.
        kind: Position of the row kind column, if any.
        end: Hint how to stop the stream.
    """

    def __init__(
        self,
        columns: Sequence[str],
        status: Callable[[], str | None],
        console: Console,
        *,
        null: str = "NULL",
        keys: Sequence[int] | None = None,
        kind: int | None = None,
        end: str = "q stops",
    ) -> None:
        self.n_rows = 0
        self._columns = columns
        self._status = status
        self._console = console
        self._null = null
        self._end = end
        self._rows = _LastRows() if keys is None else _LatestByKey(keys, kind)
        self._drawn: list[str] = []
        self._is_over = threading.Event()
        self._lock = threading.Lock()

    def show(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Draw rows until the stream ends. The last drawing stays."""
        drawing = threading.Thread(target=self._draw_on, name="sqlwin-live", daemon=True)
        if self._console.is_terminal:
            self._console.show_cursor(False)
            self._draw()
            drawing.start()
        try:
            for batch in batches:
                if batch.num_rows:
                    with self._lock:
                        self.n_rows += batch.num_rows
                        self._rows.add(batch)
            self._end = ""
        finally:
            self.close()

    def show_end(self) -> None:
        """Show that the stream is stopping."""
        self._end = "stopping"

    def close(self) -> None:
        """Draw a last time, even if more rows arrive."""
        self._draw(is_last=True)

    def _draw_on(self) -> None:
        while not self._is_over.wait(_DRAW_SECONDS):
            self._draw()

    def _draw(self, *, is_last: bool = False) -> None:
        """Erase the last drawing and draw the current state."""
        with self._lock:
            if self._is_over.is_set():
                return
            width, height = self._console.size
            lines = self._lines(width, height)
            if lines != self._drawn or is_last:
                # lines longer than a narrowed terminal have wrapped
                n_lines = sum(max(1, -(-_width(line) // width)) for line in self._drawn)
                back = f"\r\x1b[{n_lines - 1}A" if n_lines > 1 else "\r"
                erase = f"{back}\x1b[J" if self._drawn else ""
                self._console.file.write(erase + "\n".join(lines) + "\n" * is_last)
                self._console.file.flush()
                self._drawn = lines
            if is_last:
                self._is_over.set()
                if self._console.is_terminal:
                    self._console.show_cursor(True)

    def _lines(self, width: int, height: int) -> list[str]:
        text = io.StringIO()
        console = Console(file=text, force_terminal=True, width=width, highlight=False)
        if shown := self._rows.shown(max(1, height - _OTHER_LINES)):
            print_table(self._columns, shown, console, max_rows=None, null=self._null)
        else:
            console.print("waiting for rows", style="dim")
        status, end = self._status() or "", self._end
        if status and end:
            end = _BETWEEN + end
        # Show the hint how to stop at any width.
        line = Text(fit_width(status, width - len(end) - 1) + end, style="dim", no_wrap=True)
        console.print(line, no_wrap=True, overflow="ellipsis")
        return text.getvalue().rstrip("\n").split("\n")


def _width(line: str) -> int:
    return cell_len(Text.from_ansi(line).plain)


class _LastRows:
    """Last rows of a stream. Keeps more than a screen, in case the screen grows."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        while len(self._batches) > 1 and sum(b.num_rows for b in self._batches[1:]) >= _MAX_ROWS:
            self._batches.pop(0)

    def shown(self, room: int) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        for batch in reversed(self._batches):
            batches.insert(0, batch.slice(max(0, batch.num_rows - room)))
            room -= batch.num_rows
            if room <= 0:
                break
        return batches


class _LatestByKey:
    """The latest row of each key, in the order of the keys.

    Retracted rows of a stream with updates are removed.
    """

    def __init__(self, keys: Sequence[int], kind: int | None) -> None:
        self._keys = keys
        self._kind = kind
        self._schema: pa.Schema | None = None
        # by key, least recently changed first
        self._rows: dict[tuple[str | None, ...], list[pa.Scalar]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._schema = batch.schema
        keys = [display_texts(batch.column(i)).to_pylist() for i in self._keys]
        # Use scalars, because Python has no dates after the year 9999.
        for place, row in enumerate(zip(*batch.columns, strict=True)):
            key = tuple(texts[place] for texts in keys)
            self._rows.pop(key, None)
            if self._kind is None or not str(row[self._kind]).startswith("-"):
                self._rows[key] = list(row)
        for key in list(self._rows)[: max(0, len(self._rows) - _MAX_KEYS)]:
            del self._rows[key]

    def shown(self, room: int) -> list[pa.RecordBatch]:
        if self._schema is None:
            return []
        rows = [self._rows[key] for key in sorted(self._rows, key=_sort_key)[:room]]
        arrays = [
            pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self._schema)
        ]
        return [pa.RecordBatch.from_arrays(arrays, schema=self._schema)]


def _sort_key(key: tuple[object, ...]) -> tuple[tuple[bool, float, str], ...]:
    """Return a sort key: numbers by value, NULL last."""
    return tuple((part is None, _number(part), str(part)) for part in key)


def _number(part: object) -> float:
    try:
        return float(str(part))
    except ValueError:
        return inf


class Keys:
    """Reader thread for keys pressed while a stream is shown.

    Args:
        key: Key that stops the stream.
        pressed: Called from the thread when the key is pressed.
        typed: Called at the end with all other text typed so far. Later input stays in the
            terminal.
    """

    def __init__(
        self, key: str, pressed: Callable[[], None], typed: Callable[[str], object]
    ) -> None:
        self._key = key.encode()
        self._pressed = pressed
        self._typed = typed
        self._others: list[bytes] = []
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._restore: Callable[[], None] | None = None
        self._reader: threading.Thread | None = None

    def __enter__(self) -> Keys:
        try:
            terminal = sys.stdin.fileno()
            before = termios.tcgetattr(terminal)
        except (OSError, termios.error):  # not a terminal: Ctrl-C still stops the stream
            return self
        self._restore = lambda: termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        # Keep earlier input, also on Ctrl-C.
        tty.setcbreak(terminal, termios.TCSADRAIN)
        keeping = termios.tcgetattr(terminal)
        keeping[3] |= termios.NOFLSH
        termios.tcsetattr(terminal, termios.TCSADRAIN, keeping)
        self._reader = threading.Thread(
            target=self._read, args=(terminal,), name="sqlwin-keys", daemon=True
        )
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the terminal."""
        with self._lock:
            if self._reader is None or self._restore is None or self._is_over.is_set():
                return
            self._is_over.set()
            self._reader.join()
            self._restore()
        text = b"".join(self._others).decode("utf-8", "ignore").replace("\r", "\n")
        self._typed(_NO_TEXT.sub("", text))

    def _read(self, terminal: int) -> None:
        while not self._is_over.is_set():
            if select.select([terminal], [], [], _KEY_SECONDS)[0]:
                keys = os.read(terminal, 4096)
                if keys.lower() == self._key:
                    self._pressed()
                    return
                self._others.append(keys)
