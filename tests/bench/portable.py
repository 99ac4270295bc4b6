"""Compiled SQL against the engine's own way and sqlwin's executors, on Spark and DuckDB.

The engine's own way is `window()` and `session_window()` on Spark, and rows copied into their
windows on DuckDB. All ways read the same rows, and their results are compared before they count.
CPU seconds are of all processes. COUNT(DISTINCT) and HOP copy rows many times, so these cases run
on fewer rows if `--copies` is low.

python -m tests.bench.portable --rows 2000000 --copies 30000000
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
from rich.console import Console
from rich.table import Table

import sqlwin
from tests.bench import cases, data, peers
from tests.bench.apart import Engine
from tests.bench.cases import Case

CASES = {
    "TUMBLE": Case("TUMBLE", 1, 1),
    "HOP": Case("HOP", 60, 1),
    "CUMULATE": Case("CUMULATE", 60, 1),
    "SESSION": Case("SESSION", 0, 0, step_seconds=90),
    "DISTINCT": Case("HOP", 60, 1, distinct=True),
}
SCHEMA = "CREATE TABLE events (ts TIMESTAMP(6), key BIGINT, price BIGINT, val DOUBLE);"
ENGINES = ("spark", "duckdb")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """The cheapest run: CPU seconds of all processes, and seconds on the clock."""

    cpu: float
    wall: float

    def per(self, other: Cost) -> str:
        """Return both ratios to another cost."""
        return f"{self.cpu / other.cpu:.1f} x CPU, {self.wall / other.wall:.1f} x wall"

    def __str__(self) -> str:
        return f"{self.cpu:.1f} s CPU, {self.wall:.1f} s wall"


def ways(
    engine: str,
    session: sqlwin.Session,
    connection: duckdb.DuckDBPyConnection,
    case: Case,
    path: Path,
) -> dict[str, Engine]:
    """Return the ways to compute a case on an engine, by name; the portable one is first."""
    query = cases.sqlwin_sql(case)
    text = sqlwin.compile(query, engine, schema=SCHEMA)
    own = peers.sqlwin_engine(session, case, path, "noop" if engine == "spark" else "arrow")
    if engine == "spark":
        session.spark.read.parquet(str(path)).createOrReplaceTempView("events")
        return {
            "portable": _on_spark(session, text, case),
            "native": _on_spark(session, cases.spark_sql(case), case),
            "sqlwin": own,
        }
    connection.execute(f"CREATE OR REPLACE VIEW events AS FROM '{path}/*.parquet'")
    return {
        "portable": _on_duckdb(connection, text, case),
        "native": _on_duckdb(connection, cases.duckdb_expanding(case, path), case),
        "sqlwin": own,
    }


def _on_spark(session: sqlwin.Session, text: str, case: Case) -> Engine:
    def digest() -> tuple[float, ...]:
        row = session.spark.sql(f"SELECT {case.digest} FROM ({text})").collect()[0]
        return tuple(float(value) for value in row)

    def run() -> None:
        session.spark.sql(text).write.format("noop").mode("overwrite").save()

    return Engine(run, digest)


def _on_duckdb(connection: duckdb.DuckDBPyConnection, text: str, case: Case) -> Engine:
    def digest() -> tuple[float, ...]:
        (row,) = connection.execute(f"SELECT {case.digest} FROM ({text})").fetchall()
        return tuple(float(value) for value in row)

    def run() -> None:
        connection.execute(f"CREATE OR REPLACE TEMP TABLE result AS {text}")

    return Engine(run, digest)


def cost(run: Callable[[], object], runs: int) -> Cost:
    """Return the cost of the cheapest run."""
    costs = []
    for _ in range(runs):
        cpu, wall = cpu_seconds(), time.perf_counter()
        run()
        costs.append(Cost(cpu_seconds() - cpu, time.perf_counter() - wall))
    return min(costs, key=lambda found: found.cpu)


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and all below it, ended ones included."""
    times = dict(_processes())
    parents = {pid: parent for pid, (parent, _) in times.items()}
    total = 0.0
    for pid, (_, seconds) in times.items():
        ancestor: int | None = pid
        while ancestor is not None and ancestor != os.getpid():
            ancestor = parents.get(ancestor)
        total += seconds if ancestor is not None else 0.0
    return total


def _processes() -> Iterator[tuple[int, tuple[int, float]]]:
    """Yield each process with its parent and the CPU seconds of it and its reaped children."""
    for directory in Path("/proc").iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended meanwhile
            ticks = sum(int(field) for field in fields[11:15])
            yield int(directory.name), (int(fields[1]), ticks / _TICKS)


def is_same(left: Sequence[float], right: Sequence[float]) -> bool:
    """Return whether two digests are equal, up to the order in which doubles are added."""
    return all(
        abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1) for a, b in zip(left, right, strict=True)
    )


def measure(options: argparse.Namespace, console: Console) -> Table:
    """Run the chosen cases on the chosen engines."""
    table = Table("case", "rows", "engine", "portable", "native / portable", "portable / sqlwin")
    with sqlwin.connect(master="local[2]") as session, duckdb.connect() as connection:
        session.execute("SET 'table.local-time-zone' = 'UTC'")
        connection.execute("SET TimeZone = 'UTC'; SET threads = 2; SET memory_limit = '4GB'")
        for name in options.case:
            case = CASES[name]
            rows = case.rows_for(options.rows, options.copies) if case.size else options.rows
            path = data.make(options.data, rows, case.keys)
            for engine in options.engines:
                all_ways = ways(engine, session, connection, case, path)
                digests = {way: all_ways[way].digest() for way in all_ways}
                wrong = [w for w in digests if not is_same(digests[w], digests["portable"])]
                if wrong:
                    raise SystemExit(f"{case.name} on {engine}: rows differ: {digests}")
                costs = {way: cost(all_ways[way].run, options.runs) for way in all_ways}
                portable = costs["portable"]
                row = (
                    case.name,
                    f"{rows:,}",
                    engine,
                    str(portable),
                    costs["native"].per(portable),
                    portable.per(costs["sqlwin"]),
                )
                table.add_row(*row)
                console.print("; ".join(row))
    return table


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.portable", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of each case")
    parser.add_argument(
        "--copies", type=int, default=peers.MAX_COPIES, help="most copies of rows in windows"
    )
    parser.add_argument("--runs", type=int, default=2, help="timed runs of each way")
    parser.add_argument("--case", action="append", choices=CASES, help="repeatable; default: all")
    parser.add_argument(
        "--engine", dest="engines", action="append", choices=ENGINES, help="default: both"
    )
    parser.add_argument("--data", type=Path, default=Path("bench-data"))
    options = parser.parse_args()
    options.case = options.case or list(CASES)
    options.engines = options.engines or list(ENGINES)
    console = Console(width=160)
    console.print(measure(options, console))


if __name__ == "__main__":
    main()
