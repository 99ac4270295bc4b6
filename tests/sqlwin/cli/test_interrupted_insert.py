"""SIGINT and SIGTERM while a batch writes: one line, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.goldens import ROOT
from tests.sqlwin.cli.test_app import heed_interrupts

SLOW = "SELECT id, SHA2(CAST(id AS STRING), 512) AS h FROM range(0, 4000000000, 1, 8)"
TABLE = """
    CREATE TABLE o (id BIGINT, h STRING)
    WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'parquet')
"""


def visible(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def children(process: int) -> list[int]:
    found = subprocess.run(
        ["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    pairs = list(zip(map(int, found[::2]), map(int, found[1::2]), strict=True))
    below, waiting = [], [process]
    while waiting:
        parent = waiting.pop()
        mine = [child for child, of in pairs if of == parent]
        below += mine
        waiting += mine
    return below


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_takes_back_what_an_insert_has_written(
    number: int, code: int, said: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    statements = [TABLE.format(out), "INSERT INTO o VALUES (1, 'a')", f"INSERT INTO o {SLOW}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "sqlwin", "run", "--master", "local[2]", "--no-progress"]
        + [part for statement in statements for part in ("-e", statement)],
        cwd=ROOT,
        env={**os.environ, "SQLWIN_CLASS_ARCHIVE": "off"},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    until = time.monotonic() + 180
    # the second write, which is under way when its tasks have made files
    while not any("_temporary" in str(p) for p in tmp_path.rglob("*.parquet")) or not any(
        "_temporary" not in str(p) for p in tmp_path.rglob("*.parquet")
    ):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.1)
    below = children(process.pid)
    process.send_signal(number)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == code
    lines = errors.splitlines()
    assert lines[-1] == said and "Traceback" not in errors and len(lines) == 3, errors
    names = [p.name for p in tmp_path.rglob("*") if not p.name.endswith((".crc", "_SUCCESS"))]
    assert [name for name in names if not name.startswith("part-")] == ["out"]
    assert len([name for name in names if name.startswith("part-")]) == 1
    until = time.monotonic() + 30
    while any(map(visible, below)):
        assert time.monotonic() < until, "processes are left"
        time.sleep(0.2)
