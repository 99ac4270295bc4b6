"""SIGINT and SIGTERM in each phase of a run: one line, no partial output, no leftover process."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.util import InheritableThread

import sqlwin
from runtime.spark.jobs import begin_group
from sqlwin.cli.run import cancel_jobs
from tests.goldens import ROOT
from tests.observing import (
    catches_signal,
    descendants,
    files_below,
    wait_for_end,
    wait_until,
)
from tests.sqlwin.cli.test_app import heed_interrupts
from tests.sqlwin.repl.terminal import PROMPT, Terminal

pytestmark = [pytest.mark.spark, pytest.mark.long]

LAST_LINES = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}
CONF = [
    "--conf", "spark.driver.memory=1g",
    "--conf", "spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
]  # fmt: skip
START = ["-m", "sqlwin", "run", "--master", "local[2]", "--no-progress", *CONF]
# Only reached when something hangs
SECONDS = 300
COUNT = """SELECT k, window_end, COUNT(*) AS n
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY k, window_start, window_end"""


def lines_of(path: Path) -> list[str]:
    """Return the lines in the files that other programs see below a path."""
    files = (f for f in files_below(path, "*.json") if not _is_hidden(f.relative_to(path)))
    return sorted(line for file in files for line in file.read_text().splitlines())


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def events(path: Path, *seconds: int) -> None:
    """Write a file of rows, by their second."""
    path.parent.mkdir(exist_ok=True)
    rows = [
        {"k": "ab"[s % 2], "ts": f"2024-02-28 10:{s // 60:02}:{s % 60:02}", "v": s} for s in seconds
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def slow_events(path: Path, n_times: int) -> None:
    """Write a gzip file of many members, which one task reads for long because it cannot be split."""
    row = '{"k": "a", "ts": "2024-02-28 10:00:30", "v": 1}\n'
    member = gzip.compress((row * 50_000).encode(), 1)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(member * n_times)


def table(name: str, path: Path, columns: str = "", options: str = "") -> str:
    declared = f"({columns})" if columns else ""
    return f"""CREATE TABLE {name} {declared} WITH ('connector' = 'filesystem',
        'path' = '{path}', 'format' = 'json'{options});"""


EVENTS = "k STRING, ts TIMESTAMP(3), v INT, WATERMARK FOR ts AS ts"


class Program:
    """A run of `sqlwin run` to be stopped."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def wait_until(self, is_so: Callable[[], object], every_s: float = 0.02) -> None:
        def holds() -> object:
            value = is_so()
            assert value or self.process.poll() is None, self.process.communicate()
            return value

        wait_until(holds, every_s=every_s)

    def says(self, line: str) -> None:
        assert self.process.stdout is not None
        while (result := self.process.stdout.readline()) != line + "\n":
            assert result, self.process.communicate()

    def opens(self, path: Path) -> None:
        """Wait until one of its processes has a file open."""
        self.wait_until(lambda: any(has_open(path, pid) for pid in self.processes()))

    def processes(self) -> list[int]:
        return [self.process.pid, *descendants(self.process.pid)]

    def stop(self, number: signal.Signals, times: int = 1) -> list[str]:
        """Send a signal and return the lines on stderr once all processes have ended."""
        below = descendants(self.process.pid)
        assert below
        self.process.send_signal(number)
        for _ in range(times - 1):
            # the first signal is handled when the next one has its default effect
            self.wait_until(lambda: not catches_signal(self.process.pid, number))
            self.process.send_signal(number)
        _, errors = self.process.communicate(timeout=SECONDS)
        # a second signal kills the process; a shell reports the same exit code
        assert self.process.returncode == (128 + number if times == 1 else -number), errors
        assert "Traceback" not in errors and "Exception" not in errors, errors
        lines = errors.splitlines()
        assert times > 1 or lines[-1] == LAST_LINES[number], errors
        wait_for_end(below)
        return lines


def has_open(path: Path, pid: int) -> bool:
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        # other processes close files and end
        with suppress(OSError):
            if link.readlink() == path:
                return True
    return False


