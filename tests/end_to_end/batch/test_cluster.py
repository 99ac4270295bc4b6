"""The quickstart on a Spark cluster of two workers, each in its own process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.goldens import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_quickstart_gives_the_same_rows_on_a_cluster() -> None:
    run = subprocess.run(
        [
            sys.executable,
            "-m",
            "sqlwin.cli.app",
            "run",
            "queries/quickstart.sql",
            "--master",
            "local-cluster[2,1,1024]",
            "--conf",
            "spark.executor.memory=1g",
            "--format",
            "csv",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    golden = (ROOT / "tests/queries/quickstart.out").read_text()
    assert run.stdout.strip() == golden.strip()
