"""The background engine from outside: commands behave as without it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.goldens import ROOT
from tests.observing import files_below, is_running_task, wait_for_end, wait_until
from tests.sqlwin.cli.test_app import heed_interrupts

pytestmark = [
    pytest.mark.long,
    pytest.mark.spark,
    pytest.mark.skipif(sys.platform != "linux", reason="the engine is for Linux"),
]

SQLWIN = [sys.executable, "-m", "sqlwin"]
# Runs until it is stopped, in one task
ENDLESS = (
    "SELECT COUNT(*) FROM range(0, 900000000000, 1, 1) WHERE SHA2(CAST(id AS STRING), 512) = 'x'"
)
# Only reached when something hangs
SECONDS = 300
OFF = ("CI", "SQLWIN_ENGINE", "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "SQLWIN_LOG_FILE")


class Shell:
    """Commands of one user with a separate engine."""

    def __init__(self, runtime: Path) -> None:
        variables = {k: v for k, v in os.environ.items() if k not in OFF}
        small = "--conf spark.driver.memory=1g --conf spark.sql.shuffle.partitions=2 pyspark-shell"
        self.env = {
            **variables,
            "XDG_RUNTIME_DIR": str(runtime),
            "PYTHONPATH": str(ROOT),
            "PYSPARK_SUBMIT_ARGS": small,
            # In case no process stops it
            "SQLWIN_ENGINE_IDLE": "2 min",
        }

    def popen(self, *arguments: str, cwd: Path = ROOT) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*SQLWIN, *arguments],
            cwd=cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_interrupts,
        )

    def run(self, *arguments: str, cwd: Path = ROOT) -> tuple[int, str, str]:
        process = self.popen(*arguments, cwd=cwd)
        out, error = process.communicate(timeout=SECONDS)
        return process.returncode, out, error

    def sql(self, *statements: str, cwd: Path = ROOT) -> tuple[int, str, str]:
        return self.run(
            "run", *(part for statement in statements for part in ("-e", statement)), cwd=cwd
        )

    def pid(self) -> int | None:
        """Return the engine's process, as `sqlwin engine status` reports it."""
        result = re.match(r"engine (\d+) ", self.run("engine", "status")[1])
        return int(result.group(1)) if result else None

    def runs(self) -> int:
        result = re.search(r"; (\d+) runs", self.run("engine", "status")[1])
        return int(result.group(1)) if result else 0

    def started(self) -> int:
        """Return the engine's process once it is ready, starting it if needed."""
        assert self.run("engine", "start")[0] == 0
        pid = self.pid()
        assert pid is not None
        return pid

    def endless(self) -> subprocess.Popen[str]:
        """Start a command that runs in the engine and does not end."""
        before = self.runs()
        process = self.popen("run", "--no-progress", "-e", "SELECT 1 AS a", "-e", ENDLESS)
        assert process.stdout is not None
        assert process.stdout.readline() == "a\n"
        assert self.runs() == before + 1
        pid = self.pid()
        assert pid is not None
        wait_until(lambda: is_running_task(pid))
        return process


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    result = Shell(tmp_path_factory.mktemp("runtime"))
    yield result
    pid = result.pid()
    result.run("engine", "stop")
    if pid is not None:
        wait_for_end([pid])


def test_commands_share_an_engine_and_nothing_else(shell: Shell, tmp_path: Path) -> None:
    pid = shell.started()
    first = shell.sql(
        "SET 'table.local-time-zone' = 'Asia/Tokyo'",
        "CREATE TABLE t WITH ('connector' = 'filesystem', 'path' = 'queries/data/flights.parquet')",
        "CREATE TEMPORARY VIEW spark_view AS SELECT 1 AS a",
        "CREATE DATABASE other",
        "CREATE TABLE sparks USING parquet AS SELECT 2 AS b",
        "CACHE TABLE sparks",
        "SELECT COUNT(*) AS n, current_timezone() AS zone FROM t",
    )
    assert first[:2] == (0, "n,zone\n336776,Asia/Tokyo\n"), first
    (tmp_path / "here.csv").write_text("1\n2\n")
    for name in ("t", "spark_view", "sparks", "other.x"):
        code, out, error = shell.sql(f"SELECT * FROM {name}", cwd=tmp_path)
        assert (code, out) == (1, ""), (name, error)
        assert "does not exist" in error
    second = shell.sql(
        "SELECT SUM(CAST(_c0 AS INT)) AS s FROM csv.`here.csv`",
        "CREATE TABLE h (x INT) WITH ('connector' = 'filesystem', 'path' = 'here.csv', 'format' = 'csv')",
        "SELECT COUNT(*) AS n FROM h",
        "CREATE TABLE sparks USING parquet AS SELECT 'new' AS b",
        "SELECT * FROM sparks",
        "SHOW DATABASES",
        cwd=tmp_path,
    )  # fmt: skip
    assert second[:2] == (0, "s\n3\n\nn\n2\n\nb\nnew\n\nnamespace\ndefault\n"), second
    assert shell.pid() == pid


def test_between_two_runs_the_engine_is_ready(shell: Shell) -> None:
    shell.started()
    before = shell.runs()
    assert shell.sql("SELECT 1 AS a")[:2] == (0, "a\n1\n")
    # the next run attaches meanwhile
    status = shell.run("engine", "status")[1]
    assert f": ready; {before + 1} runs " in status


