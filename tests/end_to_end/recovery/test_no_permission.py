"""Missing permissions of an ordinary user: one line with table and path, and no leftovers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.end_to_end.recovery.no_permission import BY_SPARK
from tests.goldens import ROOT

PROGRAM = Path(__file__).with_name("no_permission.py")
# A root user without capabilities
ORDINARY = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


@pytest.mark.spark
@pytest.mark.slow
def test_paths_without_permission_are_named(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path)]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may do everything, and setpriv is not there to change that")
        command = [*ORDINARY, *command]
    process = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        capture_output=True, timeout=300, check=False,
    )  # fmt: skip
    for name in ("out", "full", "ck", "closed"):
        (tmp_path / name).chmod(0o700)
    assert process.returncode == 0, process.stderr
    result = {name: text.lower() for name, text in json.loads(process.stdout).items()}
    at = str(tmp_path).lower()
    for mode in ("batch", "streaming"):
        sink = f"table `o` cannot be written: {at}/out: permission denied"
        assert result.pop(f"{mode} sink").startswith(sink)
        below = f"table `below` cannot be written: {at}/out/new: permission denied"
        assert result.pop(f"{mode} sink below").startswith(below)
        for rule in ("", BY_SPARK):
            assert result.pop(f"{mode} scan {rule}") == str(rule == "").lower()
            source = f"table `closed`: cannot read {at}/closed: permission denied"
            assert result.pop(f"{mode} source {rule}") == source
            message = result.pop(f"{mode} file {rule}")
            assert f"cannot read {at}/in/b.parquet: permission denied" in message
    assert result == {
        "checkpoint": f"cannot store the checkpoint in {at}/ck/ok: permission denied",
        "overwrite": f"table `kept` cannot be written: {at}/full: permission denied",
        "kept": "24",
    }
    assert [p for p in tmp_path.rglob(".*") if not p.name.endswith(".crc")] == []
    assert list((tmp_path / "ck").iterdir()) == []
