"""Which process uses a checkpoint: a lock, and a record that names the process.

Two streams on one checkpoint overwrite each other's state and log. The operating system releases
the lock (`flock`) however the process ends, so a killed process blocks no restart. Its JVM lives on
until it notices, and writes to the checkpoint until then, so the next process waits for it. A local
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
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from runtime.errors import ExecutionError
from runtime.files import is_local_path, lock_directory
from runtime.temporary import user_directory

# File in the locked directory that names the process
OWNER = "in-use.json"
_STREAM, _RESCALE = "stream", "rescale"
# Maximum wait for the JVM of a killed process
_JVM_SECONDS = 60.0
# Locks of the streams of this process, which knows itself which of them still run
_held: dict[str, ExitStack] = {}


def hold_for_stream(
    until: ExitStack, directory: str, jvm: int | None = None, seconds: float = _JVM_SECONDS
) -> None:
    """Lock a checkpoint for a stream of this process.

    A lock that an earlier stream of this process left, because it failed, is replaced.

    Args:
        until: Exit stack that is closed when the stream is over.
        directory: Directory of the checkpoint, which exists if it is local.
        jvm: Process of Spark's driver, which writes to the checkpoint. None: this process does.
        seconds: Maximum wait for the JVM of a killed process.

    Raises:
        ExecutionError: Another process uses the checkpoint.
        OSError: The directory cannot be opened.
    """
    if (left := _held.pop(directory, None)) is not None:
        left.close()
    lock = ExitStack()
    lock.enter_context(_locked(directory, _STREAM, jvm, seconds))
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
def _locked(
    directory: str, use: str, jvm: int | None = None, seconds: float = _JVM_SECONDS
) -> Iterator[None]:
    place = Path(directory) if is_local_path(directory) else _substitute(directory)
    record = place / OWNER
    with lock_directory(str(place), without_locks=True) as is_ours:
        if not is_ours:
            raise _in_use(directory, record)
        _await_jvm(directory, record, jvm, seconds)
        owner = {"host": socket.gethostname(), "process": os.getpid(), "use": use}
        if jvm is not None:
            owner |= {"jvm": jvm, "jvm_start": _start_of(jvm)}
        with suppress(OSError):  # the record is only for messages
            record.write_text(json.dumps(owner))
        try:
            yield
        finally:
            with suppress(OSError):
                record.unlink()


def _await_jvm(directory: str, record: Path, own_jvm: int | None, seconds: float) -> None:
    """Wait until the JVM of a killed process has ended. Only such a process leaves its record.

    Raises:
        ExecutionError: It has not ended in time.
    """
    try:
        owner = json.loads(record.read_text())
        host, jvm, start = owner["host"], owner["jvm"], owner["jvm_start"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    if host != socket.gethostname() or jvm == own_jvm or start is None:
        return
    give_up = time.monotonic() + seconds
    while _start_of(jvm) == start:
        if time.monotonic() > give_up:
            raise ExecutionError(
                f"the JVM of a killed stream still runs on the checkpoint in {directory}",
                hint=f"end process {jvm}",
            )
        time.sleep(0.05)


def _start_of(process: int) -> str | None:
    """Return when a process was started, by which it differs from a later one with its number.

    None if it has ended.
    """
    return start_by_proc(process) if Path("/proc/self/stat").exists() else start_by_ps(process)


def start_by_proc(process: int) -> str | None:
    """Return the start of a process as Linux has it, or None if it has ended."""
    try:
        # The second field, which is in parentheses, may contain anything.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, start = fields[0], fields[19]
    return None if state == "Z" else start


def start_by_ps(process: int) -> str | None:
    """Return the start of a process as macOS has it, or None if it has ended."""
    command = ["ps", "-o", "stat=,lstart=", "-p", str(process)]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    state, _, start = listed.strip().partition(" ")
    return None if state[:1] in ("", "Z") else start


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
