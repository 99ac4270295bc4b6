"""Kafka to Kafka, exactly once, with kills: `python -m tests.bench.end_to_end`.

A stream reads JSON from a topic, counts and sums it by key in windows of ten seconds, and writes
the windows as JSON into another topic, in one transaction for each micro-batch. By default it runs
once undisturbed and once with five kills: the process, its JVM and its workers get SIGKILL at random
places in the output, every second time at the moment when a transaction becomes visible, when its
checkpoint is not yet written. A new process then resumes. A reader with `read_committed` compares every window
with the right answer, which NumPy computes from the records.

Seconds count from the statement of the first run to the last window that the reader gets, restarts
included; the start of the first session does not count. `sent again` are messages that a reader
without `read_committed` would also get, from transactions that a kill aborted.

Without `--bootstrap-servers` the broker is a mock: one process that keeps one copy in memory
(`tests/runtime/connectors/kafka/transactional_broker.py`). It carries out transactions by KIP-98:
fencing, markers, the last stable offset, offsets in transactions. It is never killed and does not
replicate, write to disk or time out transactions, so it shows what sqlwin does and nothing about
Kafka's own durability, and its speed is not a broker's.

The exit code is 1 if a window is missing, doubled or wrong.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient
from rich.console import Console
from rich.table import Table

from tests.bench.end_to_end.job import SOURCE
from tests.bench.end_to_end.records import (
    Output,
    Totals,
    Verdict,
    Window,
    compare,
    expected,
    make,
    send,
)
from tests.bench.memory import below
from tests.runtime.connectors.kafka.transactional_broker import PARTITIONS, serve_broker

# Only reached when something hangs
_LIMIT_SECONDS = 900


class RunFailedError(Exception):
    """The stream ended early, or took too long. The message has its output."""


@dataclass(frozen=True)
class Outcome:
    """A run: its seconds, kills, restarts, comparison, and messages in aborted transactions."""

    seconds: float
    n_kills: int
    n_restarts: int
    verdict: Verdict
    n_aborted: int


def main(arguments: Sequence[str] | None = None, console: Console | None = None) -> int:
    """Run once for each number of kills, print the table, and return the exit code."""
    options = _options(arguments)
    records = make(options.records, options.keys, options.seed)
    windows = expected(records)
    with ExitStack() as stack:
        address = options.bootstrap_servers or stack.enter_context(serve_broker())
        suffix = f"-{os.getpid()}" if options.bootstrap_servers else ""
        send(records, address, SOURCE, _partitions(address, SOURCE))
        outcomes = [
            _run(options, address, f"windows-{n_kills}-kills{suffix}", windows, n_kills)
            for n_kills in dict.fromkeys(options.kills)
        ]
    title = (
        f"Kafka to Kafka, exactly once: TUMBLE 10 s, {options.keys:,} keys, micro-batches of at "
        f"most {options.batch_records:,} records"
    )
    console = console or Console(width=140)
    code = report(title, len(records.keys), outcomes, console)
    if not options.bootstrap_servers:
        console.print("The broker is a mock in memory that carries out transactions; see --help.")
    return code


def report(title: str, n_records: int, outcomes: Sequence[Outcome], console: Console) -> int:
    """Print the table of outcomes. Return 1 if a window differs, else 0."""
    table = Table(
        "kills", "restarts", "records", "s", "records/s", "windows", "equal", "missing", "doubled",
        "wrong", "sent again", title=title,
    )  # fmt: skip
    for outcome in outcomes:
        verdict = outcome.verdict
        table.add_row(
            f"{outcome.n_kills}",
            f"{outcome.n_restarts}",
            f"{n_records:,}",
            f"{outcome.seconds:.1f}",
            f"{n_records / outcome.seconds:,.0f}",
            f"{verdict.expected:,}",
            f"{verdict.equal:,}",
            f"{verdict.missing:,}",
            f"{verdict.doubled:,}",
            f"{verdict.wrong:,}",
            f"{outcome.n_aborted:,}",
        )
    console.print(table)
    return 0 if all(outcome.verdict.is_right for outcome in outcomes) else 1


def _run(
    options: argparse.Namespace,
    address: str,
    target: str,
    windows: dict[Window, Totals],
    n_kills: int,
) -> Outcome:
    """Run the stream until all windows have arrived, with kills at random places in the output."""
    rng = random.Random(options.seed)
    places = sorted(rng.uniform(0.02, 0.9) * len(windows) for _ in range(n_kills))
    partitions = _partitions(address, target)
    output = Output(address, target, partitions)
    directory = Path(tempfile.mkdtemp(prefix="end-to-end-"))
    process = _Process(options, address, directory, target)
    started = 0.0
    n_restarts = 0
    try:
        for number, place in enumerate([*places, len(windows)]):
            if number:
                process = _Process(options, address, directory, target)
                n_restarts += 1
            process.wait_until_ready()
            started = started or time.monotonic()
            process.wait_for_rows(output, int(place))
            if number == n_kills:
                break
            if number % 2:
                # anywhere in the next micro-batches
                process.wait_for_seconds(rng.uniform(0, 1))
            process.kill()
        seconds = time.monotonic() - started
        # a window that comes twice would come now
        process.wait_for_seconds(2)
    finally:
        process.kill()
        output.close()
        shutil.rmtree(directory, ignore_errors=True)
    rows = Output(address, target, partitions).read_to_end()
    every = Output(address, target, partitions, is_committed=False).read_to_end()
    return Outcome(seconds, n_kills, n_restarts, compare(windows, rows), len(every) - len(rows))


class _Process:
    """A run of the stream."""

    def __init__(
        self, options: argparse.Namespace, address: str, directory: Path, target: str
    ) -> None:
        self._until = time.monotonic() + _LIMIT_SECONDS
        self._log = directory / "log"
        arguments = (address, str(directory), target, str(options.batch_records), options.master)
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "tests.bench.end_to_end.job", *arguments],
                stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def wait_until_ready(self) -> None:
        """Wait until the process is about to start the stream."""
        while "ready\n" not in self._log.read_text():
            self._check()
            time.sleep(0.02)

    def wait_for_rows(self, output: Output, n_rows: int) -> None:
        """Wait until a topic has this many rows."""
        while output.read(0.02) < n_rows:
            self._check()

    def wait_for_seconds(self, seconds: float) -> None:
        """Wait, unless the stream ends meanwhile."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._check()
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill the process, its JVM and its workers at once."""
        for pid in [self._popen.pid, *below(self._popen.pid)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._popen.wait()

    def _check(self) -> None:
        if self._popen.poll() is not None or time.monotonic() > self._until:
            raise RunFailedError(self._log.read_text()[-4_000:])


def _partitions(address: str, topic: str) -> int:
    """Return the number of partitions of a topic, which is created if the broker allows it."""
    admin = AdminClient({"bootstrap.servers": address})
    until = time.monotonic() + 10
    while not (partitions := admin.list_topics(topic, timeout=10).topics[topic].partitions):
        if time.monotonic() > until:
            raise SystemExit(
                f"topic {topic!r} does not exist: create it with {PARTITIONS} partitions"
            )
        time.sleep(0.1)
    return len(partitions)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.end_to_end",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--keys", type=int, default=1_000)
    parser.add_argument("--kills", type=int, nargs="+", default=[0, 5], help="one run for each")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch-records", type=int, default=200_000, help="records a micro-batch")
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument(
        "--bootstrap-servers",
        help=f"a real cluster instead of the mock; its topic {SOURCE!r} must be empty",
    )
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
