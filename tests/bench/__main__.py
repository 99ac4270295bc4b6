"""Benchmarks: `python -m tests.bench`. Every engine on the same rows in the same run.

Results are compared before a time counts. What is printed are ratios to sqlwin's time, the best of
the timed runs of each; peers that take too long run once.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlwin
from runtime.errors import ExecutionError
from tests.bench import cases, data, peers
from tests.bench.cases import Case

Digest = tuple[float, ...]


@dataclass
class Outcome:
    """One engine on one case: its seconds, or why there are none."""

    seconds: list[float] = field(default_factory=list)
    digest: Digest | None = None
    note: str = ""

    @property
    def best(self) -> float | None:
        return min(self.seconds) if self.seconds else None


def main() -> None:
    """Run the cases asked for and print the table."""
    options = _options()
    console = Console()
    with sqlwin.connect(
        master=options.master, conf={"spark.sql.session.timeZone": "UTC"}
    ) as session:
        named = [c for c in cases.MATRIX if c.name in options.case]
        chosen = named or [c for c in cases.MATRIX if all(w in c.name for w in options.case)]
        table = Table("case", "sqlwin, s", *options.peers, title=f"{options.rows:,} rows")
        for case in chosen:
            path = data.make(options.data, options.rows, case.keys, case.key_type)
            outcomes = run_case(session, case, path, options.peers, options.runs, console)
            table.add_row(case.name, *_cells(outcomes))
            console.print(f"{case.name}: {_plain(outcomes)}")
    console.print(table)
    if options.svg:
        from tests.bench.chart import save

        save(table, options.svg)


def run_case(
    session: sqlwin.Session,
    case: Case,
    path: Path,
    engines: Sequence[str],
    runs: int,
    console: Console,
) -> dict[str, Outcome]:
    """Time a case on sqlwin and on every peer, each result compared with sqlwin's."""
    outcomes = {"sqlwin": _timed(peers.sqlwin_engine(session, case, path), runs)}
    for name in engines:
        engine = peers.ENGINES[name](session, case, path)
        outcomes[name] = _timed(engine, runs) if engine else Outcome(note="-")
        wanted, got = outcomes["sqlwin"].digest, outcomes[name].digest
        if wanted is not None and got is not None and not _same(wanted, got):
            console.print(f"[red]{case.name}: {name} found {got}, sqlwin {wanted}[/red]")
            outcomes[name] = Outcome(note="differs")
    return outcomes


def _timed(engine: peers.Engine, runs: int) -> Outcome:
    """The engine's digest, then its times; once only where a run takes over a minute."""
    try:
        outcome = Outcome(digest=engine.digest())
        for _ in range(runs):
            started = time.perf_counter()
            engine.run()
            outcome.seconds.append(time.perf_counter() - started)
            if outcome.seconds[-1] > 60:
                break
    except (MemoryError, ExecutionError) as error:
        return Outcome(note=type(error).__name__)
    return outcome


def _same(left: Digest, right: Digest) -> bool:
    return all(
        abs(a - b) <= 1e-9 * max(abs(a), abs(b), 1) for a, b in zip(left, right, strict=True)
    )


def _cells(outcomes: dict[str, Outcome]) -> list[str]:
    own = outcomes["sqlwin"].best
    cells = [f"{own:.2f}" if own else outcomes["sqlwin"].note]
    for name, outcome in outcomes.items():
        if name == "sqlwin":
            continue
        best = outcome.best
        cells.append(f"{best / own:.1f} x ({best:.1f} s)" if best and own else outcome.note)
    return cells


def _plain(outcomes: dict[str, Outcome]) -> str:
    return ", ".join(
        f"{name} {outcome.best:.2f} s" if outcome.best else f"{name} {outcome.note}"
        for name, outcome in outcomes.items()
    )


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
    parser.add_argument("--data", type=Path, default=Path("bench-data"), help="where data is kept")
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument("--svg", type=Path, help="also write the table as a picture")
    options = parser.parse_args()
    unknown = set(options.peers) - set(peers.ENGINES)
    if unknown:
        parser.error(f"no such peer: {', '.join(unknown)}")
    return options


if __name__ == "__main__":
    main()
