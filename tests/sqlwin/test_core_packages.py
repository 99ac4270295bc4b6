"""The base installation: what works with its packages alone, and what each extra adds."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pexpect
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.goldens import ROOT

PROGRAM = [sys.executable, "-m", "tests.sqlwin.core"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere"}


def base_distributions() -> set[str]:
    """Return the distributions that `pip install sqlwin` installs without an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: set[str] = {"sqlwin"}
    asked = [(Requirement(text), "") for text in project["dependencies"]]
    while asked:
        needed, extra = asked.pop()
        name = canonicalize_name(needed.name)
        if name in found or not (needed.marker is None or needed.marker.evaluate({"extra": extra})):
            continue
        found.add(name)
        for own in ("", *needed.extras):
            asked += [(Requirement(text), own) for text in requires(name) or ()]
    return found


@pytest.fixture(scope="module")
def hidden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the names of all modules that the base installation lacks."""
    base = base_distributions()
    names = [
        module
        for module, distributions in packages_distributions().items()
        if not base & set(map(canonicalize_name, distributions))
    ]
    assert {"starlette", "plotext", "yaml", "prometheus_client", "pytest", "duckdb"} <= {*names}
    path = tmp_path_factory.mktemp("core") / "hidden.json"
    path.write_text(json.dumps(names))
    return path


def run(hidden: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, str(hidden), *arguments],
        env=ENVIRONMENT, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_file_runs(hidden: Path) -> None:
    result = run(hidden, "run", "queries/quickstart.sql", "--format", "csv")
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 11


def test_a_plan_is_explained(hidden: Path) -> None:
    result = run(hidden, "explain", "queries/quickstart.sql")
    assert result.returncode == 0, result.stderr
    assert "GlobalWindowAggregate" in result.stdout


@pytest.mark.long
def test_the_prompt_answers(hidden: Path) -> None:
    child = pexpect.spawn(
        PROGRAM[0], [*PROGRAM[1:], str(hidden), "repl"],
        env={**ENVIRONMENT, "TERM": "xterm"}, cwd=str(ROOT), encoding="utf-8", timeout=120,
        dimensions=(40, 120),
    )  # fmt: skip
    child.expect("sqlwin>")
    child.sendline("SELECT 20 + 22 AS answer;")
    child.expect("42")
    child.sendeof()
    child.expect(pexpect.EOF)


QUERY = (
    "SELECT * FROM (VALUES (1, TIMESTAMP '2024-01-01'), (2, TIMESTAMP '2024-01-02')) AS t (v, ts)"
)


@pytest.mark.parametrize(
    ("arguments", "package", "extra"),
    [
        (["run", "-e", QUERY, "--format", "chart"], "plotext", "charts"),
        (["run", "-e", "SELECT 1", "--ui"], "uvicorn", "ui"),
        (["test", "queries/testing"], "yaml", "testing"),
        (["serve"], "pg-mimic", "server"),
        (["lsp"], "lsprotocol", "lsp"),
    ],
)
def test_a_part_names_its_extra(
    hidden: Path, arguments: list[str], package: str, extra: str
) -> None:
    result = run(hidden, *arguments)
    assert result.returncode == 3, result.stderr
    assert re.search(
        rf"requires the package {package}\n\s*pip install '\.\[{extra}\]' in a clone", result.stderr
    )
    assert "Traceback" not in result.stderr
