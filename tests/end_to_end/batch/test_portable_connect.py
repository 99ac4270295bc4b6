"""Portable queries over Spark Connect: no JVM of the driver, no code and no workers in Python."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

import sqlwin
from tests.connect_server import client, connect_server

QUERIES = {
    "tumble": "SELECT k, window_start, window_end, SUM(v) AS total, AVG(w) AS mean "
    "FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '7' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "hop": "SELECT k, window_end, SUM(v) AS total, MAX(w) AS top "
    "FROM TABLE(HOP(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '2' MINUTES, INTERVAL '14' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "cumulate": "SELECT k, window_end, COUNT(*) AS n, MIN(v) AS low "
    "FROM TABLE(CUMULATE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '5' MINUTES, "
    "INTERVAL '30' MINUTES)) GROUP BY k, window_start, window_end",
    "session": "SELECT k, window_start, window_end, COUNT(*) AS n "
    "FROM TABLE(SESSION(TABLE rows_in PARTITION BY k, DESCRIPTOR(ts), INTERVAL '3' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "distinct": "SELECT k, window_end, COUNT(DISTINCT v) AS n "
    "FROM TABLE(HOP(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '5' MINUTES, INTERVAL '20' MINUTES)) "
    "GROUP BY k, window_start, window_end",
    "top": "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end "
    "ORDER BY total DESC, k) AS place FROM (SELECT k, window_start, window_end, SUM(v) AS total "
    "FROM TABLE(TUMBLE(TABLE rows_in, DESCRIPTOR(ts), INTERVAL '10' MINUTES)) "
    "GROUP BY k, window_start, window_end)) WHERE place <= 2",
    "spark": "SELECT UPPER(k) AS name, v + 1 AS more FROM rows_in WHERE v > 30",
}
CREATE = (
    "CREATE TABLE rows_in (ts TIMESTAMP(3), k STRING, v INT, w BIGINT) WITH "
    "('connector' = 'filesystem', 'path' = '{path}', 'format' = '{format}')"
)
# Everything that needs the driver, its files or Python workers fails
FORBID = """
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.session import SparkSession

def forbidden(name):
    def use(*_, **__):
        raise AssertionError(f"{name} was used")
    return use

for name in ("_jvm", "_jsc", "_jsparkSession"):
    setattr(SparkSession, name, property(forbidden(name)))
for name in ("addArtifact", "addArtifacts", "copyFromLocalToFs"):
    setattr(SparkSession, name, forbidden(name))
for name in ("mapInArrow", "mapInPandas", "rdd"):
    setattr(DataFrame, name, forbidden(name))
"""
PROGRAM = """
import pickle, sys
import sqlwin

remote, create, queries, executor, output = pickle.load(open(sys.argv[1], "rb"))
session = sqlwin.connect(remote=remote, settings={"sqlwin.executor": executor})
session.execute(create)
answers = {}
for name, sql in queries.items():
    try:
        answers[name] = "" + session.explain(sql), session.execute(sql)[0].to_arrow()
    except sqlwin.SqlwinError as error:
        answers[name] = error.message, error.hint
