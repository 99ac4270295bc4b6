"""Spark Connect: the features that work, and the errors for those that do not."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from tests.goldens import ROOT
from tests.observing import wait_until

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
    "PYTHONPATH": str(ROOT),
}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client(
    *arguments: str, program: str | None = None, packages: Path | None = None
) -> subprocess.CompletedProcess[str]:
    first = [] if packages is None else [str(packages)]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([*first, str(ROOT)])}
    command = ["-c", program] if program is not None else ["-m", "sqlwin"]
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


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
    """Start a server whose directory has none of the test's files. Return its address."""
    directory, port = tmp_path_factory.mktemp("server"), free_port()
    settings = {
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        "spark.sql.warehouse.dir": str(directory),
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    environment = {k: v for k, v in ENVIRONMENT.items() if k != "PYTHONPATH"}
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [submit, "--master", "local[2]", "--class", SERVER, *conf, "spark-internal"],
            cwd=directory,
            env={**environment, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:

        def is_listening() -> bool:
            assert process.poll() is None, (directory / "log").read_text()
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", port)) == 0

        wait_until(is_listening, every_s=0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)


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
    "EXPLAIN ANALYZE SELECT 1", "SELECT nope FROM range(3)", "SELECT 1 / (id - id) FROM range(3)",
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
        "column `nope` does not exist",
        "division by zero",
        "spark.driver.memory cannot be set over Spark Connect, because the server at ADDRESS is already running",
        "this process already uses Spark Connect, which does not accept a master or settings",
        "True",
        "1",
    ], result.stderr
