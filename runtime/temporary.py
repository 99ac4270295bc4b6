"""Temporary files: one directory for each process, which nothing of it outlives.

Below the temporary directory each user has one directory, mode 0700:

    sqlwin-<user>/
        spark-<time>-<pid>.log    Spark's log and full traces of one process (runtime/logs.py)
        error-<random>.log        the trace of one error
        at-<host>-<random>/       all other files of one process, which holds a lock on it

A process removes its directory when it exits, and its log if that is empty. A process that was
killed could not, so the next process of the same user does it: on the same host, and only if nobody
holds the lock. The lock, `flock`, ends with the process in whatever way that ends, and containers
that share a directory share its locks. A file system without locks keeps what is left behind.
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

# Between its making and its lock a directory looks abandoned
_SETTLED_SECONDS = 60.0
_HOST_LENGTH = 4
_RANDOM_LENGTH = 8  # of tempfile.mkdtemp
_LOG = "log"
# Directories of processes, each with the process that made it: a fork has its parent's too
_own: list[tuple[Path, int]] = []


def user_directory(above: str | None = None) -> Path:
    """Return a directory that only this user can write into; it is made if need be.

    Args:
        above: the directory to have it in; None: the temporary directory.

    Raises:
        OSError: nothing can be written there.
    """
    above = above or tempfile.gettempdir()
    path = Path(above) / f"sqlwin-{_user()}"
    with suppress(OSError):
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
        # another user may have made it
        is_ours = not hasattr(os, "getuid") or (
            found.st_uid == os.getuid() and found.st_mode & 0o022 == 0
        )
        if is_ours and path.is_dir() and not path.is_symlink() and os.access(path, os.W_OK):
            return path
    return _other_directory(above)


def process_directory(above: str | None = None) -> Path:
    """Return the directory of this process, which is removed when the process ends.

    The first call also removes those that killed processes of this user have left behind.

    Args:
        above: the directory to have it in; None: the temporary directory.

    Raises:
        OSError: nothing can be written there.
    """
    # a fork is a process of its own, and may outlive its parent
    return _process_directory(above or tempfile.gettempdir(), os.getpid())


def length_below(above: str) -> int:
    """Return the most bytes that the path of `process_directory(above)` has."""
    names = (f"sqlwin-{_user()}", f"at-{'0' * _HOST_LENGTH}-{'0' * _RANDOM_LENGTH}")
    return len(os.fsencode(os.path.join(above, *names)))


def new_directory(kind: str) -> Path:
    """Make a directory for one purpose, with a name of its own, in that of this process."""
    return Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=process_directory()))


def remove_log_if_empty(log: Path) -> None:
    """Have the log of this process removed with its directory, unless something is in it."""
    with suppress(OSError):  # Windows lets few users make links
        (process_directory() / _LOG).symlink_to(log)


def _user() -> object:
    return os.getuid() if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


@cache
def _other_directory(above: str) -> Path:
    """Make a directory for this process where the user cannot have one."""
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
    _lock(path)  # until this process ends
    _own.append((path, pid))
    return path


# Registered when this module is loaded, so that it runs after all that uses the files
@atexit.register
def _remove_own() -> None:
    """Remove the directories that this very process has made, not those of its parent."""
    for path, pid in _own:
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
    """Lock a directory until the file that is returned is closed; None: that is not possible."""
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
