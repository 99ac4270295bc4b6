"""Log file of a process, for Spark's log and the traces of unexpected errors; never the console."""

from __future__ import annotations

import os
import time
from functools import cache
from pathlib import Path
from typing import BinaryIO

from runtime.redaction import DEFAULT
from runtime.temporary import remove_log_if_empty, user_directory

_KEPT_SECONDS = 7 * 24 * 3600
# (log file, title) of entries logged once
_logged: set[tuple[Path, str]] = set()


@cache
def log_file() -> Path:
    """Return the log file of this process, for Spark's log and full traces.

    `SQLWIN_LOG_FILE` sets it. By default it is in the user's temporary directory. There, it is
    removed at exit if it is empty, and files of earlier processes after a week.
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
    """Open the log file for appending; a new file is readable by its owner only."""
    return open(log_file(), "ab", opener=lambda path, flags: os.open(path, flags, 0o600))


def append_trace(title: str, trace: str) -> None:
    """Append a trace to the log file, with secrets masked.

    Errors are ignored: an unwritable log must not hide the error being logged.
    """
    try:
        with open_log() as log:
            text = f"{time.strftime('%Y-%m-%d %H:%M:%S')} ERROR sqlwin: {title}\n{trace}\n"
            log.write(DEFAULT.text(text).encode("utf-8", errors="replace"))
    except OSError:
        return


def append_once(title: str, trace: str) -> None:
    """Append a trace to the log file unless it already has one with this title."""
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
            # Another process removed it first.
            continue
