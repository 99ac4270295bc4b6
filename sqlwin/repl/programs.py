"""External programs: pager and editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from runtime.errors import SetupError
from runtime.temporary import process_directory
from sqlwin.repl.terminal import ctrl_d_ends_input

# -S: do not fold long lines, the arrow keys scroll sideways; -R: colours; -K: Ctrl-C quits
_LESS = ("less", "-SRK")


class PagerClosed(Exception):
    """The user has closed the pager."""


def pager_command() -> list[str] | None:
    """Return the pager command: `SQLWIN_PAGER`, `PAGER`, or less. None: no pager."""
    for variable in ("SQLWIN_PAGER", "PAGER"):
        if (named := os.environ.get(variable)) is not None:
            command = shlex.split(named)
            if not command or command == ["cat"]:
                return None
            if shutil.which(command[0]):
                return list(_LESS) if command == ["less"] else command
    return list(_LESS) if shutil.which(_LESS[0]) else None


class PagedText:
    """Text for the screen that goes to a pager once it is longer than the screen.

    Args:
        rows: Number of lines of the screen.
        write: Prints on the screen.
        command: Command of the pager. None: print everything.
        on_page: Called with True when the pager opens and with False when it closes.
    """

    def __init__(
        self,
        rows: int,
        write: Callable[[str], object],
        command: list[str] | None,
        on_page: Callable[[bool], None],
    ) -> None:
        self._on_page = on_page
        self._rows = rows
        self._write = write
        self._command = command
        self._held: list[str] = []
        self._n_lines = 0
        self._pager: subprocess.Popen[str] | None = None

    def __enter__(self) -> PagedText:
        return self

    def __exit__(self, *_: object) -> None:
        """Print the buffered text, or wait until the user closes the pager."""
        if self._pager is None:
            self._write("".join(self._held))
            return
        with suppress(BrokenPipeError):  # closed before the end of the text
            if self._pager.stdin is not None:
                self._pager.stdin.close()
        self._pager.wait()
        self._on_page(False)

    def write(self, text: str) -> None:
        """Append text.

        Raises:
            PagerClosed: The user has closed the pager.
        """
        if self._pager is not None:
            self._send(text)
            return
        self._held.append(text)
        self._n_lines += text.count("\n")
        if self._n_lines > self._rows:
            self.page()

    def page(self) -> None:
        """Open the pager now, even if the text fits the screen."""
        if self._pager is not None:
            return
        if self._command is not None:
            self._on_page(True)
            self._pager = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env={**os.environ, "LESSCHARSET": "utf-8"},
            )
        held, self._held = "".join(self._held), []
        if self._pager is None:
            self._write(held)
            self._n_lines = 0
        else:
            self._send(held)

    def _send(self, text: str) -> None:
        assert self._pager is not None and self._pager.stdin is not None
        try:
            self._pager.stdin.write(text)
            self._pager.stdin.flush()
        except BrokenPipeError:
            raise PagerClosed from None


def edit_text(text: str) -> str:
    """Edit a text with `VISUAL`, `EDITOR` or vi, and return it.

    Raises:
        SetupError: The editor does not exist or failed.
    """
    with tempfile.TemporaryDirectory(dir=process_directory()) as directory:
        path = Path(directory) / "statement.sql"
        path.write_text(text.rstrip() + "\n" if text else "", "utf-8")
        return edit_file(path)


def edit_file(path: Path) -> str:
    """Edit a file, creating it if necessary, and return its content.

    Raises:
        SetupError: The editor does not exist or failed, or the file is not writable UTF-8 text.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        path.touch()
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error
    try:
        with ctrl_d_ends_input():
            process = subprocess.run([*shlex.split(editor), str(path)], check=False)
    except OSError as error:
        raise SetupError(
            f"cannot run the editor {editor}: {error.strerror}",
            hint="for example export EDITOR=nano",
        ) from error
    if process.returncode:
        raise SetupError(f"the editor {editor} exited with code {process.returncode}")
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"cannot read {path} as UTF-8 text", hint="save it as UTF-8") from error
