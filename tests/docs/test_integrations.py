"""The commands of docs/integrations.md run as they stand."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sqlwin
from tests.docs import pages
from tests.goldens import ROOT

PAGE = "docs/integrations.md"
# Programs whose command is not run here, and the reason
ELSEWHERE = {
    "JupySQL": "not in the extra test; tests/sqlwin/dbapi/test_clients.py runs it if it is there",
    "Harlequin": "not in the extra test; tests/sqlwin/dbapi/test_clients.py runs it if it is there",
    "Airflow": "not in the extra test; tests/sqlwin/dbapi/test_clients.py runs it if it is there",
    "Dagster": "not in the extra test; tests/sqlwin/dbapi/test_clients.py runs it if it is there",
    "dbt with DuckDB, PostgreSQL or Spark": "needs dbt; tests/queries/test_dbt.py runs it",
    "dbt on Databricks": "not in the extra test; tests/queries/test_integrations.py runs the model",
    "Spark declarative pipelines": "needs a project; tests/sqlwin/test_pipelines.py has one",
    "Grafana": "needs Docker; tests/queries/test_integrations.py checks the file",
}


def commands() -> dict[str, str]:
    """Return the command of each program, by its name in the table."""
    rows = re.findall(r"^\| ([^|]+) \|.*\| ([^|]+) \|$", pages.read(PAGE), re.MULTILINE)
    code = {program: re.search(r"`([^`]+)`", command) for program, command in rows}
    return {program: match[1] for program, match in code.items() if match is not None}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A directory to write in, with the examples of the project's root."""
    (tmp_path / "queries").symlink_to(ROOT / "queries")
    return tmp_path


def environment() -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "SQLWIN_ENGINE": "off", "PYTHONPATH": str(ROOT)}


def run(program: str, directory: Path) -> str:
    """Run a program's command and return its output."""
    done = subprocess.run(
        ["bash", "-c", commands()[program]],
        cwd=directory,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@contextmanager
def started(program: str, directory: Path, *further: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program's command with further arguments, and end it after the block."""
    process = subprocess.Popen(
        [*commands()[program].split(), *further],
        cwd=directory,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


def lineage(output: str, directory: Path) -> None:
    """Check the events of OpenLineage."""
    events = [json.loads(file.read_text()) for file in sorted(directory.glob("events*.json"))]
    assert {event["eventType"] for event in events} >= {"START", "COMPLETE"}


EXPECTED: dict[str, str | Callable[[str, Path], None]] = {
    "Python": "[(42,)]",
    "pandas": "17.483553",
    "Ibis": "116601",
    "OpenLineage, for Marquez and others": lineage,
    "OpenTelemetry": '"db.system.name": "sqlwin"',
    "pytest": "passed",
    "sqlglot": "SELECT 1",
}
SERVER = "psql, psycopg, JDBC, SQLAlchemy, DBeaver, Metabase"
EDITORS = "VS Code, Neovim and other editors"


def test_each_command_is_run_by_a_test_or_named_with_a_reason() -> None:
    assert sorted(commands()) == sorted({*EXPECTED, *ELSEWHERE, SERVER, EDITORS, "PySpark"})


@pytest.mark.parametrize(
    "program",
    [
        name if name in ("Python", "sqlglot") else pytest.param(name, marks=pytest.mark.long)
        for name in EXPECTED
    ],
)
def test_a_command_runs_as_it_stands(program: str, directory: Path) -> None:
    output, expected = run(program, directory), EXPECTED[program]
    if isinstance(expected, str):
        assert expected in output
    else:
        expected(output, directory)


@pytest.mark.long
def test_the_expression_for_pyspark(fresh_session: sqlwin.Session) -> None:
    from pyspark.sql import functions

    import sqlwin.windows

    rows = "VALUES ('a', TIMESTAMP_NTZ '2024-01-01 00:01:00') AS t(k, ts)"
    frame: Any = fresh_session.spark.sql(f"SELECT * FROM {rows}")
    names = {"w": sqlwin.windows, "frame": frame, "F": functions}
    windows = eval(commands()["PySpark"], names)
    assert [(row.k, row.n) for row in windows.collect()] == [("a", 1)]


@pytest.mark.long
def test_the_server_answers_a_client(directory: Path) -> None:
    # another program may use the default port
    with started(SERVER, directory, "--port", "0") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if match := re.search(rb'psql "(.*)"', line):
                break
        else:
            pytest.fail("the server has not started")
        with psycopg.connect(match[1].decode()) as client:
            assert client.execute("SELECT COUNT(*) FROM daily").fetchone() == (1095,)


@pytest.mark.long
def test_the_language_server_answers_an_editor_and_ends(directory: Path) -> None:
    requests: list[dict[str, object]] = [
        {"id": 1, "method": "initialize", "params": {"capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"id": 2, "method": "shutdown"},
        {"method": "exit"},
    ]
    with started(EDITORS, directory) as process:
        texts = [json.dumps({"jsonrpc": "2.0", **request}) for request in requests]
        written = "".join(f"Content-Length: {len(text)}\r\n\r\n{text}" for text in texts)
        output, _ = process.communicate(written.encode())
        assert b'"name": "sqlwin"' in output or b'"name":"sqlwin"' in output
        assert process.returncode == 0
