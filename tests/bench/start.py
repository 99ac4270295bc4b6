"""Measure the time to the first answer: `python -m tests.bench.start [--runs N] [--no-spark]`.

Each figure is the duration of a whole process, from a shell; for the prompt, the time until it
takes statements, and until the first answer is on the screen. Modules are compiled beforehand, as
pip compiles them when it installs a package.

The first table has commands that need no Java, next to DuckDB with the same windows over the same
file in its own SQL: DuckDB's shell if it is installed, otherwise `python -c "import duckdb; ..."`.
The second has a query that Spark runs, cold and with a background engine, next to `spark-sql`, and
the third shows how the seconds of a cold start are spent.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pexpect
from rich.console import Console
from rich.table import Table

import sqlwin
from tests.goldens import ROOT

QUICKSTART = "queries/quickstart.sql"
FLIGHTS = "queries/data/flights.parquet"
_SECONDS = 180
_SQLWIN = [sys.executable, "-m", "sqlwin"]
# Lets Spark run a query that this process could answer
_ON_SPARK = ("--set", "sqlwin.in-process.max-bytes=0")
# The windows of queries/quickstart.sql for engines without HOP: each row copied into 24 windows
_COPIED = """
    SELECT origin, s + INTERVAL 15 MINUTES * w - INTERVAL 6 HOURS AS window_start,
           s + INTERVAL 15 MINUTES * w AS window_end, COUNT(*) AS departures,
           ROUND(AVG(dep_delay), 1) AS mean_delay
    FROM (SELECT origin, dep_delay, time_bucket(INTERVAL 15 MINUTES, sched_dep) AS s FROM '{file}'),
         range(1, 25) AS windows(w)
    GROUP BY ALL HAVING COUNT(*) >= 50 ORDER BY mean_delay DESC, origin, window_end LIMIT 10
"""
_SPARK = """
    SELECT origin, window.start AS window_start, window.end AS window_end, COUNT(*) AS departures,
           ROUND(AVG(dep_delay), 1) AS mean_delay
    FROM parquet.`{file}` GROUP BY origin, window(sched_dep, '6 hours', '15 minutes')
    HAVING COUNT(*) >= 50 ORDER BY mean_delay DESC, origin, window_end LIMIT 10
"""


@dataclass(frozen=True)
class First:
    """A command whose first answer needs no Java.

    Attributes:
        name: Command as a user types it.
        aim_s: Longest time that it should take, in seconds. None: no aim.
        seconds: Function that runs it once in an environment and returns its duration.
        duckdb: The same question in DuckDB's SQL. None: no statement of its own.
    """

    name: str
    aim_s: float | None
    seconds: Callable[[Mapping[str, str]], float]
    duckdb: str | None = None


def environment(runtime: Path, **more: str) -> dict[str, str]:
    """Return the environment of commands: a separate engine in `runtime`, with nothing disabled.

    Compiled modules are in `runtime` too.
    """
    off = ("CI", "SQLWIN_ENGINE", "PYTHONDONTWRITEBYTECODE")
    inherited = {k: v for k, v in os.environ.items() if k not in off}
    own = {"XDG_RUNTIME_DIR": str(runtime), "PYTHONPYCACHEPREFIX": str(runtime / "compiled")}
    return {**inherited, **own, "PYTHONPATH": str(ROOT), **more}


def seconds_of(command: Sequence[str], env: Mapping[str, str], cwd: Path = ROOT) -> float:
    """Return the duration of a command, which must succeed."""
    started = time.perf_counter()
    process = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    elapsed = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr[-2000:]}")
    return elapsed


def prompt_seconds(env: Mapping[str, str], *, answers: bool) -> float:
    """Return the time until the prompt takes statements, or until a typed one is answered."""
    started = time.perf_counter()
    child = pexpect.spawn(
        _SQLWIN[0],
        [*_SQLWIN[1:], "repl"],
        cwd=str(ROOT),
        # this terminal does not answer the question where its cursor is
        env={**env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
        dimensions=(40, 120),
        encoding="utf-8",
        timeout=_SECONDS,
    )
    child.delaybeforesend = None
    try:
        child.expect("sqlwin>")
        if answers:
            child.send("SELECT 6 * 7 AS a;\r")
            child.expect("42")
        return time.perf_counter() - started
    finally:
        child.close(force=True)


@contextmanager
def warm(runtime: Path) -> Iterator[dict[str, str]]:
    """Provide an environment whose engine has run the query once."""
    env = environment(runtime)
    try:
        # a command that may need no Spark uses an engine, and starts none
        seconds_of([*_SQLWIN, "engine", "start"], env)
        seconds_of([*_SQLWIN, "run", *_ON_SPARK, QUICKSTART], env)
        yield env
    finally:
        subprocess.run([*_SQLWIN, "engine", "stop"], env=env, cwd=ROOT, capture_output=True)


def pieces(env: Mapping[str, str]) -> list[tuple[str, float]]:
    """Return the phases of a cold run of the query: names and seconds."""
    command = [sys.executable, "-m", "tests.bench.start", "--in-pieces"]
    started = time.time()
    process = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    ended = time.time()
    result = [(name, at) for name, at in json.loads(process.stderr.splitlines()[-1])]
    result.append(("Python ends", ended))
    begun = [started, *(at for _, at in result)]
    return [(name, at - before) for (name, at), before in zip(result, begun, strict=False)]


def run_in_pieces() -> None:
    """Run the query in this process, and print the end of each phase as JSON to standard error."""
    from sqlwin.cli.app import main as command

    ends: list[tuple[str, float]] = []

    def ending(name: str) -> None:
        ends.append((name, time.time()))

    def connect(*args: Any, **options: Any) -> Any:
        from runtime.spark.jvm.process import StartingJvm
        from sqlwin.result import RowsResult

        ending("Python's modules, while Java starts")
        StartingJvm.answer = _run_then(StartingJvm.answer, lambda: ending("Java"))
        RowsResult.batches = _run_after(
            RowsResult.batches, lambda: ending("parsing, planning, analysis")
        )
        session = opened(*args, **options)
        ending("Spark's context and session")
        return session

    opened, sqlwin.connect = sqlwin.connect, connect
    try:
        command(["run", *_ON_SPARK, QUICKSTART], standalone_mode=False)
    finally:
        ending("the job")
        print(json.dumps(ends), file=sys.stderr)


def _run_then(function: Callable[..., Any], then: Callable[[], None]) -> Callable[..., Any]:
    def both(*args: Any) -> Any:
        result = function(*args)
        then()
        return result

    return both


def _run_after(function: Callable[..., Any], first: Callable[[], None]) -> Callable[..., Any]:
    def both(*args: Any) -> Any:
        first()
        return function(*args)

    return both


def first_answers() -> list[First]:
    """Return the commands of the first table."""

    def command(*arguments: str) -> Callable[[Mapping[str, str]], float]:
        return lambda env: seconds_of([*_SQLWIN, *arguments], env)

    windows = _COPIED.format(file=FLIGHTS)
    return [
        First('sqlwin run -e "SELECT 1"', 0.4, command("run", "-e", "SELECT 1 AS a"), "SELECT 1"),
        First("sqlwin run quickstart.sql", 0.8, command("run", QUICKSTART), windows),
        First(
            "sqlwin explain quickstart.sql",
            0.6,
            command("explain", QUICKSTART),
            f"EXPLAIN {windows}",
        ),
        First("sqlwin repl, ready", 0.5, partial(prompt_seconds, answers=False)),
        First("sqlwin repl, SELECT 1", None, partial(prompt_seconds, answers=True)),
    ]


def duckdb_command(sql: str) -> tuple[str, ...]:
    """Return the command by which DuckDB's shell, or else Python, runs a query."""
    shell = shutil.which("duckdb")
    if shell is not None:
        return shell, "-c", sql
    return sys.executable, "-c", f"import duckdb; print(duckdb.sql({sql!r}))"


