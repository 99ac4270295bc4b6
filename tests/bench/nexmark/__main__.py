"""Run Nexmark's q5, q7, q8 and q11 as streams on sqlwin and Spark: `python -m tests.bench.nexmark`.

The events are written to Parquet files once. Both engines read the same files with the same number
of files per micro-batch, keep their state in RocksDB with a changelog, wait for the same watermark
and discard their rows. Results are aggregated on the way and compared with DuckDB's result of the
query's definition before a time is printed. Windows that are open at the end of the input stay
open.

Each engine first processes two micro-batches of each query, which are not timed. Rates and times
also leave out the first micro-batch, which compiles the plan. The state has one partition per core,
as in streams that sqlwin starts. The table reports the maximum number of rows in the state store
(sqlwin's are blobs of many rows) and the bytes written to it over the whole run.

sqlwin runs the texts in `queries/nexmark`, for q7 the one by rank, because no stream can join
windows with rows of any time. Spark's q5 is one aggregation on another, its q7 the greatest row of
a window (one of those that tie), its q8 a join of two aggregated streams, its q11 a session_window.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

import sqlwin
from tests.bench.nexmark.queries import (
    QUERIES,
    SPARK_MILLIS,
    Events,
    Query,
    by_definition,
    make,
    spark_rows,
    sqlwin_rows,
)
from tests.bench.streaming.engines import Outcome, connect, measure

# Micro-batches before timing starts
_WARM_UP = 2

Rows = Callable[[sqlwin.Session, Query, Events], DataFrame]
ENGINES: Mapping[str, Rows] = MappingProxyType({"sqlwin": sqlwin_rows, "spark": spark_rows})


def main() -> None:
    """Run the selected queries and print the table."""
    options = _options()
    console = Console(width=140)
    with connect(options.master) as session:
        events = make(session, options.data, options.events, options.batch_events)
        few = make(session, options.data, _WARM_UP * options.batch_events, options.batch_events)
        title = f"{events.number:,} events, micro-batches of {options.batch_events:,}"
        console.print(run(session, options.query, options.engine, events, title, console, few))


def run(
    session: sqlwin.Session,
    queries: Sequence[str],
    engines: Sequence[str],
    events: Events,
    title: str,
    console: Console,
    warm_up: Events | None = None,
) -> Table:
    """Return a table with a row for each query and engine. Each row is printed when it is complete.

    Args:
        session: Session of `streaming.engines.connect`.
        queries: Names in QUERIES.
        engines: Names in ENGINES.
        events: Events to read.
        title: Title of the table.
        console: Console to print on.
        warm_up: Events to read before timing; None for none.
    """
    table = Table(
        "query", "engine", "events", "events/s", "times sqlwin's", "batches", "batch s, median",
        "state rows", "MB written to state", "workers MB", title=title,
    )  # fmt: skip
    for name in queries:
        query, own = QUERIES[name], None
        expected = by_definition(query, events)
        for engine in engines:
            rows, digest = ENGINES[engine], query.digest(SPARK_MILLIS)
            if warm_up is not None:
                measure(rows(session, query, warm_up), digest, _bytes_written)
            outcome = measure(rows(session, query, events), digest, _bytes_written)
            if outcome.digest != expected:
                console.print(
                    f"[red]{name}: {engine} {outcome.digest}, by definition {expected}[/red]"
                )
                table.add_row(name, engine, f"{events.number:,}", "differs")
                continue
            rate = _rate(outcome, events.number)
            own = rate if engine == "sqlwin" else own
            cells = (
                name,
                engine,
                f"{events.number:,}",
                f"{rate:,.0f}",
                f"{rate / own:.3f}" if own and engine != "sqlwin" else "",
                f"{1 + len(outcome.batch_seconds)}",
                f"{outcome.batch(50):.2f}",
                f"{outcome.state_rows:,}",
                f"{outcome.state_bytes / 1e6:.1f}",
                f"{outcome.worker_bytes / 1e6:,.0f}",
            )
            console.print(" | ".join(cells))
            table.add_row(*cells)
    return table


def _rate(outcome: Outcome, n_events: int) -> float:
    """Return events per second after the first micro-batch. All micro-batches have the same size.

    Spark counts rows twice if both sides of a join read them.
    """
    n_later = len(outcome.batch_seconds)
    return n_events * n_later / (n_later + 1) / outcome.later_seconds


def _bytes_written(checkpoint: Path, progress: Sequence[Any]) -> int:
    """Return the bytes written to the state store in a run, as RocksDB counts them."""
    return sum(
        int(operator["customMetrics"].get("rocksdbTotalBytesWritten", 0))
        for item in progress
        for operator in item["stateOperators"]
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.nexmark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--events", type=int, default=4_000_000, help="how many, in full batches")
    parser.add_argument("--batch-events", type=int, default=500_000, help="events a micro-batch")
    parser.add_argument("--query", nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument(
        "--engine",
        type=lambda text: [name for name in text.split(",") if name],
        default=list(ENGINES),
        help=f"which of {', '.join(ENGINES)}, with commas",
    )
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    parser.add_argument("--data", type=Path, default=Path("bench-data"), help="where data is kept")
    options = parser.parse_args()
    unknown = set(options.engine) - set(ENGINES)
    if unknown:
        parser.error(f"no such engine: {', '.join(unknown)}")
    if options.batch_events < 1_000 or options.batch_events % 1_000:
        parser.error("--batch-events must be a multiple of 1000")
    if options.events <= options.batch_events:
        parser.error("--events must make more than one micro-batch: the first one is not timed")
    return options


if __name__ == "__main__":
    main()