@contextmanager
def running(*statements: str) -> Iterator[Program]:
    """Start a process that executes statements."""
    process = subprocess.Popen(
        [sys.executable, *START, *(part for item in statements for part in ("-e", item))],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heed_interrupts,
    )
    try:
        yield Program(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def is_written(directory: Path) -> bool:
    """Return whether a task has begun to write rows below a directory."""
    return any("_temporary" in file.parts for file in files_below(directory, "part-*"))


@pytest.mark.slow
def test_while_a_statement_is_planned(tmp_path: Path) -> None:
    slow_events(tmp_path / "in/0.json.gz", 200)
    # its columns come from the file, which is read for them
    statements = [table("events", tmp_path / "in"), "SELECT 'ready' AS r", "SELECT v FROM events"]
    with running(*statements) as program:
        program.says("ready")
        program.opens(tmp_path / "in/0.json.gz")
        assert program.stop(signal.SIGINT) == ["OK", "interrupted"]


def test_while_a_batch_reads(tmp_path: Path) -> None:
    slow_events(tmp_path / "in/0.json.gz", 200)
    with running(table("events", tmp_path / "in", EVENTS), "SELECT 'ready' AS r", COUNT) as program:
        program.says("ready")
        program.opens(tmp_path / "in/0.json.gz")
        program.stop(signal.SIGTERM)


@pytest.mark.slow
def test_while_the_global_stage_of_a_batch_writes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    # few rows, in more windows than can be written in minutes
    hop = """INSERT INTO o SELECT id, window_end, COUNT(*) FROM TABLE(HOP(
        (SELECT id, TIMESTAMP_NTZ'2024-02-28 00:00:00' + MAKE_DT_INTERVAL(0, CAST(id AS INT)) AS ts
         FROM range(20000)), DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '1' HOUR))
        GROUP BY id, window_start, window_end"""
    with running(table("o", out, "id BIGINT, e TIMESTAMP(3), n BIGINT"), hop) as program:
        program.wait_until(lambda: is_written(out))
        program.stop(signal.SIGINT)
    assert not out.exists() or [path.name for path in out.iterdir()] == []


@pytest.mark.slow
def test_while_a_batch_publishes_its_files(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(
        table("o", out, "id BIGINT"),
        "INSERT INTO o SELECT id FROM range(0, 400, 1, 400)",
        "INSERT INTO o SELECT SUM(a.id * b.id) FROM range(1000000000) a, range(1000000000) b",
    ) as program:
        program.wait_until(lambda: any(out.glob("part-*")), 0.0005)
        program.stop(signal.SIGINT)
    # all of the first INSERT or nothing, and nothing of the second
    assert len(lines_of(out)) in (0, 400)
    assert not list(out.glob("_temporary")) and not list(out.rglob(".sqlwin*"))


def test_while_inserts_of_a_batch_run_side_by_side(tmp_path: Path) -> None:
    names = ("one", "two")
    slow = "SELECT SHA2(CAST(id AS STRING), 512) AS h FROM range(0, 4000000000, 1, 2)"
    inserts = "".join(
        f"INSERT INTO {name} {slow} WHERE id % {i + 2} = 0;" for i, name in enumerate(names)
    )
    with running(
        *(table(name, tmp_path / name, "h STRING") for name in names),
        f"EXECUTE STATEMENT SET BEGIN {inserts} END",
    ) as program:
        program.wait_until(lambda: any(is_written(tmp_path / name) for name in names))
        program.stop(signal.SIGINT)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def stream_statements(directory: Path, options: str = "", n_sinks: int = 1) -> list[str]:
    """Return the statements that prepare a stream, and last the one that starts it."""
    names = [f"counts{number}" for number in range(n_sinks)]
    made = [table(name, directory / name, "k STRING, e TIMESTAMP(3), n BIGINT") for name in names]
    inserts = "".join(f"INSERT INTO {name} {COUNT};" for name in names)
    return [
        "SET 'execution.runtime-mode' = 'streaming'",
        f"SET 'execution.checkpointing.dir' = '{directory}/checkpoint'",
        table("events", directory / "in", EVENTS, options),
        *made,
        inserts if n_sinks == 1 else f"EXECUTE STATEMENT SET BEGIN {inserts} END",
    ]


def check_next_run(session: sqlwin.Session, directory: Path, n_sinks: int = 1) -> None:
    """Run the same stream to its end and check that each sink has the batch's rows once."""
    for statement in stream_statements(directory, n_sinks=n_sinks):
        session.execute(statement)
    expected = sorted(
        (key, str(end), n)
        for key, end, n in session.execute(f"SET 'execution.runtime-mode' = 'batch'; {COUNT}")[
            -1
        ].rows
    )
    assert len(expected) >= 2
    for number in range(n_sinks):
        result = [json.loads(line) for line in lines_of(directory / f"counts{number}")]
        rows = sorted((r["k"], r["e"].replace("T", " ").partition(".")[0], r["n"]) for r in result)
        assert rows == expected


@pytest.mark.slow
def test_between_the_micro_batches_of_a_stream(
    fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    events(tmp_path / "in/0.json", *range(0, 150, 3))
    monitored = ", 'source.monitor-interval' = '100 ms'"

    def n_batches(log: str) -> int:
        return sum(
            f.name.isdecimal() for f in files_below(tmp_path / "checkpoint") if log in f.parts
        )

    with running(*stream_statements(tmp_path, monitored)) as program:
        # the closed windows of two minutes
        program.wait_until(lambda: len(lines_of(tmp_path / "counts0")) == 4)
        program.wait_until(lambda: n_batches("offsets") == n_batches("commits"))
        lines = program.stop(signal.SIGTERM)
    assert any("stopped" in line for line in lines)
    events(tmp_path / "in/1.json", *range(150, 300, 3))
    check_next_run(fresh_session, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "times"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_in_a_micro_batch_of_a_statement_set(
    number: signal.Signals, times: int, fresh_session: sqlwin.Session, tmp_path: Path
) -> None:
    slow_events(tmp_path / "in/0.json.gz", 12)
    events(tmp_path / "in/1.json", *range(60, 200, 3))
    with running(*stream_statements(tmp_path, n_sinks=2)) as program:
        program.wait_until(lambda: any(tmp_path.glob("checkpoint/*/spark/offsets/0")))
        program.opens(tmp_path / "in/0.json.gz")
        lines = program.stop(number, times)
    if times == 1:
        assert any("stopped" in line for line in lines)
    else:
        assert not lines_of(tmp_path / "counts0") and not lines_of(tmp_path / "counts1")
    check_next_run(fresh_session, tmp_path, n_sinks=2)


@pytest.mark.slow
def test_a_prompt_is_terminated_while_a_statement_runs(tmp_path: Path) -> None:
    prompt = Terminal(
        ROOT, "--master", "local[2]", *CONF, program=("-m", "sqlwin"),
        SQLWIN_HISTORY=str(tmp_path / "history"),
    )  # fmt: skip
    prompt.see(PROMPT)
    prompt.type("SELECT SUM(a.id % 7 * b.id) FROM range(1000000000) a, range(1000000000) b;\r")
    prompt.shows("0/")
    below = descendants(prompt.child.pid)
    prompt.child.kill(signal.SIGTERM)
    assert prompt.ended() == 143, prompt.screen.text()
    assert "Traceback" not in prompt.screen.text()
    wait_for_end(below)


def test_cancelling_jobs_also_cancels_queries_being_planned(
    fresh_session: sqlwin.Session,
) -> None:
    spark = fresh_session.spark
    endless = spark.sql(
        "SELECT COUNT(*) FROM range(0, 900000000000, 1, 1) WHERE SHA2(CAST(id AS STRING), 512) = 'x'"
    )
    begun, cancelled = Event(), Event()
    raised = []

    def run() -> None:
        begin_group(spark, "a command")
        begun.set()
        cancelled.wait()
        try:
            endless.toArrow()
        except (PySparkException, Py4JError) as error:
            raised.append(str(error))

    thread = InheritableThread(target=run, session=spark)
    thread.start()
    begun.wait()
    cancel_jobs(fresh_session, "a command", lambda: not thread.is_alive())
    cancelled.set()
    thread.join(60)
    try:
        assert "cancelled" in "".join(raised)
    finally:
        spark.sparkContext.cancelAllJobs()
