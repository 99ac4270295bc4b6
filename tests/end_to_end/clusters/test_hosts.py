"""Workers that differ: hosts of other names, and Pythons that lack something."""

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

# Waits for both, and gives a statement a mode
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
    """Pythons with all that workers need, and without each of it, by what they lack."""
    directory = tmp_path_factory.mktemp("pythons")
    found = {"": bare_python(directory / "whole")}
    for lacking in NEEDED:
        packages = [name for name in NEEDED if name != lacking]
        found[lacking] = bare_python(directory / f"no-{lacking}", packages)
    return found


@pytest.fixture(scope="module")
def hosts(pythons: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver on two hosts that this machine's own resolver does not know, unlike Spark's JVMs.

    `python3` of one of them has no numpy.
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
        driver(directory, {"master": url, "conf": conf}, path) as found,
    ):
        assert found.said() == {"answer": "ready"}
        parts = readings([(s, s % 3, s) for s in range(0, 600, 3)], [(9000, 0, 0)])
        options = stream_files(directory / "in", parts)
        found.run(ROWS)
        found.run(f"""session.execute('''
            CREATE TABLE readings (k INT, v BIGINT, ts TIMESTAMP(6), WATERMARK FOR ts AS ts)
              WITH ({options});
            CREATE TABLE totals (k INT, window_end TIMESTAMP(3), n BIGINT) WITH (
              'connector' = 'filesystem', 'path' = '{directory}/out', 'format' = 'parquet');
            CREATE TABLE seen (k INT, window_end TIMESTAMP(3), n BIGINT)
              WITH ('connector' = 'memory')''')""")
        found.run(BOTH_EXECUTORS)
        yield found


def test_a_python_that_lacks_something_on_one_of_two_hosts_is_named(
    hosts: Driver, pythons: dict[str, Path]
) -> None:
    said = hosts.error(f"in_mode('streaming', '''INSERT INTO seen {COUNT}''')").splitlines()
    where = pythons["numpy"].parent
    assert said[0].startswith(f"Spark's workers run {where}/python")
    assert said[0].endswith(", which lacks numpy")
    assert said[-1].strip() == WORKERS_HINT


@pytest.mark.parametrize("lacking", among(NEEDED, slow=NEEDED))
def test_what_the_python_of_all_workers_lacks_is_said(
    lacking: str, hosts: Driver, pythons: dict[str, Path]
) -> None:
    hosts.run(f"spark.sparkContext.pythonExec = '{pythons[lacking]}'")
    said = hosts.error(f"in_mode('streaming', '''INSERT INTO seen {COUNT}''')").splitlines()
    assert said[0] == f"Spark's workers run {pythons[lacking]}, which lacks {lacking}"
    assert said[-1].strip() == WORKERS_HINT
    batch = f"answer = rows('''{COUNT}''')"
    if lacking == "protobuf":
        # which streams alone need
        assert len(hosts.run(batch)) == 11
        return
    said = hosts.error(batch).splitlines()
    assert said[0] == f"the Python of Spark's workers has no module {lacking}"
    assert said[-1].strip() == WORKERS_HINT


def test_paths_of_one_host_are_refused_and_paths_of_all_are_taken(
    hosts: Driver, pythons: dict[str, Path], tmp_path: Path
) -> None:
    hosts.run(f"spark.sparkContext.pythonExec = '{pythons['']}'")
    elsewhere = (
        "it is a local path, and tasks run on 2 other hosts (node-a.invalid, node-b.invalid)"
    )
    insert = f"INSERT INTO totals {COUNT}"
    said = hosts.error(f"in_mode('batch', '''{insert}''')")
    assert said.startswith("the files of table `totals` cannot be in /")
    assert elsewhere in said
    assert "'sqlwin.shared-local-paths' = 'true'" in said
    # a stream that would keep nothing but its checkpoint there, and that for as long as it runs
    said = hosts.error(f"in_mode('streaming', '''INSERT INTO seen {COUNT}''')")
    assert said.startswith("the checkpoint of a stream cannot be in /")
    assert elsewhere in said
    chosen = f"SET 'execution.checkpointing.dir' = '{tmp_path}/ck'; "
    said = hosts.error(f'''in_mode("streaming", """{chosen}{insert}""")''')
    assert "cannot be in /" in said
    assert elsewhere in said
    assert not list(tmp_path.iterdir())
    found = hosts.run(f"""
session.execute("SET 'sqlwin.shared-local-paths' = 'true'")
in_mode("streaming", '''{insert}''')
answer = [rows("SELECT * FROM totals"), rows('''{COUNT}''')]
""")
    assert len(found[1]) == 11
    assert found[0] == found[1]