def print_first_answers(console: Console, runtime: Path, runs: int) -> None:
    """Print the commands that need no Java. They find none here."""
    env = environment(runtime, SQLWIN_ENGINE="off", JAVA_HOME="/nowhere", PATH="/nowhere")
    peer = "DuckDB's shell" if shutil.which("duckdb") else "DuckDB from Python"
    table = Table("first answer", "aim, s", "sqlwin, s", "worst, s", f"{peer}, s")
    for first in first_answers():
        first.seconds(env)  # compiles modules
        figures, others = [], []
        for _ in range(runs):  # in turn, because a machine's speed drifts
            figures.append(first.seconds(env))
            if first.duckdb is not None:
                others.append(seconds_of(duckdb_command(first.duckdb), env))
        table.add_row(
            first.name,
            "" if first.aim_s is None else f"{first.aim_s:.1f}",
            f"{min(figures):.2f}",
            f"{max(figures):.2f}",
            f"{min(others):.2f}" if others else "",
        )
    console.print(table)
    if shutil.which("duckdb") is None:
        console.print("DuckDB's shell is not installed, so DuckDB ran in Python.")


def print_spark_starts(console: Console, runtime: Path, runs: int) -> None:
    """Print a query that Spark runs, cold and warm, and the phases of a cold start."""
    table = Table("with Spark", "s, best", "s, worst")

    def row(name: str, time_it: Callable[[], float]) -> None:
        figures = [time_it() for _ in range(runs)]
        console.print(f"{name}: {', '.join(f'{figure:.2f}' for figure in figures)}")
        table.add_row(name, f"{min(figures):.2f}", f"{max(figures):.2f}")

    cold = environment(runtime, SQLWIN_ENGINE="off")
    run = [*_SQLWIN, "run", *_ON_SPARK, QUICKSTART]
    row("sqlwin run quickstart.sql, cold", lambda: seconds_of(run, cold))
    with warm(runtime) as env:
        row("sqlwin run quickstart.sql, engine", lambda: seconds_of(run, env))
    home, spark_sql = _spark_sql(runtime)
    spark_env = {**cold, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    row("spark-sql", lambda: seconds_of(spark_sql, spark_env, runtime))
    result = sorted((pieces(cold) for _ in range(runs)), key=lambda run: sum(s for _, s in run))
    console.print(table)
    spent = Table("where a cold run's seconds go", "s, in the best run")
    for name, seconds in result[0]:
        spent.add_row(name, f"{seconds:.2f}")
    console.print(spent)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="how often each is timed")
    parser.add_argument("--no-spark", action="store_true", help="print the first table only")
    parser.add_argument("--in-pieces", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.in_pieces:
        run_in_pieces()
        return
    console = Console()
    with tempfile.TemporaryDirectory(prefix="sqlwin-bench-") as directory:
        print_first_answers(console, Path(directory), asked.runs)
        if not asked.no_spark:
            print_spark_starts(console, Path(directory), asked.runs)


def _spark_sql(directory: Path) -> tuple[Path, list[str]]:
    """Return PySpark's home and the command, which writes only below `directory`."""
    import pyspark

    home = Path(pyspark.__file__).parent
    conf = {
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.ui.enabled": "false",
    }
    options = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    query = _SPARK.format(file=ROOT / FLIGHTS)
    return home, ["bash", str(home / "bin" / "spark-sql"), *options, "-e", query]


if __name__ == "__main__":
    main()
