"""A stream that is killed at its writes and restarted neither loses nor duplicates rows."""

from __future__ import annotations

import datetime as dt
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.end_to_end.recovery.killed_stream import QUERY, SET_QUERIES, set_tables, tables
from tests.end_to_end.recovery.kills import WRITES, kill, wait_for_writes
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


def start(directory: Path, kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(directory), kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


Wait = Callable[[subprocess.Popen[str]], None]


def run_with_kills(directory: Path, kind: str, waits: Sequence[Wait]) -> int:
    """Run to the end, and kill the first runs after a wait each. Return the number of kills."""
    n_kills = 0
    for wait in waits:
        process = start(directory, kind)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        wait(process)
        if process.poll() is not None:
            break
        kill(process)
        n_kills += 1
    else:
        process = start(directory, kind)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return n_kills


def at(directory: Path, pattern: str, number: int = 1) -> Wait:
    """Return a function that waits for writes."""
    return lambda process: wait_for_writes(process, directory, pattern, number)


def check(session: sqlwin.Session, directory: Path, late: list[tuple[int, dt.datetime]]) -> None:
    """Check that the written rows equal the rows of the batch."""
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


def test_kills_at_each_kind_of_write_keep_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    late = write_input(tmp_path, 10)
    waits = [at(tmp_path, pattern, number) for number, pattern in enumerate(WRITES.values(), 1)]
    assert run_with_kills(tmp_path, "insert", waits) == len(WRITES)
    check(fresh_session, tmp_path, late)


@pytest.mark.slow
def test_inserts_of_a_killed_shared_stream_write_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    late = write_input(tmp_path, 9)
    waits = [at(tmp_path, rf"/{name}/part-[^/]*$") for name in SET_QUERIES]
    assert run_with_kills(tmp_path, "set", waits) == 3
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
def test_a_long_stream_with_many_kills_writes_the_rows_of_the_batch(
    fresh_session: sqlwin.Session, tmp_path: Path, seed: int
) -> None:
    rng = random.Random(100 + seed)
    late = write_input(tmp_path, 120)
    patterns = rng.choices(list(WRITES.values()), k=15)
    waits = [at(tmp_path, pattern, rng.randint(1, 8)) for pattern in patterns]
    assert run_with_kills(tmp_path, "insert", waits) == len(waits)
    check(fresh_session, tmp_path, late)
