"""Killed at any moment and started again, a stream neither loses a row nor writes one twice."""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.recovery.killed_stream import QUERY, SET_QUERIES, set_tables, tables
from tests.end_to_end.stream_files import write_next

pytestmark = pytest.mark.long

PROGRAM = Path(__file__).with_name("killed_stream.py")


# The key of rows that come ten minutes late, of which each file has so many
LATE = -1
N_LATE = 3


def write_input(
    directory: Path, n_files: int, rows_per_file: int = 400
) -> list[tuple[int, dt.datetime]]:
    """Files whose times follow each other, with rows out of order within the watermark's bound.

    Returns the rows that are late: their values, and the watermarks that they miss.
    """
    rng = np.random.default_rng(7)
    late: list[tuple[int, dt.datetime]] = []
    newest_us = 0
    for number in range(n_files):
        seconds = number * 60 + np.sort(rng.uniform(0, 60, rows_per_file))
        seconds -= rng.uniform(0, 4, rows_per_file)
        keys, values = rng.integers(0, 20, rows_per_file), rng.integers(-1000, 1000, rows_per_file)
        keys[:N_LATE] = LATE
        values[:N_LATE] = number * N_LATE + np.arange(N_LATE)
        seconds[:N_LATE] -= 600
        times_us = (seconds * 1_000_000).astype(np.int64)
        if number:
            # a file is a micro-batch, and the watermark follows the one before by five seconds
            missed = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=newest_us - 5_000_000)  # noqa: DTZ001
            late += [(int(value), missed) for value in values[:N_LATE]]
        newest_us = max(newest_us, int(times_us.max()))
        columns = {
            "k": pa.array(keys, pa.int32()),
            "v": pa.array(values),
            "ts": pa.array(times_us, pa.timestamp("us")),
        }
        write_next(directory / "in", columns)
    return late


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def started(directory: Path, kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the program and its JVM, which is in a process group of its own, at once."""
    for pid in [*children(process.pid), process.pid]:
        try:
            os.killpg(os.getpgid(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def at_any_moment(rng: random.Random) -> Callable[[subprocess.Popen[str]], None]:
    """Waits until it is time to kill a program that is ready."""
    return lambda _: time.sleep(rng.uniform(0.5, 8.0))


def run_with_kills(
    directory: Path, kind: str, n_kills: int, wait: Callable[[subprocess.Popen[str]], None]
) -> int:
    """Run to the end, killed `n_kills` times on the way; how often it was killed in truth."""
    killed = 0
    while True:
        process = started(directory, kind)
        assert process.stdout is not None
        if killed < n_kills:
            assert process.stdout.readline() == "ready\n"
            wait(process)
            if process.poll() is None:
                kill(process)
                killed += 1
                continue
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return killed


def check(session: sqlwin.Session, directory: Path, n_files: int, n_kills: int, seed: int) -> None:
    late = write_input(directory, n_files)
    assert run_with_kills(directory, "insert", n_kills, at_any_moment(random.Random(seed))) >= 1
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    session.execute(tables(directory))
    wanted = sorted(tuple(row) for row in session.sql(QUERY).collect() if row.k != LATE)
    totals = session.sql("SELECT * FROM totals").collect()
    assert sorted(tuple(row) for row in totals if row.k != LATE) == wanted
    assert sorted(map(tuple, session.sql("SELECT * FROM too_late").collect())) == late
    # What other programs see below the paths is the same
    for path, n_rows in (("out", len(totals)), ("late", len(late))):
        files = (directory / path).rglob("*.parquet")
        assert sum(pq.read_metadata(f).num_rows for f in files) == n_rows


def test_a_stream_that_is_killed_five_times_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, n_files=16, n_kills=5, seed=4)


def between_tables(directory: Path, rng: random.Random) -> Callable[[subprocess.Popen[str]], None]:
    """Waits for one of the tables, in turn, to get its files of a micro-batch."""
    numbers = iter(range(100))

    def wait(process: subprocess.Popen[str]) -> None:
        table = directory / list(SET_QUERIES)[next(numbers) % len(SET_QUERIES)]

        def n_files() -> int:
            # not those that are hidden because they are not whole
            return len(list(table.glob("part-*")))

        before = n_files()
        while n_files() == before and process.poll() is None:
            time.sleep(0.002)
        # then the next table is planned and written
        time.sleep(rng.uniform(0.0, 0.3))

    return wait


@pytest.mark.slow
def test_inserts_that_share_a_stream_write_the_rows_of_the_batch_though_it_is_killed_behind_each_table(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    late = write_input(tmp_path, 9)
    wait = between_tables(tmp_path, random.Random(6))
    assert run_with_kills(tmp_path, "set", 3, wait) == 3
    fresh_session.execute("SET 'execution.runtime-mode' = 'batch'")
    fresh_session.execute(set_tables(tmp_path))
    for name, query in SET_QUERIES.items():
        wanted = sorted(tuple(row) for row in fresh_session.sql(query).collect() if row.k != LATE)
        assert len(wanted) > 50
        written = fresh_session.sql(f"SELECT * FROM {name}").collect()
        assert sorted(tuple(row) for row in written if row.k != LATE) == wanted
        # What other programs see below the path is the same
        files = (tmp_path / name).rglob("*.parquet")
        assert sum(pq.read_metadata(f).num_rows for f in files) == len(written)
    # late for the windows of each
    wanted_late = sorted((name, *row) for name in SET_QUERIES for row in late)
    assert sorted(map(tuple, fresh_session.sql("SELECT * FROM too_late").collect())) == wanted_late


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_longer_stream_that_is_killed_often_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path, seed: int
) -> None:
    check(fresh_session, tmp_path, n_files=120, n_kills=15, seed=100 + seed)
