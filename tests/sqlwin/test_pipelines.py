"""Definitions of Spark's declarative pipelines, in the context that spark-pipelines gives them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.pipelines.graph_element_registry import (
    GraphElementRegistry,
    graph_element_registration_context,
)

import sqlwin
from runtime.errors import SetupError
from sqlwin import windows as w
from tests.goldens import ROOT
from tests.unstarted import unstarted_spark


class Definitions(GraphElementRegistry):
    """A pipeline that takes no datasets."""

    def register_output(self, output: Any) -> None: ...

    def register_flow(self, flow: Any) -> None: ...

    def register_auto_cdc_flow(self, flow: Any) -> None: ...

    def register_sql(self, sql_text: str, file_path: Any) -> None: ...


class Rows(SimpleNamespace):
    """A DataFrame of a definition, which may not be analyzed."""

    sparkSession = None

    @property
    def isStreaming(self) -> bool:
        raise AssertionError("Spark forbids this in a definition")


@pytest.mark.parametrize(
    "use",
    [
        lambda: sqlwin.connect(unstarted_spark()),
        lambda: w.tumble(Rows(), "ts", "5 minutes"),
        lambda: w.hop(Rows(), "ts", "1 minute", "5 minutes"),
        lambda: w.session(Rows(), "ts", "5 minutes"),
    ],
    ids=["connect", "tumble", "hop", "session"],
)
def test_a_definition_of_a_pipeline_cannot_open_a_session(use: Callable[[], object]) -> None:
    with (
        graph_element_registration_context(Definitions()),
        pytest.raises(SetupError, match="declarative pipeline cannot open a session") as raised,
    ):
        use()
    assert raised.value.hint is not None
    assert "spark.sql(sqlwin.compile(...))" in raised.value.hint


def test_a_program_that_imports_pipelines_may_use_sqlwin() -> None:
    session = sqlwin.connect(unstarted_spark())
    assert session.execute("SELECT 1 AS n")[0].to_arrow().to_pylist() == [{"n": 1}]
    session.close()


SCHEMA = "CREATE TABLE flights (origin STRING, sched_dep TIMESTAMP(6), dep_delay DOUBLE);"
QUERIES = {
    name: f"""
SELECT origin, window_start, window_end, COUNT(*) AS n, AVG(dep_delay) AS mean
FROM TABLE({windows}) WHERE sched_dep < TIMESTAMP '2013-01-04 00:00:00'
GROUP BY origin, window_start, window_end"""
    for name, windows in {
        "hop": "HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, INTERVAL '6' HOURS)",
        "cumulate": "CUMULATE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '1' HOUR, "
        "INTERVAL '1' DAY)",
        "sessions": "SESSION(TABLE flights PARTITION BY origin, DESCRIPTOR(sched_dep), "
        "INTERVAL '20' MINUTES)",
    }.items()
}
DEFINITIONS = f"""
import sqlwin
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

@dp.materialized_view
def flights():
    return SparkSession.active().read.parquet({str(ROOT / "queries/data/flights.parquet")!r})

for name in ("hop", "cumulate"):
    @dp.materialized_view(name=name)
    def windows(name=name):
        return SparkSession.active().sql(sqlwin.compile({SCHEMA!r} + {QUERIES!r}[name], "spark"))
"""
PROJECT = """
name: windows
storage: {storage}
libraries:
  - glob:
      include: transformations/**
"""


@pytest.mark.cluster
@pytest.mark.long
def test_compiled_queries_are_views_of_a_pipeline(tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    (tmp_path / "spark-pipeline.yml").write_text(
        PROJECT.format(storage=(tmp_path / "storage").as_uri())
    )
    (tmp_path / "transformations" / "views.py").write_text(DEFINITIONS)
    text = sqlwin.compile(SCHEMA + QUERIES["sessions"], "spark")
    (tmp_path / "transformations" / "sessions.sql").write_text(
        f"CREATE MATERIALIZED VIEW sessions AS\n{text};\n"
    )
    run = subprocess.run(
        [Path(sys.executable).with_name("spark-pipelines"), "run"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stdout[-4000:] + run.stderr[-4000:]
    with sqlwin.connect() as session:
        session.execute(
            "CREATE TABLE flights WITH ('connector' = 'filesystem', "
            f"'path' = '{ROOT}/queries/data/flights.parquet')"
        )
        for name, query in QUERIES.items():
            (expected,) = session.execute(query)
            rows = pq.read_table(tmp_path / "spark-warehouse" / name)
            assert rows.num_rows
            assert rows_in_order(rows) == rows_in_order(expected.to_arrow()), name


def rows_in_order(table: pa.Table) -> list[list[object]]:
    # sums of doubles depend on the order of rows
    rows = (
        [str(v) if not isinstance(v, float) else round(v, 9) for v in row.values()]
        for row in table.to_pylist()
    )
    return sorted(rows, key=lambda row: list(map(str, row)))
