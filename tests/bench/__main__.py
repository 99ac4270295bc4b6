"""Benchmarks: `python -m tests.bench`. Every engine reads the same rows in the same run.

Results are compared before a time counts. The table shows each engine's time divided by sqlwin's.
Times are the best of several runs; a run of more than a minute is not repeated. Where a peer would
copy rows for hours, it and sqlwin run on fewer rows, and the table says so.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from rich.console import Console
from rich.table import Table

import sqlwin
from runtime.errors import ExecutionError
from tests.bench import cases, chart, dashboard, data, peers, scaling, storage
from tests.bench.apart import Engine, EngineFailed
from tests.bench.cases import Case
from tests.bench.memory import workers_peak

Digest = tuple[float, ...]


@dataclass
class Outcome:
    """One engine on one case: its seconds, or why there are none.

    `sqlwin_seconds` has sqlwin's seconds on the same rows.
    """

    seconds: list[float] = field(default_factory=list)
    digest: Digest | None = None
    note: str = ""
    sqlwin_seconds: float | None = None
    peak_bytes: int = 0  # bytes of the largest Python worker

    @property
    def best(self) -> float | None:
        return min(self.seconds) if self.seconds else None


def main() -> None:
    """Run the selected cases and print the table."""
    options = _options()
    console = Console()
    conf = {}
    if options.worker_memory:
        conf["spark.executor.pyspark.memory"] = options.worker_memory
    # an answer comes from where a user's does: small files are read without Spark
    master = options.master or (None if options.into == "arrow" else "local[2]")
    with sqlwin.connect(master=master, conf=conf) as session:
        session.execute("SET 'table.local-time-zone' = 'UTC'")
        if options.scaling:
            table = scaling.run(session, options.data, options.rows, options.runs, console)
        elif options.storage:
            places = options.storage
            table = storage.run(session, options.data, options.rows, options.runs, places, console)
        else:
            table = _matrix(session, options, console)
            if not options.case or "statement set" in options.case:
                path = data.make(options.data, options.rows, 1_000)
                console.print(dashboard.summary(*dashboard.measure(session, path, options.runs)))
    console.print(table)


def _matrix(
    session: sqlwin.Session,
    options: argparse.Namespace,
    console: Console,
) -> Table:
    headlines = cases.ANSWERS if options.into == "arrow" else cases.HEADLINES
    offered = [*cases.MATRIX, *cases.ANSWERS] if options.all or options.case else headlines
    named = [c for c in offered if c.name in options.case]
    chosen = named or [c for c in offered if all(w in c.name for w in options.case)]
    ratios = {}
    columns = ("case", "rows", "sqlwin, s", "largest worker", *options.peers)
    table = Table(*columns, title=f"{options.rows:,} rows")
    for case in chosen:
        rows = _rows_with_result(case, options.rows)
        outcomes = run_case(session, case, rows, options, console)
        ratios[case.name] = _ratios(outcomes)
        if options.svg:  # written after each case, for runs that are interrupted
            chart.save(ratios, f"{options.rows:,} rows", options.svg)
        table.add_row(case.name, f"{rows:,}", *_cells(outcomes, options.peers))
        console.print(f"{case.name}, {rows:,} rows: {_plain(outcomes)}")
    return table


def _rows_with_result(case: Case, rows: int) -> int:
    """Return a number of rows, at most `rows`, whose result fits the time limit."""
    n_windows = case.keys * (data.DAY_US // case.step_us)
    if n_windows <= peers.MAX_WINDOWS:
        return rows
    return case.rows_for(rows, peers.MAX_WINDOWS)


def run_case(
    session: sqlwin.Session, case: Case, rows: int, options: argparse.Namespace, console: Console
) -> dict[str, Outcome]:
    """Time a case on sqlwin and on every peer. Each result is compared with sqlwin's.

    A peer that copies rows into windows may get fewer rows. sqlwin then runs on those rows too.
    """
    with workers_peak() as memory:
        outcomes = {
            "sqlwin": _time_engine(_engine("sqlwin", session, case, rows, options), options.runs)
        }
    outcomes["sqlwin"].peak_bytes = memory.peak
    own_of_rows = {rows: outcomes["sqlwin"]}
    for name in options.peers:
        fewer = case.rows_for(rows, options.copies) if name in peers.EXPANDING else rows
        engine = _engine(name, session, case, fewer, options)
        if engine is None:
            outcomes[name] = Outcome(note="-")
            continue
        if fewer not in own_of_rows:
            own_engine = _engine("sqlwin", session, case, fewer, options)
            own_of_rows[fewer] = _time_engine(own_engine, options.runs)
        own, outcome = own_of_rows[fewer], _time_engine(engine, options.runs)
        outcome.sqlwin_seconds = own.best
        if fewer < rows:
            outcome.note = f" on {fewer:,} rows"
        if own.digest and outcome.digest and not _same(own.digest, outcome.digest):
            console.print(f"[red]{case.name}: {name} {outcome.digest}, sqlwin {own.digest}[/red]")
            outcome = Outcome(note="differs")
        outcomes[name] = outcome
    return outcomes


def _engine(
    name: str, session: sqlwin.Session, case: Case, rows: int, options: argparse.Namespace
) -> Engine | None:
    path = data.make(options.data, rows, case.keys, case.key_type, case.hot)
    if name == "sqlwin":
        return peers.sqlwin_engine(session, case, path, options.into)
    return peers.ENGINES[name](session, case, path, options.into)


def _time_engine(engine: Engine | None, runs: int) -> Outcome:
    """Return the engine's digest, then its times. A run of more than a minute is not repeated."""
    assert engine is not None
    try:
        outcome = Outcome(digest=engine.digest())
        for _ in range(runs):
            started = time.perf_counter()
            engine.run()
            outcome.seconds.append(time.perf_counter() - started)
            if outcome.seconds[-1] > 60:
                break
    except (EngineFailed, ExecutionError, PySparkException, Py4JError) as error:
        return Outcome(note=str(error) if isinstance(error, EngineFailed) else type(error).__name__)
    finally:
        engine.close()
    return outcome


