"""Status line for streams at the bottom of a terminal."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from rich.live import Live

T = TypeVar("T")

POLL_SECONDS = 0.5

# Separators between the figures of a stream, and between streams
_PARTS, _STREAMS = " · ", "  |  "
# Names are not shortened below this length
_SHORTEST_NAME = 8
# Order in which figures are dropped from a line that is too long; the watermark and `dropped` stay
_LEAST = (
    re.compile(r" · state [^·|]*?(?= ·|$)"),
    re.compile(r" · batch [^·|]*?(?= ·|$)"),
    re.compile(r" \([^()]* behind\)"),
    re.compile(r": [\d,]+ rows/s"),
)


def fit_width(status: str, width: int) -> str:
    """Shorten the status of streams to a width, dropping the least important figures first.

    Example:
        >>> fit_width("t: 9 rows/s · batch 7 0.5 s · watermark 12:00 · state 3 kB · dropped 2", 45)
        't: 9 rows/s · watermark 12:00 · dropped 2'
    """
    streams = status.split(_STREAMS)
    stream_width = (width - len(_STREAMS) * (len(streams) - 1)) // len(streams)
    return _STREAMS.join(_fit_stream(stream, stream_width) for stream in streams)


def _fit_stream(status: str, width: int) -> str:
    for pattern in _LEAST:
        if cell_len(status) <= width:
            return status
        status = pattern.sub("", status)
    name, *parts = status.split(_PARTS)
    surplus = cell_len(status) - width
    if 0 < surplus < len(name) - _SHORTEST_NAME:
        return _PARTS.join([f"{name[: len(name) - surplus - 1]}…", *parts])
    if surplus > 0:
        # drop the name, and move `dropped` to the front
        status = _PARTS.join(sorted(parts or [name], key=lambda part: "dropped " not in part))
    if cell_len(status) <= width:
        return status
    return set_cell_size(status, max(width - 1, 0)) + "…"


def waiting_for(
    items: Iterator[T], waiting: Callable[[], AbstractContextManager[None]]
) -> Iterator[T]:
    """Yield items, computing each within a block of `waiting`."""
    while True:
        with waiting():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


class StatusLine:
    """Status line shown while waiting, which never mixes with other output.

    Args:
        console: Console to draw on. Nothing is drawn unless it is a terminal.
        text: Returns the text, every half second. None: show nothing.
    """

    def __init__(self, console: Console, text: Callable[[], str | None]) -> None:
        self._console = console
        self._text = text
        self._enabled = console.is_terminal and not console.is_dumb_terminal
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._last: str | None = None
        self._is_waiting = False
        self._closed = threading.Event()

    def __enter__(self) -> StatusLine:
        if self._enabled:
            threading.Thread(target=self._run, name="status", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._erase()
        # Do not join the thread: it may be calling a Spark that no longer answers.

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Show the line during the block."""
        with self._lock:
            self._is_waiting = True
            if self._last is not None and not self._closed.is_set():
                self._draw(self._last)
        try:
            yield
        finally:
            self._erase()

    def watch(self, items: Iterator[T]) -> Iterator[T]:
        """Yield the items, showing the line while the next one is computed."""
        return waiting_for(items, self.waiting)

    def _erase(self) -> None:
        with self._lock:
            self._is_waiting = False
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _run(self) -> None:
        while not self._closed.wait(POLL_SECONDS):
            text = self._text()
            with self._lock:
                self._last = text
                if text is not None and self._is_waiting and not self._closed.is_set():
                    self._draw(text)

    def _draw(self, text: str) -> None:
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                console=self._console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        text = fit_width(text, self._console.width)
        line = Text(text, style="dim", no_wrap=True, overflow="ellipsis")
        self._live.update(line, refresh=True)
