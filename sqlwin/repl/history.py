"""Persistent history of the prompt."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

# Maximum entries, to which a run trims the file at its start
MAX_ENTRIES = 10_000


def history_path() -> Path:
    """Return the path: `SQLWIN_HISTORY`, or `sqlwin/history` in the state directory."""
    if named := os.environ.get("SQLWIN_HISTORY"):
        return Path(named).expanduser()
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "sqlwin" / "history"


def open_history(path: Path) -> History:
    """Open the history file with mode 0600, or a history in memory if it is not writable."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        if not os.access(path, os.R_OK | os.W_OK):
            return InMemoryHistory()
    except OSError:
        return InMemoryHistory()
    history = PromptHistory(str(path))
    history.forget_oldest()
    return history


class PromptHistory(FileHistory):
    """History without consecutive duplicates and without lines that begin with a space."""

    def append_string(self, string: str) -> None:
        """Add an entry, unless it equals the last one."""
        last = self._loaded_strings[0] if self._loaded_strings else None
        if string.strip() and not string.startswith(" ") and string != last:
            super().append_string(string)

    def load_history_strings(self) -> Iterable[str]:
        """Return the entries, newest first."""
        with suppress(OSError):  # removed during the run
            yield from super().load_history_strings()

    def store_string(self, string: str) -> None:
        """Write an entry. If that fails, it lasts for this run only."""
        with suppress(OSError):
            super().store_string(string)

    def forget_oldest(self) -> None:
        """Trim the file to the newest entries once it has twice the maximum."""
        entries = list(self.load_history_strings())
        if len(entries) < 2 * MAX_ENTRIES:
            return
        path = Path(os.fsdecode(self.filename))
        shorter = path.with_name(path.name + ".new")
        shorter.unlink(missing_ok=True)
        shorter.touch(mode=0o600)
        trimmed = FileHistory(str(shorter))
        for entry in reversed(entries[:MAX_ENTRIES]):
            trimmed.store_string(entry)
        shorter.replace(path)
