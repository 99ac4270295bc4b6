"""Flink in its own process, run by a Python that has the package `apache-flink`:

    python3.11 -m venv flink && flink/bin/pip install apache-flink==2.3.0

That package reads CSV, JSON and its own formats, but no Parquet. So it gets the same rows as CSV,
one file for each of its two tasks; the engine `sqlwin-csv` reads this CSV as well. The engine
`flink` keeps its state in RocksDB, with an incremental checkpoint every 10 s; `flink-heap` keeps it
on the heap without checkpoints, which is Flink's fastest mode. Results are compared on the heap.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from tests.bench.cases import Case
from tests.bench.data import DISORDER_SECONDS
from tests.bench.streaming.formats import csv_by_task
from tests.bench.streaming.jobs import TASKS, Job, Peer

_COLUMNS = ["key", "window_start", "window_end", "s", "n", "a", "m"]
# a row printed by the connector `print`
_PRINTED = re.compile(r"(?:\d+> )?\+I\[[^,]+, [^,]+, ([^,]+),")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def flink(python: Path, backend: str) -> Peer:
    """Return Flink with `rocksdb` and checkpoints, or with `hashmap` and none."""

    def command(job: Job) -> list[str]:
        checkpoints = ["--checkpoints", f"{job.scratch}/checkpoints"]
        return [
            str(python), str(Path(__file__).with_name("flink_job.py")),
            "--input", str(csv_by_task(job.files.path, TASKS).resolve()),
            "--window", window(job.case),
            "--disorder", str(DISORDER_SECONDS),
            "--parallelism", str(TASKS),
            "--closed", _text(job.closed_us),
            "--least", str(job.least),
            "--output", str(job.output),
            "--backend", backend,
            *(checkpoints if backend == "rocksdb" else []),
        ]  # fmt: skip

    def environment(job: Job) -> dict[str, str]:
        # RocksDB's files, which a killed process leaves behind
        return {"JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={job.scratch}"}

    return Peer(command, _windows, _parse_fired, environment)


def window(case: Case) -> str:
    """Return the table function in Flink's SQL."""
    step = f"INTERVAL '{case.step_us // 1_000_000}' SECOND(5)"
    size = f"INTERVAL '{case.size}' MINUTE(5)"
    lengths = step if case.kind == "TUMBLE" else f"{step}, {size}"
    return f"{case.kind}(TABLE events, DESCRIPTOR(ts), {lengths})"


def _windows(output: Path) -> pa.Table:
    names = pyarrow.csv.ReadOptions(column_names=_COLUMNS)
    parts = [pyarrow.csv.read_csv(file, names) for file in sorted(output.glob("part-*"))]
    windows = pa.concat_tables(parts)
    ends = windows["window_end"].cast(pa.timestamp("us")).cast(pa.int64())
    return windows.set_column(_COLUMNS.index("window_end"), "window_end", ends)


def _parse_fired(line: str) -> tuple[int, int] | None:
    result = _PRINTED.match(line)
    if result is None:
        return None
    end = datetime.fromisoformat(result.group(1)).replace(tzinfo=UTC)
    return round((end - _EPOCH).total_seconds()) * 1_000_000, 1


def _text(us: int) -> str:
    return datetime.fromtimestamp(us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
