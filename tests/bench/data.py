"""Rows for benchmarks: a day of events in Parquet, equal for equal arguments."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOUR_US = 3_600_000_000
DAY_US = 24 * HOUR_US
DISORDER_SECONDS = 2
START_US = 1_767_225_600_000_000  # 2026-01-01

ROW_GROUP = 1_000_000
# Number of rows from which several processes write the files
MANY_ROWS = 20_000_000


def make(
    directory: Path,
    rows: int,
    keys: int,
    key_type: str = "int",
    hot: float = 0.0,
    files: int | None = None,
    hours: float = 24,
) -> Path:
    """Return a directory with Parquet files: ts TIMESTAMP_NTZ, key, price BIGINT, val DOUBLE.

    Times rise over a day, and from file to file, with up to DISORDER_SECONDS of disorder. Existing
    files are reused.

    Args:
        directory: Directory for the data of all benchmarks.
        rows: Number of rows.
        keys: Number of distinct keys.
        key_type: `int` or `string`.
        hot: Fraction of the rows with the first key, in addition to its even share.
        files: Number of files. None chooses as many as make large files.
        hours: Length of the time range.
    """
    path = directory / f"events-{rows}-{keys}-{key_type}-{hot:g}"
    if files is not None:
        path = path.with_name(f"{path.name}-{files}f-{hours:g}h")
    span_us = round(hours * HOUR_US)
    if (path / "_DONE").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    rows_per_file = max(ROW_GROUP, -(-rows // 8)) if files is None else -(-rows // files)
    firsts = list(enumerate(range(0, rows, rows_per_file)))
    write = partial(_write_file, path, rows, rows_per_file, keys, key_type, hot, span_us)
    if rows < MANY_ROWS:
        for item in firsts:
            write(item)
    else:
        # a million rows at a time per process
        with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as writers:
            list(writers.map(write, firsts))
    (path / "_DONE").touch()
    return path


def _write_file(
    path: Path,
    rows: int,
    rows_per_file: int,
    keys: int,
    key_type: str,
    hot: float,
    span_us: int,
    file: tuple[int, int],
) -> None:
    """Write one file of a directory, given its number and its first row."""
    number, first = file
    rng = np.random.default_rng([20260101, number])
    disorder_us = DISORDER_SECONDS * 1_000_000
    n_rows = min(rows_per_file, rows - first)
    with pq.ParquetWriter(path / f"part-{number:03}.parquet", _schema(key_type)) as writer:
        for offset in range(0, n_rows, ROW_GROUP):
            n = min(ROW_GROUP, n_rows - offset)
            index = np.arange(first + offset, first + offset + n, dtype=np.int64)
            ts = START_US + index * (span_us // rows) + rng.integers(0, disorder_us, n)
            key = rng.integers(0, keys, n)
            if hot:
                key[rng.random(n) < hot] = 0
            columns = [
                pa.array(np.minimum(ts, START_US + span_us - 1)).cast(pa.timestamp("us")),
                pa.array(key) if key_type == "int" else _names(key),
                pa.array(rng.integers(0, 10_000, n)),
                pa.array(rng.random(n) * 100),
            ]
            writer.write_table(
                pa.Table.from_arrays(columns, schema=_schema(key_type)), row_group_size=n
            )


def _schema(key_type: str) -> pa.Schema:
    key = pa.int64() if key_type == "int" else pa.string()
    return pa.schema(
        [("ts", pa.timestamp("us")), ("key", key), ("price", pa.int64()), ("val", pa.float64())]
    )


def _names(key: np.ndarray) -> pa.Array:
    names = pa.array([f"customer-{k:08}" for k in range(int(key.max()) + 1)])
    return names.take(pa.array(key))
