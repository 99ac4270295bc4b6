"""The dbt project: its models have the rows of their queries."""

from __future__ import annotations

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from sqlwin.session import Session
from tests.goldens import ROOT
from tests.oracle import same_rows
from tests.unstarted import unstarted_spark

PROJECT = ROOT / "queries" / "integrations" / "dbt"
DBT = shutil.which("dbt")


def rows_of(name: str) -> list[tuple[object, ...]]:
    """Return the rows of a query of the project in this process."""
    with Session(unstarted_spark(), settings={}) as session:
        *_, result = session.execute(
            "CREATE TABLE flights WITH ('connector' = 'filesystem', 'format' = 'parquet', "
            f"'path' = '{ROOT}/queries/data/flights.parquet');"
            f"{(PROJECT / 'windows' / name).read_text()}"
        )
        return [tuple(row.values()) for row in result.to_arrow().to_pylist()]


def test_a_compiled_model_reads_others_by_ref() -> None:
    model_of = runpy.run_path(str(PROJECT / "compile_models.py"))["model_of"]
    schema = (PROJECT / "schema.sql").read_text()
    query = "SELECT origin, MAX(dep_delay) AS delay FROM flights WHERE dest <> '{{' GROUP BY origin"
    model = model_of(query, "duckdb", schema)
    assert model.startswith("WITH flights AS (SELECT * FROM {{ ref('flights') }}){% raw %}, ")
    assert "'{{'" in model.partition("{% raw %}")[2]
    plain = model_of("SELECT origin FROM flights", "duckdb", schema)
    assert re.sub(r"\s+", " ", plain).strip() == (
        "WITH flights AS (SELECT * FROM {{ ref('flights') }})"
        "{% raw %} SELECT origin FROM flights{% endraw %}"
    )


@pytest.mark.long
@pytest.mark.skipif(DBT is None, reason="dbt is not on the PATH; .ci/run installs it")
def test_the_models_of_the_project_have_the_rows_of_their_queries(tmp_path: Path) -> None:
    project = tmp_path / "queries" / "integrations" / "dbt"
    shutil.copytree(PROJECT, project)
    (tmp_path / "queries" / "data").symlink_to(ROOT / "queries" / "data")
    for command in (
        [sys.executable, "compile_models.py"],
        [str(DBT), "build", "--profiles-dir", "."],
    ):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)} if "build" not in command else None
        done = subprocess.run(
            command, cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    queries = sorted(path.name for path in (PROJECT / "windows").iterdir())
    assert queries == ["delays.sql", "sessions.sql"]
    with duckdb.connect(str(project / "flights.duckdb"), read_only=True) as connection:
        for name in queries:
            rows = connection.sql(f"FROM {name.removesuffix('.sql')}").fetchall()
            assert len(rows) > 10_000
            same_rows(rows, rows_of(name))
        worst = connection.sql("FROM worst_delays").fetchall()
    assert {origin for origin, *_ in worst} == {"EWR", "JFK", "LGA"}
