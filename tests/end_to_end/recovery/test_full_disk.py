"""Full disks: a one-line error that names the disk, no partial output, right rows once it has room."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.recovery.full_disk import N_ROWS
from tests.goldens import ROOT

PROGRAM = Path(__file__).with_name("full_disk.py")
NO_ROOM = "no space left on the device"


def result_on_a_small_disk(
    program: Path, directory: Path, timeout_s: int, namespaces: str = "-rm"
) -> Any:
    """Run a program that mounts file systems and return its JSON. Skip the test without that right.

    With the namespaces `-rm` the program's only user is root; with `-m` this user must be root.
    """
    command = "mount -t tmpfs -o size=1m none /mnt"
    process = subprocess.run(
        ["unshare", namespaces, "sh", "-c", command], capture_output=True, check=False
    )
    if process.returncode:
        pytest.skip(f"unshare {namespaces}, which a small file system needs, is not allowed here")
    run = subprocess.run(
        ["unshare", namespaces, sys.executable, str(program), str(directory)],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True,
        timeout=timeout_s, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.spark
@pytest.mark.slow
def test_a_full_disk_is_named_and_takes_all_rows_when_it_has_room(tmp_path: Path) -> None:
    result = result_on_a_small_disk(PROGRAM, tmp_path, 400)
    errors = {name: item["error"] for name, item in result.items()}
    for name in ("inserted", "overwritten", "streamed", "compacted"):
        where = f"table `{name}` cannot be written: {tmp_path}/tables/{name}: "
        assert errors[name].startswith(where), errors
    assert f"{tmp_path}/checkpoints/checkpointed" in errors["checkpointed"], errors
    assert f"{tmp_path}/spill" in errors["spilled"], errors
    assert all(NO_ROOM in error and "Exception" not in error for error in errors.values()), errors
    # existing rows stay, and a stream shows complete micro-batches
    shown = {name: item["shown"] for name, item in result.items()}
    assert shown["overwritten"] == 1
    assert [shown[name] for name in ("inserted", "compacted", "spilled")] == [0, 0, 0]
    assert {name: item["rows"] for name, item in result.items()} == dict.fromkeys(result, N_ROWS)
    assert {name: item["hidden"] for name, item in result.items()} == {name: [] for name in result}
