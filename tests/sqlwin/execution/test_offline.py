"""Plans that are made without Spark are those that are made with it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planner.explain.document import Document
from sqlwin.execution.explain_formats import render
from sqlwin.execution.offline import NeedsSpark, OfflineSession
from tests.goldens import ROOT

FLIGHTS = """
    CREATE TABLE flights WITH (
      'connector' = 'filesystem', 'path' = 'queries/data/flights.parquet', 'format' = 'parquet')
"""
GOLDENS = sorted((ROOT / "tests" / "explain").glob("*.sql"))
# Their plans need no Spark; of the others some do
KNOWN = {
    *("cumulate", "deduplicate", "disabled_rule", "filters", "hop", "no_aggregate"),
    *("only_spark", "session", "top_n", "tumble"),
}


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> OfflineSession:
    """A session with the table `flights`, and the configuration that the goldens are made with."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TZ", "UTC")
    for variable in ("SPARK_CONF_DIR", "SPARK_HOME", "HADOOP_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        monkeypatch.delenv(variable, raising=False)
    session = OfflineSession({}, most_partitions=3)
    assert session.query_documents(FLIGHTS) == ()
    return session


@pytest.mark.parametrize("case", GOLDENS, ids=lambda path: path.stem)
def test_a_plan_is_the_golden_one_or_left_to_spark(case: Path, offline: OfflineSession) -> None:
    try:
        documents = offline.query_documents(case.read_text())
    except NeedsSpark:
        assert case.stem not in KNOWN
        return
    text = render(Document(documents), "text")
    assert f"agg-phase-strategy = AUTO\n{text}" in case.with_suffix(".plan").read_text()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM sparks",
        "SELECT nope FROM flights",
        "SELECT",
        "SHOW TABLES",
        "INSERT INTO flights SELECT * FROM flights",
        "SET 'table.local-time-zone' = 'Asia/Tokyo'",
        "CREATE TABLE t (x INT) WITH ('connector' = 'filesystem', 'path' = 'nowhere.parquet');"
        "SELECT * FROM t",
        "CREATE TABLE t (dep_delay STRING) WITH ('connector' = 'filesystem',"
        " 'path' = 'queries/data/flights.parquet'); SELECT * FROM t",
        "SET 'execution.runtime-mode' = 'streaming'; SELECT origin FROM flights",
    ],
)
def test_what_is_wrong_or_sparks_is_left_to_spark(statement: str, offline: OfflineSession) -> None:
    with pytest.raises(NeedsSpark):
        offline.query_documents(statement)


def test_declared_columns_and_views_need_no_spark(offline: OfflineSession, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2020-01-01 00:00:00\n")
    (document,) = offline.query_documents(f"""
        CREATE TABLE c (x BIGINT, ts TIMESTAMP(3))
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/a.csv', 'format' = 'csv');
        CREATE VIEW v AS SELECT x, ts FROM c WHERE x > 0;
        SELECT window_end, SUM(x) AS s
        FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end
    """)
    assert "GlobalWindowAggregate" in document.text


def test_sqlwin_explain_starts_no_java() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    done = subprocess.run(
        [sys.executable, "-m", "sqlwin", "explain", "queries/quickstart.sql"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "ArrowScanLocalWindowAggregate" in done.stdout


def test_a_plan_imports_neither_pandas_nor_connectors_of_other_tables() -> None:
    code = (
        "import sys, pyarrow as pa\n"
        "from sqlwin.execution.offline import OfflineSession\n"
        "OfflineSession({}).query_documents(open('queries/quickstart.sql').read())\n"
        "pa.array([1, None]); pa.scalar('a'); pa.schema([('a', pa.int32())]).empty_table()\n"
        "found = {'pandas', 'confluent_kafka', 'pyiceberg', 'deltalake', *(f'runtime.{each}'"
        " for each in ('slices.build', 'connectors.lake.connector', 'connectors.kafka.connector',"
        " 'connectors.generated.datagen'))} & set(sys.modules)\n"
        "import pandas as pd\n"
        "print(found, pa.table({'a': pd.Series([2.0, None])}).to_pandas().a.sum())"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("set() 2.0\n", "")


def test_files_by_their_path_need_no_spark_either(offline: OfflineSession) -> None:
    (document,) = offline.query_documents("""
        SELECT window_end, SUM(Menge) AS menge FROM TUMBLE('queries/data/sales.csv', Zeit, 1h)
        GROUP BY window_start, window_end
    """)
    text = render(Document((document,)), "text")
    assert "TableSourceScan(table=['queries/data/sales.csv'], connector=[filesystem]" in text
    with pytest.raises(NeedsSpark):
        offline.query_documents("SELECT * FROM 'nowhere.csv'")
