"""Killed at any moment and started again, a stream neither loses a row nor writes one twice."""

from __future__ import annotations

import datetime as dt
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.streaming.killed_stream import QUERY, tables

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
    (directory / "in").mkdir()
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
        table = pa.table(
            {
                "k": pa.array(keys, pa.int32()),
                "v": pa.array(values),
                "ts": pa.array(times_us, pa.timestamp("us")),
            }
        )
        path = directory / "in" / f"{number:04d}.parquet"
        pq.write_table(table, path)
        # Files are taken in the order of their times
        os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))
    return late


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(line) for line in found.stdout.split()]


def started(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory)],
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


def run_with_kills(directory: Path, n_kills: int, seed: int) -> int:
    """Run to the end, killed `n_kills` times on the way; how often it was killed in truth."""
    rng = random.Random(seed)
    killed = 0
    while True:
        process = started(directory)
        assert process.stdout is not None
        if killed < n_kills:
            assert process.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.5, 8.0))
            if process.poll() is None:
                kill(process)
                killed += 1
                continue
        said, _ = process.communicate(timeout=300)
        assert process.returncode == 0, said
        return killed


def check(session: sqlwin.Session, directory: Path, n_files: int, n_kills: int, seed: int) -> None:
    late = write_input(directory, n_files)
    assert run_with_kills(directory, n_kills, seed) >= 1
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


@pytest.mark.spark
def test_a_stream_that_is_killed_five_times_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    check(fresh_session, tmp_path, n_files=16, n_kills=5, seed=4)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_longer_stream_that_is_killed_often_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path, seed: int
) -> None:
    check(fresh_session, tmp_path, n_files=120, n_kills=15, seed=100 + seed)
