"""A stream that is killed at any moment and restarted neither loses nor duplicates rows."""

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


# Key of the rows that come ten minutes late, a fixed number per file
LATE = -1
N_LATE = 3


def write_input(
    directory: Path, n_files: int, rows_per_file: int = 400
) -> list[tuple[int, dt.datetime]]:
    """Write files with consecutive times, and rows out of order within the watermark delay.

    Returns the late rows: their values, and the watermarks that they miss.
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
            # a file is a micro-batch; its watermark is five seconds after the previous one's
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
    result = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in result.stdout.split()]


def start(directory: Path, kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill the program and its JVM, which is in its own process group, at once."""
    for pid in [*children(process.pid), process.pid]:
        try:
            os.killpg(os.getpgid(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


def at_any_moment(rng: random.Random) -> Callable[[subprocess.Popen[str]], None]:
    """Return a function that waits for a random time before a kill."""
    return lambda _: time.sleep(rng.uniform(0.5, 8.0))


def run_with_kills(
    directory: Path, kind: str, n_kills: int, wait: Callable[[subprocess.Popen[str]], None]
) -> int:
    """Run to the end, killed up to `n_kills` times. Return the actual number of kills."""
    killed = 0
    while True:
        process = start(directory, kind)
        assert process.stdout is not None
        if killed < n_kills:
            assert process.stdout.readline() == "ready\n"
            wait(process)
            if process.poll() is None:
                kill(process)
                killed += 1
                continue
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0, output
        return killed


def check(session: sqlwin.Session, directory: Path, n_files: int, n_kills: int, seed: int) -> None:
    late = write_input(directory, n_files)
    assert run_with_kills(directory, "insert", n_kills, at_any_moment(random.Random(seed))) >= 1
    session.execute("SET 'execution.runtime-mode' = 'batch'")
    session.execute(tables(directory))
    expected = sorted(tuple(row) for row in session.sql(QUERY).collect() if row.k != LATE)
    totals = session.sql("SELECT * FROM totals").collect()
    assert sorted(tuple(row) for row in totals if row.k != LATE) == expected
    assert sorted(map(tuple, session.sql("SELECT * FROM too_late").collect())) == late
    # Other programs see the same rows below the paths
    for path, n_rows in (("out", len(totals)), ("late", len(late))):
        files = (directory / path).rglob("*.parquet")
        assert sum(pq.read_metadata(f).num_rows for f in files) == n_rows


def test_a_stream_that_is_killed_five_times_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, n_files=16, n_kills=5, seed=4)


def between_tables(directory: Path, rng: random.Random) -> Callable[[subprocess.Popen[str]], None]:
    """Return a function that waits until one table, in turn, has its files of a micro-batch."""
    numbers = iter(range(100))

    def wait(process: subprocess.Popen[str]) -> None:
        table = directory / list(SET_QUERIES)[next(numbers) % len(SET_QUERIES)]

        def n_files() -> int:
            # without hidden, incomplete files
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
        expected = sorted(tuple(row) for row in fresh_session.sql(query).collect() if row.k != LATE)
        assert len(expected) > 50
        written = fresh_session.sql(f"SELECT * FROM {name}").collect()
        assert sorted(tuple(row) for row in written if row.k != LATE) == expected
        # Other programs see the same rows below the path
        files = (tmp_path / name).rglob("*.parquet")
        assert sum(pq.read_metadata(f).num_rows for f in files) == len(written)
    # late for the windows of each INSERT
    wanted_late = sorted((name, *row) for name in SET_QUERIES for row in late)
    assert sorted(map(tuple, fresh_session.sql("SELECT * FROM too_late").collect())) == wanted_late


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_longer_stream_that_is_killed_often_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path, seed: int
) -> None:
    check(fresh_session, tmp_path, n_files=120, n_kills=15, seed=100 + seed)
