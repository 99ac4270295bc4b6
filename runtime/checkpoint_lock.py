"""Which process uses a checkpoint: a lock, and a record that names the process.

Two streams on one checkpoint overwrite each other's state and log. The operating system releases
the lock (`flock`) however the process ends, so a killed process blocks no restart. A local
checkpoint's own directory is locked, which other machines see if the file system shares locks. For
a checkpoint in another file system, a directory of this user on this machine is locked in its
place: processes on other machines are not noticed, but Spark writes each entry of its log only if
it does not exist.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runtime.errors import ExecutionError
from runtime.files import is_local_path, lock_directory
from runtime.temporary import user_directory

# File in the locked directory that names the process
OWNER = "in-use.json"
_STREAM, _RESCALE = "stream", "rescale"
# Locks of the streams of this process, which knows itself which of them still run
_held: dict[str, ExitStack] = {}
_held_lock = threading.Lock()


def hold_for_stream(until: ExitStack, directory: str) -> None:
    """Lock a checkpoint for a stream of this process.

    A lock that an earlier stream of this process left, because it failed, is replaced.

    Args:
        until: Exit stack that is closed when the stream is over.
        directory: Directory of the checkpoint, which exists if it is local.

    Raises:
        ExecutionError: Another process uses the checkpoint.
        OSError: The directory cannot be opened.
    """
    with _held_lock:
        if (left := _held.pop(directory, None)) is not None:
            left.close()
        lock = ExitStack()
        lock.enter_context(_locked(directory, _STREAM))
        _held[directory] = lock
    until.callback(lock.close)


@contextmanager
def held_for_rescale(directory: str) -> Iterator[None]:
    """Lock a checkpoint while its parallelism is changed.

    Raises:
        ExecutionError: A stream uses the checkpoint.
    """
    with _locked(directory, _RESCALE):
        yield


@contextmanager
def _locked(directory: str, use: str) -> Iterator[None]:
    place = Path(directory) if is_local_path(directory) else _substitute(directory)
    record = place / OWNER
    with lock_directory(str(place), without_locks=True) as is_ours:
        if not is_ours:
            raise _in_use(directory, record)
        owner = {"host": socket.gethostname(), "process": os.getpid(), "use": use}
        with suppress(OSError):  # the record is only for messages
            record.write_text(json.dumps(owner))
        try:
            yield
        finally:
            with suppress(OSError):
                record.unlink()


def _substitute(directory: str) -> Path:
    """Return the directory of this user that is locked for one in another file system."""
    path = user_directory() / "checkpoints" / hashlib.sha256(directory.encode()).hexdigest()[:32]
    path.mkdir(parents=True, exist_ok=True)
    return path


def _in_use(directory: str, record: Path) -> ExecutionError:
    try:
        owner = json.loads(record.read_text())
        who, use = f"process {owner['process']} on host {owner['host']}", owner["use"]
    except (OSError, ValueError, KeyError, TypeError):
        who, use = "another process", _STREAM  # it has the lock, but has not written its record
    if use == _RESCALE:
        return ExecutionError(
            f"the checkpoint in {directory} is being rescaled by {who}",
            hint="start the stream again afterwards",
        )
    return ExecutionError(
        f"a stream of {who} is running on the checkpoint in {directory}",
        hint="stop it first with STOP STREAM, or with Ctrl-C where it was started",
    )
