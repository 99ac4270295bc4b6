"""Engines that run in separate processes, without micro-batches.

Such an engine runs its job twice. The first run is not timed: its results are compared, and it
warms the process up. The second run drops all windows except about a hundred per minute, those with
the highest maxima, which show when the windows of a minute come out. The time of a minute is the
mean time from one minute's windows to the next one's. The run ends at the last window that the
watermark closes: at the end of input these engines also close the open windows, unlike Spark and
sqlwin, which for HOP 1 min / 1 h is an hour of windows.

A job is a standalone program, run by a Python that has the engine. It writes lines:

    WINDOWS    the first run is done; the second one begins when the job reads a line
    STARTED    the second run begins

and then the engine's output for the remaining windows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.cases import MINUTE_US, Case
from tests.bench.data import DISORDER_SECONDS
from tests.bench.memory import Memory, below, tree_peak
from tests.bench.streaming.engines import Digest, Files, Outcome

TASKS = 2
_PRICES = 10_000
_SHOWN = 100  # TUMBLE windows per minute that are not dropped
_LIMIT_SECONDS = 1_800


class PeerFailedError(Exception):
    """An engine ended before its last window. The message has its output."""


@dataclass(frozen=True)
class Job:
    """A job to run.

    Attributes:
        case: Window and aggregates.
        files: Rows.
        closed_us: Windows that end later are open at the end.
        least: Windows whose greatest price is lower are dropped in the timed run.
        scratch: Temporary directory.
    """

    case: Case
    files: Files
    closed_us: int
    least: int
    scratch: Path

    @property
    def output(self) -> Path:
        """Directory for the windows of the first run."""
        return self.scratch / "windows"


@dataclass(frozen=True)
class Peer:
    """An engine.

    Attributes:
        command: Command that runs a job.
        windows: Reads the first run's output, with the columns window_end in microseconds, s, n, a
            and m.
        fired: Parses a line: the end of a window in microseconds and the number of windows. None if
            the line has neither.
        environment: Additional variables of its process.
    """

    command: Callable[[Job], list[str]]
    windows: Callable[[Path], pa.Table]
    fired: Callable[[str], tuple[int, int] | None]
    environment: Callable[[Job], Mapping[str, str]] = field(default=lambda job: {})


def run(peer: Peer, case: Case, files: Files) -> Outcome:
    """Run a job twice.

    Raises:
        PeerFailedError: It ended too early, or took half an hour.
    """
    first_us, last_us = _times(files)
    with tempfile.TemporaryDirectory(prefix="peer-", ignore_cleanup_errors=True) as scratch:
        job = Job(
            case=case,
            files=files,
            # a window is closed when its last millisecond has passed
            closed_us=last_us - DISORDER_SECONDS * 1_000_000 + 1_000,
            least=_least((last_us - first_us) / MINUTE_US, files.n_rows),
            scratch=Path(scratch),
        )
        with _start(peer, job) as process:
            process.line_is("WINDOWS")
            windows = peer.windows(job.output)
            windows = windows.filter(pc.less_equal(windows["window_end"], job.closed_us))
            n_shown = pc.sum(pc.greater_equal(windows["m"], job.least)).as_py() or 0
            process.go_on()
            process.line_is("STARTED")
            started = time.monotonic()
            with tree_peak(process.pid) as memory:
                fired = _watch(process, peer, job.closed_us, n_shown)
    return _outcome(_digest(windows), files, fired, started, memory)


def _outcome(
    digest: Digest,
    files: Files,
    fired: dict[int, float],
    started: float,
    memory: Memory,
) -> Outcome:
    """Return the outcome, from the times at which the last window of each minute came."""
    first, last = min(fired), max(fired)
    return Outcome(
        digest=digest,
        n_rows=files.n_rows,
        seconds=fired[last] - started,
        batch_seconds=(),
        later_seconds=0,
        state_rows=None,
        state_bytes=None,
        worker_bytes=memory.together,
        jvm_bytes=memory.jvm,
        partials=0,
        paced=(fired[last] - fired[first]) / (last - first) if last > first else None,
    )


def _watch(process: _Process, peer: Peer, closed_us: int, n_shown: int) -> dict[int, float]:
    """Return when the last window of each minute came.

    Stop once all closed windows that are shown came.
    """
    fired: dict[int, float] = {}
    while n_shown > 0:
        result = peer.fired(process.line())
        if result is None or result[0] > closed_us:
            continue
        end_us, n_windows = result
        fired[-(-end_us // MINUTE_US)] = time.monotonic()
        n_shown -= n_windows
    if not fired:
        raise PeerFailedError("no window is closed by these rows: give it more of them")
    return fired


def _digest(windows: pa.Table) -> Digest:
    return (
        float(windows.num_rows),
        *(float(pc.sum(windows[name]).as_py() or 0) for name in ("s", "n", "a", "m")),
    )


def _least(minutes: float, n_rows: int) -> int:
    """Return the price that about `n_rows` rows in a minute have, or a higher one."""
    return _PRICES - min(_PRICES, max(1, round(_PRICES * _SHOWN * minutes / n_rows)))


def _times(files: Files) -> tuple[int, int]:
    """Return the first and the last time in microseconds."""
    spans = [
        pc.min_max(pq.read_table(part, columns=["ts"])["ts"].cast(pa.int64())).as_py()
        for part in files.path.glob("*.parquet")
    ]
    return min(span["min"] for span in spans), max(span["max"] for span in spans)


@dataclass(frozen=True)
class _Process:
    """A running job."""

    popen: subprocess.Popen[str]
    errors: IO[str]

    @property
    def pid(self) -> int:
        return self.popen.pid

    def line(self) -> str:
        """Return the next line that it writes."""
        assert self.popen.stdout is not None
        line = self.popen.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise PeerFailedError(f"{self.popen.args} ended:\n{self.errors.read()[-4_000:]}")
        return line.rstrip("\n")

    def line_is(self, expected: str) -> None:
        """Read up to a line."""
        while self.line() != expected:
            pass

    def go_on(self) -> None:
        """Let it begin its second run."""
        assert self.popen.stdin is not None
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()


@contextmanager
def _start(peer: Peer, job: Job) -> Iterator[_Process]:
    """Start a job. Its processes end with the block, or after a time limit."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with (job.scratch / "errors").open("w+") as errors:
        popen = subprocess.Popen(
            peer.command(job),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**environment, **peer.environment(job)},
        )

        def end() -> None:
            # the process group of this process, so that signals from outside end both
            for pid in below(popen.pid) if popen.poll() is None else []:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            popen.kill()

        limit = threading.Timer(_LIMIT_SECONDS, end)
        limit.start()
        try:
            yield _Process(popen, errors)
        finally:
            limit.cancel()
            end()
            popen.communicate()
