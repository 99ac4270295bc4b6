"""Measure the cost of a key group without rows: `python -m tests.bench.streaming.key_groups`.

A stream of one key runs a number of small micro-batches for each number of key groups, all on one
task of the exchange, so the difference is due to the groups. Each number runs twice, alternating,
so that other load on the machine affects all of them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table

import sqlwin
from tests.bench.streaming.engines import CONF, measure

_MINUTE = 60_000_000
_SQL = """
    SELECT window_start, window_end, k, COUNT(*) AS n, SUM(x) AS total
    FROM TABLE(TUMBLE(TABLE events, DESCRIPTOR(ts), INTERVAL '1' MINUTE))
    GROUP BY window_start, window_end, k
"""


def main() -> None:
    """Run each number of key groups and print the cost of one."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.streaming.key_groups", description=__doc__
    )
    parser.add_argument("--groups", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--master", default="local[2]", help="Spark's master")
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="key-groups-"))
    result: dict[int, list[float]] = {n: [] for n in options.groups}
    try:
        _write(directory / "events", options.batches)
        with sqlwin.connect(master=options.master, conf=CONF) as session:
            for _ in range(options.runs):
                for n_groups in options.groups:
                    begun = time.monotonic()
                    result[n_groups] += _run(session, directory, n_groups)
                    print(n_groups, f"{time.monotonic() - begun:.1f} s", flush=True)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    least = min(options.groups)
    table = Table("key groups", "micro-batch ms, median", "p10", "ms a key group")
    for n_groups, seconds in result.items():
        more = median(seconds) - median(result[least])
        cost = "" if n_groups == least else f"{more / (n_groups - least):.2f}"
        p10 = sorted(seconds)[len(seconds) // 10]
        table.add_row(str(n_groups), f"{median(seconds):.0f}", f"{p10:.0f}", cost)
    Console(width=100).print(table)


def _write(directory: Path, n_files: int) -> None:
    """Write one file per micro-batch, each with a minute of rows."""
    directory.mkdir()
    for number in range(n_files):
        ts = pa.array([number * _MINUTE, number * _MINUTE + _MINUTE // 2], pa.timestamp("us"))
        rows = pa.table({"ts": ts, "k": ["a", "a"], "x": [1, 2]})
        pq.write_table(rows, directory / f"{number:05}.parquet")


def _run(session: sqlwin.Session, directory: Path, n_groups: int) -> list[float]:
    """Return the milliseconds of each micro-batch except the first ones."""
    session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'sqlwin.state.key-groups' = '{n_groups}';
        CREATE OR REPLACE TABLE events (
          ts TIMESTAMP(6), k STRING, x BIGINT, WATERMARK FOR ts AS ts
        ) WITH ('connector' = 'filesystem', 'path' = '{directory}/events', 'format' = 'parquet',
                'max-files-per-trigger' = '1')
    """)
    session.spark.conf.set("spark.sql.shuffle.partitions", "1")
    outcome = measure(session.sql(_SQL), ["SUM(n)"], lambda *_: 0)
    return [seconds * 1e3 for seconds in outcome.batch_seconds[2:]]


if __name__ == "__main__":
    main()
