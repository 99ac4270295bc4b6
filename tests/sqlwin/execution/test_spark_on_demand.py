"""A session plans without Spark and starts it when a statement needs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sqlwin
from planner.explain.document import Document
from runtime.errors import SqlwinError
from runtime.spark.on_demand import SparkOnDemand, is_started, when_started
from runtime.spark.session import session_on_demand
from sqlwin.control import SessionControl
from sqlwin.execution.explain_formats import render
from sqlwin.session import Session
from tests.goldens import ROOT
from tests.unstarted import SETTINGS, NeedsSparkError, unstarted_spark

FLIGHTS = """
    CREATE TABLE flights WITH (
      'connector' = 'filesystem', 'path' = 'queries/data/flights.parquet', 'format' = 'parquet')
"""
GOLDENS = sorted((ROOT / "tests" / "explain").glob("*.sql"))
# Plans that need no Spark; some of the others do
WITHOUT_SPARK = {
    *("cumulate", "deduplicate", "disabled_rule", "filters", "hop", "no_aggregate"),
    *("only_spark", "session", "top_n", "tumble"),
}


@pytest.fixture
def unstarted(monkeypatch: pytest.MonkeyPatch) -> Session:
    """Provide a session with the table `flights`; starting its Spark raises an error."""
    monkeypatch.chdir(ROOT)
    session = Session(unstarted_spark(), settings={"sqlwin.in-process.max-bytes": "0"})
    session.execute(FLIGHTS)
    return session


@pytest.mark.parametrize("case", GOLDENS, ids=lambda path: path.stem)
def test_a_plan_without_spark_is_the_golden_one(case: Path, unstarted: Session) -> None:
    try:
        documents = SessionControl(unstarted).query_documents(case.read_text())
    except NeedsSparkError:
        assert case.stem not in WITHOUT_SPARK
        return
    text = render(Document(documents), "text")
    assert f"agg-phase-strategy = AUTO\n{text}" in case.with_suffix(".plan").read_text()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM sparks.t",
        "SELECT nope, nothing FROM flights",
        "SELECT INITCAP(origin) AS y FROM flights",
        "SHOW DATABASES",
        "CREATE TABLE t (x INT) WITH ('connector' = 'filesystem', 'path' = 'nowhere.parquet');"
        "SELECT * FROM t",
        "SET 'spark.sql.ansi.enabled' = 'false'",
        "CREATE TABLE t (dep_delay STRING) WITH ('connector' = 'filesystem',"
        " 'path' = 'queries/data/flights.parquet'); SELECT * FROM t",
        "SET 'execution.runtime-mode' = 'streaming'; SELECT origin FROM flights",
        "SELECT origin FROM flights",
    ],
)
def test_statements_that_need_spark_start_it(statement: str, unstarted: Session) -> None:
    with pytest.raises(NeedsSparkError):
        unstarted.execute(statement)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("SELECT", "needs columns"),
        ("SELECT * FROM 'nowhere.csv'", "does not exist"),
        ("SET 'sqlwin.nothing' = '1'", "sqlwin.nothing"),
    ],
)
def test_errors_that_need_no_spark_are_raised_without_it(
    statement: str, message: str, unstarted: Session
) -> None:
    with pytest.raises(SqlwinError, match=message):
        unstarted.execute(statement)


def test_declared_columns_and_views_need_no_spark(unstarted: Session, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,2020-01-01 00:00:00\n")
    text = unstarted.explain(f"""
        CREATE TABLE c (x BIGINT, ts TIMESTAMP(3))
        WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/a.csv', 'format' = 'csv');
        CREATE VIEW v AS SELECT x, ts FROM c WHERE x > 0;
        SELECT window_end, SUM(x) AS s
        FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '1' HOUR))
        GROUP BY window_start, window_end
    """)
    assert "GlobalWindowAggregate" in text


def test_files_by_their_path_need_no_spark(unstarted: Session) -> None:
    text = unstarted.explain("""
        SELECT window_end, SUM(Menge) AS menge FROM TUMBLE('queries/data/sales.csv', Zeit, 1h)
        GROUP BY window_start, window_end
    """)
    assert "ArrowScanLocalWindowAggregate(table=['queries/data/sales.csv']" in text


@pytest.mark.long
def test_tables_planned_before_the_start_are_known_to_spark_after_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    begun: list[SparkSession] = []

    def start() -> SparkSession:
        begun.append(spark.newSession())
        return begun[0]

    on_demand = SparkOnDemand(start, SETTINGS)
    with Session(on_demand, settings={}) as session:
        session.execute(FLIGHTS)
        count = "SELECT COUNT(*) AS n, MAX(INITCAP(origin)) AS l FROM flights"
        session.explain("SELECT origin FROM flights")
        assert not is_started(on_demand) and "not started" in repr(session)
        assert session.sql(count).toArrow().num_rows == 1
        assert is_started(on_demand) and session.spark is begun[0]
        # later uses do not start it again, and actions run at once
        sessions: list[SparkSession] = []
        when_started(on_demand, sessions.append)
        session.sql(count)
        assert begun == sessions


def test_a_start_that_failed_is_tried_again(spark: SparkSession) -> None:
    attempts: list[int] = []

    def start() -> SparkSession:
        attempts.append(1)
        if len(attempts) == 1:
            raise SqlwinError("no Java")
        return spark.newSession()

    with Session(SparkOnDemand(start, SETTINGS), settings={}) as session:
        with pytest.raises(SqlwinError, match="no Java"):
            session.execute("SHOW DATABASES")
        assert session.sql("SELECT 1 AS one").collect() == [(1,)]
    assert len(attempts) == 2


def test_a_running_spark_is_used_at_once(session: sqlwin.Session) -> None:
    assert not isinstance(session_on_demand(), SparkOnDemand)


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=env, capture_output=True, text=True
    )


def test_sqlwin_explain_starts_no_java() -> None:
    explain = ("-m", "sqlwin", "explain", "--no-engine", "queries/quickstart.sql")
    result = run(*explain, JAVA_HOME="/nowhere", PATH="/nowhere")
    assert (result.returncode, result.stderr) == (0, "")
    assert "ArrowScanLocalWindowAggregate" in result.stdout


def test_a_session_on_demand_passes_for_a_spark_session() -> None:
    spark = unstarted_spark()
    assert isinstance(spark, SparkSession)
    assert not isinstance(spark, Session)
    assert not is_started(spark)


def test_connecting_starts_no_java() -> None:
    code = (
        "import sqlwin\n"
        "from pyspark import SparkContext\n"
        "print(sqlwin.connect(), SparkContext._gateway)\n"
    )
    assert run("-c", code).stdout == "<sqlwin Session on Spark, not started yet> None\n"


@pytest.mark.long
def test_statements_start_spark_only_if_needed() -> None:
    """PySpark functions that use the process's Spark fail without one."""
    code = (
        "from pathlib import Path\n"
        "from sqlwin.control import SessionControl\n"
        "from sqlwin.session import Session\n"
        "from sqlwin.statements.split import split_script\n"
        "from tests.unstarted import NeedsSparkError, unstarted_spark\n"
        "n_explained = 0\n"
        "types = 'a DECIMAL(9, 2), b VARCHAR(3), c ROW<x INT>, d ARRAY<INT>, e TIMESTAMP_LTZ(3)'\n"
        "more = [f'CREATE TABLE t ({types}) WITH (\\'connector\\' = \\'{c}\\')' for c in\n"
        "        ('datagen', 'filesystem\\', \\'path\\' = \\'/nowhere\\', \\'format\\' = \\'csv')]\n"
        "more += ['SHOW TABLES', 'DROP TABLE IF EXISTS x', 'SHOW STREAMS', 'SUMMARIZE (SELECT 1 AS a)']\n"
        "paths = (p for p in sorted(Path('queries').rglob('*.sql')) if 'dbt' not in p.parts)\n"
        "scripts = [path.read_text() for path in paths]\n"
        "for script in [*scripts, *more]:\n"
        "    session = Session(unstarted_spark(), settings={})\n"
        "    try:\n"
        "        for part in split_script(script):\n"
        "            n_explained += len(SessionControl(session).query_documents(part.text))\n"
        "    except NeedsSparkError:\n"
        "        pass\n"
        "print(n_explained >= 15)\n"
    )
    result = run("-c", code)
    assert (result.stdout, result.stderr) == ("True\n", "")


