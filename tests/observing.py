"""Look at files and states that another process or thread changes meanwhile.

`Path.rglob` raises FileNotFoundError when a directory that it has listed is removed before it looks
into it, and a fixed `time.sleep` is too short on a busy machine. Tests use these functions instead.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
# Only reached when something hangs: a busy machine takes many times what a quiet one takes
_SECONDS = 180.0


def files_below(directory: Path, pattern: str = "*") -> list[Path]:
    """Return the files below a directory at any depth whose names match a pattern, sorted.

    A directory that is removed meanwhile, or is not there yet, has no files.
    """
    # unlike `Path.rglob`, `os.walk` passes over directories that cannot be listed
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
        condition: is called again and again, in this thread.
        seconds: the longest wait.
        every_s: the seconds between two calls.
        explain: gives the text of the failure.

    Raises:
        AssertionError: the condition does not hold in time.
    """
    give_up = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < give_up, explain()
        time.sleep(every_s)
    return value


def next_file_time(directory: Path) -> None:
    """Wait until files that are written get a later millisecond than those written before.

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
