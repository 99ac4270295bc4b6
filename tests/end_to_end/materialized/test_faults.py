"""Faults below tables of slices: one line that says which, and slices as they were."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.recovery.test_full_disk import may_mount
from tests.goldens import ROOT

FULL_DISK = Path(__file__).with_name("full_disk.py")


@pytest.mark.spark
@pytest.mark.slow
def test_a_refresh_on_a_full_disk_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    if not may_mount():
        pytest.skip("unshare -rm, which a small file system needs, is not allowed here")
    done = subprocess.run(
        ["unshare", "-rm", sys.executable, str(FULL_DISK), str(tmp_path)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["errors"], "there was room for all"
    assert all("o space left on" in error and "\n" not in error for error in found["errors"])
    assert all(found["as before"])
    assert found["is whole"]
    assert found["left"] == []
