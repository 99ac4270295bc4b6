"""Each window operator resumes after a kill during its state writes, without losing or doubling
rows.

A run is killed when Spark has begun a state file, or at a later write: when another task begins its
own, the sink begins a file, the micro-batch is committed, or the next one is planned. The next run has other cores and another current directory, and spells its
statements differently. Results are compared with DuckDB's over all rows.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sqlwin
from runtime.files import LocalFiles
from runtime.streaming.state.metadata import WindowMetadata
from runtime.streaming.stored_state import open_state
from tests.end_to_end.recovery.killed_operators import FILLED_TO, KINDS, pipeline
from tests.end_to_end.recovery.kills import WRITES, kill, wait_for_writes
from tests.end_to_end.stream_files import write_next
from tests.oracle import MINUTE_US, OracleWindow, expected

PROGRAM = Path(__file__).with_name("killed_operators.py")
N_KILLS = 6
# Per key group: until it has running aggregates, plus a micro-batch or two
LONG, SHORT = (52, 60), (1, 8)
WINDOWS = {
    "tumble": OracleWindow("TUMBLE", MINUTE_US),
    "general": OracleWindow("TUMBLE", MINUTE_US),
    "hop": OracleWindow("HOP", 4 * MINUTE_US, MINUTE_US),
    "running": OracleWindow("HOP", 20 * MINUTE_US, MINUTE_US),
    "narrower": OracleWindow("HOP", 12 * MINUTE_US, MINUTE_US),
    "cumulate": OracleWindow("CUMULATE", 10 * MINUTE_US, MINUTE_US),
    "early": OracleWindow("TUMBLE", 5 * MINUTE_US),
    "hop early": OracleWindow("HOP", 4 * MINUTE_US, MINUTE_US),
    "late": OracleWindow("TUMBLE", MINUTE_US),
    "cumulate late": OracleWindow("CUMULATE", 10 * MINUTE_US, MINUTE_US),
}
SUMS = ("COUNT(*)", "SUM(v)")
_ROW = re.compile(r"(.+)> ([+-][IU])\[(\d+), (.+), (.+), (\d+), (-?\d+)\]\n")

Rows = list[tuple[Any, ...]]


# Kinds that run and are killed together
TOGETHER = {
    "once": ["tumble", "hop", "cumulate", "session"],
    "again": ["early", "hop early", "late", "cumulate late"],
    "above": ["general", "rank", "join"],
    "keys": ["versions", "fill"],
}


def write_input(
    directory: Path, n_files: int, n_rows: int, n_keys: int, late_s: int = 0
) -> pa.Table:
    """Write files of one minute each, one per micro-batch. Some rows are `late_s` late.

    Return all rows.
    """
    rng = np.random.default_rng(11)
    tables = []
    for number in range(n_files):
        seconds = number * 60 + rng.uniform(0, 60, n_rows) - rng.uniform(0, 4, n_rows)
        if late_s:
            seconds[: n_rows // 20] -= rng.uniform(0, late_s, n_rows // 20)
        keys = np.concatenate([np.arange(n_keys), rng.integers(0, n_keys, n_rows - n_keys)])
        table = pa.table(
            {
                "k": pa.array(rng.permutation(keys), pa.int32()),
                "v": pa.array(rng.integers(-1000, 1000, n_rows)),
                "ts": pa.array((seconds * 1e6).astype(np.int64), pa.timestamp("us")),
            }
        )
        write_next(directory / "in", table)
        tables.append(table)
    return pa.concat_tables(tables)


class Runs:
    """Runs of a stream, with a file for the output of each.

    Args:
        directory: Directory with the stream's files.
        rng: Chooses when a run is killed.
    """

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.directory = directory
        self._rng = rng
        self._n_runs = 0

    def killed(self, *kinds: str, after: tuple[int, int] = (1, 8)) -> bool:
        """Run and kill at a write of state, or at the next write of some kind after it.

        Return whether the run was still alive.

        Args:
            kinds: Kinds to run.
            after: Number of state files begun before the kill, about four per micro-batch and task.
        """
        process = self._started(kinds)
        wait_for_writes(process, self.directory, WRITES["state"], self._rng.randint(*after))
        if self._rng.random() < 0.5:
            wait_for_writes(process, self.directory, self._rng.choice(list(WRITES.values())), 1)
        if process.poll() is not None:
            return False
        kill(process)
        return True

    def ended(self, *kinds: str) -> int:
        """Run to the end and return the exit code."""
        return self._started(kinds).wait(timeout=300)

    def outputs(self) -> list[str]:
        """Return the complete lines of each run as one text."""
        logs = sorted(self.directory.glob("log-*"))
        return [log.read_text().rpartition("\n")[0] + "\n" for log in logs]

    def _started(self, kinds: Sequence[str]) -> subprocess.Popen[str]:
        self._n_runs += 1
        place = [] if self._n_runs % 2 else ["elsewhere"]
        command = [sys.executable, str(PROGRAM), str(self.directory), *place, *kinds]
        with open(self.directory / f"log-{self._n_runs:02d}", "w") as log:
            return subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, text=True, start_new_session=True
            )


def written_rows(directory: Path, kind: str) -> Rows:
    """Return the rows in the files of a kind, as (k, window start, window end, n, total)."""
    result = duckdb.sql(
        "SELECT k, epoch_us(window_start), epoch_us(window_end), n, total "
        f"FROM read_parquet('{directory}/out-{pipeline(kind)}/**/part-*.parquet')"
    )
    return result.fetchall()


def apply_updates(runs: Sequence[str], name: str) -> Rows:
    """Apply updates by row kind. A run may repeat the last micro-batch of the previous one."""
    result: dict[tuple[str, ...], tuple[int, int]] = {}
    for run in runs:
        new: set[tuple[str, ...]] = set()
        for of, kind, *key, n, total in _ROW.findall(run):
            if of != name:
                continue
            if kind == "+I":
                assert tuple(key) not in new, f"{key} is new twice"
                new.add(tuple(key))
            if kind != "-U":
                result[tuple(key)] = int(n), int(total)
    return [(int(key[0]), *map(_time_us, key[1:]), *value) for key, value in result.items()]


def _time_us(text: str) -> int:
    return int(np.datetime64(text, "us").astype(np.int64))


def expected_rows(kind: str, data: pa.Table) -> Rows:
    """Return the rows of a kind by brute force."""
    if kind == "session":
        return _sessions(data)
    if kind == "fill":
        return _filled(expected(data.filter(pc.field("v") > 900), WINDOWS["tumble"], ["k"], SUMS))
    if kind not in ("rank", "join"):
        return expected(data, WINDOWS[kind], ["k"], SUMS)
    last = "SUM(v)" if kind == "rank" else "MAX(v)"
    rows = expected(data, WINDOWS["tumble"], ["k"], ("COUNT(*)", last))
    if kind == "join":
        return rows
    best: dict[int, Rows] = {}
    for row in sorted(rows, key=lambda row: (-row[4], row[0])):
        best.setdefault(row[2], []).append(row)
    return [row for result in best.values() for row in result[:3]]


def _filled(rows: Rows) -> Rows:
    """Return the windows of each key and, up to FILLED_TO, a row for each missing one."""
    by_key: dict[int, Rows] = defaultdict(list)
    for row in rows:
        by_key[row[0]].append(row)
    for key, own in by_key.items():
        own.sort()
        number, total = 0, None
        for end in range(own[0][2], _time_us(FILLED_TO) + 1, MINUTE_US):
            if number < len(own) and own[number][2] == end:
                total, number = own[number][4], number + 1
            else:
                rows = [*rows, (key, end - MINUTE_US, end, 0, total)]
    return rows


def _joined_with_versions(data: pa.Table, rates: pa.Table) -> Rows:
    """Return each row with the last version of its key up to its time, if there is one."""
    con = duckdb.connect()
    con.register("data", data)
    con.register("rates", rates)
    return con.execute("""
        SELECT a.k, epoch_us(b.ts), epoch_us(a.ts), a.v, b.v
        FROM data AS a ASOF JOIN rates AS b ON a.k = b.k AND a.ts >= b.ts
    """).fetchall()


def _sessions(data: pa.Table) -> Rows:
    """Return the sessions of rows of a key that follow each other within five seconds."""
    con = duckdb.connect()
    con.register("data", data)
    return con.execute("""
        SELECT k, MIN(t), MAX(t) + 5000000, COUNT(*), SUM(v) FROM (
          SELECT *, SUM(is_first) OVER (PARTITION BY k ORDER BY t, v ROWS UNBOUNDED PRECEDING) AS number
          FROM (
            SELECT k, v, epoch_us(ts) AS t,
              CASE WHEN epoch_us(ts) - LAG(epoch_us(ts)) OVER (PARTITION BY k ORDER BY ts, v)
                < 5000000 THEN 0 ELSE 1 END AS is_first
            FROM data))
        GROUP BY k, number
    """).fetchall()


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    yield Runs(tmp_path, random.Random(tmp_path.name))


@pytest.mark.parametrize(
    ("together", "n_kills", "n_files"),
    # test_killed.py kills "hop", and the simulator each operator (test_killed_writes.py)
    [pytest.param(kinds, N_KILLS, 16, marks=pytest.mark.slow) for kinds in TOGETHER],
)
def test_operators_killed_at_state_writes_emit_the_rows_of_duckdb(
    together: str, n_kills: int, n_files: int, runs: Runs, tmp_path: Path
) -> None:
    kinds = TOGETHER[together]
    data = write_input(tmp_path, n_files, 600, 20)
    late = write_input(tmp_path / "late", n_files, 600, 20, late_s=200)
    rates = write_input(tmp_path / "rates", n_files, 60, 20)
    assert [runs.killed(*kinds) for _ in range(n_kills)] == [True] * n_kills
    assert runs.ended(*kinds) == 0, runs.outputs()[-1]
    for kind in kinds:
        is_updated = KINDS[kind].is_updated
        result = apply_updates(runs.outputs(), kind) if is_updated else written_rows(tmp_path, kind)
        if kind == "versions":
            rows = _joined_with_versions(data, rates)
        else:
            rows = expected_rows(kind, late if "late" in kind.split() else data)
        assert sorted(result) == sorted(rows), kind


@pytest.mark.slow
def test_killed_running_aggregates_give_the_rows_of_duckdb(
    runs: Runs, tmp_path: Path, fresh_session: sqlwin.Session
) -> None:
    data = write_input(tmp_path, 26, 7_000, 6_000)
    n_running = 0
    for after in [LONG, *[SHORT] * 4]:
        assert runs.killed("running", after=after)
        n_running += has_running(fresh_session, tmp_path)
    assert n_running >= 4
    assert runs.ended("running") == 0, runs.outputs()[-1]
    assert sorted(written_rows(tmp_path, "running")) == sorted(expected_rows("running", data))


def has_running(session: sqlwin.Session, directory: Path) -> bool:
    """Return whether the state that the next run resumes has running aggregates."""
    if not any((directory / "checkpoint/running/spark/commits").glob("[0-9]*")):
        return False
    state = open_state(session.spark, LocalFiles(), f"{directory}/checkpoint/running")
    return any(
        isinstance(metadata.contents, WindowMetadata) and metadata.contents.slices.spans
        for metadata in state.operator(0).metadata.values()
    )


@pytest.mark.slow
def test_other_sql_resumes_from_the_state_of_a_killed_run(runs: Runs, tmp_path: Path) -> None:
    data = write_input(tmp_path, 28, 7_000, 6_000)
    assert runs.killed("running", after=LONG) and runs.killed("running")
    about = tmp_path / "checkpoint/running/sqlwin.json"
    before = about.read_bytes()
    # killed before the other SQL has run: the checkpoint is still the previous one's
    assert runs.ended("narrower!") != 0
    assert about.read_bytes() != before
    assert runs.killed("running")
    assert about.read_bytes() == before
    assert [runs.killed("narrower") for _ in range(3)] == [True] * 3
    assert runs.ended("narrower") == 0, runs.outputs()[-1]
    result = written_rows(tmp_path, "running")
    wide = [row for row in result if row[2] - row[1] == WINDOWS["running"].size_us]
    cut = max(row[2] for row in wide)
    before_cut = [row for row in expected_rows("running", data) if row[2] <= cut]
    after_cut = [row for row in expected_rows("narrower", data) if row[2] > cut]
    assert before_cut and after_cut
    assert sorted(result) == sorted(before_cut + after_cut)
