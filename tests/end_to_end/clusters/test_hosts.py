"""Workers that differ: hosts with other names, and Pythons that lack a package."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.spark.errors import WORKERS_HINT
from tests.end_to_end.clusters.standalone import (
    CONF,
    NEEDED,
    ROWS,
    Driver,
    Worker,
    bare_python,
    driver,
    readings,
    standalone,
    stream_files,
)
from tests.marks import among

pytestmark = [pytest.mark.cluster, pytest.mark.long]

COUNT = """SELECT k, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY k, window_start, window_end"""

# Waits for both hosts, and runs a statement in a mode
BOTH_EXECUTORS = """
    session.execute("SET 'parallelism.default' = '2'")
    import time
    until = time.monotonic() + 180
    while len(spark._jsc.sc().statusTracker().getExecutorInfos()) < 3:
        assert time.monotonic() < until
        time.sleep(0.1)
    def in_mode(mode, statement):
        session.execute(f"SET 'execution.runtime-mode' = '{mode}'; " + statement)
"""


@pytest.fixture(scope="module")
def pythons(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Create Pythons by missing package, and one with everything that workers need."""
    directory = tmp_path_factory.mktemp("pythons")
    result = {"": bare_python(directory / "whole")}
    for lacking in NEEDED:
        packages = [name for name in NEEDED if name != lacking]
        result[lacking] = bare_python(directory / f"no-{lacking}", packages)
    return result


@pytest.fixture(scope="module")
def hosts(pythons: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Start a driver on two hosts that Spark's JVMs can resolve but this machine's resolver cannot.

    On one of them, `python3` has no numpy.
    """
    directory = tmp_path_factory.mktemp("hosts")
    names = directory / "hosts"
    names.write_text(
        "127.0.0.1 localhost\n127.0.0.1 node-a.invalid\n127.0.0.2 node-b.invalid\n"
        f"127.0.0.1 {socket.gethostname()}\n"
    )
    resolver = f"-Djdk.net.hosts.file={names}"
    conf = dict(CONF)
    for role in ("driver", "executor"):
        conf[f"spark.{role}.extraJavaOptions"] += f" {resolver}"
    workers = (
        Worker("node-a.invalid", (resolver,), pythons[""].parent),
        Worker("node-b.invalid", (resolver,), pythons["numpy"].parent),
    )
    path = {"PATH": f"{pythons[''].parent}{os.pathsep}{os.environ['PATH']}"}
    with (
        standalone(directory, workers) as url,
        driver(directory, {"master": url, "conf": conf}, path) as result,
    ):
        assert result.next_message() == {"answer": "ready"}
        parts = readings([(s, s % 3, s) for s in range(0, 600, 3)], [(9000, 0, 0)])
        options = stream_files(directory / "in", parts)
        result.run(ROWS)
        result.run(f"""session.execute('''
            CREATE TABLE readings (k INT, v BIGINT, ts TIMESTAMP(6), WATERMARK FOR ts AS ts)
              WITH ({options});
            CREATE TABLE totals (k INT, window_end TIMESTAMP(3), n BIGINT) WITH (
              'connector' = 'filesystem', 'path' = '{directory}/out', 'format' = 'parquet');
            CREATE TABLE seen (k INT, window_end TIMESTAMP(3), n BIGINT)
              WITH ('connector' = 'memory')''')""")
        result.run(BOTH_EXECUTORS)
        yield result


def test_a_host_whose_python_lacks_a_package_is_named(
    hosts: Driver, pythons: dict[str, Path]
) -> None:
    message = hosts.error(f"in_mode('streaming', '''INSERT INTO seen {COUNT}''')").splitlines()
    where = pythons["numpy"].parent
    assert message[0].startswith(f"Spark's workers run {where}/python")
    assert message[0].endswith(", which lacks numpy")
    assert message[-1].strip() == WORKERS_HINT


@pytest.mark.parametrize("lacking", among(NEEDED, slow=NEEDED))
def test_packages_missing_on_all_workers_are_reported(
    lacking: str, hosts: Driver, pythons: dict[str, Path]
) -> None:
    hosts.run(f"spark.sparkContext.pythonExec = '{pythons[lacking]}'")
    message = hosts.error(f"in_mode('streaming', '''INSERT INTO seen {COUNT}''')").splitlines()
    assert message[0] == f"Spark's workers run {pythons[lacking]}, which lacks {lacking}"
    assert message[-1].strip() == WORKERS_HINT
    batch = f"answer = rows('''{COUNT}''')"
    if lacking == "protobuf":
        # only streams need it
        assert len(hosts.run(batch)) == 11
        return
    message = hosts.error(batch).splitlines()
    assert message[0] == f"the Python of Spark's workers has no module {lacking}"
    assert message[-1].strip() == WORKERS_HINT


def test_local_paths_are_refused_and_shared_paths_accepted(
    hosts: Driver, pythons: dict[str, Path], tmp_path: Path
) -> None:
    hosts.run(f"spark.sparkContext.pythonExec = '{pythons['']}'")
    elsewhere = (
        "it is a local path, and tasks run on 2 other hosts (node-a.invalid, node-b.invalid)"
    )
    insert = f"INSERT INTO totals {COUNT}"
    message = hosts.error(f"in_mode('batch', '''{insert}''')")
    assert message.startswith("the files of table `totals` cannot be in /")
    assert elsewhere in message
    assert "'sqlwin.shared-local-paths' = 'true'" in message
    # a stream that would store its checkpoint there, temporarily
    message = hosts.error(f"in_mode('streaming', '''INSERT INTO seen {COUNT}''')")
    assert message.startswith("the checkpoint of a stream cannot be in /")
    assert elsewhere in message
    chosen = f"SET 'execution.checkpointing.dir' = '{tmp_path}/ck'; "
    message = hosts.error(f'''in_mode("streaming", """{chosen}{insert}""")''')
    assert "cannot be in /" in message
    assert elsewhere in message
    assert not list(tmp_path.iterdir())
    result = hosts.run(f"""
session.execute("SET 'sqlwin.shared-local-paths' = 'true'")
in_mode("streaming", '''{insert}''')
answer = [rows("SELECT * FROM totals"), rows('''{COUNT}''')]
""")
    assert len(result[1]) == 11
    assert result[0] == result[1]
