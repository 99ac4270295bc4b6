"""Look at files and states that another process or thread changes meanwhile.

`Path.rglob` raises FileNotFoundError when a directory disappears between listing and reading it,
and a fixed `time.sleep` is too short on a busy machine. Tests use these functions instead.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, TypeVar

T = TypeVar("T")
# Only reached when something hangs: a busy machine is many times slower than a quiet one
_SECONDS = 180.0


class _Stream(Protocol):
    """A running stream, `sqlwin.Stream`."""

    @property
    def is_running(self) -> bool: ...

    def failure(self) -> str: ...


def files_below(directory: Path, pattern: str = "*") -> list[Path]:
    """Return the files below a directory at any depth whose names match a pattern, sorted.

    A directory that is removed meanwhile, or is not there yet, has no files.
    """
    # unlike `Path.rglob`, `os.walk` skips directories that cannot be listed
    return sorted(
        Path(above, name)
        for above, _, names in os.walk(directory)
        for name in names
        if fnmatchcase(name, pattern)
    )


def wait_until(
    condition: Callable[[], T],
    seconds: float = _SECONDS,
    *,
    every_s: float = 0.05,
    explain: Callable[[], object] = lambda: "",
) -> T:
    """Wait until a condition holds, and return its value.

    Args:
        condition: Function called repeatedly in this thread.
        seconds: Maximum duration.
        every_s: Most seconds between two calls. The first ones follow each other faster.
        explain: Returns the text of the failure.

    Raises:
        AssertionError: The condition does not hold in time.
    """
    pause_s = 0.001
    give_up = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < give_up, explain()
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, every_s)
    return value


def wait_for_stream(
    stream: _Stream,
    condition: Callable[[], T],
    *,
    every_s: float = 0.05,
    explain: Callable[[], object] = lambda: "",
) -> T:
    """Wait until a condition holds that a running stream brings about, and return its value.

    Raises:
        AssertionError: The stream ends first, or the condition does not hold in time.
    """

    def holds() -> T:
        is_running = stream.is_running
        value = condition()
        assert value or is_running, stream.failure() or "the stream has ended"
        return value

    return wait_until(holds, every_s=every_s, explain=explain)


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, directly or through others."""
    listed = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    pairs = list(zip(map(int, listed[::2]), map(int, listed[1::2]), strict=True))
    below, waiting = [], [process]
    while waiting:
        parent = waiting.pop()
        started = [child for child, above in pairs if above == parent]
        below += started
        waiting += started
    return below


def wait_for_end(processes: Iterable[int]) -> None:
    """Wait until processes have ended."""
    left = list(processes)
    wait_until(
        lambda: not any(map(_is_running, left)),
        explain=lambda: f"still running: {list(filter(_is_running, left))}",
    )


def _is_running(process: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(") ")[2][0] not in "ZX"


def is_running_task(process: int) -> bool:
    """Whether a JVM started by a process executes a task of Spark. Linux only.

    Spark names the threads of running tasks `Executor task launch worker ...`; Linux keeps the
    first 15 characters.
    """
    for pid in descendants(process):
        for name in Path(f"/proc/{pid}/task").glob("*/comm"):
            # threads and processes end meanwhile
            with suppress(OSError):
                if name.read_text() == "Executor task l\n":
                    return True
    return False


def catches_signal(process: int, number: int) -> bool:
    """Whether a process has a handler for a signal. Linux only."""
    (mask,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{process}/status").read_text(), re.M)
    return bool(int(mask, 16) >> (number - 1) & 1)


def next_file_time(directory: Path) -> None:
    """Wait until new files get a later modification time, in milliseconds.

    File systems count in steps of some milliseconds, and sqlwin compares milliseconds.
    """
    probe = directory / ".time"
    probe.touch()
    before_ms = probe.stat().st_mtime_ns // 1_000_000

    def has_passed() -> bool:
        probe.write_text("")
        os.utime(probe)
        return probe.stat().st_mtime_ns // 1_000_000 > before_ms

    wait_until(has_passed, every_s=0.001)
    probe.unlink()
