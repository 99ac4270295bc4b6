"""Engines that run in processes of their own, and have no micro-batches.

Such an engine's job runs twice. The first run is not timed: its results are compared, and it warms
the process up. Of the second run all windows are dropped but about a hundred of each minute, those
with the highest maxima; from these is seen when the windows of a minute come out. So a minute of
event time takes the time from one to the next, in the mean. It ends as soon as the last window is
out that the watermark closes: these engines go on to close what is open when the input ends, an
hour of windows of HOP 1 min / 1 h, and Spark and sqlwin do not.

A job is a program by itself, run by a Python that has the engine. It writes lines:

    WINDOWS    the first run is done; the other one begins when a line comes in
    STARTED    the second run begins

and behind that what the engine has for the windows that are left.
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
_SHOWN = 100  # windows of TUMBLE, in a minute, that are not dropped
_LIMIT_SECONDS = 1_800


class PeerFailedError(Exception):
    """An engine ended before its last window, with what it said."""


@dataclass(frozen=True)
class Job:
    """What is to be run.

    Attributes:
        case: the window and its aggregates.
        files: the rows.
        closed_us: windows that end later are open at the end.
        least: windows whose greatest price is below are dropped in the timed run.
        scratch: a directory that is gone afterwards.
    """

    case: Case
    files: Files
    closed_us: int
    least: int
    scratch: Path

    @property
    def output(self) -> Path:
        """Where the first run puts its windows."""
        return self.scratch / "windows"


@dataclass(frozen=True)
class Peer:
    """An engine.

    Attributes:
        command: what runs a job.
        windows: what the first run put there, with the columns window_end in microseconds, s, n, a
            and m.
        fired: the end of a window in microseconds and how many came, of a line; None: says nothing.
        environment: variables of its process, beside those of this one.
    """

    command: Callable[[Job], list[str]]
    windows: Callable[[Path], pa.Table]
    fired: Callable[[str], tuple[int, int] | None]
    environment: Callable[[Job], Mapping[str, str]] = field(default=lambda job: {})


def run(peer: Peer, case: Case, files: Files) -> Outcome:
    """Both runs of a job.

    Raises:
        PeerFailedError: it ended too early, or took half an hour.
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
        with _started(peer, job) as process:
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
    """From the times at which the last window of each minute came."""
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
    """When the last window of each minute came, until as many came as are closed and shown."""
    fired: dict[int, float] = {}
    while n_shown > 0:
        found = peer.fired(process.line())
        if found is None or found[0] > closed_us:
            continue
        end_us, n_windows = found
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
    """The price that about so many rows in a minute have, or a higher one."""
    return _PRICES - min(_PRICES, max(1, round(_PRICES * _SHOWN * minutes / n_rows)))


def _times(files: Files) -> tuple[int, int]:
    """The first time and the last one, in microseconds."""
    spans = [
        pc.min_max(pq.read_table(part, columns=["ts"])["ts"].cast(pa.int64())).as_py()
        for part in files.path.glob("*.parquet")
    ]
    return min(span["min"] for span in spans), max(span["max"] for span in spans)


@dataclass(frozen=True)
class _Process:
    """A job that runs."""

    popen: subprocess.Popen[str]
    errors: IO[str]

    @property
    def pid(self) -> int:
        return self.popen.pid

    def line(self) -> str:
        """The next one that it writes."""
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
def _started(peer: Peer, job: Job) -> Iterator[_Process]:
    """A job with all its processes, which end with the block, or after too long a time."""
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
            # this one's process group is theirs too: what ends it from outside ends them
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