def test_the_time_zone_is_known_before_the_start(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    begun = spark.newSession()
    zone = begun.conf.get("spark.sql.session.timeZone")
    with Session(SparkOnDemand(lambda: begun, SETTINGS), settings={}) as session:
        session.execute("SET 'table.local-time-zone' = 'Asia/Tokyo'")
        assert not SessionControl(session).has_spark
        assert session.sql("SELECT current_timezone() AS zone").collect() == [("Asia/Tokyo",)]
    begun.conf.set("spark.sql.session.timeZone", str(zone))


def test_a_plan_imports_neither_pandas_nor_connectors_of_other_tables() -> None:
    unused = ["pandas", "confluent_kafka", "pyiceberg", "deltalake"]
    unused += ["runtime.materialized.build", "runtime.connectors.lake.connector"]
    unused += ["runtime.connectors.kafka.connector", "runtime.connectors.generated.datagen"]
    code = (
        "import sys, sqlwin\n"
        "sqlwin.connect().explain(open('queries/quickstart.sql').read())\n"
        f"print(set({unused}) & set(sys.modules))\n"
    )
    result = run("-c", code)
    assert (result.stdout, result.stderr) == ("set()\n", "")


@pytest.mark.parametrize("statement", ["RESET", "DROP TABLE IF EXISTS t", "DROP VIEW IF EXISTS t"])
def test_if_exists_of_missing_objects_does_not_start_spark(
    statement: str, unstarted: Session
) -> None:
    unstarted.execute(f"SET 'table.optimizer.agg-phase-strategy' = 'ONE_PHASE'; {statement}")
    with pytest.raises(SqlwinError, match="table `t` does not exist"):
        unstarted.execute("DROP TABLE t")