pickle.dump(answers, open(output, "wb"))
session.close()
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server that cannot start Python."""
    with connect_server(tmp_path_factory.mktemp("server"), python="/nowhere/python") as address:
        yield address


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    first = datetime.fromisoformat("2024-01-01T11:55:00")
    numbers = range(600)
    table = pa.table(
        {
            "ts": pa.array(
                [first + timedelta(seconds=n * n * 7 % 9001) for n in numbers], pa.timestamp("us")
            ),
            "k": [None if n % 31 == 0 else "abc"[n * n % 3] for n in numbers],
            "v": pa.array([None if n % 17 == 0 else n * 13 % 41 for n in numbers], pa.int32()),
            "w": pa.array([n * 11 % 97 for n in numbers], pa.int64()),
        }
    )
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(table, path)
    return path


def answers_of(
    server: str, create: str, queries: dict[str, str], tmp_path: Path, executor: str, first: str
) -> dict[str, tuple[object, object]]:

    given, output = tmp_path / "given", tmp_path / "output"
    given.write_bytes(pickle.dumps((server, create, queries, executor, str(output))))
    result = client(str(given), program=first + PROGRAM)
    assert result.returncode == 0, result.stderr
    answers: dict[str, tuple[object, object]] = pickle.loads(output.read_bytes())
    return answers


def counted(table: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.cluster
@pytest.mark.long
def test_portable_queries_need_nothing_but_spark_sql(
    server: str, path: Path, tmp_path: Path
) -> None:
    create = CREATE.format(path=path, format="parquet")
    answers = answers_of(server, create, QUERIES, tmp_path, "portable", FORBID)
    with sqlwin.connect() as session:
        session.execute(create)
        for name, sql in QUERIES.items():
            plan, rows = answers[name]
            assert isinstance(rows, pa.Table), (name, plan, rows)
            assert "portable: " in str(plan)
            assert ("== Spark SQL ==" in str(plan)) == (name != "spark")
            assert rows.num_rows
            assert counted(rows) == counted(session.execute(sql)[0].to_arrow()), name


@pytest.mark.cluster
@pytest.mark.long
def test_auto_is_portable_over_spark_connect(server: str, path: Path, tmp_path: Path) -> None:
    create = CREATE.format(path=path, format="parquet")
    filled = QUERIES["tumble"].replace(", AVG(w) AS mean", ", LISTAGG(k) AS names")
    queries = {"hop": QUERIES["hop"], "other": f"EXPLAIN {filled}"}
    answers = answers_of(server, create, queries, tmp_path, "auto", "")
    plan, rows = answers["hop"]
    assert isinstance(rows, pa.Table)
    assert rows.num_rows
    why = "because Spark Connect gives no access to Spark's driver"
    assert f"== Execution ==\nportable: one text of Spark SQL, {why}\n" in str(plan)
    text = str(answers["other"][0])
    assert "== Execution ==\nwith Python workers on the server: no portable form: " in text


@pytest.mark.cluster
@pytest.mark.long
def test_portable_queries_without_a_portable_form_are_refused(
    server: str, path: Path, tmp_path: Path
) -> None:
    queries = {
        "listagg": QUERIES["tumble"].replace("AVG(w) AS mean", "LISTAGG(k) AS names"),
        "ticks": "CREATE TABLE ticks (id BIGINT) WITH ('connector' = 'datagen', "
        "'rows-per-second' = '5')",
        "stream": "SELECT id FROM ticks",
        "ansi": "SET 'spark.sql.ansi.enabled' = 'false'",
        "off": QUERIES["hop"],
    }
    create = CREATE.format(path=path, format="parquet")
    answers = answers_of(server, create, queries, tmp_path, "portable", FORBID)
    message, hint = answers["listagg"]
    assert str(message).startswith("'sqlwin.executor' is 'portable', which cannot run the query: ")
    assert hint == "SET 'sqlwin.executor' = 'auto'"
    assert answers["stream"][0] == "streams are not supported over Spark Connect"
    assert str(answers["off"][0]).endswith("spark.sql.ansi.enabled is false")


@pytest.mark.cluster
@pytest.mark.long
def test_a_table_of_text_is_read_without_workers(server: str, path: Path, tmp_path: Path) -> None:

    text = tmp_path / "rows.csv"
    pcsv.write_csv(pq.read_table(path).slice(1, 20), text, pcsv.WriteOptions(include_header=False))
    create = CREATE.format(path=text, format="csv")
    queries = {"tumble": QUERIES["tumble"]}
    _, rows = answers_of(server, create, queries, tmp_path, "portable", FORBID)["tumble"]
    with sqlwin.connect() as session:
        session.execute(create)
        assert isinstance(rows, pa.Table), rows
        assert counted(rows) == counted(session.execute(QUERIES["tumble"])[0].to_arrow())
