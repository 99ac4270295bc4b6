"""A line at the bottom of a terminal with the state of streams, gone when it is not needed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.live import Live
from rich.text import Text

T = TypeVar("T")

POLL_SECONDS = 0.5

# Between what a line says of one stream, and between streams
_PARTS, _STREAMS = " · ", "  |  "
# No stream is called by fewer letters
_SHORTEST_NAME = 8
# What a line that is too long goes without, in this order; the watermark and `dropped` stay
_LEAST = (
    re.compile(r" · state [^·|]*?(?= ·|$)"),
    re.compile(r" · batch [^·|]*?(?= ·|$)"),
    re.compile(r" \([^()]* behind\)"),
    re.compile(r": [\d,]+ rows/s"),
)


def fitted(status: str, width: int) -> str:
    """How streams stand, cut to a width: what tells least goes first.

    Example:
        >>> fitted("t: 9 rows/s · batch 7 0.5 s · watermark 12:00 · state 3 kB · dropped 2", 45)
        't: 9 rows/s · watermark 12:00 · dropped 2'
    """
    streams = status.split(_STREAMS)
    each = (width - len(_STREAMS) * (len(streams) - 1)) // len(streams)
    return _STREAMS.join(_fitted(stream, each) for stream in streams)


def _fitted(status: str, width: int) -> str:
    for pattern in _LEAST:
        if cell_len(status) <= width:
            return status
        status = pattern.sub("", status)
    name, *parts = status.split(_PARTS)
    surplus = cell_len(status) - width
    if 0 < surplus < len(name) - _SHORTEST_NAME:
        return _PARTS.join([f"{name[: len(name) - surplus - 1]}…", *parts])
    if surplus > 0:
        # without its name, and what was dropped first
        status = _PARTS.join(sorted(parts or [name], key=lambda part: "dropped " not in part))
    if cell_len(status) <= width:
        return status
    return set_cell_size(status, max(width - 1, 0)) + "…"


def waiting_for(
    items: Iterator[T], waiting: Callable[[], AbstractContextManager[None]]
) -> Iterator[T]:
    """The same items; the next one is made within a block of `waiting`."""
    while True:
        with waiting():
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


class StatusLine:
    """Shows a line while something is waited for; never mixes with what is printed in between.

    Args:
        console: where to draw; nothing is drawn if it is no terminal.
        text: what to show, asked for every half second; None shows nothing.
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
        # The thread is not joined: it may be in a call to a Spark that no longer answers.

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Show the line until the block is left."""
        with self._lock:
            self._is_waiting = True
            if self._last is not None and not self._closed.is_set():
                self._draw(self._last)
        try:
            yield
        finally:
            self._erase()

    def watched(self, items: Iterator[T]) -> Iterator[T]:
        """The same items, with the line shown while the next one is being made."""
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
            self._live = Live(
                console=self._console,
                transient=True,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        text = fitted(text, self._console.width)
        line = Text(text, style="dim", no_wrap=True, overflow="ellipsis")
        self._live.update(line, refresh=True)
