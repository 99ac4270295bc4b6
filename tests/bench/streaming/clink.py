"""pyclink: the C++ engine clink in a process of its own, from the package `pyclink`.

It reads Parquet, with times as milliseconds in a BIGINT; so it gets the same rows as Parquet once
more. It runs with two tasks. Its windows are in memory: with `state_backend_uri` of RocksDB too,
where nothing is written while a window is open, and it takes no checkpoint over files, which it has
read before the first one is due. So it runs with neither.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.bench.cases import Case
from tests.bench.data import DISORDER_SECONDS
from tests.bench.streaming.formats import millisecond_files
from tests.bench.streaming.jobs import TASKS, Job, Peer


def clink(python: Path) -> Peer:
    """clink, in a Python that has it."""

    def command(job: Job) -> list[str]:
        return [
            str(python), str(Path(__file__).with_name("clink_job.py")),
            "--input", str(millisecond_files(job.files.path).resolve()),
            "--window", window(job.case),
            "--disorder", str(DISORDER_SECONDS * 1_000),
            "--parallelism", str(TASKS),
            "--closed", str(job.closed_us // 1_000),
            "--least", str(job.least),
            "--output", str(job.output),
        ]  # fmt: skip

    return Peer(command, _windows, _fired, lambda job: {"CLINK_LOG_LEVEL": "warning"})


def window(case: Case) -> str:
    """The group window, in clink's words: HOP has its size before its slide."""
    step = f"INTERVAL '{case.step_us // 1_000_000}' SECOND"
    size = f"INTERVAL '{case.size}' MINUTE"
    return f"{case.kind}(ts, {step if case.kind == 'TUMBLE' else f'{size}, {step}'})"


def _windows(output: Path) -> pa.Table:
    windows = pq.read_table(output)
    at = windows.schema.get_field_index("window_end")
    return windows.set_column(at, "window_end", pc.multiply(windows["window_end"], 1_000))


def _fired(line: str) -> tuple[int, int] | None:
    match line.split():
        case ["FIRED", end_ms, n_windows]:
            return int(end_ms) * 1_000, int(n_windows)
    return None
