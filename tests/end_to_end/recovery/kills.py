"""Kill a process that runs a stream, at a write to its files."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

from tests.observing import wait_until

# Files that a micro-batch writes, in order, by their paths. Rows and state may be incomplete.
WRITES = {
    "planned": r"/offsets/\d+$",
    "state": r"/state/.*(changelog|\.zip)",
    "rows": r"/part-",
    "committed": r"/commits/\d+$",
}

# Under load, a start of Spark and the first micro-batch take minutes.
_SECONDS = 600


def wait_for_writes(
    process: subprocess.Popen[str], directory: Path, pattern: str, number: int
) -> None:
    """Wait until a process has begun more files, or has ended.

    Args:
        process: Process that writes.
        directory: Directory of the files.
        pattern: Regular expression that their paths contain, such as a value of WRITES.
        number: Number of new files.
    """

    search = re.compile(pattern).search

    def files() -> set[str]:
        # more often than `files_below` could be called without keeping a core busy
        below = os.walk(directory)
        paths = (f"{above}/{name}" for above, _, names in below for name in names)
        return {path for path in paths if search(path)}

    before, new = files(), set[str]()

    def is_reached() -> bool:
        new.update(files() - before)  # some are deleted meanwhile
        return len(new) >= number or process.poll() is not None

    wait_until(
        is_reached, _SECONDS, every_s=0.01, explain=lambda: f"{len(new)} files like {pattern}"
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the program and its JVM, which is in its own process group, at once."""
    for pid in [*_children(process.pid), process.pid]:
        try:
            os.killpg(os.getpgid(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def run_until_stopped(
    program: Path, directory: Path, target: str, stops: str, at: tuple[str, int] | None = None
) -> bool:
    """Run a program until it has ended, or stops and is killed. Return whether it has ended.

    Args:
        program: Program with the arguments `directory`, `target` and `stops`. It prints "stopped"
            when it stops, "ready" when its stream runs, and "done" at the end.
        directory: Directory for input and output.
        target: Kind or address of the target table.
        stops: Commit at which it stops.
        at: Kind and number of the writes at which it is killed, if it has not ended.
    """
    process = subprocess.Popen(
        [sys.executable, str(program), str(directory), target, stops],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if line == "ready\n" and at is not None:
                wait_for_writes(process, directory, WRITES[at[0]], at[1])
                return process.poll() == 0
            if line == "stopped\n":
                return False
    finally:
        kill(process)
    assert lines[-1:] == ["done\n"], "".join(lines)
    return True


def _children(pid: int) -> list[int]:
    result = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in result.stdout.split()]
