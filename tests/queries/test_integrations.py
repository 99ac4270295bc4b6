"""The examples: files that they name exist, and their code runs.

Those for Airflow and Dagster run in tests/sqlwin/dbapi/test_clients.py.
"""

from __future__ import annotations

import re
import runpy
from typing import Any

import pytest
import yaml

import sqlwin
import sqlwin.dbapi
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark

EXAMPLES = ROOT / "queries" / "integrations"


def test_the_list_names_every_example() -> None:
    named = set(re.findall(r"\]\(([\w.]+)\)", (EXAMPLES / "README.md").read_text()))
    files = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert files - named == {"README.md", "grafana.yaml"}  # compose.yaml names the latter
    assert named <= files


def test_the_tables_of_the_examples_are_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with sqlwin.dbapi.connect(
        "queries/integrations/tables.sql", spark=unstarted_spark()
    ) as connection:
        rows = connection.execute("SELECT COUNT(*) AS n FROM daily").fetchall()
    assert rows == [(1095,)]


def test_the_image_copies_files_that_exist_and_installs_known_extras() -> None:
    import tomllib

    text = (EXAMPLES / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (.*)", text, re.MULTILINE):
        *sources, _ = line.split()
        assert [name for name in sources if not (ROOT / name).exists()] == []
    extras = re.search(r"pip install --no-cache-dir '\.\[(.*)\]'", text)
    assert extras is not None
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras[1].split(",")) <= project["optional-dependencies"].keys()


def test_the_services_of_compose_fit_together() -> None:
    compose = yaml.safe_load((EXAMPLES / "compose.yaml").read_text())
    services: dict[str, Any] = compose["services"]
    assert services.keys() == {"sqlwin", "kafka", "postgres", "grafana"}
    for service in services.values():
        assert set(service.get("depends_on", ())) <= services.keys()
        for volume in service.get("volumes", ()):
            assert (EXAMPLES / volume.split(":")[0]).exists()
        # only this machine reaches the ports
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    build = services["sqlwin"]["build"]
    assert (EXAMPLES / build["context"] / build["dockerfile"]).exists()
    (source,) = yaml.safe_load((EXAMPLES / "grafana.yaml").read_text())["datasources"]
    host, _, port = source["url"].partition(":")
    assert host in services
    assert services[host]["ports"][0].endswith(f":{port}")


@pytest.mark.long
def test_the_dbt_model_returns_a_dataframe(fresh_session: sqlwin.Session) -> None:
    class Dbt:
        def config(self, **options: str) -> None:
            assert options == {"materialized": "table"}

        def ref(self, name: str) -> Any:
            return fresh_session.spark.read.parquet(str(ROOT / f"queries/data/{name}.parquet"))

    model = runpy.run_path(str(EXAMPLES / "dbt_model.py"))["model"]
    frame = model(Dbt(), fresh_session.spark)
    assert frame.columns == ["origin", "window_start", "window_end", "n", "delay"]
    assert sum(row.n for row in frame.collect()) == 336776
