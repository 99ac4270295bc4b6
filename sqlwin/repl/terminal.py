"""The terminal of the prompt: Ctrl-C is a signal at every moment, and Ctrl-D a key.

While a program edits a line it usually gets Ctrl-C as a character, and otherwise as a signal; a
character that was typed before the change and read after it is lost. Ctrl-D is the other way
round: outside of the editor the kernel takes it for the end of input, and drops it. So the prompt
leaves Ctrl-C to the kernel and takes Ctrl-D from it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prompt_toolkit.input import Input, create_input

if sys.platform == "win32":

    def prompt_input() -> Input:
        """Return what the prompt reads keys from."""
        return create_input()

    @contextmanager
    def ctrl_d_kept() -> Iterator[None]:
        """Do nothing: consoles of Windows keep what is typed."""
        yield

    @contextmanager
    def ctrl_d_ends_input() -> Iterator[None]:
        """Do nothing, see `ctrl_d_kept`."""
        yield

else:
    import termios
    from contextlib import AbstractContextManager

    from prompt_toolkit.input.vt100 import Vt100Input, raw_mode

    _LOCAL_FLAGS, _CHARACTERS = 3, 6  # of the list that tcgetattr returns
    _DISABLED = b"\0"  # _POSIX_VDISABLE of Linux; elsewhere a character that nobody types
    _CTRL_D = b"\x04"

    class _RawMode(raw_mode):
        """Raw mode in which Ctrl-C still is a signal, which drops nothing that was typed before."""

        def __enter__(self) -> None:
            super().__enter__()
            _change(self.fileno, termios.ISIG | termios.NOFLSH, _DISABLED, "VQUIT", "VSUSP")

    class _Input(Vt100Input):
        def raw_mode(self) -> AbstractContextManager[None]:
            """Return the mode in which keys are read."""
            return _RawMode(self.stdin.fileno())

    def prompt_input() -> Input:
        """Return what the prompt reads keys from."""
        return _Input(sys.stdin) if sys.stdin.isatty() else create_input()

    @contextmanager
    def ctrl_d_kept() -> Iterator[None]:
        """Inside, Ctrl-D that is typed while nobody reads is there for the next prompt."""
        with _characters(_DISABLED, "VEOF"):
            yield

    @contextmanager
    def ctrl_d_ends_input() -> Iterator[None]:
        """Inside, Ctrl-D means to other programs what it always does."""
        with _characters(_CTRL_D, "VEOF"):
            yield

    @contextmanager
    def _characters(character: bytes, *names: str) -> Iterator[None]:
        try:
            terminal = sys.stdin.fileno()
            before = termios.tcgetattr(terminal)
        except (OSError, ValueError, termios.error):  # standard input is no terminal
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
        """Switch local flags on, and give special characters another key.

        The terminal may be gone: its hang-up ends the program.
        """
        try:
            attributes: list[Any] = termios.tcgetattr(terminal)
            attributes[_LOCAL_FLAGS] |= flags
            for name in names:
                attributes[_CHARACTERS][getattr(termios, name)] = character
            termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        except termios.error:
            return
