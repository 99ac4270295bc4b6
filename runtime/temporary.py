"""Temporary files: one directory per process, removed when the process ends.

Below the temporary directory, each user has one directory with mode 0700:

    sqlwin-<user>/
        spark-<time>-<pid>.log    Spark's log and full traces of one process (runtime/logs.py)
        error-<random>.log        the trace of one error
        at-<host>-<random>/       all other files of one process, which holds a lock on it

A process removes its directory at exit, and its log if that is empty. If a process was killed, the
next process of the same user on the same host removes its directory, provided that nobody holds the
lock. The operating system releases the lock (`flock`) however the process ends. Containers that
share a directory share its locks. On a file system without locks, abandoned directories are kept.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

# A directory looks abandoned between its creation and its lock.
_SETTLED_SECONDS = 60.0
_HOST_LENGTH = 4
_RANDOM_LENGTH = 8  # as in tempfile.mkdtemp
_LOG = "log"
# (directory, ID of the process that created it): a fork inherits its parent's entries
_directories: list[tuple[Path, int]] = []


def user_directory(above: str | None = None) -> Path:
    """Return a directory that only this user can write to; create it if necessary.

    Args:
        above: Parent directory; None for the temporary directory.

    Raises:
        OSError: The directory is not writable.
    """
    above = above or tempfile.gettempdir()
    path = Path(above) / f"sqlwin-{_user()}"
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
        # another user may have created it
        is_ours = not hasattr(os, "getuid") or (
            status.st_uid == os.getuid() and status.st_mode & 0o022 == 0
        )
        if is_ours and path.is_dir() and not path.is_symlink() and os.access(path, os.W_OK):
            return path
    return _other_directory(above)


def process_directory(above: str | None = None) -> Path:
    """Return the directory of this process, which is removed when the process ends.

    The first call also removes the directories of killed processes of this user.

    Args:
        above: Parent directory; None for the temporary directory.

    Raises:
        OSError: The directory is not writable.
    """
    # a fork is a process of its own and may outlive its parent
    return _process_directory(above or tempfile.gettempdir(), os.getpid())


def length_below(above: str) -> int:
    """Return the maximum length in bytes of the path `process_directory(above)`."""
    names = (f"sqlwin-{_user()}", f"at-{'0' * _HOST_LENGTH}-{'0' * _RANDOM_LENGTH}")
    return len(os.fsencode(os.path.join(above, *names)))


def new_directory(kind: str) -> Path:
    """Create a uniquely named directory for one purpose in the directory of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=process_directory()))


def remove_log_if_empty(log: Path) -> None:
    """Remove the log of this process together with its directory, if it is empty by then."""
    with suppress(OSError):  # on Windows few users may create links
        (process_directory() / _LOG).symlink_to(log)


def _user() -> object:
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


@cache
def _other_directory(above: str) -> Path:
    """Create a directory for this process where the user's own is unavailable."""
    path = Path(tempfile.mkdtemp(prefix="sqlwin-", dir=above))
    atexit.register(_remove_if_empty, path)
    return path


@cache
def _process_directory(above: str, pid: int) -> Path:
    parent = user_directory(above)
    host = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:_HOST_LENGTH]
    for left in parent.glob(f"at-{host}-*"):
        _remove_unless_held(left)
    path = Path(tempfile.mkdtemp(prefix=f"at-{host}-", dir=parent))
    _lock(path)  # held until this process ends
    _directories.append((path, pid))
    return path


# Registered on import, so that it runs after the exit handlers that use the files.
@atexit.register
def _remove_directories() -> None:
    """Remove the directories that this process created, not its parent's."""
    for path, pid in _directories:
        if pid == os.getpid():
            _remove(path)
            _remove_if_empty(path.parent)


def _remove_unless_held(path: Path) -> None:
    """Remove the directory of a process that has ended."""
    with suppress(OSError):  # another process removes it too
        if time.time() - path.lstat().st_mtime < _SETTLED_SECONDS:
            return
        lock = _lock(path)
        if lock is not None:
            _remove(path)
            os.close(lock)


def _remove(path: Path) -> None:
    with suppress(OSError):  # it has no log
        log = Path(os.readlink(path / _LOG))
        if log.stat().st_size == 0:
            log.unlink()
    shutil.rmtree(path, ignore_errors=True)


def _remove_if_empty(path: Path) -> None:
    with suppress(OSError):
        path.rmdir()


def _lock(path: Path) -> int | None:
    """Lock a directory until the returned descriptor is closed. Return None if locks fail."""
    try:
        import fcntl
    except ImportError:  # Windows
        return None
    directory = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(directory)
        return None
    return directory
