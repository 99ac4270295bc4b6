"""Spark's standalone master with two workers, whose Python has only the packages sqlwin requires."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

from runtime.spark.jvm.java import find_java
from tests.end_to_end.stream_files import write_next
from tests.goldens import ROOT
from tests.observing import wait_until

# Packages of workers by their `pip` names, and the files to copy
NEEDED = ("pyarrow", "numpy", "protobuf")
_DIRECTORIES = {
    "pyarrow": ("pyarrow", "pyarrow.libs"),
    "numpy": ("numpy", "numpy.libs"),
    "protobuf": ("google/protobuf", "google/_upb"),
}
CONF = {
    "spark.executor.memory": "900m",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
# Rows of a query as sorted text, in any mode
ROWS = """
def rows(sql, mode="batch"):
    found = session.execute(f"SET 'execution.runtime-mode' = '{mode}'; {sql}")[-1].rows
    return sorted(str(tuple(f"{v:.9g}" if isinstance(v, float) else v for v in r)) for r in found)
"""
FLIGHTS = f"'path' = '{ROOT}/queries/data/flights.parquet', 'format' = 'parquet'"


def bare_python(directory: Path, packages: Sequence[str] = NEEDED) -> Path:
    """Create a virtual environment of this Python version with only some packages.

    They are links into the environment of the tests, so nothing is downloaded.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
    (target,) = directory.glob("lib/python*/site-packages")
    for package in packages:
        for name in _DIRECTORIES[package]:
            spec = importlib.util.find_spec(name.split("/")[0].split(".")[0])
            assert spec is not None and spec.submodule_search_locations
            source = Path(next(iter(spec.submodule_search_locations))).parent / name
            if source.is_dir():
                (target / name).parent.mkdir(exist_ok=True)
                (target / name).symlink_to(source, target_is_directory=True)
    return directory / "bin" / "python"


def _free_port() -> int:
    with socket.socket() as result:
        result.bind(("127.0.0.1", 0))
        return int(result.getsockname()[1])


def _plain_environment() -> dict[str, str]:
    """Return the environment without variables that would let a process find the tests' code."""
    dropped = ("PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    return {name: value for name, value in os.environ.items() if name not in dropped}


@contextmanager
def _daemon(
    command: list[str], log: Path, options: Sequence[str] = (), **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    java = find_java()
    home = Path(pyspark.__path__[0])
    environment = {
        **_plain_environment(),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_SCALA_VERSION": "2.13",
        "JAVA_HOME": str(java.home),
        **variables,
    }
    jvm = [str(java.executable), "-Xmx256m", *options, "-cp", str(home / "jars" / "*")]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*jvm, *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=environment,
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        # executors are in its process group; a terminated worker terminates them
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            pass
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


@dataclass(frozen=True)
class Worker:
    """A worker with one core.

    Attributes:
        host: Host name that resolves to this machine.
        options: Options of its JVM.
        path: First directory in which it looks for programs.
    """

    host: str = "127.0.0.1"
    options: tuple[str, ...] = ()
    path: Path | None = None


# On two addresses of this machine
WORKERS = (Worker(), Worker("127.0.0.2"))


@contextmanager
def standalone(directory: Path, workers: Sequence[Worker] = WORKERS) -> Iterator[str]:
    """Start a master and its workers, and yield the master's URL."""
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    with ExitStack() as stack:
        log = directory / "master.log"
        listen = ["--host", "127.0.0.1", "--webui-port", "0", "--port", str(port)]
        stack.enter_context(_daemon([f"{deploy}.master.Master", *listen], log))
        _wait(lambda: "I have been elected leader" in log.read_text(), log)
        for number, worker in enumerate(workers):
            own = directory / f"worker-{number}.log"
            place = ["-c", "1", "-m", "1200m", "-d", str(directory / f"worker-{number}")]
            listen = ["--host", worker.host, "--webui-port", "0"]
            before = [] if worker.path is None else [str(worker.path)]
            stack.enter_context(
                _daemon(
                    [f"{deploy}.worker.Worker", *listen, *place, url],
                    own,
                    worker.options,
                    PATH=os.pathsep.join([*before, os.environ["PATH"]]),
                )
            )
        _wait(lambda: log.read_text().count("Registering worker") == len(workers), log)
        yield url


def _wait(is_so: Callable[[], bool], log: Path) -> None:
    wait_until(is_so, explain=log.read_text)


# A driver reads Python code, one JSON line each, and answers with the value of `answer`
_DRIVER = """
import json, sys, traceback
sys.path.insert(0, sys.argv[1])
out = sys.stdout
sys.stdout = sys.stderr
import sqlwin
options = json.loads(sys.argv[2])
try:
    session = sqlwin.connect(**options)
except sqlwin.SqlwinError as error:
    print(json.dumps({"error": str(error)}), file=out, flush=True)
    sys.exit()
print(json.dumps({"answer": "ready"}), file=out, flush=True)
names = {"session": session, "spark": session.spark, "sqlwin": sqlwin}
for line in sys.stdin:
    names["answer"] = None
    try:
        exec(json.loads(line), names)
        answer = {"answer": names["answer"]}
    except sqlwin.SqlwinError as error:
        answer = {"error": str(error)}
    except BaseException:
        answer = {"trace": traceback.format_exc()}
    print(json.dumps(answer, default=str), file=out, flush=True)
session.close()
"""


class Driver:
    """A process with a sqlwin session on a cluster."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log

    def next_message(self) -> dict[str, Any]:
        """Return its next message: `answer`, or sqlwin's `error`."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._log.read_text()
        result: dict[str, Any] = json.loads(line)
        assert "trace" not in result, result["trace"]
        return result

    def run(self, code: str) -> Any:
        """Run Python code and return its `answer` as JSON, other values as text."""
        result = self.tell(code)
        assert "error" not in result, result["error"]
        return result["answer"]

    def error(self, code: str) -> str:
        """Run Python code and return the message of the sqlwin error that it raises."""
        return str(self.tell(code)["error"])

    def tell(self, code: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(textwrap.dedent(code)) + "\n")
        self._process.stdin.flush()
        return self.next_message()


@contextmanager
def driver(
    directory: Path, options: dict[str, Any], environment: dict[str, str]
) -> Iterator[Driver]:
    """Start a driver whose JVM does not find the tests' code either.

    Args:
        directory: Working directory, also for logs.
        options: Options of `sqlwin.connect`.
        environment: Additional environment variables.
    """
    log = directory / "driver.log"
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _DRIVER, str(ROOT), json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            cwd=directory,
            env={**_plain_environment(), "SPARK_LOCAL_IP": "127.0.0.1", **environment},
        )
    try:
        yield Driver(process, log)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def stream_files(directory: Path, parts: list[pa.Table]) -> str:
    """Write one file per part. A micro-batch reads one file."""
    for part in parts:
        write_next(directory, part)
    return f"""'connector' = 'filesystem', 'path' = '{directory}', 'format' = 'parquet',
        'max-files-per-trigger' = '1'"""


def readings(*batches: list[tuple[int, int, int]]) -> list[pa.Table]:
    """Return tables of (second, key, value)."""
    return [
        pa.table(
            {
                "k": pa.array([k for _, k, _ in rows], pa.int32()),
                "v": pa.array([v for _, _, v in rows], pa.int64()),
                "ts": pa.array([s * 1_000_000 for s, _, _ in rows], pa.timestamp("us")),
            }
        )
        for rows in batches
    ]
