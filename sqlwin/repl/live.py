"""The rows of a stream on the screen: a table that is drawn anew as windows close."""

from __future__ import annotations

import io
import os
import select
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from sqlwin.display.table import write_table

# Lines of the screen that are not rows: the names, the rule, the status, and the prompt
_OTHER_LINES = 6
_DRAWS_A_SECOND = 4
_KEY_SECONDS = 0.1


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
        ):
            for batch in batches:
                if batch.num_rows:
                    self._add(batch)

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
        status = self._status()
        end = "  ·  q stops" if status else "q stops"
        line = Text((status or "") + end, style="dim", no_wrap=True, overflow="ellipsis")
        return Group(self._table, line)


@contextmanager
def key_pressed(key: str, pressed: Callable[[], None]) -> Iterator[None]:
    """Call `pressed`, from another thread, when a key is pressed inside of the block."""
    try:
        import termios
        import tty

        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (ImportError, OSError, termios.error):  # no such terminal: Ctrl-C stops it too
        yield
        return
    is_over = threading.Event()

    def read_keys() -> None:
        while not is_over.is_set():
            if select.select([terminal], [], [], _KEY_SECONDS)[0]:
                if os.read(terminal, 1).decode("latin-1").lower() == key:
                    pressed()
                    return

    tty.setcbreak(terminal)
    reader = threading.Thread(target=read_keys, name="sqlwin-keys", daemon=True)
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
