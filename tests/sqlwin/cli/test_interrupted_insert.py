"""SIGINT and SIGTERM while a batch writes: one line, and no leftovers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.goldens import ROOT
from tests.marks import among
from tests.observing import descendants, files_below, wait_for_end, wait_until
from tests.sqlwin.cli.test_app import heed_interrupts

SLOW = "SELECT id, SHA2(CAST(id AS STRING), 512) AS h FROM range(0, 4000000000, 1, 8)"
TABLE = """
    CREATE TABLE o (id BIGINT, h STRING)
    WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')
"""


def inserting(directory: Path, insert: str) -> subprocess.Popen[str]:
    """Start a program that has written a row and is writing more."""
    process = program(directory, "INSERT INTO o VALUES (1, 'a')", f"INSERT {insert} o {SLOW}")

    def is_second_write() -> bool:
        assert process.poll() is None, process.communicate()
        # it is under way when its tasks have made files
        return {"_temporary" in path for path in files_of(directory)} == {False, True}

    wait_until(is_second_write)
    return process


def files_of(directory: Path) -> list[str]:
    """Return the data files below a directory, in which other files come and go."""
    return [
        os.path.join(above, name)
        for above, _, names in os.walk(directory)
        for name in names
        if name.endswith(".parquet")
    ]


def program(directory: Path, *statements: str) -> subprocess.Popen[str]:
    every = [TABLE.format(directory / "out"), *statements]
    return subprocess.Popen(
        [sys.executable, "-m", "sqlwin", "run", "--master", "local[2]", "--no-progress"]
        + [part for statement in every for part in ("-e", statement)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("insert", among(["INTO", "OVERWRITE"], slow=["OVERWRITE"]))
def test_the_next_insert_removes_leftovers_of_a_killed_one(insert: str, tmp_path: Path) -> None:
    process = inserting(tmp_path, insert)
    for descendant in [process.pid, *descendants(process.pid)]:
        # some processes end when others do
        with suppress(ProcessLookupError):
            os.kill(descendant, signal.SIGKILL)
    process.communicate()
    again = program(tmp_path, "INSERT INTO o VALUES (2, 'b')", "SELECT id FROM o ORDER BY id")
    rows, errors = again.communicate(timeout=300)
    assert again.returncode == 0, errors
    assert rows.split() == ["id", "1", "2"]
    names = [p.name for p in tmp_path.rglob("*") if p.name != "_SUCCESS"]
    assert [name for name in names if not name.startswith("part-")] == ["out"]


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code", "message", "insert"),
    [
        (signal.SIGINT, 130, "interrupted", "INTO"),
        pytest.param(signal.SIGTERM, 143, "terminated", "INTO", marks=pytest.mark.slow),
        pytest.param(signal.SIGINT, 130, "interrupted", "OVERWRITE", marks=pytest.mark.slow),
    ],
)
def test_a_signal_removes_the_rows_of_an_insert(
    number: int, code: int, message: str, insert: str, tmp_path: Path
) -> None:
    process = inserting(tmp_path, insert)
    below = descendants(process.pid)
    process.send_signal(number)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == code
    lines = errors.splitlines()
    assert lines[-1] == message and "Traceback" not in errors and len(lines) == 3, errors
    names = [p.name for p in tmp_path.rglob("*") if not p.name.endswith((".crc", "_SUCCESS"))]
    assert [name for name in names if not name.startswith("part-")] == ["out"]
    assert len([name for name in names if name.startswith("part-")]) == 1
    wait_for_end(below)


N_DAYS = 300
DAYS = """
    CREATE TABLE days (v BIGINT, day BIGINT) PARTITIONED BY (day)
    WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_killed_overwrite_replaces_all_partitions_or_none(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    days = tmp_path / "days"
    for day in range(N_DAYS + 1):
        (days / f"day={day}").mkdir(parents=True)
        pq.write_table(pa.table({"v": [0]}), days / f"day={day}/old.parquet")
    before = set(days.glob("day=*/*.parquet"))
    process = program(
        tmp_path,
        DAYS.format(days),
        f"INSERT OVERWRITE days SELECT 1, id FROM range(0, {N_DAYS}, 1, 2)",
    )

    def has_changed() -> bool:
        assert process.poll() is None, process.communicate()
        return {f for f in files_below(days, "*.parquet") if f.parent.parent == days} != before

    wait_until(has_changed, every_s=0.001)
    for descendant in [process.pid, *descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(descendant, signal.SIGKILL)
    process.communicate()
    fresh_session.execute(DAYS.format(days))
    rows = "SELECT v, COUNT(*) AS n, COUNT(DISTINCT day) AS days FROM days GROUP BY v ORDER BY v"
    result = [tuple(row) for row in fresh_session.sql(rows).collect()]
    # the last day's partition has no new rows
    old = [(0, N_DAYS + 1, N_DAYS + 1)]
    new = [(0, 1, 1), (1, N_DAYS, N_DAYS)]
    assert result in (old, new)
    # leftovers of a killed INSERT are removed after a second, when no writer can still begin
    left = [path for path in days.iterdir() if path.name.startswith(".")]
    wait_until(lambda: all(time.time() - path.stat().st_mtime > 2 for path in left))
    fresh_session.execute("INSERT INTO days VALUES (2, 0)")
    result = [tuple(row) for row in fresh_session.sql(rows).collect()]
    assert result in ([*old, (2, 1, 1)], [*new, (2, 1, 1)])
    n_rows = sum(pq.read_metadata(file).num_rows for file in days.glob("day=*/*.parquet"))
    assert n_rows == sum(n for _, n, _ in result)
    assert [p.name for p in days.iterdir() if p.name.startswith(".")] == []
