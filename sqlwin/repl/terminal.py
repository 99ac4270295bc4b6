"""Terminal of the prompt: Ctrl-C is always a signal, Ctrl-D always a key.

Programs that edit lines usually get Ctrl-C as a character, and as a signal otherwise. A character
typed before the mode changes and read afterwards is lost. With Ctrl-D it is the other way round:
outside the editor the kernel treats it as the end of input and drops it. So the prompt leaves
Ctrl-C to the kernel, and disables the kernel's handling of Ctrl-D.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prompt_toolkit.input import Input, create_input

if sys.platform == "win32":

    def prompt_input() -> Input:
        """Return the input that the prompt reads keys from."""
        return create_input()

    @contextmanager
    def keep_ctrl_d() -> Iterator[None]:
        """Do nothing, because Windows consoles keep typed input."""
        yield

    @contextmanager
    def ctrl_d_ends_input() -> Iterator[None]:
        """Do nothing, see `keep_ctrl_d`."""
        yield

else:
    import termios
    from contextlib import AbstractContextManager

    from prompt_toolkit.input.vt100 import Vt100Input, raw_mode

    _LOCAL_FLAGS, _CHARACTERS = 3, 6  # indexes in the list that tcgetattr returns
    _DISABLED = b"\0"  # _POSIX_VDISABLE on Linux; elsewhere a character that cannot be typed
    _CTRL_D = b"\x04"

    class _RawMode(raw_mode):
        """Raw mode in which Ctrl-C is a signal that keeps typed input."""

        def __enter__(self) -> None:
            super().__enter__()
            _change(self.fileno, termios.ISIG | termios.NOFLSH, _DISABLED, "VQUIT", "VSUSP")

    class _Input(Vt100Input):
        def raw_mode(self) -> AbstractContextManager[None]:
            """Return the mode for reading keys."""
            return _RawMode(self.stdin.fileno())

    def prompt_input() -> Input:
        """Return the input that the prompt reads keys from."""
        return _Input(sys.stdin) if sys.stdin.isatty() else create_input()

    @contextmanager
    def keep_ctrl_d() -> Iterator[None]:
        """Keep Ctrl-D for the next prompt if it is typed while nothing reads input."""
        with _characters(_DISABLED, "VEOF"):
            yield

    @contextmanager
    def ctrl_d_ends_input() -> Iterator[None]:
        """Restore the usual meaning of Ctrl-D for other programs."""
        with _characters(_CTRL_D, "VEOF"):
            yield

    @contextmanager
    def _characters(character: bytes, *names: str) -> Iterator[None]:
        try:
            terminal = sys.stdin.fileno()
            before = termios.tcgetattr(terminal)
        except (OSError, ValueError, termios.error):  # standard input is not a terminal
            yield
            return
        _change(terminal, 0, character, *names)
        try:
            yield
        finally:
            for name in names:
                number = getattr(termios, name)
                _change(terminal, 0, before[_CHARACTERS][number], name)

    def _change(terminal: int, flags: int, character: bytes, *names: str) -> None:
        """Set local flags and map special characters to another key.

        Errors are ignored: if the terminal is gone, its hang-up signal ends the program.
        """
        try:
            attributes: list[Any] = termios.tcgetattr(terminal)
            attributes[_LOCAL_FLAGS] |= flags
            for name in names:
                attributes[_CHARACTERS][getattr(termios, name)] = character
            termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        except termios.error:
            return
