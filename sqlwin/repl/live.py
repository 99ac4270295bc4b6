"""The rows of a stream on the screen: a table that is drawn anew as windows close."""

from __future__ import annotations

import io
import os
import re
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sqlwin.display.table import write_table

# Lines of the screen that are not rows: the names, the rule, the status, and the prompt
_OTHER_LINES = 6
_DRAWS_A_SECOND = 4
_BETWEEN = "  ·  "
_KEY_SECONDS = 0.1
# What arrow keys and the like send, and other keys that are no text
_NO_TEXT = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?|[\x00-\x08\x0b-\x1f\x7f]")


class LiveView:
    """The last rows of a stream as a table, with a line about the stream below it.

    Args:
        columns: names of the columns.
        status: how the stream stands, in a line; asked for at each drawing.
        console: where to draw.
        null: what stands for NULL.
    """

    def __init__(
        self,
        columns: Sequence[str],
        status: Callable[[], str | None],
        console: Console,
        *,
        null: str = "NULL",
    ) -> None:
        self.n_rows = 0
        self._columns = columns
        self._status = status
        self._console = console
        self._null = null
        self._end = "q stops"
        self._live: Live | None = None
        self._last: list[pa.RecordBatch] = []
        self._table = Text("waiting for rows", style="dim")

    def show(self, batches: Iterator[pa.RecordBatch]) -> None:
        """Draw rows as they come, until there are no more; what is drawn last stays."""
        with Live(
            console=self._console,
            get_renderable=self._drawn,
            refresh_per_second=_DRAWS_A_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
        ) as self._live:
            for batch in batches:
                if batch.num_rows:
                    self._add(batch)
            self._end = ""

    def show_end(self) -> None:
        """Say from here on that the stream is being stopped."""
        self._end = "stopping"

    def close(self) -> None:
        """Draw nothing any more, also if rows still come."""
        if self._live is not None:
            self._live.stop()

    def _add(self, batch: pa.RecordBatch) -> None:
        self.n_rows += batch.num_rows
        room = max(1, self._console.height - _OTHER_LINES)
        self._last.append(batch)
        while len(self._last) > 1 and sum(b.num_rows for b in self._last[1:]) >= room:
            self._last.pop(0)
        surplus = max(0, sum(b.num_rows for b in self._last) - room)
        shown = [self._last[0].slice(surplus), *self._last[1:]]
        stream = io.StringIO()
        write_table(
            self._columns,
            shown,
            Console(file=stream, force_terminal=True, width=self._console.width, highlight=False),
            max_rows=None,
            null=self._null,
        )
        self._table = Text.from_ansi(stream.getvalue().rstrip("\n"))

    def _drawn(self) -> RenderableType:
        status, end = self._status(), self._end
        if status and end:
            end = _BETWEEN + end
        # how it stops is shown, however narrow the screen is
        line = Text(status or "", style="dim", no_wrap=True)
        line.truncate(self._console.width - len(end), overflow="ellipsis")
        line.append(end)
        return Group(self._table, line)


class Keys:
    """Reads the keys of the terminal while a stream is shown, in a thread.

    Args:
        key: the key that means something.
        pressed: called when it is pressed, from the thread.
        typed: takes in the end what else was typed until then. What is typed later stays for
            whoever reads the terminal next.
    """

    def __init__(self, key: str, pressed: Callable[[], None], typed: Callable[[str], None]) -> None:
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
            import termios
            import tty

            terminal = sys.stdin.fileno()
            before = termios.tcgetattr(terminal)
        except (ImportError, OSError, termios.error):  # no such terminal: Ctrl-C stops it too
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
