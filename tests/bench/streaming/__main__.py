r"""Compare streams with Spark's `window()`, Flink and clink: `python -m tests.bench.streaming`.

sqlwin and Spark read the same files with the same number of files per micro-batch, keep their state
in RocksDB with a changelog, wait for the same watermark and discard their rows. Each runs two
micro-batches before it is timed. Results are aggregated on the way and compared before a time is
printed. Windows that are open at the end of the input stay in state: the table reports the bytes of
its keys and values, and the maximum number of rows in the state store. Times of micro-batches leave
out the first one, which compiles the plan.

With `--peer-rows`, peers read only the first files, and sqlwin runs on these once more.

With `--live`, a micro-batch is one minute of event time and fires the windows that end with it. The
engine `lateness` is sqlwin with an allowed lateness of a day, which no row needs:

    python -m tests.bench.streaming --live 20 --batch-rows 200000 --keys 100000 \
        --window "TUMBLE 1 min" --engine sqlwin --engine lateness

`--history` adds that many untimed minutes before, or as many as fill the window. So windows of a
day are full, and the column `times the first` compares their cost. Each engine reads a history
once: its checkpoint is stored with the data and copied by each run:

    python -m tests.bench.streaming --live 20 --history 1440 --batch-rows 200000 --keys 100000 \
        --window "TUMBLE 1 min" --window "HOP 1 min / 24 h" --engine sqlwin

`--open` sets the number of sessions open in each minute, which determines keys and gap:

    python -m tests.bench.streaming --live 40 --batch-rows 10000 --open 10000 --open 1000000

Flink and clink run in their own processes, through the same rows without micro-batches. Compared
are rows per second, and the seconds per minute of event time: for sqlwin and Spark the mean
micro-batch, for the others the time between the windows of two successive minutes. Their
clock stops at the last window that the watermark closes. A dash means that no figure exists.

    python -m tests.bench.streaming --live 20 --batch-rows 200000 --keys 100000 \
        --window "TUMBLE 1 min" --engine spark --engine flink --flink flink/bin/python \
        --engine pyclink

| engine | state | checkpoints | reads | tasks |
| --- | --- | --- | --- | --- |
| sqlwin, spark | RocksDB | every micro-batch | Parquet | `--master` |
| sqlwin-csv | RocksDB | every micro-batch | CSV | `--master` |
| flink | RocksDB | every 10 s | CSV: its package has no Parquet | 2 |
| flink-heap | objects on the heap | none | CSV | 2 |
| pyclink | memory | none | Parquet, times in milliseconds | 2 |

Flink and clink run twice: the first run is compared, the second one timed. See `flink.py` and
`clink.py` for details and for how to install Flink.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlwin
from tests.bench import data, soak
from tests.bench.cases import Case, case_of
from tests.bench.streaming import jobs
from tests.bench.streaming.clink import clink
from tests.bench.streaming.engines import ENGINES, Files, Outcome, connect, run, same
from tests.bench.streaming.flink import flink
from tests.bench.streaming.live import Traffic, history_of, sessions, state_after

_WINDOWS = ["TUMBLE 1 min", "HOP 1 min / 10 min", "HOP 1 min / 1 h"]
_KEYS = [1_000, 100_000]
# Engines in separate processes, and their Pythons
_APART = {
    "flink": lambda options: flink(options.flink, "rocksdb"),
    "flink-heap": lambda options: flink(options.flink, "hashmap"),
    "pyclink": lambda options: clink(options.pyclink),
}
_ANY = 1 << 30  # enough minutes of history to fill the window


def main() -> None:
    """Run the selected cases and print the table, or run the soak test."""
    options = _options()
    console = Console(width=200)
    with connect(options.master) as session:
        if options.soak:
            soak.run(session, options.soak, options.rate, options.keys[0], console)
        else:
            console.print(_compare(session, options, console))


def _compare(session: sqlwin.Session, options: argparse.Namespace, console: Console) -> Table:
    table = Table(
        "case", "engine", "rows", "s", "rows/s", "times sqlwin's", "s a minute", "batches",
        "batch s, median", "times the first", "p99", "state rows", "state MB", "partials", "B a partial", "workers MB",
        "JVM MB",
        title=f"micro-batches of {options.batch_rows:,} rows",
    )  # fmt: skip
    cases = [case_of(window, keys) for keys in options.keys for window in options.window]
    cases += [sessions(n_open, options.batch_rows) for n_open in options.open]
    first: dict[str, Outcome] = {}
    for case in cases:
        _case(session, case, options, _Report(table, console, first))
    return table


@dataclass(frozen=True)
class _Report:
    """Output of outcomes: the table, a line for each, and the first outcome of each engine."""

    table: Table
    console: Console
    first: dict[str, Outcome]


def _case(
    session: sqlwin.Session, case: Case, options: argparse.Namespace, report: _Report
) -> None:
    files = _files(options, case, options.rows)
    peers = [name for name in options.engine if name != "sqlwin"]
    fewer = files if options.peer_rows is None else _files(options, case, options.peer_rows)
    # The first use of anything in a process takes seconds, so an untimed run comes first
    warm_up = _files(options, case, 2 * options.batch_rows, history=0)
    for name in ["sqlwin", *(name for name in peers if name not in _APART)]:
        run(ENGINES[name], session, case, warm_up)
    by_sqlwin: dict[int, Outcome] = {}
    for item in {files.n_rows: files, fewer.n_rows: fewer} if peers else {files.n_rows: files}:
        chosen = files if item == files.n_rows else fewer
        by_sqlwin[item] = _run_and_report(session, case, "sqlwin", chosen, options, None, report)
    for name in peers:
        _run_and_report(session, case, name, fewer, options, by_sqlwin[fewer.n_rows], report)


def _run_and_report(
    session: sqlwin.Session,
    case: Case,
    name: str,
    files: Files,
    options: argparse.Namespace,
    reference: Outcome | None,
    report: _Report,
) -> Outcome:
    """Run an engine and print its figures, after comparing its result with sqlwin's."""
    if name in _APART:
        outcome = jobs.run(_APART[name](options), case, files)
    else:
        start = state_after(name, session, case, files)
        outcome = run(ENGINES[name], session, case, files, start)
    if reference is not None and not same(reference.digest, outcome.digest):
        digests = f"{name} {outcome.digest}, sqlwin {reference.digest}"
        report.console.print(f"[red]{case.name}: {digests}[/red]")
        report.table.add_row(case.name, name, f"{files.n_rows:,}", "differs")
        return outcome
    first = report.first.setdefault(name, outcome)
    ratio = (
        "" if reference is None else f"{outcome.rows_per_second / reference.rows_per_second:.3f}"
    )
    n_batches = len(outcome.batch_seconds) + (0 if files.settling else 1)
    has_batches = bool(outcome.batch_seconds)
    pace, first_pace = _pace(outcome), _pace(first)
    cells = (
        case.name,
        name,
        f"{outcome.n_rows:,}",
        f"{outcome.seconds:.1f}",
        f"{outcome.rows_per_second:,.0f}",
        ratio,
        _figure(outcome.minute if options.live else None, "{:.2f}"),
        _figure(n_batches if has_batches else None, "{}"),
        _figure(outcome.batch(50) if has_batches else None, "{:.2f}"),
        "" if first is outcome else _figure(pace and first_pace and pace / first_pace, "{:.2f}"),
        _figure(outcome.batch(99) if has_batches else None, "{:.2f}"),
        _figure(outcome.state_rows, "{:,}"),
        _figure(outcome.state_bytes and outcome.state_bytes / 1e6, "{:.2f}"),
        _figure(outcome.partials or None, "{:,}"),
        _figure(outcome.bytes_per_partial or None, "{:.1f}"),
        _figure(outcome.worker_bytes / 1e6 or None, "{:,.0f}"),
        _figure(outcome.jvm_bytes / 1e6 or None, "{:,.0f}"),
    )
    report.console.print(" | ".join(cells))
    report.table.add_row(*cells)
    return outcome