def _same(left: Digest, right: Digest) -> bool:
    return all(
        abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1) for a, b in zip(left, right, strict=True)
    )


def _ratios(outcomes: dict[str, Outcome]) -> dict[str, chart.Ratio]:
    """Return each peer's time divided by sqlwin's, where both ran."""
    return {
        name: chart.Ratio(o.best / o.sqlwin_seconds, o.note)
        for name, o in outcomes.items()
        if o.best and o.sqlwin_seconds
    }


def _cells(outcomes: dict[str, Outcome], names: Sequence[str]) -> list[str]:
    own = outcomes["sqlwin"].best
    cells = [f"{own:.2f}" if own else outcomes["sqlwin"].note, _megabytes(outcomes["sqlwin"])]
    for outcome in (outcomes[name] for name in names):
        if outcome.best and outcome.sqlwin_seconds:
            ratio = outcome.best / outcome.sqlwin_seconds
            cells.append(f"{ratio:.1f} x ({outcome.best:.1f} s{outcome.note})")
        else:
            cells.append(outcome.note)
    return cells


def _megabytes(outcome: Outcome) -> str:
    return f"{outcome.peak_bytes >> 20:,} MB"


def _plain(outcomes: dict[str, Outcome]) -> str:
    timed = ", ".join(
        f"{name} {outcome.best:.2f} s{outcome.note}" if outcome.best else f"{name} {outcome.note}"
        for name, outcome in outcomes.items()
    )
    return f"{timed}; largest worker {_megabytes(outcomes['sqlwin'])}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000_000, help="rows of each data set")
    parser.add_argument("--runs", type=int, default=3, help="timed runs of each engine")
    parser.add_argument(
        "--case",
        action="append",
        default=[],
        help="a case by its name, or what names must hold; repeatable",
    )
    parser.add_argument(
        "--peers",
        type=lambda text: [name for name in text.split(",") if name],
        default=list(peers.ENGINES),
        help=f"which of {', '.join(peers.ENGINES)}, with commas; empty for none",
    )
    parser.add_argument(
        "--into",
        choices=peers.SINKS,
        default="noop",
        help="where rows go: nowhere, to Parquet files, to an Arrow table",
    )
    parser.add_argument("--data", type=Path, default=Path("bench-data"), help="where data is kept")
    parser.add_argument("--all", action="store_true", help="the whole matrix of cases")
    parser.add_argument(
        "--scaling",
        action="store_true",
        help="a tenth of the rows, the rows and ten times as many, with the workers' peak memory",
    )
    parser.add_argument(
        "--storage",
        type=lambda text: text.split(","),
        default=[],
        help=f"the rows in several places, with commas: {', '.join(storage.STORAGES)}",
    )
    parser.add_argument(
        "--master",
        help="Spark's master, local[2] by default. With --into arrow the default is none: sqlwin "
        "chooses where to run, as for a user who names no Spark",
    )
    parser.add_argument(
        "--worker-memory",
        default="",
        help="the memory that a Python worker may have, as `spark.executor.pyspark.memory`: 1g",
    )
    parser.add_argument(
        "--copies",
        type=int,
        default=peers.MAX_COPIES,
        help="maximum copies of rows that a peer makes; above this, it runs on fewer rows",
    )
    parser.add_argument("--svg", type=Path, help="also draw the ratios (needs matplotlib)")
    options = parser.parse_args()
    if options.svg and options.scaling:
        parser.error("--svg draws the ratios to peers, which --scaling does not have")
    if elsewhere := set(options.storage) - set(storage.STORAGES):
        parser.error(f"unknown storage: {', '.join(sorted(elsewhere))}")
    unknown = set(options.peers) - set(peers.ENGINES)
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}")
    return options


if __name__ == "__main__":
    main()
