"""Streams beside Spark's own `window()`: `python -m tests.bench.streaming`.

Both read the same files, as many a micro-batch, keep their state in RocksDB with a log of changes,
wait for the same watermark and throw their rows away. What is told: seconds from the first
micro-batch to the last, the slowest micro-batch, the most rows in state, and the bytes of state
that the checkpoint holds at the end.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

import sqlwin

_ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
_HOURS = 24


@dataclass(frozen=True)
class Case:
    """A window aggregation over the files, in minutes; TUMBLE has no slide."""

    name: str
    size: int
    slide: int | None
    keys: int


@dataclass(frozen=True)
class Outcome:
    """What a run took and kept."""

    seconds: float
    slowest_batch: float
    batches: int
    state_rows: int
    state_bytes: int


CASES = [
    Case(f"{name}, {keys:,} keys", size, slide, keys)
    for keys in (1_000, 100_000)
    for name, size, slide in (("TUMBLE 1 min", 1, None), ("HOP 1 min / 10 min", 10, 1),
                              ("HOP 1 min / 1 h", 60, 1))
]  # fmt: skip


def main() -> None:
    """Run the cases asked for and print the table."""
    options = _options()
    console = Console()
    chosen = [c for c in CASES if all(word in c.name for word in options.case)]
    table = Table("case", "engine", "s", "rows/s", "batches", "slowest", "state rows", "state MB")
    with sqlwin.connect(master=options.master, conf=_ROCKSDB) as session:
        for case in chosen:
            files = make(options.data, options.rows, options.files, case.keys)
            for name in options.engine:
                outcome = ENGINES[name](session, case, files, options.per_batch)
                row = _cells(outcome, options.rows)
                table.add_row(case.name, name, *row)
                console.print(case.name, name, *row)
    console.print(table)


def make(directory: Path, n_rows: int, n_files: int, n_keys: int) -> Path:
    """Files over a day whose times follow each other, rows shuffled within a file."""
    place = directory / f"stream-{n_rows}-{n_files}-{n_keys}"
    if place.exists():
        return place
    rng = np.random.default_rng(1)
    temporary = Path(tempfile.mkdtemp(dir=directory))
    day_us = _HOURS * 3_600_000_000
    bounds = [n_rows * i // n_files for i in range(n_files + 1)]
    for i in range(n_files):
        n = bounds[i + 1] - bounds[i]
        ts = rng.integers(day_us * i // n_files, day_us * (i + 1) // n_files, n)
        table = pa.table(
            {
                "ts": pa.array(ts, pa.timestamp("us", "UTC")),
                "key": pa.array(rng.integers(0, n_keys, n), pa.int32()),
                "price": pa.array(rng.integers(0, 10_000, n)),
                "val": pa.array(rng.normal(0, 1, n)),
            }
        )
        pq.write_table(table, temporary / f"{i:04d}.parquet")
    temporary.rename(place)
    return place


def run_sqlwin(session: sqlwin.Session, case: Case, files: Path, per_batch: int) -> Outcome:
    """The case as SQL, with the end of input closing the last windows."""
    window = (
        f"TUMBLE(TABLE streamed, DESCRIPTOR(ts), INTERVAL '{case.size}' MINUTES)"
        if case.slide is None
        else f"HOP(TABLE streamed, DESCRIPTOR(ts), INTERVAL '{case.slide}' MINUTES, "
        f"INTERVAL '{case.size}' MINUTES)"
    )
    checkpoint = Path(tempfile.mkdtemp())
    started = time.monotonic()
    *_, result = session.execute(f"""
        SET 'execution.runtime-mode' = 'streaming';
        SET 'execution.checkpointing.dir' = '{checkpoint}';
        CREATE OR REPLACE TABLE streamed (
          ts TIMESTAMP_LTZ(6), key INT, price BIGINT, val DOUBLE, WATERMARK FOR ts AS ts
        ) WITH ('connector' = 'filesystem', 'path' = '{files}', 'format' = 'parquet',
                'max-files-per-trigger' = '{per_batch}');
        CREATE OR REPLACE TABLE nowhere WITH ('connector' = 'blackhole');
        INSERT INTO nowhere
        SELECT key, window_end, SUM(price) AS s, COUNT(*) AS n, AVG(val) AS a, MAX(price) AS m
        FROM TABLE({window}) GROUP BY key, window_start, window_end
    """)
    seconds = time.monotonic() - started
    assert result.stream is not None
    progress = list(result.stream.query.recentProgress)
    kept = [
        p["observedMetrics"]["sqlwin.window.0"]["n_rows"] for p in progress if p["observedMetrics"]
    ]
    return _outcome(seconds, progress, max(kept, default=0), checkpoint)


def run_spark(session: sqlwin.Session, case: Case, files: Path, per_batch: int) -> Outcome:
    """The case with Spark's own window(), which runs out of input and leaves the last windows."""
    spark: SparkSession = session.spark
    schema = spark.read.parquet(str(files)).schema
    rows: DataFrame = (
        spark.readStream.schema(schema).option("maxFilesPerTrigger", per_batch).parquet(str(files))
    )
    slide = f"{case.slide or case.size} minutes"
    windows = (
        rows.withWatermark("ts", "0 seconds")
        .groupBy("key", F.window("ts", f"{case.size} minutes", slide))
        .agg(F.sum("price"), F.count("*"), F.avg("val"), F.max("price"))
    )
    checkpoint = Path(tempfile.mkdtemp())
    started = time.monotonic()
    query = (
        windows.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.monotonic() - started
    progress = list(query.recentProgress)
    kept = [p["stateOperators"][0]["numRowsTotal"] for p in progress if p["stateOperators"]]
    return _outcome(seconds, progress, max(kept, default=0), checkpoint)


ENGINES: dict[str, Callable[[sqlwin.Session, Case, Path, int], Outcome]] = {
    "sqlwin": run_sqlwin,
    "spark": run_spark,
}


def _outcome(seconds: float, progress: Sequence[Any], state_rows: int, checkpoint: Path) -> Outcome:
    took = [p["durationMs"].get("triggerExecution", 0) / 1_000 for p in progress]
    # The first micro-batch compiles the plan
    slowest = max(took[1:], default=max(took, default=0.0))
    state = [p for p in checkpoint.rglob("state/**/*") if p.is_file()]
    size = sum(p.stat().st_size for p in state)
    shutil.rmtree(checkpoint, ignore_errors=True)
    return Outcome(seconds, slowest, len(took), state_rows, size)


def _cells(outcome: Outcome, n_rows: int) -> list[str]:
    return [
        f"{outcome.seconds:.1f}",
        f"{n_rows / outcome.seconds:,.0f}",
        str(outcome.batches),
        f"{outcome.slowest_batch:.1f}",
        f"{outcome.state_rows:,}",
        f"{outcome.state_bytes / 1e6:.1f}",
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.streaming", description=__doc__)
    parser.add_argument("case", nargs="*", help="run cases whose name holds all of these words")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--per-batch", type=int, default=2, help="files a micro-batch")
    parser.add_argument("--engine", nargs="*", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()))
    return parser.parse_args()


if __name__ == "__main__":
    main()
