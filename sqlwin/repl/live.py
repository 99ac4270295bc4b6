"""The rows of a stream on the screen: a table that is drawn anew as windows close."""

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
from sqlwin.display.notation import shown_texts
from sqlwin.display.status_line import fitted
from sqlwin.display.table import print_table

# Lines of the screen that are not rows: the names, the rule, the status, and the prompt
_OTHER_LINES = 6
_DRAW_SECONDS = 0.25
# Rows that are kept for a screen that gets larger, and keys of which the latest row is kept
_MOST_ROWS = 500
_MOST_KEYS = 10_000
_BETWEEN = "  ·  "
_KEY_SECONDS = 0.1
# What arrow keys and the like send, and other keys that are no text, without Ctrl-D
_NO_TEXT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?|[\x00-\x03\x05-\x08\x0b-\x1f\x7f]")


def latest_places(
    latest: str, columns: Sequence[str], keys: Sequence[str] | None
) -> list[int] | None:
    r"""Places of the columns of which the latest row is shown; None: they are not known.

    Args:
        latest: `on`, or names of columns with commas between them.
        columns: names of the columns.
        keys: those that the query groups by, if it does.

    Raises:
        AnalysisError: there is no such column.
    """
    if latest == "on":
        if keys is None:
            return None
        names = list(keys)
    else:
        names = [name.strip().strip("`") for name in latest.split(",")]
    known = [name.lower() for name in columns]
    for name in names:
        if name.lower() not in known:
            raise AnalysisError(
                f"there is no column `{name}` to show the latest row of",
                hint=f"the columns are {', '.join(columns)}; \\latest names others",
            )
    return [known.index(name.lower()) for name in names]


class LiveView:
    """The last rows of a stream, or the latest of each key, with a line about the stream below.

    It is drawn anew where it stands, and fitted to the terminal each time, whatever size that has
    by then.

    Args:
        columns: names of the columns.
        status: how the stream stands, in a line; asked for at each drawing.
        console: where to draw.
        null: what stands for NULL.
        keys: places of the columns of which the latest row is shown; None: all rows, the last ones.
        kind: the place of the column that says whether a row comes or is taken back, if any.
        end: how it is stopped.
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
        """Draw rows as they come, until there are no more; what is drawn last stays."""
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
        """Say from here on that the stream is being stopped."""
        self._end = "stopping"

    def close(self) -> None:
        """Draw it once more and then never again, also if rows still come."""
        self._draw(is_last=True)

    def _draw_on(self) -> None:
        while not self._is_over.wait(_DRAW_SECONDS):
            self._draw()

    def _draw(self, *, is_last: bool = False) -> None:
        """Erase what was drawn and draw what there is now."""
        with self._lock:
            if self._is_over.is_set():
                return
            width, height = self._console.size
            lines = self._lines(width, height)
            if lines != self._drawn or is_last:
                # a terminal that was made narrower has broken lines that were longer
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
        # how it stops is shown, however narrow the screen is
        line = Text(fitted(status, width - len(end) - 1) + end, style="dim", no_wrap=True)
        console.print(line, no_wrap=True, overflow="ellipsis")
        return text.getvalue().rstrip("\n").split("\n")


def _width(line: str) -> int:
    return cell_len(Text.from_ansi(line).plain)


class _LastRows:
    """The last rows of a stream; more than a screen has, which may get larger."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)
        while len(self._batches) > 1 and sum(b.num_rows for b in self._batches[1:]) >= _MOST_ROWS:
            self._batches.pop(0)

    def shown(self, room: int) -> list[pa.RecordBatch]:
        found: list[pa.RecordBatch] = []
        for batch in reversed(self._batches):
            found.insert(0, batch.slice(max(0, batch.num_rows - room)))
            room -= batch.num_rows
            if room <= 0:
                break
        return found


class _LatestByKey:
    """The latest row of each key, in the order of the keys.

    Rows that are taken back, as a stream with updates says it, are not shown.
    """

    def __init__(self, keys: Sequence[int], kind: int | None) -> None:
        self._keys = keys
        self._kind = kind
        self._schema: pa.Schema | None = None
        # by key, those first that have been as they are for longest
        self._rows: dict[tuple[str | None, ...], list[pa.Scalar]] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        self._schema = batch.schema
        keys = [shown_texts(batch.column(i)).to_pylist() for i in self._keys]
        # as scalars: Python has no dates after the year 9999
        for place, row in enumerate(zip(*batch.columns, strict=True)):
            key = tuple(texts[place] for texts in keys)
            self._rows.pop(key, None)
            if self._kind is None or not str(row[self._kind]).startswith("-"):
                self._rows[key] = list(row)
        for key in list(self._rows)[: max(0, len(self._rows) - _MOST_KEYS)]:
            del self._rows[key]

    def shown(self, room: int) -> list[pa.RecordBatch]:
        if self._schema is None:
            return []
        rows = [self._rows[key] for key in sorted(self._rows, key=_in_order)[:room]]
        arrays = [
            pa.array([row[i] for row in rows], field.type) for i, field in enumerate(self._schema)
        ]
        return [pa.RecordBatch.from_arrays(arrays, schema=self._schema)]


def _in_order(key: tuple[object, ...]) -> tuple[tuple[bool, float, str], ...]:
    """Numbers as numbers, NULL at the end."""
    return tuple((part is None, _number(part), str(part)) for part in key)


def _number(part: object) -> float:
    try:
        return float(str(part))
    except ValueError:
        return inf


class Keys:
    """Reads the keys of the terminal while a stream is shown, in a thread.

    Args:
        key: the key that means something.
        pressed: called when it is pressed, from the thread.
        typed: takes in the end what else was typed until then. What is typed later stays for
            whoever reads the terminal next.
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
        except (OSError, termios.error):  # no such terminal: Ctrl-C stops it too
            return self
        self._restore = lambda: termios.tcsetattr(terminal, termios.TCSADRAIN, before)
        # What was typed before is not thrown away, neither here nor by Ctrl-C
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
        """Leave the terminal to others."""
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
