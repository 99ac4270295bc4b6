"""Rows as they come: a micro-batch is a minute of event time, after a history.

The history is in state when the first minute that is timed comes: of a HOP window of a day one of a
day, so that it is full. It is read in a few large micro-batches. In a minute of it each row is of
another key, as far as there are keys, so that few rows make a state as large as many would.

Where a given number of sessions is to be open, rows are of random keys, in the mean one a gap and
key: of ten rows of a micro-batch six go on with a session and four begin one, and as many end.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.bench.cases import MINUTE_US, Case
from tests.bench.data import DISORDER_SECONDS, MANY_ROWS, START_US
from tests.bench.streaming.engines import Files

# The first minute that is timed, a week after the start
_LIVE = 7 * 1440
# A history's micro-batches have about so many rows
_LARGE = 12_000_000
# So many of its last minutes come one by one, as those that follow: running aggregates are made
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
    """What comes.

    Attributes:
        keys: how many different ones.
        rows: in a minute.
        minutes: that are timed.
        history: minutes before.
        history_rows: in a minute of these.
    """

    keys: int
    rows: int
    minutes: int
    history: int = 0
    history_rows: int = 0

    @property
    def name(self) -> str:
        """Of its directory."""
        before = f"-after-{self.history}m-{self.history_rows}" if self.history else ""
        return f"live-{self.rows}-{self.keys}-{self.minutes}m{before}"

    @property
    def batches(self) -> list[tuple[int, int]]:
        """The first minute of each micro-batch, and the one behind its last, in order."""
        first, each = _LIVE - self.history, _LARGE // max(self.history_rows, 1)
        alone = min(self.history, SETTLING)
        ends = [*range(_LIVE - alone, _LIVE + self.minutes + 1)]
        return [*pairwise([*range(first, ends[0], max(each, 1)), *ends])]

    def rows_of(self, minute: int) -> int:
        """How many rows come in a minute."""
        return self.rows if minute >= _LIVE - SETTLING else self.history_rows

    def files(self, directory: Path) -> Files:
        """Its files, made where they are not there, in the order in which they are to be read."""
        path = directory / self.name
        if not (path / "_DONE").exists():
            path.mkdir(parents=True, exist_ok=True)
            parts = [
                (number * _PER_BATCH + part, first, end, part)
                for number, (first, end) in enumerate(self.batches)
                for part in range(_PER_BATCH)
            ]
            write = partial(_write, self, path)
            if self.history * self.history_rows < MANY_ROWS:
                for each in parts:
                    write(each)
            else:
                with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as writers:
                    list(writers.map(write, parts))
            # Spark reads files in the order of their times
            for number, *_ in parts:
                os.utime(_file(path, number), (START_US // 1_000_000 + number,) * 2)
            (path / "_DONE").touch()
        n_history = len(self.batches) - self.minutes
        return Files(path, self.minutes * self.rows, _PER_BATCH, history=n_history)


def sessions(n_open: int, rows: int) -> Case:
    """SESSION with a gap and keys by which so many sessions are open, of so many rows a minute."""
    keys = round(n_open / (1 - math.exp(-1)))
    gap = max(1, round(60 * keys / rows))
    return Case("SESSION", 0, 0, keys=keys, step_seconds=gap, n_open=n_open)


def history_of(case: Case, most: int) -> int:
    """The minutes of history that fill a case's window, up to so many."""
    length_us = case.step_us if case.kind == "SESSION" else case.size_us
    return min(most, -(-length_us // MINUTE_US) + SETTLING)


def _write(traffic: Traffic, path: Path, part: tuple[int, int, int, int]) -> None:
    """Write a part of the minutes of a micro-batch: each has rows of all the time."""
    number, first, end, part_of_minute = part
    with pq.ParquetWriter(_file(path, number), _SCHEMA) as writer:
        for minute in range(first, end):
            writer.write_table(_minute(traffic, minute, part_of_minute))


def _minute(traffic: Traffic, minute: int, part: int) -> pa.Table:
    rng = np.random.default_rng([20260101, minute])
    n_rows, n_keys = traffic.rows_of(minute), traffic.keys
    if minute >= _LIVE - SETTLING or n_rows > n_keys:
        key = rng.integers(0, n_keys, n_rows)
    else:
        key = rng.permutation(n_keys)[:n_rows]
    # whole milliseconds, which are the finest that others have
    at_ms = np.arange(n_rows) * 60_000 // n_rows + rng.integers(0, DISORDER_SECONDS * 1000, n_rows)
    columns = [
        (START_US + minute * MINUTE_US + at_ms * 1000).astype("datetime64[us]"),
        key,
        rng.integers(0, 10_000, n_rows),
        rng.random(n_rows) * 100,
    ]
    return pa.table([pa.array(each[part::_PER_BATCH]) for each in columns], schema=_SCHEMA)


def _file(path: Path, number: int) -> Path:
    return path / f"part-{number:05}.parquet"
