"""Where Spark's log and the traces of unknown errors go: one file a process, never the console."""

from __future__ import annotations

import os
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import BinaryIO

from runtime.redaction import DEFAULT

_KEPT_SECONDS = 7 * 24 * 3600
# (log file, title) of what is logged once
_logged: set[tuple[Path, str]] = set()


@cache
def log_file() -> Path:
    """The file that takes Spark's log and the full traces of this process.

    `SQLWIN_LOG_FILE` names it; else it stands in a directory of the user's own below the
    temporary directory, where the files of earlier processes are removed after a week.
    """
    named = os.environ.get("SQLWIN_LOG_FILE")
    if named:
        path = Path(named).expanduser().absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
    directory = _own_directory()
    _remove_old(directory)
    return directory / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def open_log() -> BinaryIO:
    """The log file, to be written on; a new one is for its owner alone."""
    return open(log_file(), "ab", opener=lambda path, flags: os.open(path, flags, 0o600))


def append_trace(title: str, trace: str) -> None:
    """Add a trace to the log file, without what looks secret.

    A log that cannot be written must not hide the error itself.
    """
    try:
        with open_log() as log:
            text = f"{time.strftime('%Y-%m-%d %H:%M:%S')} ERROR sqlwin: {title}\n{trace}\n"
            log.write(DEFAULT.text(text).encode("utf-8", errors="replace"))
    except OSError:
        return


def append_once(title: str, trace: str) -> None:
    """Add a trace to the log file unless it has one of that title already."""
    key = log_file(), title
    if key not in _logged:
        _logged.add(key)
        append_trace(title, trace)


def _own_directory() -> Path:
    """A directory that no other user can have prepared: theirs, and nobody else's to write."""
    user = os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    path = Path(tempfile.gettempdir()) / f"sqlwin-{user}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        is_ours = not hasattr(os, "getuid") or (
            found.st_uid == os.getuid() and found.st_mode & 0o022 == 0
        )
        if is_ours and path.is_dir() and not path.is_symlink() and os.access(path, os.W_OK):
            return path
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="sqlwin-"))


def _remove_old(directory: Path) -> None:
    limit = time.time() - _KEPT_SECONDS
    for path in directory.glob("spark-*.log"):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except OSError:
            # Another process was faster.
            continue
