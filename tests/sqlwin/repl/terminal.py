"""A terminal that runs the prompt, and its screen."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pexpect
import pyte

from tests.goldens import ROOT
from tests.observing import wait_until

PROGRAM = ROOT / "tests" / "sqlwin" / "cli" / "fake_session.py"
# A quiet machine needs a twentieth of it
SECONDS = 150
PROMPT = "sqlwin>"


class Screen(pyte.HistoryScreen):
    """The visible text, and the text that scrolled out of sight."""

    def __init__(self, size: tuple[int, int], answer: Callable[[str], object]) -> None:
        super().__init__(size[1], size[0], history=1000, ratio=0.5)
        self.write_process_input = answer
        self._above: dict[int, tuple[object, str]] = {}
        self._text: str | None = None

    def changed(self) -> None:
        """Note that output has arrived."""
        self._text = None

    def text(self) -> str:
        if self._text is None:
            lines = [*map(self._scrolled, self.history.top), *self.display]
            self._text = "\n".join(line.rstrip() for line in lines)
        return self._text

    def _scrolled(self, line: Mapping[int, Any]) -> str:
        """Return the text of a line above the screen, which no longer changes."""
        if id(line) not in self._above:
            self._above[id(line)] = line, "".join(line[x].data for x in range(self.columns))
        return self._above[id(line)][1]


class Terminal:
    """A terminal that runs the prompt."""

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        size: tuple[int, int] = (24, 100),
        program: tuple[str, ...] = (str(PROGRAM),),
        command: str = "repl",
        **environment: str,
    ) -> None:
        self.child = pexpect.spawn(
            sys.executable,
            [*program, command, *arguments],
            cwd=str(directory),
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TERM": "xterm-256color",
                "SQLWIN_HISTORY": str(directory / "history"),
                "SQLWIN_PAGER": "",
                **environment,
            },
            dimensions=size,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            encoding="utf-8",
            timeout=SECONDS,
        )
        self.child.ptyproc.delayafterclose = 0  # `close` has waited for the end
        self.screen = Screen(size, self.child.send)
        self.stream = pyte.Stream(self.screen)
        self.position = 0

    def read(self) -> None:
        """Read the program's output."""
        with suppress(pexpect.TIMEOUT):
            self._feed(timeout=0.05)

    def see(self, *texts: str) -> str:
        """Wait for texts in this order, below the text seen before. Return the text between."""
        started = self.position
        for n, text in enumerate(texts, 1):
            # all again: a redrawn screen moves what was seen
            self._until(lambda n=n: self._end_of(texts[:n], started) >= 0, text)
        self.position = self._end_of(texts, started)
        return self.screen.text()[started : self.position]

    def shows(self, text: str) -> None:
        """Wait for a text anywhere on the screen, such as in its last line."""
        self._until(lambda: any(text in line for line in self.screen.display), text)

    def type(self, text: str) -> None:
        """Type text at the prompt."""
        self.child.send(text)

    def taken(self) -> None:
        """Wait until the program has read all input, so that the next key arrives alone."""
        name = os.readlink(f"/proc/{self.child.pid}/fd/0")
        terminal = os.open(name, os.O_RDONLY | os.O_NOCTTY)

        def n_waiting() -> int:
            self.read()  # which takes time for keys to pass through
            waiting = fcntl.ioctl(terminal, termios.FIONREAD, bytes(4))
            return int(struct.unpack("i", waiting)[0])

        try:
            self.read()
            wait_until(lambda: not n_waiting(), SECONDS, explain=self.screen.text)
        finally:
            os.close(terminal)

    def run(self, text: str) -> None:
        """Type text and press Enter when the program waits for input."""
        self.type(text)
        if text:
            self.see(text.rsplit("\n", 1)[-1])
        # without the pause of `send`: a program that shows the text reads the next key as well
        self.child.ptyproc.write(b"\r")

    def answers(self, text: str, *texts: str) -> str:
        """Run text and wait for texts, then for the prompt. Return the text between."""
        self.run(text)
        return self.see(*texts, PROMPT)

    def leave(self, how: str = "\x04") -> int | None:
        """Leave the prompt, wait for the end, and return the exit code."""
        self.child.send(how)
        return self.ended()

    def ended(self) -> int | None:
        """Wait for the end and return the exit code."""
        self._until(lambda: not self.child.isalive(), "the end")
        self._read_rest()
        self.child.close()
        return self.child.exitstatus

    def close(self) -> None:
        """Kill the program."""
        if self.child.isalive():
            self.child.kill(signal.SIGKILL)
            self.child.wait()
        self.child.close()

    def _feed(self, timeout: float) -> None:
        output = self.child.read_nonblocking(65536, timeout=timeout)
        self.stream.feed(output)
        self.screen.changed()

    def _read_rest(self) -> None:
        """Read the output of a program that has ended."""
        while True:
            try:
                self._feed(timeout=1)
            except (pexpect.EOF, pexpect.TIMEOUT):
                return

    def _end_of(self, texts: tuple[str, ...], position: int) -> int:
        """Return the position after texts that follow each other, or -1 if one is missing."""
        screen = self.screen.text()
        for text in texts:
            place = screen.find(text, position)
            if place < 0:
                return -1
            position = place + len(text)
        return position

    def _until(self, is_there: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + SECONDS
        while not is_there():
            try:
                self.read()
            except pexpect.EOF:
                if is_there() or what == "the end":
                    return
                raise AssertionError(f"ended before {what!r}:\n{self.screen.text()}") from None
            assert time.monotonic() < give_up, f"no {what!r} in:\n{self.screen.text()}"