def test_a_stopped_engine_leaves_no_temporary_file(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="s") as temporary:
        shell = Shell(tmp_path)
        shell.env["TMPDIR"] = temporary
        # a socket path in it would be too long
        shell.env["XDG_RUNTIME_DIR"] = str(tmp_path / ("long" * 25))
        made = "CREATE TABLE t USING parquet AS SELECT 1 AS a"
        code, out, error = shell.sql(made, "SELECT * FROM t")
        assert (code, out) == (0, "a\n1\n")
        assert [line for line in error.splitlines() if "background" in line] == [
            "note: Spark keeps running in the background for later commands, until it is idle for "
            "2 min (stop it with `sqlwin engine stop`, disable it with SQLWIN_ENGINE=off)"
        ]
        code, out, error = shell.sql(made, "SELECT * FROM t")
        assert (code, out) == (0, "a\n1\n")
        assert "background" not in error
        pid = shell.pid()
        assert pid is not None
        assert shell.run("engine", "stop")[1] == f"engine {pid} is stopping\n"
        wait_for_end([pid])
        # Spark occasionally warns when it ends
        assert [item for item in files_below(Path(temporary)) if item.suffix != ".log"] == []
        assert [path for path in Path(temporary).glob("*/*") if path.is_dir()] == []


def test_exit_codes_pipes_and_stdin_work_as_without_engine(shell: Shell) -> None:
    pid = shell.started()
    assert shell.sql("SELECT 1 / 0 AS x")[0] == 3
    assert shell.sql("SELECT nope")[0] == 1
    assert shell.run("run", "no-such-file.sql")[0] == 2
    program = " ".join(SQLWIN)
    piped = (
        f"echo 'SELECT id FROM range(100000)' | {program} run | head -n 2; echo ${{PIPESTATUS[1]}}"
    )
    completed = subprocess.run(
        ["bash", "-c", piped], env=shell.env, cwd=ROOT, capture_output=True, text=True
    )
    assert (completed.stdout, completed.stderr) == ("id\n0\n141\n", "")
    assert shell.pid() == pid


def test_ctrl_c_ends_the_command_but_not_the_engine(shell: Shell) -> None:
    pid = shell.started()
    process = shell.endless()
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=SECONDS)
    assert (process.returncode, error.splitlines()[-1]) == (130, "interrupted")
    assert shell.sql("SELECT 2 AS b")[:2] == (0, "b\n2\n")
    assert shell.pid() == pid


def test_a_run_in_the_engine_has_its_page_for_as_long_as_it_runs(shell: Shell) -> None:
    shell.started()
    before = shell.runs()
    process = shell.popen("run", "--no-progress", "--ui", "0", "-e", "SELECT 1 AS a", "-e", ENDLESS)
    assert process.stdout is not None and process.stderr is not None
    address = re.search(r"http://127\.0\.0\.1:\S+", process.stderr.readline())
    assert address is not None
    assert process.stdout.readline() == "a\n"
    assert shell.runs() == before + 1
    with urlopen(address.group(), timeout=SECONDS) as page:
        assert b"<html" in page.read()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    with pytest.raises(URLError):
        urlopen(address.group(), timeout=SECONDS)


def test_a_busy_engine_leaves_others_a_spark_of_their_own(shell: Shell) -> None:
    shell.started()
    process = shell.endless()
    runs = shell.runs()
    assert shell.sql("SELECT 3 AS c")[:2] == (0, "c\n3\n")
    assert shell.runs() == runs
    process.kill()
    process.wait()
    # abandoned work is cancelled, and this engine or a new one serves again
    assert shell.sql("SELECT 4 AS d")[:2] == (0, "d\n4\n")


def test_a_run_that_breaks_is_an_error_and_not_run_again(shell: Shell, tmp_path: Path) -> None:
    pid = shell.started()
    process = shell.endless()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (run,) = (child for child in children if "python" in Path(f"/proc/{child}/comm").read_text())
    os.kill(int(run), signal.SIGKILL)
    _, error = process.communicate(timeout=SECONDS)
    assert process.returncode == 3
    assert error.startswith("error: the background engine failed while running this command")
    wait_for_end([pid])


def test_a_run_that_sent_its_code_in_vain_leaves_the_engine_in_order(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    shell = Shell(tmp_path_factory.mktemp("runtime"))
    # the packages are only in the working directory, where Python's workers do not look
    del shell.env["PYTHONPATH"]
    query = (
        "SELECT window_end, COUNT(*) AS n FROM TUMBLE('{}', sched_dep, 366d) GROUP BY window_end"
    )
    on_spark = "SET 'sqlwin.in-process.max-bytes' = '0'; "
    windows = on_spark + query.format("queries/data/flights.parquet")
    try:
        code, out, _ = shell.sql("SELECT nothing FROM range(1)")
        assert (code, out) == (1, "")
        for _ in range(2):
            code, out, error = shell.sql(windows)
            assert (code, len(out.splitlines())) == (0, 3), error
        assert shell.runs() == 3
    finally:
        shell.run("engine", "stop")


def test_the_engine_ends_with_its_socket(shell: Shell) -> None:
    pid = shell.started()
    (socket,) = Path(shell.env["XDG_RUNTIME_DIR"]).glob("sqlwin/*.sock")
    socket.unlink()
    wait_for_end([pid])
    assert shell.run("engine", "status")[1] == "no engine is running\n"
