"""A Spark Connect server, and programs that use it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tests.goldens import ROOT
from tests.observing import wait_until

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
ENVIRONMENT = {
    **{k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))},
    "PYTHONPATH": str(ROOT),
}

# Start of a client's program: what needs the driver, its files or Python workers fails
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def client(
    *arguments: str,
    program: str | None = None,
    packages: Path | None = None,
    limit_s: float = 180,
) -> subprocess.CompletedProcess[str]:
    first = [] if packages is None else [str(packages)]
    environment = {**ENVIRONMENT, "PYTHONPATH": os.pathsep.join([*first, str(ROOT)])}
    command = ["-c", program] if program is not None else ["-m", "sqlwin"]
    return subprocess.run(
        [sys.executable, *command, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=limit_s, check=False,
    )  # fmt: skip


@contextmanager
def connect_server(directory: Path, python: str = sys.executable) -> Iterator[str]:
    """Run a server in a directory that has none of the test's files. Yield its address.

    Args:
        directory: Its working directory and warehouse.
        python: Python of its workers.
    """
    port = free_port()
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
            env={**environment, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"},
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
