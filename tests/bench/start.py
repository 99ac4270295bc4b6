"""Measure the time to the first answer: `python -m tests.bench.start [--runs N]`.

Each figure is the duration of a whole process; for the prompt, the time until the first answer is
on the screen. Cold: Spark has to start. Warm: the background engine is running. DuckDB (from
Python) and `spark-sql` run the same windows over the same file with their own SQL. The last table
shows how the seconds of a cold start are spent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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


def environment(runtime: Path, **more: str) -> dict[str, str]:
    """Return the environment of commands: a separate engine in `runtime`, with nothing disabled."""
    kept = {k: v for k, v in os.environ.items() if k not in ("CI", "SQLWIN_ENGINE")}
    return {**kept, "XDG_RUNTIME_DIR": str(runtime), "PYTHONPATH": str(ROOT), **more}


def seconds_of(command: list[str], env: Mapping[str, str], cwd: Path = ROOT) -> float:
    """Return the duration of a command, which must succeed."""
    started = time.perf_counter()
    process = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    elapsed = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {process.stderr[-2000:]}")
    return elapsed


def prompt_seconds(env: Mapping[str, str]) -> float:
    """Return the time from starting the prompt to the first answer."""
    started = time.perf_counter()
    child = pexpect.spawn(
        _SQLWIN[0],
        [*_SQLWIN[1:], "repl", "-e", "SELECT 'ans' || 'wer' AS a"],
        cwd=str(ROOT),
        env=dict(env),
        dimensions=(40, 120),
        encoding="utf-8",
        timeout=_SECONDS,
    )
    try:
        child.expect("answer")
        return time.perf_counter() - started
    finally:
        child.close(force=True)


@contextmanager
def warm(runtime: Path) -> Iterator[dict[str, str]]:
    """Provide an environment whose engine has run the query once."""
    env = environment(runtime)
    try:
        seconds_of([*_SQLWIN, "run", QUICKSTART], env)
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
        command(["run", QUICKSTART], standalone_mode=False)
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


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3, help="how often each is timed")
    parser.add_argument("--in-pieces", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.in_pieces:
        run_in_pieces()
        return
    runs = asked.runs
    console = Console()
    table = Table("", *(("s, best", "s, worst")))

    def row(name: str, time_it: Callable[[], float]) -> None:
        figures = [time_it() for _ in range(runs)]
        console.print(f"{name}: {', '.join(f'{figure:.2f}' for figure in figures)}")
        table.add_row(name, f"{min(figures):.2f}", f"{max(figures):.2f}")

    with tempfile.TemporaryDirectory(prefix="sqlwin-bench-") as directory:
        runtime = Path(directory)
        cold = environment(runtime, SQLWIN_ENGINE="off")
        run = [*_SQLWIN, "run", QUICKSTART]
        one = [*_SQLWIN, "run", "-e", "SELECT 1 AS a"]
        explain = [*_SQLWIN, "explain", QUICKSTART]
        row("sqlwin run quickstart.sql, cold", lambda: seconds_of(run, cold))
        row("sqlwin run -e 'SELECT 1', cold", lambda: seconds_of(one, cold))
        row("sqlwin explain quickstart.sql, cold", lambda: seconds_of(explain, cold))
        row("sqlwin repl, first answer", lambda: prompt_seconds(cold))
        with warm(runtime) as env:
            row("sqlwin run quickstart.sql, warm", lambda: seconds_of(run, env))
            row("sqlwin run -e 'SELECT 1', warm", lambda: seconds_of(one, env))
            row("sqlwin explain quickstart.sql, warm", lambda: seconds_of(explain, env))
        query = _COPIED.format(file=FLIGHTS)
        duckdb = [sys.executable, "-c", f"import duckdb; print(duckdb.sql({query!r}))"]
        row("DuckDB from Python", lambda: seconds_of(duckdb, cold))
        home, spark_sql = _spark_sql(runtime)
        spark_env = {**cold, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        row("spark-sql", lambda: seconds_of(spark_sql, spark_env, runtime))
        result = sorted((pieces(cold) for _ in range(runs)), key=lambda run: sum(s for _, s in run))
    console.print(table)
    spent = Table("where a cold run's seconds go", "s, in the best run")
    for name, seconds in result[0]:
        spent.add_row(name, f"{seconds:.2f}")
    console.print(spent)


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