def _pace(outcome: Outcome) -> float | None:
    """Return the figure that cases are compared by: the median micro-batch, or a minute's mean."""
    return outcome.batch(50) if outcome.batch_seconds else outcome.paced


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _files(
    options: argparse.Namespace, case: Case, n_rows: int, history: int | None = None
) -> Files:
    """Return the files with the first `n_rows` rows, linked into a directory if these are not all.

    Live minutes are preceded by `history` minutes; None: as many as the options ask for.
    """
    if options.live:
        minutes = max(2, n_rows // options.batch_rows)
        before = history_of(case, options.history) if history is None else history
        rows = options.history_rows or min(options.batch_rows, case.keys)
        return Traffic(case.keys, options.batch_rows, minutes, before, rows).files(options.data)
    n_files = -(-options.rows // options.batch_rows) * options.per_batch
    path = data.make(options.data, options.rows, case.keys, files=n_files, hours=options.hours)
    if n_rows >= options.rows:
        return Files(path, options.rows, options.per_batch)
    n_batches = max(2, n_rows // options.batch_rows)
    first = path.with_name(f"{path.name}-first-{n_batches * options.per_batch}")
    first.mkdir(exist_ok=True)
    for file in sorted(path.glob("*.parquet"))[: n_batches * options.per_batch]:
        if not (first / file.name).exists():
            (first / file.name).hardlink_to(file)
    return Files(first, n_batches * options.batch_rows, options.per_batch)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.streaming",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--window", action="append", help=f"such as {', '.join(_WINDOWS)}")
    parser.add_argument("--keys", type=int, action="append", help="different keys; repeatable")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--batch-rows", type=int, default=2_000_000, help="rows a micro-batch")
    parser.add_argument("--per-batch", type=int, default=2, help="files a micro-batch")
    parser.add_argument("--hours", type=int, default=24, help="the time that the rows span")
    parser.add_argument("--live", type=int, help="number of minutes, one per micro-batch")
    parser.add_argument("--history", type=int, default=0, help="minutes before, at most")
    parser.add_argument("--history-rows", type=int, help="a minute; 1 a key, or as many as later")
    parser.add_argument("--open", type=int, action="append", help="open sessions; repeatable")
    engines = [*ENGINES, *_APART]
    parser.add_argument("--engine", action="append", choices=engines, help="repeatable")
    parser.add_argument("--flink", type=Path, help="the Python that has Flink")
    parser.add_argument(
        "--pyclink", type=Path, default=Path(sys.executable), help="the one that has pyclink"
    )
    parser.add_argument("--peer-rows", type=int, help="approximate number of rows for the peers")
    parser.add_argument("--soak", type=float, help="minutes of rows that are made up, sqlwin alone")
    parser.add_argument("--rate", type=int, default=50_000, help="rows a second, to soak with")
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument("--data", type=Path, default=Path("bench-data"), help="where data is kept")
    options = parser.parse_args()
    if options.live:
        options.rows = options.live * options.batch_rows
    elif options.history or options.open:
        parser.error("--history and --open are of --live")
    options.open = options.open or []
    if options.open:
        options.history = options.history or _ANY
    names = [name for name in options.engine or [] if name in _APART]
    if names and options.history:
        parser.error(f"{names[0]} runs TUMBLE and HOP from the first row: no --history or --open")
    if any(name.startswith("flink") for name in names) and options.flink is None:
        parser.error("--flink is needed: the Python that has the package apache-flink")
    options.window = options.window or ([] if options.open else _WINDOWS)
    options.keys = options.keys or _KEYS
    options.engine = options.engine or ["sqlwin", "spark"]
    for window in options.window:
        try:
            if case_of(window, 1).kind == "SESSION" and names:
                parser.error(f"{names[0]} runs TUMBLE and HOP")
        except ValueError as error:
            parser.error(str(error))
    return options


if __name__ == "__main__":
    main()
