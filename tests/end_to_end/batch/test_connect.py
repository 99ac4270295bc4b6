"""Spark Connect: the features that work, and the errors for those that do not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.connect_server import client, connect_server, free_port
from tests.goldens import ROOT


@pytest.mark.long
def test_missing_packages_are_named_with_their_extra(tmp_path: Path) -> None:
    (tmp_path / "grpc.py").write_text("raise ImportError(\"No module named 'grpc'\")\n")
    result = client("run", "--remote", "sc://localhost:1", "-e", "SELECT 1", packages=tmp_path)
    assert result.returncode == 3
    first, second = result.stderr.splitlines()
    assert first.startswith("error: Spark Connect requires packages that are not installed: ")
    assert second == "  pip install '.[connect]' in a clone of sqlwin"


@pytest.mark.long
def test_a_server_that_does_not_answer_is_named() -> None:
    address = f"127.0.0.1:{free_port()}"
    result = client("run", "--remote", f"sc://{address}", "-e", "SELECT 1")
    assert result.returncode == 3
    assert (
        result.stderr.splitlines()[0] == f"error: no Spark Connect server is reachable at {address}"
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server."""
    with connect_server(tmp_path_factory.mktemp("server")) as address:
        yield address


WORKS = """
CREATE TABLE flights WITH ('connector' = 'filesystem', 'path' = '{root}/queries/data/flights.parquet');
SELECT window_end, COUNT(*) AS n
FROM TABLE(TUMBLE(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '91' DAYS))
GROUP BY window_end ORDER BY window_end LIMIT 2;
SELECT window_end, COUNT(DISTINCT carrier) AS carriers
FROM TABLE(HOP(TABLE flights, DESCRIPTOR(sched_dep), INTERVAL '91' DAYS, INTERVAL '182' DAYS))
GROUP BY window_end ORDER BY window_end LIMIT 1;
CREATE TABLE files (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{out}/files', 'format' = 'parquet');
CREATE TABLE kept (id BIGINT) WITH ('connector' = 'memory');
CREATE TABLE shown (id BIGINT) WITH ('connector' = 'print');
INSERT INTO shown SELECT 42;
EXECUTE STATEMENT SET BEGIN
  INSERT INTO files SELECT id FROM range(10); INSERT INTO kept SELECT id FROM range(5);
END;
INSERT OVERWRITE files SELECT id FROM range(3);
SELECT (SELECT COUNT(*) FROM files) AS files, (SELECT COUNT(*) FROM kept) AS kept;
SELECT id, NULL AS nothing FROM range(200000) WHERE id >= 199999;
"""

FAILS = """
import sys
import sqlwin

session = sqlwin.connect(remote=sys.argv[1])
session.execute('''
    CREATE TABLE relative WITH ('connector' = 'filesystem', 'path' = 'data/x.parquet');
    CREATE TABLE missing WITH ('connector' = 'filesystem', 'path' = '/nowhere/x.parquet');
    CREATE TABLE written (id BIGINT) WITH ('connector' = 'filesystem', 'path' = 'out', 'format' = 'csv');
    CREATE TABLE clock (id BIGINT) WITH ('connector' = 'datagen', 'rows-per-second' = '1');
    CREATE TABLE nothing (id BIGINT) WITH ('connector' = 'blackhole');
''')
for statement in (
    "SELECT * FROM relative", "SELECT * FROM missing", "INSERT INTO written SELECT 1",
    "INSERT INTO nothing SELECT id FROM clock", "SELECT * FROM clock",
    "EXPLAIN ANALYZE SELECT 1", "CREATE MATERIALIZED TABLE m AS SELECT * FROM written",
    "SET 'sqlwin.materialized.dir' = '/m'; SHOW TABLES", "RESET 'sqlwin.materialized.dir'",
    "SELECT nope FROM range(3)", "SELECT 1 / (id - id) FROM range(3)",
):
    try:
        print("OUT", [result.rows for result in session.execute(statement)])
    except sqlwin.SqlwinError as error:
        print("OUT", error.message)
for asked in ({"conf": {"spark.driver.memory": "9g"}}, {"master": "local[2]"}):
    try:
        sqlwin.connect(remote=sys.argv[1] if "conf" in asked else None, **asked)
    except sqlwin.SqlwinError as error:
        print("OUT", error.message.replace(sys.argv[1].removeprefix("sc://"), "ADDRESS"))
again = sqlwin.connect()
print("OUT", again.spark is session.spark)
again.close()
print("OUT", session.sql("SELECT 1").first()[0])
session.close()
"""


@pytest.mark.cluster
@pytest.mark.long
def test_batches_run_over_spark_connect(server: str, tmp_path: Path) -> None:
    script = tmp_path / "script.sql"
    script.write_text(WORKS.format(root=ROOT, out=tmp_path))
    result = client("run", "--remote", server, str(script))
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == [
        "window_end,n",
        "2013-02-07T00:00:00,32155",
        "2013-05-09T00:00:00,84446",
        "window_end,carriers",
        "2013-02-07T00:00:00,16",
        "+I[42]",
        "files,kept",
        "3,5",
        "id,nothing",
        "199999,",
    ]


@pytest.mark.cluster
@pytest.mark.long
def test_unsupported_features_of_spark_connect_are_refused(server: str) -> None:
    result = client(server, program=FAILS)
    streams = "streams are not supported over Spark Connect"
    relative = "{} is a relative path, but Spark Connect requires absolute paths on the server"
    output = [line.removeprefix("OUT ") for line in result.stdout.splitlines()]
    assert output == [
        relative.format("data/x.parquet"),
        "/nowhere/x.parquet does not exist",
        relative.format("out"),
        streams,
        streams,
        "EXPLAIN ANALYZE is not supported over Spark Connect",
        "materialized tables are not supported over Spark Connect",
        "materialized tables are not supported over Spark Connect",
        "[[]]",
        "column `nope` does not exist",
        "division by zero",
        "spark.driver.memory cannot be set over Spark Connect, because the server at ADDRESS is already running",
        "this process already uses Spark Connect, which does not accept a master or settings",
        "True",
        "1",
    ], result.stderr
