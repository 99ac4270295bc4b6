"""Cases in several processes: order, failures, and cases that need Spark."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys

import pytest

from sqlwin.testing.parallel import n_processes
from sqlwin.testing.running import TestOptions
from tests.sqlwin.testing.test_command import RIGHT, WRONG, case, file


@pytest.mark.long
def test_results_of_parallel_cases_keep_their_order(tmp_path):
    # in a process of its own, which has no Spark
    is_wrong = [number in (3, 9) for number in range(12)]
    path = file(
        tmp_path,
        *(case(f"case {n}", WRONG if wrong else RIGHT) for n, wrong in enumerate(is_wrong)),
    )
    command = [sys.executable, "-m", "sqlwin", "test", "--no-spark", "--histories", "1", path]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    failed = [line for line in result.stdout.splitlines() if line.startswith("FAILED")]
    assert [line.split("::")[1].split(" (")[0] for line in failed] == ["case 3", "case 9"]
    assert "10 passed, 2 failed, 12 histories" in result.stdout


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)
def test_cases_share_processes_unless_spark_is_part_of_it(monkeypatch):
    monkeypatch.setattr("sqlwin.testing.parallel._processors", lambda: 4)
    monkeypatch.setattr("sqlwin.testing.parallel.has_java", lambda: False)
    assert n_processes(50, TestOptions()) == 4
    assert n_processes(3, TestOptions()) == 1
    assert n_processes(50, TestOptions(on_spark=True)) == 1
    monkeypatch.setattr("sqlwin.testing.parallel.has_java", lambda: True)
    assert n_processes(50, TestOptions()) == 1
