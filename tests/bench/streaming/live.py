"""Rows in real-time order: each micro-batch is a minute of event time, after a history.

The history is in state when the first timed minute comes; a HOP window of a day needs a day of it
to be full. An engine reads it once, in a few large micro-batches, and its checkpoint is stored with
the files; each run resumes from it. In a minute of the history each row has another key, as long as
there are keys, so that few rows make a large state.

For a given number of open sessions, rows have random keys, on average one per gap and key: of ten
rows of a micro-batch, six continue a session and four begin one, and four sessions end.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sqlwin
from tests.bench.cases import MINUTE_US, Case
from tests.bench.data import DISORDER_SECONDS, MANY_ROWS, START_US
from tests.bench.streaming.engines import ENGINES, Files, drain

# The first timed minute, a week after the start
_LIVE = 7 * 1440
# Approximate rows of a micro-batch of history
_LARGE = 12_000_000
# Untimed minutes after the history: state is loaded, running aggregates are computed
SETTLING = 3
_PER_BATCH = 2
_SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("key", pa.int64()),
        ("price", pa.int64()),
        ("val", pa.float64()),
    ]
)


@dataclass(frozen=True)
class Traffic:
    """Rows of a benchmark.

    Attributes:
        keys: Number of distinct keys.
        rows: Rows per minute.
        minutes: Timed minutes.
        history: Minutes before.
        history_rows: Rows per minute of the history.
    """

    keys: int
    rows: int
    minutes: int
    history: int = 0
    history_rows: int = 0

    @property
    def name(self) -> str:
        """Name of its directory."""
        before = f"-after-{self.history}m-{self.history_rows}" if self.history else ""
        return f"live-{self.rows}-{self.keys}-{self.minutes}m{before}"

    def files(self, directory: Path) -> Files:
        """Return its files in reading order. Write them if they do not exist."""
        path, settling = directory / self.name, SETTLING if self.history else 0
        history = path / "history" if self.history else None
        live = pairwise(range(_LIVE - settling, _LIVE + self.minutes + 1))
        if not (path / "_DONE").exists():
            self._write(path / "live", [*live])
            if history is not None:
                end, step = _LIVE - settling, max(1, _LARGE // self.history_rows)
                begins = range(end - self.history, end, step)
                self._write(history, [*pairwise([*begins, end])])
            (path / "_DONE").touch()
        n_rows = self.minutes * self.rows
        return Files(path / "live", n_rows, _PER_BATCH, history=history, settling=settling)

    def _write(self, path: Path, batches: Sequence[tuple[int, int]]) -> None:
        """Write the micro-batches of a directory, given the first minute and the end."""
        path.mkdir(parents=True, exist_ok=True)
        parts = [(first, end, part) for first, end in batches for part in range(_PER_BATCH)]
        write = partial(_write_part, self, path)
        if sum(end - first for first, end, _ in parts) * self.history_rows < MANY_ROWS:
            for item in parts:
                write(item)
        else:
            with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as writers:
                list(writers.map(write, parts))
        for file in sorted(path.glob("*.parquet")):
            # Spark reads files in order of their modification times
            number = int(file.stem.replace("-", ""))
            os.utime(file, (START_US // 1_000_000 + number,) * 2)

    def rows_of(self, minute: int) -> int:
        """Return the number of rows in a minute."""
        return self.rows if minute >= _LIVE - SETTLING else self.history_rows


def state_after(engine: str, session: sqlwin.Session, case: Case, files: Files) -> Path | None:
    """Return the checkpoint of an engine that has read the history, made once.

    None without history.

    A checkpoint of an interrupted run is completed.
    """
    if files.history is None:
        return None
    window = case.name.split(",")[0].replace(" / ", "-").replace(" ", "-")
    path = files.history.with_name(f"state-{engine}-{window}")
    checkpoint, result = path / "checkpoint", path / "_DONE"
    if not result.exists():
        rows = ENGINES[engine].rows(session, case, replace(files, path=files.history))
        drain(rows, checkpoint, may_die=True)
        result.touch()
    return checkpoint


def sessions(n_open: int, rows: int) -> Case:
    """Return SESSION with a gap and keys that keep `n_open` sessions open at `rows` rows a minute."""
    keys = round(n_open / (1 - math.exp(-1)))
    gap = max(1, round(60 * keys / rows))
    return Case("SESSION", 0, 0, keys=keys, step_seconds=gap, n_open=n_open)


def history_of(case: Case, most: int) -> int:
    """Return the minutes of history that fill a case's window, at most `most`."""
    length_us = case.step_us if case.kind == "SESSION" else case.size_us
    return min(most, -(-length_us // MINUTE_US))


def _write_part(traffic: Traffic, path: Path, part_of: tuple[int, int, int]) -> None:
    """Write a part of the rows of a micro-batch, for each of its minutes."""
    first, end, part = part_of
    with pq.ParquetWriter(path / f"{first:05}-{part}.parquet", _SCHEMA) as writer:
        for minute in range(first, end):
            writer.write_table(_minute(traffic, minute, part))


def _minute(traffic: Traffic, minute: int, part: int) -> pa.Table:
    rng = np.random.default_rng([20260101, minute])
    n_rows, n_keys = traffic.rows_of(minute), traffic.keys
    if minute >= _LIVE - SETTLING or n_rows > n_keys:
        key = rng.integers(0, n_keys, n_rows)
    else:
        key = rng.permutation(n_keys)[:n_rows]
    # whole milliseconds, the finest resolution of the other engines
    at_ms = np.arange(n_rows) * 60_000 // n_rows + rng.integers(0, DISORDER_SECONDS * 1000, n_rows)
    columns = [
        (START_US + minute * MINUTE_US + at_ms * 1000).astype("datetime64[us]"),
        key,
        rng.integers(0, 10_000, n_rows),
        rng.random(n_rows) * 100,
    ]
    return pa.table([pa.array(column[part::_PER_BATCH]) for column in columns], schema=_SCHEMA)
