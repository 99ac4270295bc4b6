"""SIGINT and SIGTERM in each phase of a run: one line, nothing half done, no process is left."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.goldens import ROOT
from tests.sqlwin.cli.test_app import heed_interrupts
from tests.sqlwin.cli.test_interrupted_insert import children, visible

pytestmark = [pytest.mark.spark, pytest.mark.long]

SAID = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
CONF = [
    "--conf", "spark.driver.memory=1g",
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
]  # fmt: skip
START = ["-m", "sqlwin", "run", "--master", "local[2]", "--no-progress", *CONF]
SECONDS = 120
COUNT = """SELECT k, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY k, window_start, window_end"""


def slow_events(path: Path, n_times: int) -> None:
    """A file that one task reads for long: gzip cannot be split, and its members follow each other."""
    row = '{"k": "a", "ts": "2024-02-28 10:00:30", "v": 1}\n'
    member = gzip.compress((row * 50_000).encode(), 1)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(member * n_times)


def table(name: str, path: Path, columns: str = "", options: str = "") -> str:
    declared = f"({columns})" if columns else ""
    return f"""CREATE TABLE {name} {declared} WITH ('connector' = 'filesystem',
        'path' = '{path}', 'format' = 'json'{options});"""


EVENTS = "k STRING, ts TIMESTAMP(3), v INT, WATERMARK FOR ts AS ts"


class Program:
    """A run of `sqlwin run` that is to be stopped."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_until(self, is_so: Callable[[], object], every_s: float = 0.02) -> None:
        until = time.monotonic() + SECONDS
        while not is_so():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < until
            time.sleep(every_s)

    def says(self, line: str) -> None:
        assert self.process.stdout is not None
        while (found := self.process.stdout.readline()) != line + "\n":
            assert found, self.process.communicate()

    def stop(self, number: signal.Signals) -> list[str]:
        """Send a signal; what is said on stderr, when all that was started has ended."""
        below = children(self.process.pid)
        assert below
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == 128 + number, said
        assert "Traceback" not in said and "Exception" not in said, said
        lines = said.splitlines()
        assert lines[-1] == SAID[number], said
        until = time.monotonic() + 30
        while any(map(visible, below)):
            assert time.monotonic() < until, "processes are left"
            time.sleep(0.1)
        return lines


@contextmanager
def running(*statements: str) -> Iterator[Program]:
    """A process that executes statements."""
    process = subprocess.Popen(
        [sys.executable, *START, *(part for each in statements for part in ("-e", each))],
        cwd=ROOT,
        env={**os.environ, "SQLWIN_CLASS_ARCHIVE": "off"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        yield Program(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def is_written(directory: Path) -> bool:
    """Whether a task has begun to write rows below a directory."""
    return any("_temporary" in file.parts for file in directory.rglob("part-*"))


def test_while_a_statement_is_planned(tmp_path: Path) -> None:
    slow_events(tmp_path / "in/0.json.gz", 200)
    # whose columns are those of the file, which is read for them
    statements = [table("events", tmp_path / "in"), "SELECT 'ready' AS r", "SELECT v FROM events"]
    with running(*statements) as program:
        program.says("ready")
        time.sleep(1.5)
        assert program.stop(signal.SIGINT) == ["OK", "interrupted"]


def test_while_a_batch_reads(tmp_path: Path) -> None:
    slow_events(tmp_path / "in/0.json.gz", 200)
    with running(table("events", tmp_path / "in", EVENTS), "SELECT 'ready' AS r", COUNT) as program:
        program.says("ready")
        time.sleep(2.5)
        program.stop(signal.SIGTERM)


def test_while_the_global_stage_of_a_batch_writes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # few rows, in more windows than can be written in minutes
    hop = """INSERT INTO o SELECT id, window_end, COUNT(*) FROM TABLE(HOP(
        (SELECT id, TIMESTAMP_NTZ'2024-02-28 00:00:00' + MAKE_DT_INTERVAL(0, CAST(id AS INT)) AS ts
         FROM range(20000)), DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' HOUR))
        GROUP BY id, window_start, window_end"""
    with running(table("o", out, "id BIGINT, e TIMESTAMP(3), n BIGINT"), hop) as program:
        program.wait_until(lambda: is_written(out))
        program.stop(signal.SIGINT)
    assert not out.exists() or [path.name for path in out.iterdir()] == []


def test_while_inserts_of_a_batch_run_side_by_side(tmp_path: Path) -> None:
    names = ("one", "two")
    slow = "SELECT SHA2(CAST(id AS STRING), 512) AS h FROM range(0, 4000000000, 1, 2)"
    inserts = "".join(
        f"INSERT INTO {name} {slow} WHERE id % {i + 2} = 0;" for i, name in enumerate(names)
    )
    with running(
        *(table(name, tmp_path / name, "h STRING") for name in names),
        f"EXECUTE STATEMENT SET BEGIN {inserts} END",
    ) as program:
        program.wait_until(lambda: any(is_written(tmp_path / name) for name in names))
        program.stop(signal.SIGINT)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
