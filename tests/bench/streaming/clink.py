"""pyclink: the C++ engine clink in its own process, from the package `pyclink`.

It reads Parquet with times as milliseconds in a BIGINT, so it gets the same rows in separate
Parquet files. It runs with two tasks and keeps windows in memory: with a RocksDB
`state_backend_uri` it writes nothing while a window is open, and over files it takes no checkpoint,
because it has read them before the first one is due. So it runs without both.
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
    """Return clink, run by a Python that has it."""

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

    return Peer(command, _windows, _parse_fired, lambda job: {"CLINK_LOG_LEVEL": "warning"})


def window(case: Case) -> str:
    """Return the group window in clink's SQL, where HOP has its size before its slide."""
    step = f"INTERVAL '{case.step_us // 1_000_000}' SECOND"
    size = f"INTERVAL '{case.size}' MINUTE"
    return f"{case.kind}(ts, {step if case.kind == 'TUMBLE' else f'{size}, {step}'})"


def _windows(output: Path) -> pa.Table:
    windows = pq.read_table(output)
    at = windows.schema.get_field_index("window_end")
    return windows.set_column(at, "window_end", pc.multiply(windows["window_end"], 1_000))


def _parse_fired(line: str) -> tuple[int, int] | None:
    match line.split():
        case ["FIRED", end_ms, n_windows]:
            return int(end_ms) * 1_000, int(n_windows)
    return None
