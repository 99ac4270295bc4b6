"""A user's own `runtime` or `planner` package that precedes sqlwin's on the path."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.goldens import ROOT


@pytest.mark.parametrize("file", ["runtime.py", "runtime/__init__.py", "planner.py"])
def test_a_package_of_the_same_name_is_named(file: str, tmp_path: Path) -> None:
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    process = subprocess.run(
        [sys.executable, "-c", "import sqlwin"],
        cwd=tmp_path, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    name = file.split("/")[0].removesuffix(".py")
    assert process.stderr.splitlines()[-1] == (
        f"ImportError: sqlwin needs its own package `{name}`, but Python finds {path}: "
        "rename it, or remove its directory from Python's path"
    )
