"""Measure how time and memory grow: with a tenth of the rows, all rows, and ten times as many."""

from __future__ import annotations

import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import sqlwin
from tests.bench import data, peers
from tests.bench.cases import Case
from tests.bench.memory import workers_peak

CASES = [Case("HOP", 60, 1), Case("HOP", 60, 1, keys=100_000), Case("HOP", 60, 1, distinct=True)]


def run(session: sqlwin.Session, directory: Path, rows: int, runs: int, console: Console) -> Table:
    """Run each case on three sizes.

    A run counts if its windows contain the expected number of rows.
    """
    table = Table("case", "rows", "s", "of the size before", "peak of a worker, MB")
    for case in CASES:
        before = None
        for n_rows in (rows // 10, rows, rows * 10):
            path = data.make(directory, n_rows, case.keys, case.key_type)
            engine = peers.sqlwin_engine(session, case, path, "noop")
            engine.digest()
            best, peak = None, 0
            for _ in range(runs):
                with workers_peak() as memory:
                    started = time.perf_counter()
                    engine.run()
                    seconds = time.perf_counter() - started
                best = seconds if best is None else min(best, seconds)
                peak = max(peak, memory.peak)
            assert best is not None
            ratio = f"{best / before:.1f} x" if before else ""
            cells = (case.name, f"{n_rows:,}", f"{best:.2f}", ratio, f"{peak >> 20:,}")
            console.print(", ".join(cells))
            table.add_row(*cells)
            before = best
    return table
