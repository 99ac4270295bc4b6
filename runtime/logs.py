"""Where Spark's log and the traces of unknown errors go: one file a process, never the console."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import BinaryIO

from runtime.redaction import DEFAULT
from runtime.temporary import remove_log_if_empty, user_directory

_KEPT_SECONDS = 7 * 24 * 3600
# (log file, title) of what is logged once
_logged: set[tuple[Path, str]] = set()


@cache
def log_file() -> Path:
    """The file that takes Spark's log and the full traces of this process.

    `SQLWIN_LOG_FILE` names it; otherwise it is in the user's temporary directory, where it is
    removed at the end if it is empty, and files of earlier processes after a week.
    """
    named = os.environ.get("SQLWIN_LOG_FILE")
    if named:
        path = Path(named).expanduser().absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        return path
    directory = user_directory()
    _remove_old(directory)
    log = directory / f"spark-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    remove_log_if_empty(log)
    return log


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


def _remove_old(directory: Path) -> None:
    limit = time.time() - _KEPT_SECONDS
    for path in (*directory.glob("spark-*.log"), *directory.glob("error-*.log")):
        try:
            if path.stat().st_mtime < limit:
                path.unlink()
        except OSError:
            # Another process was faster.
            continue
